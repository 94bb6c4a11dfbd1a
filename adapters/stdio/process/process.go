// Package process starts a child process, passes its lines through, and ensures that nothing of it is left behind.
//
// The package knows no message, no method and no revision. Packages lines and pipe carry the bytes; package supervisor
// gives the lines their meaning.
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
	// PipeSize is the size in bytes to which a busy pipe grows (Linux, as far as the system permits): to 256 KiB when 32
	// KiB at a time go through it, to PipeSize beyond 64 KiB; 0 means 1 MiB, negative means never. An idle pipe does not
	// grow, because all pipes of a user share one limit.
	PipeSize int
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
	done     chan struct{} // closed when the child is reaped and exit is set
	gone     chan struct{} // closed when its descendants are gone too
	exit     *ExitError    // set before done is closed

	mu   sync.Mutex
	stop bool // Stop has been called
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

// spawn makes the three pipes and starts the child. It always closes the child's ends here; the other ends become part of
// p.
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
		p.tree, p.pid, err = spawnTree(ctx, c, path, [3]*os.File{stdin, stdout, stderr})
		return err
	}
	err := start()
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
	}
	return err
}

// wrap makes the readers and writers on the proxy's ends of the pipes.
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

// Lines yields the results of ReadLine up to io.EOF, which it does not yield. A *LineTooLongError is yielded in its place
// among the lines; any other error is the last thing yielded.
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

// Write writes a line to the child's stdin; see lines.Writer.Write. After the child's exit the error is its *ExitError;
// after Stop it is ErrStopped or the *ExitError.
func (p *Process) Write(line []byte) error { return p.writer.Write(line) }

// WriteContext is Write with a limit on waiting; see lines.Writer.WriteContext.
func (p *Process) WriteContext(ctx context.Context, line []byte) error {
	return p.writer.WriteContext(ctx, line)
}

// Flush waits until all accepted lines are written to the pipe; see lines.Writer.Flush.
func (p *Process) Flush(ctx context.Context) error { return p.writer.Flush(ctx) }

// WriteScanned is WriteContext for a line in parts that contain no line break; see lines.Writer.WriteScanned.
func (p *Process) WriteScanned(ctx context.Context, parts ...[]byte) error {
	return p.writer.WriteScanned(ctx, parts...)
}

// Keep transfers the line that ReadLine returned last to the caller; see lines.Reader.Keep.
func (p *Process) Keep() (release func()) { return p.reader.Keep() }

// Run describes the line that ReadLine returned last; see lines.Reader.Run.
func (p *Process) Run() wire.Run { return p.reader.Run() }

// Ended reports whether the child's stdout has ended, so that the line that ReadLine returned last may be cut off.
func (p *Process) Ended() bool { return p.reader.Ended() }

// StderrTail returns the last lines on stderr; see ExitError.StderrTail.
func (p *Process) StderrTail() []string { return p.tail.lines() }

// PID returns the child's process id, which on Unix is also the id of its process group.
func (p *Process) PID() int { return p.pid }

// Done returns a channel that is closed when the child has exited and been reaped, stopped or not. Its output can still
// be read then, and its descendants may still be ending.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the child ended; nil while Done is open.
func (p *Process) Exit() *ExitError {
	select {
	case <-p.done:
		return p.exit
	default:
		return nil
	}
}

// String returns the command and the process id.
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
