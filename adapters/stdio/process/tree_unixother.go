//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// sysProcAttr gives the child its own process group. If the proxy dies without stopping it, the end of its stdin is its
// only notice.
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitExit returns when the child has exited; it has been reaped then.
func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() } // the error repeats ProcessState
