//go:build unix && !linux

package guardian

import (
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// restLeast is the least pause between two looks: nobody tells us of a reason for the next.
const restLeast = 10 * time.Millisecond

// deaf makes signals ones that do nothing to us, and are as they ever were in our children: they would inherit one that is
// ignored, but not one that is handled.
func deaf() {
	nobody := make(chan os.Signal, 1)
	for _, s := range []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU} {
		if !signal.Ignored(s) {
			signal.Notify(nobody, s)
		}
	}
}

// adopt does nothing: orphans go to the system's first process here.
func adopt() error { return nil }

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// brandOf and burn do nothing: nobody looks for marks here.
func brandOf(string) uint64 { return 0 }

func burn(int, uint64, uint64) {}

// receiveRights reads with descriptors. They become close-on-exec while nobody can fork.
func receiveRights(b, oob []byte) (n, oobn int, err error) {
	for {
		fds := []unix.PollFd{{Fd: socketFD, Events: unix.POLLIN}}
		if _, err = unix.Poll(fds, -1); err != nil {
			if err == unix.EINTR {
				continue
			}
			return 0, 0, err
		}
		syscall.ForkLock.RLock()
		n, oobn, _, _, err = unix.Recvmsg(socketFD, b, oob, unix.MSG_DONTWAIT)
		if err == nil {
			seal(oob[:oobn])
		}
		syscall.ForkLock.RUnlock()
		if err != unix.EINTR && err != unix.EAGAIN {
			return n, oobn, err
		}
	}
}

func seal(oob []byte) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
		}
	}
}

// freeOSMemory gives back what is not needed.
func freeOSMemory() { debug.FreeOSMemory() }

// remains tells whether anybody is left whom reap does not see.
func (k *keeper) remains() bool {
	for _, f := range k.families {
		if unix.Kill(-f.pid, 0) == nil {
			return true
		}
	}
	return false
}

// reader reads nothing here.
type reader struct{}

// tend sees to the families' groups; who has left them is out of reach.
func (k *keeper) tend(press bool) {
	k.look, k.asked = false, nil
	for _, f := range k.families {
		if f.killing && press {
			_ = unix.Kill(-f.pid, unix.SIGKILL)
		}
		if f.exited && unix.Kill(-f.pid, 0) != nil {
			k.gone(f)
		}
	}
	if press {
		k.press, k.pause = time.Now().Add(k.pause), min(2*k.pause, pressMost)
	}
	k.look = len(k.waiting) > 0 // nobody tells us of the end of what is not our child
}

// everybody signals all groups.
func (k *keeper) everybody(sig syscall.Signal) {
	for _, f := range k.families {
		_ = unix.Kill(-f.pid, sig)
	}
}

// clearUp waits for what a lost guardian leaves behind: their stdin has ended or will. Nothing else reaches them here but
// the signal to their groups.
func clearUp(_ string, pids []int) {
	for _, pid := range pids {
		_ = unix.Kill(-pid, unix.SIGTERM)
	}
}
