package keeper

import (
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	// subreaper is PR_SET_CHILD_SUBREAPER of the kernel's prctl.h. Package unix would be initialized too late.
	subreaper = 36
	// socket is the descriptor that the reaper gets.
	socket = 3
	// self stays right after the file was replaced.
	self = "/proc/self/exe"
)

//nolint:gochecknoinits // see the package's documentation
func init() {
	if os.Getenv(Key) == Start {
		os.Exit(keep())
	}
}

// keep starts the reaper and waits for its end. It returns the reaper's exit code (128 and the signal that ended it) if nothing is
// left of its children, and 2 if it could not be started. Else it does not return.
func keep() int {
	_ = os.WriteFile("/proc/self/comm", []byte(Name), 0) // no more than a name
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, subreaper, 1, 0); errno != 0 {
		return 2
	}
	CloseInherited(socket)
	// The reaper gets SIGUSR1 when this thread ends, which is the process's first: initialization is locked to it.
	reaper, err := syscall.ForkExec(self, []string{"dragoman", "reaper"}, &syscall.ProcAttr{Env: environment(),
		Files: []uintptr{0, 1, 2, socket}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGUSR1}})
	if err != nil {
		return 2
	}
	_ = syscall.Close(socket) // Dragoman takes its end for the reaper's
	// Now that the reaper does not inherit it.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	status, left := wait(reaper)
	if left {
		// The reaper's Main starts nothing, so that it may go on ignoring these signals.
		_ = syscall.Exec(self, []string{"dragoman", "reaper"}, append(environment(), Key+"="+Ended))
	}
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// environment is ours without Key.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, Key+"=") })
}

// wait reaps all processes that have ended, at least the reaper, and reports whether others are left.
func wait(reaper int) (ended syscall.WaitStatus, left bool) {
	options := 0
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, options, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // there is none
			return ended, false
		case pid == reaper:
			ended, options = status, syscall.WNOHANG
		case pid == 0:
			return ended, true
		}
	}
}

// CloseInherited closes the descriptors that the process which started Dragoman has left open, lest its keeper holds them and
// children inherit them. Our own are close-on-exec, except for those up to except.
func CloseInherited(except int) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what was read before an error is of use all the same
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= except {
			continue
		}
		flags, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if errno == 0 && flags&syscall.FD_CLOEXEC == 0 {
			_ = syscall.Close(fd)
		}
	}
}
