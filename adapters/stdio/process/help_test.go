package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/adapters/stdio/lines"
	"dragoman/adapters/stdio/reaper"
)

// childKey switches the test binary into a role of playChild.
const childKey = "STDIO_TEST_CHILD"

// raceEnv removes the second that the race detector waits at the exit of children.
const raceEnv = "GORACE=atexit_sleep_ms=0"

// testReaper is the reaper of all tests; nil: none.
var testReaper *reaper.Reaper

// waitContext closes waits when a Writer begins to wait for it.
type waitContext struct {
	context.Context
	once  sync.Once
	waits chan struct{}
}

func (w *waitContext) Done() <-chan struct{} {
	w.once.Do(func() { close(w.waits) })
	return w.Context.Done()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func background() context.Context { return context.Background() }

func readLine(t testing.TB, p *Process) string {
	t.Helper()
	line, err := p.ReadLine()
	if err != nil {
		t.Fatalf("ReadLine: %v; stderr ends with %q", err, p.StderrTail())
	}
	return string(line)
}

func expect(t testing.TB, p *Process, want string) {
	t.Helper()
	if got := readLine(t, p); got != want {
		t.Fatalf("got %.80q, want %.80q", got, want)
	}
}

func await(t testing.TB, p *Process) *ExitError {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the child does not exit")
	}
	return p.Exit()
}

// took fails the test if Stop takes longer than limit, and returns how long it took.
func took(t testing.TB, p *Process, limit time.Duration) time.Duration {
	t.Helper()
	begin := time.Now()
	p.Stop()
	d := time.Since(begin)
	if d > limit {
		t.Errorf("Stop took %v", d)
	}
	return d
}

// child is a Command that runs this test binary in a role of playChild.
func child(role string) Command {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return Command{
		Argv: []string{self}, Env: []string{childKey + "=" + role, raceEnv},
		StopGrace: 10 * time.Second, KillGrace: 10 * time.Second, Reaper: testReaper,
	}
}

// start starts a child. At the end of the test it stops it, and checks that its pipes are closed and no process is left.
func start(t testing.TB, c Command) *Process {
	t.Helper()
	p, err := Start(background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Stop()
		noProcessLeft(t, p)
		for name, f := range map[string]io.Closer{"stdin": p.in, "stdout": p.out, "stderr": p.errs} {
			if err := f.Close(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("%s was left open", name)
			}
		}
	})
	return p
}

// playChild is the main function of a child. Every role exits after a minute at most, in case a test fails.
func playChild(role string) int {
	time.AfterFunc(time.Minute, func() { os.Exit(99) })
	name, arg, _ := strings.Cut(role, ":")
	switch name {
	case "echo":
		return echoLines()
	case "deaf": // ignores the end of stdin
		fmt.Println("ready")
		time.Sleep(time.Hour) // the child does nothing
	case "half": // writes an incomplete line
		fmt.Print("whole\nhalf")
		time.Sleep(time.Hour) // the child does nothing
	case "flood":
		return floodLines()
	case "fork": // starts a grandchild that holds the pipes; stays itself, or exits at once
		return forkChild(arg)
	}
	return playSystemChild(name, arg)
}

// forkChild starts a grandchild. arg is its role, with a prefix or suffix of the system, and what the child does then.
func forkChild(arg string) int {
	what, then, _ := strings.Cut(arg, ",")
	cmd := exec.Command(os.Args[0])
	what = escape(cmd, what, then)
	cmd.Env = []string{childKey + "=" + what, raceEnv}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Println("not forked", err)
		return echoLines()
	}
	fmt.Println("forked", cmd.Process.Pid)
	if then == "exit" {
		return 5
	}
	return echoLines()
}

func echoLines() int {
	r, w := lines.NewReader(os.Stdin, 0), lines.NewWriter(os.Stdout, lines.WriterOptions{})
	for {
		line, err := r.ReadLine()
		if err != nil {
			_ = w.Flush(background())
			if errors.Is(err, io.EOF) {
				return 0
			}
			return 1
		}
		if err := w.Write(line); err != nil {
			return 1
		}
	}
}

// floodLines writes lines without end while stdin is open.
func floodLines() int {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	line := append(bytes.Repeat([]byte("flood "), 200), '\n')
	for {
		if _, err := os.Stdout.Write(line); err != nil {
			return 1
		}
	}
}

// allLines yields the results of ReadLine up to the first error, without io.EOF.
func allLines(p *Process) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for {
			line, err := p.ReadLine()
			if err == io.EOF || !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// forkedPID reads the grandchild's process id among other output on the pipe, and waits until it is ready.
func forkedPID(t *testing.T, p *Process, word string) int {
	t.Helper()
	pid := 0
	for said := word == ""; pid == 0 || !said; {
		line := readLine(t, p)
		if rest, ok := strings.CutPrefix(line, "forked "); ok {
			pid, _ = strconv.Atoi(rest)
		}
		said = said || line == word
	}
	return pid
}
