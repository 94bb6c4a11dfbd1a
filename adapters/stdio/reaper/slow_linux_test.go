package reaper

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// started is the result of a start.
type started struct {
	c   *Child
	err error
}

func (r *rig) start(argv ...string) started {
	c, _, err := run(context.Background(), r.Reaper, r.env(), argv...)
	return started{c, err}
}

// sleeper copies sleep(1) to a file that no other test executes.
func sleeper(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "slow")
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(file, sleep, 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// A program on a file system that does not answer blocks only itself: not the start of another one, its end, or the cleanup after
// Dragoman's end.
func TestASlowFileSystem(t *testing.T) {
	r := newRig(t)
	slow := sleeper(t)
	held := holdExec(t, slow)
	plain, _ := r.script("plain")
	started := make(chan started, 3)
	for range cap(started) {
		go func() { started <- r.start(slow, "40") }()
	}
	for n := range cap(started) {
		r.eventually("the system to ask whether it may be executed", func() bool { return len(held.asked()) > n })
	}
	begin := time.Now()
	for range 300 { // enough to collect garbage, if collection were not off
		c, _ := r.sh("exit")
		<-c.Gone()
	}
	t.Logf("300 others came and went in %v", time.Since(begin))
	plain.Kill()
	if !closed(plain.Gone(), 5*time.Second) {
		t.Error("another child could not be ended")
	}
	if len(started) > 0 {
		t.Error("it did not block: this tests nothing")
	}
	held.release()
	for range cap(started) {
		s := <-started
		if s.err != nil {
			t.Fatal(s.err)
		}
		s.c.Kill()
		<-s.c.Gone()
	}
}

// A forked child inherits the reaper's current mark. If the machine is busy, that may be the mark of another child: one that is alive, so
// that the child would be taken for its descendant, or one that has ended, so that it would be killed as a stray.
func TestLimitMarkOfAnother(t *testing.T) {
	f := func(name string, mark func(r *rig) (uint64, *Child)) {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			slow := sleeper(t)
			held := holdExec(t, slow)
			n, other := mark(r)
			c := make(chan started, 1)
			go func() { c <- r.start(slow, "40") }()
			r.eventually("the system to ask whether it may be executed", func() bool { return len(held.asked()) > 0 })
			wrong := unix.Rlimit{Cur: n, Max: unix.RLIM_INFINITY}
			if err := unix.Prlimit(held.asked()[0], unix.RLIMIT_LOCKS, &wrong, nil); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				visitor, _ := r.sh("exit") // the reaper scans all processes when it has ended
				<-visitor.Gone()
			}
			held.release()
			s := <-c
			if s.err != nil {
				t.Fatal(s.err)
			}
			other.Kill()
			if !closed(other.Gone(), 5*time.Second) {
				t.Error("the child with that mark could not be ended")
			}
			if closed(s.c.Gone(), 0) {
				t.Error("it was taken for another child's process and killed")
			}
			s.c.Kill()
			if !closed(s.c.Gone(), 5*time.Second) {
				t.Error("it could not be ended")
			}
		})
	}
	markOf := func(t *testing.T, c *Child) uint64 {
		var own unix.Rlimit
		if err := unix.Prlimit(c.PID(), unix.RLIMIT_LOCKS, nil, &own); err != nil {
			t.Fatal(err)
		}
		return own.Cur
	}
	f("of one that lives", func(r *rig) (uint64, *Child) {
		c, _ := r.script("plain")
		return markOf(r.t, c), c
	})
	f("of one that is gone", func(r *rig) (uint64, *Child) {
		c, _ := r.script("plain")
		n := markOf(r.t, c)
		c.Kill()
		<-c.Gone()
		return n, c
	})
}

// hold has the processes that wait for the test's permission to execute a file.
type hold struct {
	fd      int
	waiting []heldUp
}

type heldUp struct {
	event int // the descriptor by which it is answered
	pid   int
}

// asked returns the ids of the waiting processes.
func (h *hold) asked() []int {
	var b [4096]byte
	n, _ := unix.Read(h.fd, b[:]) // an error means that none waits
	for at := 0; at+24 <= n; at += int(binary.NativeEndian.Uint32(b[at:])) {
		h.waiting = append(h.waiting, heldUp{
			event: int(binary.NativeEndian.Uint32(b[at+16:])), pid: int(binary.NativeEndian.Uint32(b[at+20:])),
		})
	}
	var pids []int
	for _, w := range h.waiting {
		pids = append(pids, w.pid)
	}
	return pids
}

// release permits all waiting processes.
func (h *hold) release() {
	h.asked()
	for _, w := range h.waiting {
		var out [8]byte
		binary.NativeEndian.PutUint32(out[0:], uint32(w.event))
		binary.NativeEndian.PutUint32(out[4:], unix.FAN_ALLOW)
		_, _ = unix.Write(h.fd, out[:])
		_ = unix.Close(w.event)
	}
	h.waiting = nil
}

// holdExec blocks every execution of a file.
func holdExec(t *testing.T, file string) *hold {
	t.Helper()
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		t.Skipf("not permitted here: %v", err)
	}
	h := &hold{fd: fd}
	t.Cleanup(func() {
		h.release()
		_ = unix.Close(fd) // permits all
	})
	if err := unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN_EXEC_PERM, unix.AT_FDCWD, file); err != nil {
		t.Skipf("not permitted here: %v", err)
	}
	return h
}
