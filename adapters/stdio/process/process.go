// Package process starts a child process, passes its lines through, and ensures that nothing of it is left behind.
//
// The package knows no message, no method and no revision. Packages lines and pipe carry the bytes; package supervisor
// gives the lines their meaning.
package process

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"dragoman/adapters/stdio/launch"
	"dragoman/adapters/stdio/lines"
	"dragoman/adapters/stdio/pipe"
	"dragoman/adapters/stdio/reaper"
	"dragoman/proxy/redact"
	"dragoman/proxy/wire"
)

// ErrStopped is the error of writing to a Process after Stop.
var ErrStopped = errors.New("stdio: server is stopped")

const (
	// defaultGrace is the time for a child to exit after its stdin is closed, and again after SIGTERM.
	defaultGrace = 2 * time.Second
	// pumpGrace limits how long the report of an exit waits for the last lines of stderr, in case the callback hangs.
	pumpGrace = time.Second
)

// Command configures a child. The zero value of every field but Argv is usable.
type Command struct {
	// Argv is the command and its arguments; no shell interprets them. A command with a slash is relative to Dir. Any
	// other is looked up in the PATH of Env and then in the proxy's own.
	Argv []string
	// Env is the complete environment as KEY=value; the last of equal keys counts. Nothing is inherited; BaseEnv returns
	// the usual variables.
	Env []string
	// Dir is the working directory; empty means the proxy's own.
	Dir string
	// MaxLine limits a line in either direction, in bytes without its terminator; 0 means DefaultMaxLine.
	MaxLine int
	// Buffer limits the bytes that wait for a child that does not read; 0 means 4 MiB. A single line may exceed it.
	Buffer int
	// StopGrace is the time between closing stdin and SIGTERM; 0 means 2 s, negative means none.
	StopGrace time.Duration
	// KillGrace is the time between SIGTERM and SIGKILL; 0 means 2 s, negative means none.
	KillGrace time.Duration
	// Stderr is called with each line of the child's stderr, cut to 8 KiB and borrowed until it returns; nil drops the
	// lines (the last ones are kept for ExitError in any case). It runs on a goroutine of the Process, so a slow callback
	// slows down the child's stderr. The callback limits the rate itself.
	Stderr func(line []byte)
	// Secrets are hidden in the last lines on stderr.
	Secrets *redact.Secrets
	// Limits are the account, the memory and the processors of the child, on Linux; elsewhere they are ignored.
	Limits launch.Limits
	// Reaper, if not nil, starts the child and ends all its descendants, including those that have left its process
	// group, and also when the proxy is killed. While no reaper is available, the child is started directly.
	Reaper *reaper.Reaper
}

// Process is a child and its descendants: all of them with a reaper, else those in its process group. The caller of Start
// must call Stop in the end, even if the child exits by itself, because Stop closes the pipes.
//
// A Process has two goroutines, one that waits for the exit and one that reads stderr. Both end with the child.
type Process struct {
	name      string
	tree      tree
	pid       int
	started   time.Time
	stopGrace time.Duration
	killGrace time.Duration

	in     *pipe.Writer
	out    *pipe.Reader
	errs   *pipe.Reader
	writer *lines.Writer
	reader *lines.Reader
	tail   tail
	pumped chan struct{} // closed when stderr has been read to its end

	stopping sync.Once
	stopped  atomic.Bool   // Stop has been called
	done     chan struct{} // closed when the child is reaped and exit is set
	gone     chan struct{} // closed when its descendants are gone too
	exit     *ExitError    // set before done is closed
}

// Start starts the child. ctx only applies to the start; afterwards only Stop ends the child. The errors are
// *NotFoundError if there is no such command, *StartError if the system would not run it, and ctx's.
//
// On Unix the child leads its own process group (and, with a reaper, its own session), so that it and its descendants can
// be signalled together, and a terminal's Ctrl-C reaches only the proxy. On Linux the child gets SIGTERM if the proxy
// dies without stopping it (see sysProcAttr); with a reaper, all descendants are ended then.
func Start(ctx context.Context, c Command) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(c.Argv) == 0 {
		return nil, &NotFoundError{}
	}
	path, err := resolve(c.Argv[0], c.Env, c.Dir)
	if err != nil {
		return nil, err
	}
	if runtime.GOOS == "windows" {
		if err := checkBatch(path, c.Argv[1:]); err != nil {
			return nil, &StartError{Command: c.Argv[0], Err: err}
		}
	}
	p := &Process{
		name:      c.Argv[0],
		stopGrace: grace(c.StopGrace),
		killGrace: grace(c.KillGrace),
		tail:      tail{secrets: c.Secrets},
		pumped:    make(chan struct{}),
		done:      make(chan struct{}),
		gone:      make(chan struct{}),
	}
	if err := p.spawn(ctx, c, path); err != nil {
		if ctxErr := ctx.Err(); ctxErr != nil && errors.Is(err, ctxErr) {
			return nil, err
		}
		return nil, startError(c, path, err)
	}
	go p.pump(c.Stderr)
	go p.attend()
	return p, nil
}

