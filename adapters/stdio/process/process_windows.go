package process

import (
	"os"
	"os/exec"
	"syscall"
)

// signalKind is one of the two signals that Stop sends. Windows has neither; job.signal replaces them.
type signalKind int

const (
	sigTerm signalKind = iota
	sigKill
)

// sysProcAttr protects the child from the console's Ctrl-C, and hides its window if it gets a console of its own because
// the proxy has none.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

// startDirect starts the command in a Job Object, which needs no reaper.
func startDirect(cmd *exec.Cmd) (tree, int, error) {
	j, err := startJob(cmd)
	if err != nil {
		return nil, 0, err
	}
	return j, cmd.Process.Pid, nil
}

// executable returns nil if path is a file. Whether it can be run depends on its extension.
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

// signalName returns "": no signal ends a process on Windows.
func signalName(syscall.Signal) string { return "" }
