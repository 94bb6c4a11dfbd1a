//go:build unix

package process

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dragoman/adapters/stdio/lines"
	"dragoman/adapters/stdio/pipe"
	"dragoman/internal/testkit"
)

func noProcessLeft(t testing.TB, p *Process) {
	t.Helper()
	if unix.Kill(p.PID(), 0) == nil {
		t.Errorf("child %d is still there", p.PID())
	}
	if groupAlive(p.PID(), true) {
		t.Errorf("the group of %d is still there", p.PID())
	}
}

// What was accepted before Stop reaches the child before the end of its stdin.
func TestProcessStopFlushes(t *testing.T) {
	t.Parallel()
	sink := filepath.Join(t.TempDir(), "sink")
	p := start(t, Command{
		Argv: []string{"sh", "-c", `cat > "$SINK"`}, Env: append(BaseEnv(nil), "SINK="+sink), StopGrace: 10 * time.Second,
	})
	line := strings.Repeat("x", 50_000)
	for range 40 {
		must(t, p.Write([]byte(line)))
	}
	p.Stop()
	got, err := os.ReadFile(sink)
	must(t, err)
	if want := strings.Repeat(line+"\n", 40); string(got) != want {
		t.Errorf("%d of %d bytes arrived", len(got), len(want))
	}
}

func TestProcessCrash(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var longest, lines int
	c := child("crash")
	c.Stderr = func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		lines++
		longest = max(longest, len(line))
	}
	p := start(t, c)
	e := await(t, p)
	if e.Code != 3 || e.Stopped || len(e.StderrTail) != tailLines {
		t.Fatalf("got %+v", e)
	}
	if last := e.StderrTail[tailLines-1]; last != "panic: \uFFFDout of luck" || len(e.StderrTail[tailLines-2]) > tailLine {
		t.Errorf("the tail is %q", e.StderrTail)
	}
	for _, want := range []string{"exited with code 3", "out of luck", filepath.Base(c.Argv[0])} {
		if !strings.Contains(e.Error(), want) {
			t.Errorf("%q does not say %q", e.Error(), want)
		}
	}
	mu.Lock()
	if lines != 32 || longest != stderrLine {
		t.Errorf("%d lines of at most %d bytes", lines, longest)
	}
	mu.Unlock()
	expect(t, p, "last words")
	expect(t, p, "no newline")
	if _, err := p.ReadLine(); err != io.EOF {
		t.Errorf("got %v", err)
	}
	var exit *ExitError
	if err := p.Write([]byte("x")); !errors.As(err, &exit) || exit.Code != 3 {
		t.Errorf("Write: %v", err)
	}
}

// A child that exits by itself is reaped.
func TestProcessExitsAtOnce(t *testing.T) {
	t.Parallel()
	p := start(t, child("exit:4"))
	if e := await(t, p); e.Code != 4 || e.Stopped {
		t.Errorf("got %+v", e)
	}
	if err := unix.Kill(p.PID(), 0); err != unix.ESRCH {
		t.Errorf("it is not reaped: %v", err)
	}
}

func TestProcessIgnoresEndOfInput(t *testing.T) {
	t.Parallel()
	c := child("deaf")
	c.StopGrace = 50 * time.Millisecond
	p := start(t, c)
	expect(t, p, "ready")
	if d := took(t, p, 8*time.Second); d < c.StopGrace {
		t.Errorf("Stop took only %v", d)
	}
	if e := p.Exit(); e.Signal != "SIGTERM" || e.Code != -1 || !strings.Contains(e.Error(), "SIGTERM") {
		t.Errorf("got %v", e)
	}
}

func TestProcessIgnoresTerm(t *testing.T) {
	t.Parallel()
	c := child("stubborn")
	c.StopGrace, c.KillGrace = -1, 100*time.Millisecond
	p := start(t, c)
	expect(t, p, "ready")
	if d := took(t, p, 8*time.Second); d < c.KillGrace {
		t.Errorf("Stop took only %v", d)
	}
	if e := p.Exit(); e.Signal != "SIGKILL" {
		t.Errorf("got %v", e)
	}
}

func TestProcessTermIsPolite(t *testing.T) {
	t.Parallel()
	c := child("polite")
	c.StopGrace = -1
	p := start(t, c)
	expect(t, p, "ready")
	took(t, p, 8*time.Second)
	if e := p.Exit(); e.Code != 7 {
		t.Errorf("got %v", e)
	}
}