func grace(d time.Duration) time.Duration {
	if d == 0 {
		return defaultGrace
	}
	return max(d, 0)
}

// spawn makes the three pipes and starts the child. It always closes the child's ends here; the other ends become part of
// p.
func (p *Process) spawn(ctx context.Context, c Command, path string) (err error) {
	var theirs, ours [3]*os.File // stdin, stdout, stderr
	defer func() {
		closeAll(theirs)
		if err != nil {
			closeAll(ours)
		}
	}()
	for i := range theirs {
		if theirs[i], ours[i], err = pipe.New(i == 0); err != nil {
			return err
		}
	}
	if err = p.wrap(c, ours); err != nil {
		return err
	}
	p.started = time.Now()
	p.tree, p.pid, err = spawnTree(ctx, c, path, theirs)
	return err
}

// wrap makes the readers and writers on the proxy's ends of the pipes.
func (p *Process) wrap(c Command, ours [3]*os.File) (err error) {
	if p.in, err = pipe.NewWriter(ours[0], pipe.DefaultSize); err != nil {
		return err
	}
	if p.out, err = pipe.NewReader(ours[1], pipe.DefaultSize); err != nil {
		return err
	}
	if p.errs, err = pipe.NewReader(ours[2], -1); err != nil {
		return err
	}
	p.writer = lines.NewWriter(p.in, lines.WriterOptions{MaxLine: c.MaxLine, Buffer: c.Buffer})
	p.reader = lines.NewReader(p.out, c.MaxLine)
	p.reader.SetEndless(lines.EndlessAfter)
	return nil
}

func closeAll(files [3]*os.File) {
	for _, f := range files {
		_ = f.Close() // fails only if it was not opened
	}
}

// ReadLine returns the next line of the child's stdout; see lines.Reader.ReadLine for the lifetime of the bytes and for
// lines that are too long. After the child has exited, ReadLine returns the data left in the pipe and then io.EOF, even
// if another process still holds the pipe. It also returns io.EOF when the child has closed its stdout, and after Stop.
// It is for one goroutine at a time.
func (p *Process) ReadLine() ([]byte, error) {
	line, err := p.reader.ReadLine()
	if err == pipe.ErrDiscarded {
		err = io.EOF
	}
	return line, err
}

// Write writes a line to the child's stdin; see lines.Writer.Write. After the child's exit the error is its *ExitError;
// after Stop it is ErrStopped or the *ExitError.
func (p *Process) Write(line []byte) error { return p.writer.Write(line) }

// Unread returns how many bytes of what was written to the pipe the child has not read yet; known is false if the system does not tell.
func (p *Process) Unread() (n int, known bool) { return p.in.Unread() }

// WriteScanned writes a line in parts that contain no line break, and waits until ctx ends at most; see
// lines.Writer.WriteScanned.
func (p *Process) WriteScanned(ctx context.Context, parts ...[]byte) error {
	return p.writer.WriteScanned(ctx, parts...)
}

// Keep transfers the line that ReadLine returned last to the caller; see lines.Reader.Keep.
func (p *Process) Keep() (release func()) { return p.reader.Keep() }

// Run describes the line that ReadLine returned last; see lines.Reader.Run.
func (p *Process) Run() wire.Run { return p.reader.Run() }

// Received returns the number of bytes that the child has written to its stdout so far; see lines.Reader.Received.
func (p *Process) Received() uint64 { return p.reader.Received() }

// Ended reports whether the child's stdout has ended, so that the line that ReadLine returned last may be cut off.
func (p *Process) Ended() bool { return p.reader.Ended() }

// StderrTail returns the last lines on stderr; see ExitError.StderrTail.
func (p *Process) StderrTail() []string { return p.tail.lines() }

