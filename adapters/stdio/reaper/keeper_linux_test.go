package reaper

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// 2 s later no process is left, whatever the children do, when the parent and its reaper are killed at once: neither can do anything any more.
func TestNoProcessSurvivesAKilledParentAndReaper(t *testing.T) {
	for name := range scripts {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			parent := r.parent(name)
			both := []int{parent.Process.Pid, reaperOf(t, parent.Process.Pid)}
			for _, sig := range []syscall.Signal{unix.SIGSTOP, unix.SIGKILL} {
				for _, pid := range both {
					if err := unix.Kill(pid, sig); err != nil {
						t.Error(err)
					}
				}
			}
			_ = parent.Wait()
			t.Logf("%v", r.noProcess(2*time.Second))
		})
	}
}

// The end of the keeper is no end of the children that the reaper has. The next one gets a reaper with a keeper.
func TestAKilledKeeper(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c, _ := r.script("daemon")
	first := r.process()
	if err := unix.Kill(r.keeper(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.eventually("a note", func() bool { return len(r.errors()) > 0 })
	if notes := r.errors(); len(notes) != 1 || notes[0] != ErrUnkept {
		t.Errorf("%v", notes)
	}
	d, _ := r.script("plain")
	if r.process() == first || dead(first) || closed(c.Exited(), 0) {
		t.Error("the first reaper is still in use, or has ended")
	}
	c.Kill()
	if !closed(c.Gone(), 10*time.Second) {
		t.Error("it has not ended")
	}
	r.eventually("the end of the first reaper", func() bool { return dead(first) })
	if closed(d.Exited(), 0) || len(r.errors()) != 1 {
		t.Errorf("the other child has ended as well, or %v", r.errors())
	}
	d.Kill()
	<-d.Gone()
}

// Close ends the children of a reaper without a keeper as well.
func TestCloseEndsWhatHasNoKeeper(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c, _ := r.script("daemon")
	if err := unix.Kill(r.keeper(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.eventually("a note", func() bool { return len(r.errors()) > 0 })
	d, _ := r.script("stubborn")
	r.Close()
	if !closed(c.Gone(), 0) || !closed(d.Gone(), 0) {
		t.Error("not ended")
	}
	r.noProcess(0)
}

// Stopped helpers, and signals to them, delay the end of nothing but themselves.
func TestStoppedHelpers(t *testing.T) {
	t.Parallel()
	for name, pid := range map[string]func(*rig) int{"keeper": (*rig).keeper, "reaper": (*rig).process} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c, _ := r.script("daemon")
			for _, sig := range []syscall.Signal{unix.SIGSTOP, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1} {
				if err := unix.Kill(pid(r), sig); err != nil {
					t.Fatal(err)
				}
			}
			begin := time.Now()
			r.Close()
			if !closed(c.Gone(), 0) {
				t.Error("not ended")
			}
			r.noProcess(0)
			if took := time.Since(begin); took > 8*time.Second {
				t.Errorf("%v", took)
			}
		})
	}
}

// reaperOf returns the process id of the reaper below a process, its only grandchild. It does not look at all processes, which takes
// time if there are many.
func reaperOf(t *testing.T, pid int) int {
	t.Helper()
	for range 2 {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, list := range lists {
			b, _ := os.ReadFile(list)
			if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
				pid = n
			}
		}
	}
	if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(name) == "reaper\n" {
		return pid
	}
	t.Fatal("there is no reaper")
	return 0
}
