package process

import (
	"os/exec"
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
// startDirect keeps the thread.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// awaitExit returns when the child has exited and can be reaped.
func awaitExit(cmd *exec.Cmd) {
	for err := error(unix.EINTR); err == unix.EINTR; {
		err = unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
}
