//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// sysProcAttr gives the child a process group of its own. Should we die without stopping it, the end of its stdin is
// all that tells it.
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func launch(cmd *exec.Cmd) error { return cmd.Start() }

func released() {}

// awaitExit returns when the child has exited; it has been reaped then.
func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() } // says what ProcessState says

// onlyZombies cannot tell; here the system reaps orphans.
func onlyZombies(int) bool { return false }
