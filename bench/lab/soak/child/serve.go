//go:build linux

package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	maxLine   = 64 << 20
	slowStart = 1200 * time.Millisecond
	chatPause = 20 * time.Millisecond

	crashCode   = 3
	lastCalls   = 3 // answered by CrashLater
	floodCount  = 1000
	loudBytes   = 1 << 20
	noiseBanner = "Starting up ...\n\n\x1b[32mready\x1b[0m\n{\"half\":\n[]\nnull\n\xff\xfe\n"
)

// server is the serving part of a child.
type server struct {
	role Role
	errs io.Writer

	writing sync.Mutex
	out     *bufio.Writer

	calls   sync.WaitGroup
	mu      sync.Mutex
	running map[string]context.CancelFunc // calls, by id
	asked   map[string]chan struct{}      // questions, by id
	count   int                           // of calls
}

// errCrash makes a child exit with a failure.
var errCrash = errors.New("child: crash")

// Serve serves until in ends, or until the role ends it. With an error the child exits with a failure.
func (r Role) Serve(ctx context.Context, in io.Reader, out, errs io.Writer) error {
	s := &server{role: r, errs: errs, out: bufio.NewWriterSize(out, 64<<10), running: map[string]context.CancelFunc{}, asked: map[string]chan struct{}{}}
	ctx, cancel := context.WithCancel(ctx)
	defer s.calls.Wait()
	defer cancel()
	switch r.Kind {
	case CrashStart:
		fmt.Fprintln(errs, "soak: cannot find my configuration")
		return errCrash
	case Slow:
		wait(ctx, slowStart)
	case Noise:
		s.raw(noiseBanner)
	case Loud:
		fmt.Fprint(errs, strings.Repeat("e", loudBytes))
	case Chatty:
		s.calls.Go(func() { s.notifyAlways(ctx) })
	}
	return s.read(ctx, in)
}

func (s *server) read(ctx context.Context, in io.Reader) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := readLine(r)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			continue // our clients send no such line
		}
		if err = s.take(ctx, &m); err != nil {
			return err
		}
	}
}

// readLine reads a line of up to maxLine bytes.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(line) <= maxLine:
		case err != nil:
			return nil, err
		default:
			return line, nil
		}
	}
}

// take handles one message.
func (s *server) take(ctx context.Context, m *message) error {
	switch {
	case s.role.Kind == Mute:
	case m.Method == "":
		s.answered(string(m.ID))
	case m.Method == "notifications/cancelled":
		s.cancel(string(m.Params.RequestID))
	case m.ID == nil:
	case m.Method == "tools/call":
		return s.call(ctx, m)
	case m.Method == "subscriptions/listen" && s.role.Modern:
		s.send(notification("notifications/subscriptions/acknowledged", fmt.Sprintf(
			`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}`, m.ID, orEmpty(m.Params.Notifications))))
	default:
		s.send(response(m.ID, answer(m, s.role.Modern)))
	}
	return nil
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("{}")
	}
	return raw
}

// call begins a call, or does what its role does instead.
func (s *server) call(ctx context.Context, m *message) error {
	s.mu.Lock()
	s.count++
	count := s.count
	s.mu.Unlock()
	switch {
	case s.role.Kind == Hang:
		return nil
	case s.role.Kind == NeverRead:
		<-ctx.Done()
		return nil
	case s.role.Kind == CrashCall, s.role.Kind == CrashLater && count > lastCalls:
		if m.Params.Meta.ProgressToken != nil {
			s.send(progress(m.Params.Meta.ProgressToken, 1))
		}
		fmt.Fprintln(s.errs, "soak: crash")
		return errCrash
	}
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.running[string(m.ID)] = cancel
	s.mu.Unlock()
	s.calls.Go(func() {
		defer s.cancel(string(m.ID))
		s.run(ctx, m)
	})
	return nil
}

// run answers a call, unless it is cancelled.
func (s *server) run(ctx context.Context, m *message) {
	args := m.Params.Arguments
	if s.role.Kind == Flood {
		s.flood(m)
	}
	if s.role.Kind == Noise {
		s.raw("about to answer ...\r\n\n")
	}
	if token := m.Params.Meta.ProgressToken; token != nil {
		for n := range args.Progress {
			s.send(progress(token, n+1))
		}
	}
	wait(ctx, time.Duration(args.DelayMS)*time.Millisecond)
	member := text(args.Text(), s.role.Modern)
	if m.Params.Name == "ask" && s.role.Modern {
		if m.Params.RequestState != state || len(m.Params.InputResponses) != 1 {
			member = asks()
		}
	} else if m.Params.Name == "ask" {
		s.ask(ctx, string(m.ID))
	}
	if ctx.Err() == nil {
		s.send(response(m.ID, member))
	}
}

// ask asks the client a question and waits for any answer.
func (s *server) ask(ctx context.Context, call string) {
	id := `"question ` + strings.Trim(call, `"`) + `"`
	answered := make(chan struct{})
	s.mu.Lock()
	s.asked[id] = answered
	s.mu.Unlock()
	s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":%s}`, id, question))
	select {
	case <-answered:
	case <-ctx.Done():
	}
	s.mu.Lock()
	delete(s.asked, id)
	s.mu.Unlock()
}

func (s *server) answered(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch, ok := s.asked[id]; ok {
		delete(s.asked, id)
		close(ch)
	}
}

func (s *server) cancel(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel, ok := s.running[call]; ok {
		delete(s.running, call)
		cancel()
	}
}

// flood writes many lines to stdout and stderr.
func (s *server) flood(m *message) {
	said := logged(strings.Repeat("much ado ", 30))
	for n := range floodCount {
		fmt.Fprintln(s.errs, "soak: much ado about nothing")
		s.send(said)
		if token := m.Params.Meta.ProgressToken; token != nil && m.Params.Arguments.Progress == 0 {
			s.send(progress(token, n+1))
		}
	}
}

func (s *server) notifyAlways(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		s.send(notification("notifications/tools/list_changed", "{}"))
		s.send(logged("still here"))
		wait(ctx, chatPause)
	}
}

// send writes a message. Errors are ignored: without a reader the input ends too.
func (s *server) send(message string) { s.raw(message + "\n") }

func (s *server) raw(bytes string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, _ = s.out.WriteString(bytes)
	_ = s.out.Flush()
}

// wait waits for a time, or for the end of ctx.
func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
