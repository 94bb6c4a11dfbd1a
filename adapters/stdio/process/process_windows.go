package process

import (
	"os"
	"os/exec"
	"syscall"
)

// signalKind is one of the two signals that Stop sends. Windows has neither: see job.signal for what is done instead.
type signalKind int

const (
	sigTerm signalKind = iota
	sigKill
)

// sysProcAttr keeps a console's Ctrl-C from the child, and its window from the user where the child gets a console of its
// own because we have none.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

// startDirect starts the command; a reaper is not needed here.
func startDirect(cmd *exec.Cmd) (kin, int, error) {
	j, err := startJob(cmd)
	if err != nil {
		return nil, 0, err
	}
	return j, cmd.Process.Pid, nil
}

// executable tells whether path is a file; what can be run is a matter of its extension.
func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return os.ErrNotExist
	}
	if info.IsDir() {
		return syscall.ERROR_ACCESS_DENIED
	}
	return nil
}

func candidates(command string, env []string) []string {
	return programNames(command, envValue(env, "PATHEXT"))
}

func checkArgs(path string, args []string) error { return checkBatch(path, args) }

// signalName is empty: no signal ends anybody here.
func signalName(syscall.Signal) string { return "" }