// Nothing reads the child's output. It is blocked in a write, and still sees the end of its stdin.
func TestProcessStopReadsOn(t *testing.T) {
	t.Parallel()
	p := start(t, child("burst"))
	expect(t, p, "burst")
	took(t, p, 8*time.Second)
	if e := p.Exit(); e.Signal != "" || e.Code != 0 {
		t.Errorf("got %v", e)
	}
}

func TestProcessNeverReads(t *testing.T) {
	t.Parallel()
	c := child("deaf")
	c.Buffer = 256 << 10
	c.StopGrace = 50 * time.Millisecond
	p := start(t, c)
	ctx, cancel := context.WithTimeout(background(), 300*time.Millisecond)
	defer cancel()
	line := []byte(strings.Repeat("x", 10_000))
	accepted := 0
	var err error
	for err == nil {
		if err = p.WriteScanned(ctx, line); err == nil {
			accepted += len(line)
		}
	}
	if !errors.Is(err, context.DeadlineExceeded) || accepted > c.Buffer+pipe.DefaultSize+len(line) {
		t.Errorf("accepted %d bytes, then %v", accepted, err)
	}
	waits := make(chan error, 1)
	full := &waitContext{Context: background(), waits: make(chan struct{})}
	go func() { waits <- p.WriteScanned(full, line) }()
	<-full.waits
	took(t, p, 8*time.Second)
	if err := <-waits; err != ErrStopped {
		t.Errorf("the waiting reader got %v", err)
	}
}

func TestProcessBanner(t *testing.T) {
	t.Parallel()
	p := start(t, child("banner"))
	expect(t, p, "server 1.0 starting…")
	expect(t, p, "  ready\x00 ")
	must(t, p.Write([]byte("x")))
	expect(t, p, "x")
}

func TestProcessStderrFlood(t *testing.T) {
	t.Parallel()
	p := start(t, child("chatter"))
	must(t, p.Write([]byte("x")))
	expect(t, p, "x")
}

// A callback that never returns costs a second, not the exit.
func TestProcessStderrCallbackHangs(t *testing.T) {
	t.Parallel()
	c := child("crash")
	release := make(chan struct{})
	c.Stderr = func([]byte) { <-release }
	p := start(t, c)
	await(t, p)
	close(release)
	<-p.pumped
}

func TestProcessLineTooLong(t *testing.T) {
	t.Parallel()
	c := child("crash")
	c.MaxLine = 9
	p := start(t, c)
	var long *lines.LineTooLongError
	if _, err := p.ReadLine(); !errors.As(err, &long) || long.Limit != 9 {
		t.Errorf("got %v", err)
	}
	if err := p.Write([]byte("0123456789")); !errors.As(err, &long) && !errors.As(err, new(*ExitError)) {
		t.Errorf("got %v", err)
	}
}

func TestProcessStopFromMany(t *testing.T) {
	t.Parallel()
	p := start(t, child("echo"))
	var all sync.WaitGroup
	for range 20 {
		all.Go(p.Stop)
		all.Go(func() { _ = p.Write([]byte("x")) })
	}
	all.Wait()
	p.Stop()
}

// Many start and stop at once.
func TestProcessManyAtOnce(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			for range 3 {
				p, err := Start(background(), child("echo"))
				if err != nil {
					t.Error(err)
					return
				}
				if err := p.Write([]byte("x")); err != nil {
					t.Error(err)
				}
				if line, err := p.ReadLine(); string(line) != "x" || err != nil {
					t.Error(line, err)
				}
				p.Stop()
				noProcessLeft(t, p)
			}
		})
	}
	all.Wait()
}

// When this process is killed, no child survives: the child gets SIGTERM and the end of its stdin.
func TestProcessEndsWithUs(t *testing.T) {
	if !dieWithParent {
		t.Skip("only Linux signals a child at its parent's death")
	}
	t.Parallel()
	us := start(t, child("supervisor"))
	pid, err := strconv.Atoi(readLine(t, us))
	must(t, err)
	if dead(pid) {
		t.Fatal("it did not start")
	}
	must(t, unix.Kill(us.PID(), unix.SIGKILL))
	testkit.Eventually(t, "the orphan's end", func() bool { return dead(pid) })
}
