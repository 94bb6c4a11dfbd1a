//go:build unix

package process

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalKind is one of the two signals that Stop sends.
type signalKind = syscall.Signal

const (
	sigTerm signalKind = syscall.SIGTERM
	sigKill signalKind = syscall.SIGKILL
)

// signalGroup signals a process group. An empty group is no error.
func signalGroup(pgid int, s signalKind) { _ = unix.Kill(-pgid, s) }

// groupAlive reports whether the group has members. It also reaps members that have become the proxy's own children
// because the proxy is the system's first process, as in a container, or a subreaper. A thorough check does not count
// members that only wait to be reaped by another process.
func groupAlive(pgid int, thorough bool) bool {
	for {
		pid, err := unix.Wait4(-pgid, nil, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if pid <= 0 || err != nil {
			break
		}
	}
	if unix.Kill(-pgid, 0) != nil {
		return false
	}
	return !thorough || !onlyZombies(pgid)
}

// exitStatus returns the exit code (-1 if a signal ended the process) and the signal's name.
func exitStatus(state *os.ProcessState) (code int, signal string) {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return -1, signalName(ws.Signal())
	}
	return state.ExitCode(), ""
}

// signalName returns the name of a signal; empty if there was none.
func signalName(s syscall.Signal) string { return unix.SignalName(s) }

// executable returns nil if the file at path can be run, os.ErrNotExist if it does not exist, else the reason.
func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return os.ErrNotExist
	}
	if info.IsDir() {
		return syscall.EISDIR
	}
	if info.Mode()&0o111 == 0 {
		return os.ErrPermission
	}
	return nil
}

// candidates returns the file names that a command may have.
func candidates(command string, _ []string) []string { return []string{command} }

// checkArgs returns nil: arguments reach the child unchanged.
func checkArgs(string, []string) error { return nil }
