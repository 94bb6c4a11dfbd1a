package process

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"dragoman/adapters/stdio/reaper"
)

const dieWithParent = true

// A thread that ends in this process, as one of a library may, takes no child along.
func TestProcessSurvivesTheEndOfThreads(t *testing.T) {
	t.Parallel()
	started := make(chan *Process)
	for range 8 {
		go func() {
			runtime.LockOSThread() // and no unlock: the thread ends with the goroutine
			p, err := Start(background(), child("echo"))
			if err != nil {
				t.Error(err)
			}
			started <- p
		}()
	}
	var all []*Process
	for range 8 {
		if p := <-started; p != nil {
			all = append(all, p)
		}
	}
	for _, p := range all {
		must(t, p.Write([]byte("x")))
		expect(t, p, "x")
	}
	for _, p := range all {
		p.Stop()
		if e := p.Exit(); e.Signal != "" {
			t.Errorf("%v", e)
		}
		noProcessLeft(t, p)
	}
}

// The exit of a child is noticed without reaping it, and a zombie does not count as alive.
func TestAwaitExitDoesNotReap(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("true")
	must(t, cmd.Start())
	must(t, unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	if !onlyZombiesOrGone(cmd.Process.Pid) {
		t.Error("a zombie counts as alive")
	}
	awaitExit(cmd) // returns at once, and reaps nothing
	must(t, cmd.Wait())
}

func onlyZombiesOrGone(pid int) bool {
	group, err := unix.Getpgid(pid)
	return err != nil || group != pid || reaper.GroupEnded(pid)
}

func TestPipesGrowOnlyWhenUsed(t *testing.T) {
	t.Parallel()
	size := func(f syscall.Conn) (n int) {
		raw, err := f.SyscallConn()
		must(t, err)
		must(t, raw.Control(func(fd uintptr) { n, _ = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) }))
		return n
	}
	p := start(t, child("echo"))
	must(t, p.Write([]byte("x")))
	expect(t, p, "x")
	if n := size(p.in); n > 64<<10 {
		t.Errorf("stdin is %d bytes already", n)
	}
	must(t, p.Write(make([]byte, 1<<20)))
	if line := readLine(t, p); len(line) != 1<<20 {
		t.Errorf("%d bytes", len(line))
	}
	if os.Getuid() == 0 {
		if in, out := size(p.in), size(p.out); in <= 64<<10 || out <= 64<<10 {
			t.Errorf("stdin %d, stdout %d", in, out)
		}
	}
}
