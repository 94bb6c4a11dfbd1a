// Package stdio speaks MCP over lines: to a child process (upstream) and on our own stdin and stdout (downstream).
//
// At the bottom lie Reader and Writer, which know lines of bytes and nothing of JSON, and Process, which starts a
// child, hands its lines through and sees to it that nothing of it is left behind. They know no message, no method and
// no revision. What a line means is the business of upstream.go and downstream.go.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"
	"time"

	"dragoman/adapters/stdio/lines"
	"dragoman/adapters/stdio/pipe"
	"dragoman/adapters/stdio/reaper"
	"dragoman/proxy/wire"
)

// ErrStopped is why nothing can be written to a Process after Stop.
var ErrStopped = errors.New("stdio: server is stopped")

const (
	// defaultGrace is how long a child gets after its stdin is closed, and again after SIGTERM.
	defaultGrace = 2 * time.Second
	// pumpGrace is how long an exit may wait for the last lines of stderr, should the callback hang.
	pumpGrace = time.Second
)

// Command says how to start a child. The zero value of every member but Argv is usable.
type Command struct {
	// Argv is the command and its arguments, never a shell's string. A command with a slash in it is relative to Dir; any
	// other is looked up in the PATH of Env and then in ours.
	Argv []string
	// Env is the exact environment as KEY=value; the last of equal keys counts. Nothing is inherited; BaseEnv gives what is
	// commonly wanted.
	Env []string
	// Dir is the working directory; empty means ours.
	Dir string
	// MaxLine limits a line in either direction, in bytes without its terminator; 0 means DefaultMaxLine.
	MaxLine int
	// Buffer limits what waits for a child that does not read, in bytes; 0 means 4 MiB. A lone line may exceed it.
	Buffer int
	// StopGrace is how long Stop waits after stdin is closed before it sends SIGTERM; 0 means 2 s, negative means none.
	StopGrace time.Duration
	// KillGrace is how long SIGTERM may take before SIGKILL; 0 means 2 s, negative means none.
	KillGrace time.Duration
	// Stderr is called with each line of the child's stderr, cut to 8 KiB, borrowed until it returns; nil drops them (the
	// last are kept for ExitError in any case). It runs on a goroutine of the Process: a slow callback slows the child's
	// stderr down. Limiting the rate is the callee's business.
	Stderr func(line []byte)
	// PipeSize is what a pipe grows to once more than 64 KiB at a time go through it (Linux, as far as the system permits), by way
	// of 256 KiB once 32 KiB do; 0 means 1 MiB, negative leaves it. It does not grow before, because all idle pipes of a user count
	// against one limit.
	PipeSize int
	// Reaper, if not nil, starts the child, and ends everything that descends from it: also what has left its process
	// group, and also when we are killed. While none is available the child is started directly, as without.
	Reaper *reaper.Reaper
}

// Process is a child and what it has started: with a reaper all that descends from it, else what stayed in its process
// group. Whoever has started it must call Stop in the end, also when it exits by itself: only then are its pipes closed for
// certain.
//
// Two goroutines belong to it, one that waits for the exit and one that reads stderr; both end with the child.
type Process struct {
	name      string
	kin       kin
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
	done     chan struct{} // closed when the child is reaped and exit is set
	gone     chan struct{} // closed when nobody of its group is left either
	exit     *ExitError    // set before done is closed

	mu   sync.Mutex
	stop bool // Stop has been called
}

// Start starts the child. ctx can only prevent the start; afterwards only Stop ends the child. The errors:
// *NotFoundError if there is no such command, *StartError if there is but the system would not run it, ctx's error.
//
// On Unix the child leads a process group of its own (and, with a reaper, a session), so that all that it starts can be signalled together, and a
// terminal's Ctrl-C reaches us alone. On Linux it gets SIGTERM should we die without stopping it (see sysProcAttr); with a
// reaper, everything that descends from it is ended then.
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
	if err := checkArgs(path, c.Argv[1:]); err != nil {
		return nil, &StartError{Command: c.Argv[0], Err: err}
	}
	p := &Process{
		name:      c.Argv[0],
		stopGrace: grace(c.StopGrace),
		killGrace: grace(c.KillGrace),
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

// spawn makes the three pipes and starts the child. Of each pipe one end is the child's and is closed here in any
// case; the other becomes part of p.
func (p *Process) spawn(ctx context.Context, c Command, path string) error {
	var theirs, ours []*os.File
	open := func(childReads bool) (child, own *os.File, err error) {
		if child, own, err = pipe.New(childReads); err != nil {
			return nil, nil, err
		}
		theirs, ours = append(theirs, child), append(ours, own)
		return child, own, nil
	}
	start := func() error {
		stdin, in, err := open(true)
		if err != nil {
			return err
		}
		stdout, out, err := open(false)
		if err != nil {
			return err
		}
		stderr, errs, err := open(false)
		if err != nil {
			return err
		}
		if err := p.wrap(c, in, out, errs); err != nil {
			return err
		}
		p.started = time.Now()
		p.kin, p.pid, err = bear(ctx, c, path, [3]*os.File{stdin, stdout, stderr})
		return err
	}
	err := start()
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
	}
	return err
}

