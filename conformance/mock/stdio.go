package mock

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
)

// maxProcesses limits how often a client may start its server in one scenario.
const maxProcesses = 50

// process is a mock server that the client has started. run.all records its input, with its number as the session.
type process struct {
	*run
	n       int
	conn    net.Conn
	over    chan struct{} // closed when it has exited
	partial []byte

	out sync.Mutex // for writing

	// Its end, under run.mu.
	closed   bool     // its input has ended
	signals  []string // that came, "early " before them if the input had not ended
	closedAt time.Duration
	signalAt time.Duration // the first after the end of the input
	overAt   time.Duration
	bye      bool // it has exited by itself
	early    bool // it was killed before its input had ended
	outlives bool // it still ran after the exit of the client
}

// withProcesses runs the client, which starts mock servers.
func (r *run) withProcesses(ctx context.Context, o *Options) error {
	dir, err := os.MkdirTemp("", "dragoman-mock-") // only its user has access, so the address need not be secret
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	address := filepath.Join(dir, "s")
	l, err := net.Listen("unix", address)
	if err != nil {
		return fmt.Errorf("a socket for the servers that the client starts: %w; fix: set TMPDIR to a short path on a local disk", err)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() { r.accept(l) })
	err = r.client(ctx, o.Argv, "", slices.Concat(o.Server, []string{address}), r.settled)
	close(r.ended)
	_ = l.Close()
	accepting.Wait()
	for _, p := range r.processes {
		_ = p.conn.Close()
	}
	r.work.Wait()
	return err
}

func (r *run) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		p := &process{run: r, n: len(r.processes) + 1, conn: conn, over: make(chan struct{})}
		if p.n > maxProcesses {
			r.mu.Unlock()
			_ = conn.Close()
			continue
		}
		r.processes = append(r.processes, p)
		r.mu.Unlock()
		p.note("started")
		r.work.Go(p.serve)
	}
}

// settled waits for the processes after the exit of the client, and records those that still run.
func (r *run) settled() {
	late := time.NewTimer(r.settle)
	defer late.Stop()
	r.mu.Lock()
	all := append([]*process(nil), r.processes...)
	r.mu.Unlock()
	for _, p := range all {
		select {
		case <-p.over:
			continue
		default:
		}
		select {
		case <-p.over:
		case <-late.C:
			late.Reset(0)
			r.mu.Lock()
			p.outlives = true
			r.mu.Unlock()
			p.note("is still there, and the client has ended")
		}
	}
}

// note records an event of the process.
func (p *process) note(what string) {
	p.record(&received{verb: eventVerb, session: strconv.Itoa(p.n), body: "process " + strconv.Itoa(p.n) + " " + what})
}

// serve handles the frames of the process until it has ended.
func (p *process) serve() {
	defer close(p.over)
	in := bufio.NewReader(p.conn)
	for {
		kind, data, err := readFrame(in)
		if err != nil {
			p.gone()
			return
		}
		switch kind {
		case frameInput:
			p.take(data)
		case frameEnd:
			p.inputEnds()
		case frameSignal:
			p.signalled(string(data))
		case frameBye:
			p.mu.Lock()
			p.bye = true
			p.mu.Unlock()
		}
	}
}

// gone notes the end of a process.
func (p *process) gone() {
	defer p.happens("the end of process " + strconv.Itoa(p.n))
	select {
	case <-p.ended: // the run has ended it
		return
	default:
	}
	p.mu.Lock()
	p.overAt = time.Since(p.began)
	p.early = !p.bye && !p.closed
	bye := p.bye
	p.mu.Unlock()
	p.note(map[bool]string{true: "has ended", false: "was killed"}[bye])
}

func (p *process) inputEnds() {
	if len(p.partial) > 0 {
		p.line(p.partial, true)
	}
	p.mu.Lock()
	p.closed, p.closedAt = true, time.Since(p.began)
	p.mu.Unlock()
	p.note("has come to the end of its input")
	switch {
	case p.scenario.lingers:
	case p.scenario.slowEnd: // so that a signal right after the end of the input is received
		p.work.Go(func() {
			p.await(least*3/2, "the end of process "+strconv.Itoa(p.n))
			p.terminate(0)
		})
	default:
		p.terminate(0)
	}
}

func (p *process) signalled(name string) {
	p.mu.Lock()
	if p.closed && len(p.signals) == 0 {
		p.signalAt = time.Since(p.began)
	}
	if !p.closed {
		name = "early " + name
	}
	p.signals = append(p.signals, name)
	p.mu.Unlock()
	p.note("got " + name)
	if !p.scenario.lingers {
		p.terminate(1)
	}
}

// take splits the input into lines.
func (p *process) take(data []byte) {
	p.partial = append(p.partial, data...)
	for {
		line, rest, whole := bytes.Cut(p.partial, []byte("\n"))
		if !whole {
			break
		}
		p.line(line, false)
		p.partial = rest
	}
	p.partial = append([]byte(nil), p.partial...)
	if len(p.partial) > maxBody {
		p.note("was sent a line that is longer than any")
		p.terminate(1)
	}
}

// line handles a line, on a goroutine of its own if the scenario may wait before it answers.
func (p *process) line(line []byte, cut bool) {
	h := &received{verb: lineVerb, session: strconv.Itoa(p.n), body: string(line), cut: cut || !utf8.Valid(line)}
	if !p.record(h) {
		p.terminate(1)
		return
	}
	if s := p.scenario; s.streams || s.asks || s.slow {
		p.work.Go(func() { p.handle(p, h) })
		return
	}
	p.handle(p, h)
}

// send writes a frame. It does nothing once the process has ended.
func (p *process) send(kind byte, data []byte) {
	p.out.Lock()
	defer p.out.Unlock()
	_ = writeFrames(p.conn, kind, data)
}

// sendMessage implements channel.
func (p *process) sendMessage(text string) { p.send(frameOutput, []byte(text+"\n")) }

// writeNoise implements channel: the error output.
func (p *process) writeNoise(text string) { p.send(frameErrors, []byte(text+"\n")) }

// terminate implements channel.
func (p *process) terminate(code int) {
	p.send(frameLeave, []byte{byte(code)}) //nolint:gosec // G115: an exit code is a byte
}

// least is the minimum time that a client must give a process to exit by itself.
const least = 100 * time.Millisecond