// PID returns the child's process id, which on Unix is also the id of its process group.
func (p *Process) PID() int { return p.pid }

// Done returns a channel that is closed when the child has exited and been reaped, stopped or not. Its output can still
// be read then, and its descendants may still be ending.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitsWithin waits until Done is closed, at most d, and reports whether it is.
func (p *Process) ExitsWithin(d time.Duration) bool { return closedWithin(p.done, d) }

// Exit returns how the child ended; nil while Done is open.
func (p *Process) Exit() *ExitError {
	if closedWithin(p.done, 0) {
		return p.exit
	}
	return nil
}

// pump reads stderr line by line until it ends.
func (p *Process) pump(each func([]byte)) {
	defer close(p.pumped)
	defer p.errs.Close()
	r := lines.NewReader(p.errs, stderrLine)
	r.SetPrefix(stderrLine)
	for {
		line, err := r.ReadLine()
		var long *lines.LineTooLongError
		if errors.As(err, &long) {
			line, err = long.Prefix, nil
		}
		if err != nil {
			return
		}
		p.tail.add(line)
		if each != nil {
			each(line)
		}
	}
}

// Stop ends the child and its descendants in the specification's order ([2026-07-28 stdio §Shutdown]): it flushes
// accepted lines and closes stdin; after StopGrace it sends SIGTERM, after KillGrace SIGKILL, each to all of them.
// Meanwhile it reads and drops the child's output, so that a full pipe cannot block the exit, and ReadLine returns
// io.EOF. Stop returns when the child has been reaped, no descendant is left and the proxy's ends of the pipes are
// closed, even if, without a reaper, a process that left the group still holds the other ends. Any number of goroutines
// may call it, any number of times; each call returns when that is reached. It takes at most StopGrace + KillGrace and
// what the system needs.
func (p *Process) Stop() {
	p.stopping.Do(func() { p.end(p.stopGrace, p.killGrace) })
	<-p.gone
}

// Kill is Stop for a child that is known not to react: it gets SIGTERM at once, which launchers pass on, and SIGKILL after
// grace.
func (p *Process) Kill(grace time.Duration) {
	p.stopping.Do(func() { p.end(0, grace) })
	<-p.gone
}

func (p *Process) end(stopGrace, killGrace time.Duration) {
	p.stopped.Store(true)
	var drops sync.WaitGroup
	p.out.Discard() // before the child can exit, so that a partial line is not returned
	drops.Go(p.out.Drain)
	limit := time.Now().Add(stopGrace)
	p.closeStdin(limit)
	if !closedWithin(p.done, time.Until(limit)) {
		p.tree.signal(syscall.SIGTERM)
		if !closedWithin(p.done, killGrace) {
			p.tree.signal(syscall.SIGKILL)
		}
	}
	<-p.gone
	_, _ = p.out.Close(), p.in.Close() // fails only if they are closed already
	drops.Wait()
}

// closeStdin flushes accepted lines and closes stdin, at limit at the latest: a child that has not read its pipe by then
// does not notice its end either.
func (p *Process) closeStdin(limit time.Time) {
	p.writer.Shut(ErrStopped)
	ctx, cancel := context.WithDeadline(context.Background(), limit)
	defer cancel()
	// The error is ignored: stdin is closed in any case, and a child that has exited fails the Writer.
	_ = p.writer.Flush(ctx)
	_ = p.in.Close()
}

// attend waits for the child's exit, which may come at any time, and cleans up.
func (p *Process) attend() {
	defer close(p.gone)
	how := p.tree.wait()
	stopped := p.stopped.Load()
	p.errs.Finish()
	p.out.Finish()
	closedWithin(p.pumped, pumpGrace) // the last lines of stderr
	p.exit = &ExitError{Command: p.name, Code: how.code, Signal: how.signal, Lost: how.lost, Uptime: time.Since(p.started),
		Stopped: stopped, StderrTail: p.tail.lines()}
	p.writer.Fail(p.exit)
	_ = p.in.Close() // fails only if it is closed already
	close(p.done)
	p.tree.sweep(p.killGrace)
}

// closedWithin waits until c is closed, at most d, and reports whether it is.
func closedWithin(c <-chan struct{}, d time.Duration) bool {
	select {
	case <-c:
		return true
	default:
		if d <= 0 {
			return false
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}
