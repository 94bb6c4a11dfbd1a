package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"dragoman/internal/testkit"
)

func TestProcessExitCodes(t *testing.T) {
	t.Parallel()
	f := func(role string, code int, text string) {
		t.Helper()
		p := start(t, child(role))
		if e := await(t, p); e.Code != code || e.Stopped || !strings.Contains(e.Error(), text) {
			t.Errorf("%s: got %+v: %v", role, e, e)
		}
	}
	f("exit:0", 0, "exited with code 0")
	f("exit:4", 4, "exited with code 4")
	f("exit:0xC0000135", 0xC0000135, "ended by STATUS_DLL_NOT_FOUND")
	f("exit:0xC000013A", 0xC000013A, "ended by STATUS_CONTROL_C_EXIT")
	f(fmt.Sprintf("exit:%d", killCode), int(killCode), "exited with code 1067") // exits by itself
	f("crash", 3, "last on stderr: two")
}

func TestProcessLastWords(t *testing.T) {
	t.Parallel()
	p := start(t, child("crash"))
	await(t, p)
	expect(t, p, "last words")
	expect(t, p, "no newline")
	if _, err := p.ReadLine(); err != io.EOF {
		t.Errorf("got %v", err)
	}
}

// An empty write ends a wait, and is neither a line nor the end.
func TestProcessWritesNothing(t *testing.T) {
	t.Parallel()
	p := start(t, child("nothing"))
	for i := range 3 {
		expect(t, p, fmt.Sprint("line ", i))
	}
	must(t, p.Write([]byte("x")))
	expect(t, p, "x")
}

// A child that ignores the end of stdin gets CTRL_BREAK if there is a console, and is killed at once otherwise.
func TestProcessIgnoresEndOfInput(t *testing.T) {
	t.Parallel()
	want := "TerminateJobObject"
	if canBreak(t) {
		want = "CTRL_BREAK"
	}
	c := child("deaf")
	c.StopGrace = 50 * time.Millisecond
	p := start(t, c)
	expect(t, p, "ready")
	if d := took(t, p, 8*time.Second); d < c.StopGrace {
		t.Errorf("Stop took only %v", d)
	}
	if e := p.Exit(); e.Signal != want || e.Code != -1 || !strings.Contains(e.Error(), "ended by "+want) {
		t.Errorf("got %v, want %s", e, want)
	}
}

func TestProcessIgnoresBreak(t *testing.T) {
	t.Parallel()
	asked := canBreak(t)
	c := child("stubborn")
	c.StopGrace, c.KillGrace = -1, 100*time.Millisecond
	p := start(t, c)
	expect(t, p, "ready")
	if d := took(t, p, 8*time.Second); asked && d < c.KillGrace {
		t.Errorf("Stop took only %v", d)
	}
	if e := p.Exit(); e.Signal != "TerminateJobObject" || e.Code != -1 {
		t.Errorf("got %v", e)
	}
}

func TestProcessReceivesBreak(t *testing.T) {
	if !canBreak(t) {
		t.Skip("no console")
	}
	t.Parallel()
	c := child("polite")
	c.StopGrace = -1
	p := start(t, c)
	expect(t, p, "ready")
	took(t, p, 8*time.Second)
	if e := p.Exit(); e.Code != 7 || e.Signal != "" {
		t.Errorf("got %v", e)
	}
}

// No process can leave the job.
func TestProcessCannotBreakAway(t *testing.T) {
	t.Parallel()
	p := start(t, child("fork:deaf,away"))
	if line := readLine(t, p); !strings.HasPrefix(line, "not forked ") {
		t.Errorf("got %q", line)
	}
}

// When this process is killed, no child survives.
func TestProcessEndsWithUs(t *testing.T) {
	t.Parallel()
	c := child("supervisor")
	c.KillGrace = time.Minute // it is itself in a job of this process, which would end its descendants later
	us := start(t, c)
	pid, err := strconv.Atoi(readLine(t, us))
	must(t, err)
	middle := watched(t, pid)
	leaf := forked(t, us, "ready")
	if dead(middle) || dead(leaf) {
		t.Fatal("they did not start")
	}
	must(t, windows.TerminateProcess(watched(t, us.PID()), 9))
	testkit.Eventually(t, "the child's end", func() bool { return dead(middle) })
	testkit.Eventually(t, "the grandchild's end", func() bool { return dead(leaf) })
	if e := await(t, us); e.Code != 9 {
		t.Errorf("got %v", e)
	}
}

// The child is in its job before it can start a process.
func TestJobHoldsWhatTheChildStarts(t *testing.T) {
	t.Parallel()
	isProcessInJob := windows.NewLazySystemDLL("kernel32.dll").NewProc("IsProcessInJob")
	in := func(p windows.Handle, j *job) bool {
		var yes uint32
		if r, _, err := isProcessInJob.Call(uintptr(p), uintptr(j.handle), uintptr(unsafe.Pointer(&yes))); r == 0 {
			t.Fatal(err)
		}
		return yes != 0
	}
	p, other := start(t, child("fork:deaf,stay")), start(t, child("echo"))
	j, strange := p.tree.(*job), other.tree.(*job)
	leaf := forked(t, p, "ready")
	if !in(j.child, j) || !in(leaf, j) || in(leaf, strange) || in(strange.child, j) {
		t.Error("a process is in the wrong job")
	}
}

