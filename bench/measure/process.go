package measure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	stopGrace = 5 * time.Second // between SIGTERM and SIGKILL
	lineLimit = 4 << 10         // of the first line of a process's output
	tailLimit = 2 << 10         // of its log, in errors
)

// Command says what to start.
type Command struct {
	Name string   // for error messages
	Argv []string // the program and its arguments; never a shell string
	Log  string   // the file that gets its stderr
	// Announces means that the process writes its address as the first line of its stdout, and exits when its stdin is closed.
	Announces bool
}

// Process is a running Command. The caller of Start must Stop it.
type Process struct {
	Name string
	// First is the line that the process announced.
	First string

	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   string
	done  chan struct{} // closed once the process is reaped
	err   error         // why it ended; to be read after done
}

// Start starts c in a process group of its own, with the environment of this program but for the variables DRAGOMAN_* and MCP_*, which
// would change what is measured. It returns once the process runs, or has announced itself before ctx ends. On Linux the process dies with
// the thread that called Start: call it from a goroutine that is locked to its thread.
func Start(ctx context.Context, c Command) (*Process, error) {
	log, err := os.Create(c.Log)
	if err != nil {
		return nil, fmt.Errorf("measure: log of %s: %w", c.Name, err)
	}
	defer log.Close() // the process has its own copy
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Stderr = log
	cmd.Env = Environment()
	cmd.SysProcAttr = attributes()
	p := &Process{Name: c.Name, cmd: cmd, log: c.Log, done: make(chan struct{})}
	var out io.Reader
	if c.Announces {
		if p.stdin, err = cmd.StdinPipe(); err != nil {
			return nil, fmt.Errorf("measure: %s: %w", c.Name, err)
		}
		if out, err = cmd.StdoutPipe(); err != nil {
			return nil, fmt.Errorf("measure: %s: %w", c.Name, err)
		}
	}
	if err = cmd.Start(); err != nil {
		return nil, fmt.Errorf("measure: start %s: %w", c.Name, err)
	}
	first := make(chan string, 1)
	go p.wait(out, first)
	if !c.Announces {
		return p, nil
	}
	select {
	case p.First = <-first:
	case <-ctx.Done():
	}
	if p.First == "" {
		p.Stop()
		return nil, fmt.Errorf("measure: %s did not announce an address%s", c.Name, p.tail())
	}
	return p, nil
}

// wait reads the announcement and reaps the process.
func (p *Process) wait(out io.Reader, first chan<- string) {
	if out != nil {
		line, _ := bufio.NewReaderSize(out, lineLimit).ReadSlice('\n')
		first <- strings.TrimSpace(string(line))
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Failed returns an error with the end of its log if the process has ended.
func (p *Process) Failed() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	err := p.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("measure: %s has ended: %w%s", p.Name, err, p.tail())
}

// Stop ends the process: it closes its stdin, sends SIGTERM, and after 5 s SIGKILL to the whole group. It returns once the process is
// reaped.
func (p *Process) Stop() {
	if p.stdin != nil {
		_ = p.stdin.Close() // SIGTERM follows
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-p.done:
	case <-grace.C:
		killGroup(p.PID())
		<-p.done
	}
}

// Kill ends the process at once, as a failure would. Stop is still to be called.
func (p *Process) Kill() error { return p.cmd.Process.Kill() }

// tail is the end of the log, in a form that fits behind an error.
func (p *Process) tail() string {
	log, err := os.ReadFile(p.log)
	if err != nil || len(log) == 0 {
		return ""
	}
	if len(log) > tailLimit {
		log = log[len(log)-tailLimit:]
	}
	return "; its log ends:\n" + strings.TrimSpace(string(log))
}

// Environment is that of this program without the variables that configure Dragoman.
func Environment() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "DRAGOMAN_") && !strings.HasPrefix(e, "MCP_") {
			env = append(env, e)
		}
	}
	return env
}

// FirstLine runs a program that prints its version and returns the first line of its output; empty if there is no such program or it takes
// longer than 5 s.
func FirstLine(ctx context.Context, argv ...string) string {
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = Environment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line[:min(len(line), lineLimit)])
}

// FileLine gives the first line of a file, or the value of its line "key: value". It is empty if there is none.
func FileLine(file, key string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key == "" {
			return strings.TrimSpace(line)
		}
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Pause waits for d, or fails when ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
