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

// sysProcAttr gives the child a process group of its own, and SIGTERM should we die without stopping it.
//
// SIGTERM and not SIGKILL: at our death the child's stdin ends, which is its cue to go, and launchers (npx, uvx, docker)
// pass SIGTERM on to the server they have started, which a SIGKILL of the launcher would orphan. A child that ignores
// both survives a SIGKILL of ours; that takes a reaper process.
//
// The signal comes when the *thread* that forked ends, not the process (prctl(2), PR_SET_PDEATHSIG). The Go runtime
// ends a thread when a goroutine locked to it ends, and any library may do that to the thread we happened to fork on.
// So all children are forked on one thread that is ours; see launcher.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// launcher keeps one thread alive for as long as it has children, and forks on it. It is a pool of one thread, shared by all
// processes: a thread each would cost more than the rest of an idle session.
type launcher struct {
	mu    sync.Mutex
	users int
	jobs  chan func()
}

var forks launcher

// launch starts the command on the launcher's thread. Each success needs a released when the child is gone.
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

// released says that a child is gone.
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

// work is the thread. It ends after the last child, when its end can no longer signal anybody.
func work(jobs <-chan func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for job := range jobs {
		job()
	}
}

// awaitExit returns when the child has exited and can be reaped. It waits in the poller, on a pidfd (Linux 5.10);
// Process.Wait would keep a thread for each child.
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

// pollExit returns true after the exit, and false at once if the kernel or a sandbox does not let it watch.
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
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		if err == unix.EINTR {
			return false
		}
		watched = err == nil
		return n > 0 || err != nil
	})
	return err == nil && watched
}

// onlyZombies tells whether all members of the group have exited and only wait for their parents to reap them. A system
// whose first process does not reap would otherwise make them look alive for ever.
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
