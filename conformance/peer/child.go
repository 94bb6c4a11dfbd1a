package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/stdio/process"
)

// Spawner starts a program that reads and writes lines.
type Spawner interface {
	// Spawn starts the program and returns its lines.
	Spawn(ctx context.Context, stderr func(line string)) (Lines, error)
}

// Lines is a program that runs, as a stream of lines in each direction.
type Lines interface {
	// Write sends a line, without its end.
	Write(line []byte) error
	// ReadLine returns the next line, which is valid until the next call.
	ReadLine() ([]byte, error)
	// Stop closes the input of the program, waits for its exit, and kills it if it does not exit. It returns how the program ended, and
	// whether it was killed.
	Stop() (end string, forced bool)
}

// Command starts a server as a child process. Stop leaves none of its processes.
type Command struct {
	Argv  []string
	Env   []string      // KEY=value; nil: the environment of the tester
	Dir   string        // empty: the current directory
	Grace time.Duration // after its input has ended; 0: 5 s
}

// Spawn implements Spawner.
func (c Command) Spawn(ctx context.Context, stderr func(line string)) (Lines, error) {
	if c.Env == nil {
		c.Env = os.Environ()
	}
	if c.Grace == 0 {
		c.Grace = 5 * time.Second
	}
	p, err := process.Start(ctx, process.Command{Argv: c.Argv, Env: c.Env, Dir: c.Dir, StopGrace: c.Grace,
		Stderr: func(line []byte) { stderr(string(line)) }})
	if err != nil {
		return nil, err
	}
	return &child{p, c.Grace}, nil
}

type child struct {
	*process.Process
	grace time.Duration
}

// exitTime is how long the end of a program's output waits for its exit, and so for the end of its stderr.
const exitTime = time.Second

// ReadLine implements Lines.
func (p *child) ReadLine() ([]byte, error) {
	line, err := p.Process.ReadLine()
	if errors.Is(err, io.EOF) {
		p.ExitsWithin(exitTime)
	}
	return line, err
}

// Stop implements Lines.
func (p *child) Stop() (end string, forced bool) {
	began := time.Now()
	p.Process.Stop()
	exit := p.Exit()
	if exit == nil {
		return "it is not known how it ended", true
	}
	return exit.Error(), time.Since(began) >= p.grace
}

// maxWaiting limits the unread lines; at the limit the child's output is no longer read.
const maxWaiting = 4096

// Child is a running program: a raw client of lines. Close ends it.
type Child struct {
	lines  Lines
	watch  Watcher
	unread chan string
	ended  chan struct{} // closed when reading has ended
	closed chan struct{}
	once   sync.Once
	spoke  atomic.Bool

	stderr tail
	why    error // the error that ended its output; valid once unread is closed

	end    string
	forced bool
}

// keptStderr limits the kept lines of a program's stderr.
const keptStderr = 20

// StartChild starts a program and reads what it writes.
func StartChild(ctx context.Context, s Spawner, watch Watcher) (*Child, error) {
	c := &Child{watch: watch, unread: make(chan string, maxWaiting), stderr: tail{most: keptStderr}, ended: make(chan struct{}), closed: make(chan struct{})}
	lines, err := s.Spawn(ctx, c.stderr.add)
	if err != nil {
		return nil, err
	}
	c.lines = lines
	go c.read()
	return c, nil
}

// Stderr returns the last lines of the program's stderr.
func (c *Child) Stderr() []string { return c.stderr.last() }

func (c *Child) read() {
	defer close(c.ended)
	defer close(c.unread)
	for {
		line, err := c.lines.ReadLine()
		if err != nil {
			c.why = err
			if errors.Is(err, io.EOF) {
				show(c.watch, '<', "stdout", "(its end)")
			}
			return
		}
		c.spoke.Store(true)
		show(c.watch, '<', "stdout", string(line))
		select {
		case c.unread <- string(line):
		case <-c.closed:
			return
		}
	}
}

// Write sends a line.
func (c *Child) Write(line string) error {
	show(c.watch, '>', "stdin", line)
	err := c.lines.Write([]byte(line))
	var exit *process.ExitError
	if errors.As(err, &exit) {
		return c.over()
	}
	return err
}

// over returns the error of an ended program, with the last lines of its stderr.
func (c *Child) over() error {
	if said := c.Stderr(); len(said) > 0 {
		return fmt.Errorf("the program has ended its output; it said last: %s", strings.Join(said, " | "))
	}
	return errors.New("the program has ended its output")
}

// Next returns the next line of the program, or an error at the end of its output or of ctx.
func (c *Child) Next(ctx context.Context) (string, error) {
	select {
	case line, ok := <-c.unread:
		if ok {
			return line, nil
		}
		return "", c.why
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Patience returns the timeout for an answer. limit is that of a program that has written something; others may still be starting.
func (c *Child) Patience(limit time.Duration) time.Duration {
	if c.spoke.Load() {
		return limit
	}
	return 3 * limit
}

// Close closes the input of the program and kills it if it does not exit. It returns how the program ended, and whether it was killed.
func (c *Child) Close() (end string, forced bool) {
	c.once.Do(func() {
		close(c.closed)
		c.end, c.forced = c.lines.Stop()
		<-c.ended
	})
	return c.end, c.forced
}
