package guardian

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A program on a file system that does not answer holds up nobody else: not the start of another, not its end, and not what
// is done when Dragoman is gone.
func TestASlowFileSystem(t *testing.T) {
	r := newRig(t)
	slow := filepath.Join(t.TempDir(), "slow")
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(slow, sleep, 0o700); err != nil {
		t.Fatal(err)
	}
	answer := holdExec(t, slow)
	plain, _ := r.script("plain")
	type result struct {
		c   *Child
		err error
	}
	started := make(chan result, 3)
	for range cap(started) {
		go func() {
			c, _, err := run(context.Background(), r.Guardian, r.env(), slow, "40")
			started <- result{c, err}
		}()
	}
	for n := range cap(started) {
		r.eventually("the system to ask whether it may be executed", func() bool { return answer(n+1, 0) })
	}
	begin := time.Now()
	for range 300 { // enough for garbage to be collected, were that not left off now
		c, _ := r.sh("exit")
		<-c.Gone()
	}
	t.Logf("300 others came and went in %v", time.Since(begin))
	plain.Kill()
	if !closed(plain.Gone(), 5*time.Second) {
		t.Error("another child could not be ended")
	}
	if len(started) > 0 {
		t.Error("it was not held up: this tests nothing")
	}
	answer(cap(started), unix.FAN_ALLOW)
	for range cap(started) {
		s := <-started
		if s.err != nil {
			t.Fatal(s.err)
		}
		s.c.Kill()
		<-s.c.Gone()
	}
}

// holdExec holds up whoever executes a file. What it returns tells whether that many have been, and lets them all go once
// response is not 0.
func holdExec(t *testing.T, file string) (answer func(n int, response uint32) bool) {
	t.Helper()
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		t.Skipf("not permitted here: %v", err)
	}
	var asked []int32
	answer = func(n int, response uint32) bool {
		var b [4096]byte
		m, _ := unix.Read(fd, b[:]) // an error is that nobody asks
		for at := 0; at+24 <= m; at += int(binary.NativeEndian.Uint32(b[at:])) {
			asked = append(asked, int32(binary.NativeEndian.Uint32(b[at+16:])))
		}
		ready := len(asked) >= n
		if response != 0 {
			for _, event := range asked {
				var out [8]byte
				binary.NativeEndian.PutUint32(out[0:], uint32(event))
				binary.NativeEndian.PutUint32(out[4:], response)
				_, _ = unix.Write(fd, out[:])
				_ = unix.Close(int(event))
			}
			asked = nil
		}
		return ready
	}
	t.Cleanup(func() {
		answer(0, unix.FAN_ALLOW)
		_ = unix.Close(fd) // lets everybody go
	})
	if err := unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN_EXEC_PERM, unix.AT_FDCWD, file); err != nil {
		t.Skipf("not permitted here: %v", err)
	}
	return answer
}