// wrap builds our ends of the pipes and what reads and writes lines on them.
func (p *Process) wrap(c Command, in, out, errs *os.File) (err error) {
	size := c.PipeSize
	if size == 0 {
		size = pipe.DefaultSize
	}
	if p.in, err = pipe.NewWriter(in, size); err != nil {
		return err
	}
	if p.out, err = pipe.NewReader(out, size); err != nil {
		return err
	}
	if p.errs, err = pipe.NewReader(errs, -1); err != nil {
		return err
	}
	p.writer = lines.NewWriter(p.in, lines.WriterOptions{MaxLine: c.MaxLine, Buffer: c.Buffer})
	p.reader = lines.NewReader(p.out, c.MaxLine)
	return nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // fails only if it is closed already
	}
}

// ReadLine returns the next line of the child's stdout; see Reader.ReadLine for what it borrows and for a line that is
// too long. When the child has exited it returns what is left in the pipe and then io.EOF, whoever else may still hold
// the pipe. io.EOF also comes when the child has closed its stdout, and after Stop. One goroutine at a time.
func (p *Process) ReadLine() ([]byte, error) {
	line, err := p.reader.ReadLine()
	if err == pipe.ErrDiscarded {
		err = io.EOF
	}
	return line, err
}

// Lines yields what ReadLine returns up to io.EOF, which it does not yield. An error that is a *LineTooLongError comes in
// its place among the lines; any other is the last thing yielded.
func (p *Process) Lines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for {
			line, err := p.ReadLine()
			if err == io.EOF || !yield(line, err) {
				return
			}
			var long *lines.LineTooLongError
			if err != nil && !errors.As(err, &long) {
				return
			}
		}
	}
}

// Write writes a line to the child's stdin; see Writer.Write. Once the child has exited the error is its *ExitError,
// after Stop it is ErrStopped or the *ExitError.
func (p *Process) Write(line []byte) error { return p.writer.Write(line) }

// WriteContext is Write with a limit on waiting; see Writer.WriteContext.
func (p *Process) WriteContext(ctx context.Context, line []byte) error {
	return p.writer.WriteContext(ctx, line)
}

// Flush waits until the child's pipe has taken all that was written; see Writer.Flush.
func (p *Process) Flush(ctx context.Context) error { return p.writer.Flush(ctx) }

// WriteScanned is Write with a limit on waiting, for a line in parts in which there is no line break; see Writer.WriteScanned.
func (p *Process) WriteScanned(ctx context.Context, parts ...[]byte) error {
	return p.writer.WriteScanned(ctx, parts...)
}

// Keep makes the line that ReadLine has returned last the caller's; see Reader.Keep.
func (p *Process) Keep() (release func()) { return p.reader.Keep() }

// Run tells what is known about the line that ReadLine has returned last; see Reader.Run.
func (p *Process) Run() wire.Run { return p.reader.Run() }

// Ended reports whether the child's stdout has ended, so that the line that ReadLine has returned last may be cut off.
func (p *Process) Ended() bool { return p.reader.Ended() }

// StderrTail returns the last lines on stderr; see ExitError.StderrTail.
func (p *Process) StderrTail() []string { return p.tail.lines() }

// PID is the child's process id, which is also the id of its process group on Unix.
func (p *Process) PID() int { return p.pid }

// Done is closed as soon as the child has exited and has been reaped, whether or not anybody stopped it. What it has
// written before can still be read; others of its group may be ending yet.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit tells how the child ended, nil while Done is open.
func (p *Process) Exit() *ExitError {
	select {
	case <-p.done:
		return p.exit
	default:
		return nil
	}
}

// String names the command and the process id.
func (p *Process) String() string { return fmt.Sprintf("%s[%d]", p.name, p.pid) }

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
