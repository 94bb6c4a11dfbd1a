package process

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// sysProcAttr gives the child its own process group, and SIGTERM if the proxy dies without stopping it.
//
// The signal is SIGTERM and not SIGKILL: when the proxy dies, the end of stdin tells the child to exit, and launchers
// (npx, uvx, docker) pass SIGTERM on to the server that they started. A SIGKILL of the launcher would orphan that server.
// A child that ignores both survives a SIGKILL of the proxy; ending it takes a reaper process.
//
// The signal is sent when the *thread* that forked ends, not the process (prctl(2), PR_SET_PDEATHSIG). The Go runtime
// ends a thread when a goroutine locked to it ends, and any library may do that to the thread that happened to fork. So
// all children are forked on one thread that is kept for this; see launcher.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// launcher keeps one thread alive while there are children, and forks on it. All processes share the thread, because one
// for each would cost more than the rest of an idle session.
type launcher struct {
	mu    sync.Mutex
	users int
	jobs  chan func()
}

var forks launcher

// launch starts the command on the launcher's thread. Each success needs a call of released when the child is gone.
func launch(cmd *exec.Cmd) error {
	jobs := forks.join()
	result := make(chan error)
	jobs <- func() { result <- cmd.Start() }
	err := <-result
	if err != nil {
		forks.leave()
	}
	return err
}

// released releases the launcher's thread for one child.
func released() { forks.leave() }

func (l *launcher) join() chan<- func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == 0 {
		l.jobs = make(chan func())
		go work(l.jobs)
	}
	l.users++
	return l.jobs
}

func (l *launcher) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	if l.users == 0 {
		close(l.jobs)
		l.jobs = nil
	}
}

// work runs the jobs on the locked thread. It ends after the last child, when the end of the thread signals no process.
func work(jobs <-chan func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for job := range jobs {
		job()
	}
}

// awaitExit returns when the child has exited and can be reaped. It waits in the poller on a pidfd (Linux 5.10), because
// Process.Wait would block a thread for each child.
func awaitExit(cmd *exec.Cmd) {
	pid := cmd.Process.Pid
	if pollExit(pid) {
		return
	}
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// pollExit returns true after the exit, and false at once if the kernel or a sandbox does not permit a pidfd.
func pollExit(pid int) bool {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	watched := true
	err = raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // G115: a descriptor is small
		n, err := unix.Poll(fds, 0)
		if err == unix.EINTR {
			return false
		}
		watched = err == nil
		return n > 0 || err != nil
	})
	return err == nil && watched
}

// onlyZombies reports whether all members of the group have exited and only wait for their parents to reap them.
// Otherwise they would look alive for ever on a system whose first process does not reap.
func onlyZombies(pgid int) bool {
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, dir := range procs {
		if _, err := strconv.Atoi(dir.Name()); err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + dir.Name() + "/stat")
		if err != nil {
			continue // gone meanwhile
		}
		// pid (name, which may contain anything) state ppid pgrp …
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 3 || string(fields[2]) != strconv.Itoa(pgid) {
			continue
		}
		if s := fields[0][0]; s != 'Z' && s != 'X' {
			return false
		}
	}
	return true
}