// A child that does not read blocks neither a writer nor Stop.
func TestProcessNeverReads(t *testing.T) {
	t.Parallel()
	c := child("deaf")
	c.Buffer, c.StopGrace = 256<<10, 50*time.Millisecond
	p := start(t, c)
	expect(t, p, "ready")
	waits := make(chan error, 1)
	full := &waitContext{Context: background(), waits: make(chan struct{})}
	go func() {
		var err error
		for line := []byte(strings.Repeat("x", 10_000)); err == nil; {
			err = p.WriteScanned(full, line)
		}
		waits <- err
	}()
	<-full.waits
	took(t, p, 8*time.Second)
	if err := <-waits; err != ErrStopped {
		t.Errorf("the waiting reader got %v", err)
	}
}

// handles counts this process's open handles.
func handles(t *testing.T) (n uint32) {
	t.Helper()
	r, _, err := windows.NewLazySystemDLL("kernel32.dll").NewProc("GetProcessHandleCount").
		Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&n)))
	if r == 0 {
		t.Fatal(err)
	}
	if n > 0 {
		return n
	}
	// Wine does not count them. The list of all open handles begins with their number; each has five words, of which the second is the
	// process.
	list := make([]uint64, 1<<20)
	must(t, windows.NtQuerySystemInformation(windows.SystemExtendedHandleInformation, unsafe.Pointer(&list[0]),
		uint32(len(list)*8), nil))
	const words = 5 // object, process, handle, access and attributes
	for i := range list[0] {
		if list[2+i*words+1] == uint64(os.Getpid()) {
			n++
		}
	}
	return n
}

// Many processes that start and stop leave no handle open. No other test may run meanwhile.
func TestProcessHandles(t *testing.T) {
	round := func(roles ...string) {
		for _, role := range roles {
			c := child(role)
			c.StopGrace, c.KillGrace = time.Second, 50*time.Millisecond
			p, err := Start(background(), c)
			must(t, err)
			if role != "exit:4" {
				_, err = p.ReadLine()
				must(t, err)
			}
			if strings.HasPrefix(role, "exit") {
				await(t, p)
			}
			p.Stop()
		}
		if _, err := Start(background(), Command{Argv: []string{os.Args[0]}, Dir: `C:\no\such\folder`}); err == nil {
			t.Error("started in no folder")
		}
	}
	round("crash", "exit:4", "fork:stubborn,exit") // threads and the poller's port come with the first
	begin := handles(t)
	const rounds = 12
	for range rounds {
		round("crash", "exit:4", "fork:stubborn,exit")
	}
	if end := handles(t); begin == 0 || end > begin+rounds {
		t.Errorf("%d handles at first, %d after %d rounds", begin, end, rounds)
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text.exe")
	must(t, os.WriteFile(text, []byte("no program\n"), 0o600))
	f := func(c Command, cause error) {
		t.Helper()
		_, err := Start(background(), c)
		if !errors.Is(err, cause) {
			t.Errorf("%q: %v", c.Argv, err)
		}
	}
	f(Command{Argv: []string{"no-such-command-here"}}, os.ErrNotExist)
	f(Command{Argv: []string{filepath.Join(dir, "none.exe")}}, os.ErrNotExist)
	f(Command{Argv: []string{text}}, syscall.ENOEXEC)
	folder := filepath.Join(dir, "folder.exe")
	must(t, os.Mkdir(folder, 0o700))
	f(Command{Argv: []string{folder}}, syscall.ERROR_ACCESS_DENIED)
}

// A batch file gets its arguments unchanged although cmd.exe runs it, and the one in PATH is run, not one of the same name in the working
// directory.
func TestProcessBatchFile(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "a & b ^ (c)")
	cwd := t.TempDir()
	must(t, os.Mkdir(bin, 0o700))
	must(t, os.WriteFile(filepath.Join(bin, "tool.cmd"), []byte("@\"%SELF%\" %*\r\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(cwd, "tool.cmd"), []byte("@echo wrong\r\n"), 0o600))
	args := []string{
		"-y", "a b", "", "foo@^1.2", "x>=1", "https://h/?a=b&c=d", `C:\dir\`, `\\s\d\\`, "(x)", "a|b", "a,b;c=d", "ü",
	}
	c := child("args")
	c.Argv = append([]string{"tool"}, args...)
	self, err := os.Executable()
	must(t, err)
	c.Env = append(c.Env, "PATH="+bin, "SELF="+self)
	c.Dir = cwd
	p := start(t, c)
	for _, arg := range args {
		expect(t, p, strconv.Quote(arg))
	}
	expect(t, p, cwd)
	if e := await(t, p); e.Code != 0 {
		t.Errorf("got %v", e)
	}
	c.Argv = []string{"tool", `"&echo wrong&"`}
	if _, err := Start(background(), c); !errors.Is(err, errBatchArgument) {
		t.Errorf("got %v", err)
	}
}
