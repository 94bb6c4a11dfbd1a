//go:build unix && !linux

package reaper

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// minSweepPause is the shortest pause between two sweeps: no signal tells of a reason for the next.
const minSweepPause = 10 * time.Millisecond

// becomeParent does nothing: orphans become children of the system's first process here.
func becomeParent() error { return nil }

// command is the command line of the process to start: the reaper has no keeper here.
func command() (args, env []string) { return []string{"dragoman", Command}, nil }

// leftover returns false: there is no keeper.
func leftover() bool { return false }

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// limitMarkOf and setLimitMark do nothing: marks are not looked for here.
func limitMarkOf(string) uint64 { return 0 }

func setLimitMark(int, uint64, uint64) {}

// receiveRights reads bytes and descriptors. No fork can happen before the descriptors are close-on-exec.
func receiveRights(socket *net.UnixConn, b, oob []byte) (n, oobn int, err error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	waitErr := raw.Read(func(fd uintptr) bool {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		for {
			if n, oobn, _, _, err = unix.Recvmsg(int(fd), b, oob, 0); err != unix.EINTR {
				break
			}
		}
		if err == nil {
			fds, _ := rightsIn(oob[:oobn]) // the caller sees the error
			for _, fd := range fds {
				unix.CloseOnExec(fd)
			}
		}
		return err != unix.EAGAIN
	})
	if waitErr != nil {
		err = waitErr
	}
	return n, oobn, err
}

// remains reports whether any process is left that reap does not see.
func (s *server) remains() bool {
	for _, t := range s.trees {
		if unix.Kill(-t.pid, 0) == nil {
			return true
		}
	}
	return false
}

// GroupEnded returns false: the system's first process reaps orphans here.
func GroupEnded(int) bool { return false }

// procReader reads nothing here.
type procReader struct{}

// sweep kills the process groups of the trees, and reports those that are empty. Processes that left the group are out of reach.
func (s *server) sweep(kill bool) {
	s.changed, s.terminating = false, nil
	for _, t := range s.trees {
		if t.killing && kill {
			_ = unix.Kill(-t.pid, unix.SIGKILL)
		}
		if t.exited && unix.Kill(-t.pid, 0) != nil {
			s.gone(t)
		}
	}
	if kill {
		s.nextKill, s.killPause = time.Now().Add(s.killPause), min(2*s.killPause, maxKillPause)
	}
	s.changed = len(s.waiting) > 0 // no signal tells of the end of a process that is not our child
}

// signalAll signals all process groups.
func (s *server) signalAll(sig syscall.Signal) {
	for _, t := range s.trees {
		_ = unix.Kill(-t.pid, sig)
	}
}

// clearUp sends SIGTERM to the process groups that a lost reaper process has left behind. Their stdin has ended as well.
func clearUp(_ string, pids []int) {
	for _, pid := range pids {
		_ = unix.Kill(-pid, unix.SIGTERM)
	}
}
