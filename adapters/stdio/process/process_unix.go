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

// signalGroup sends to the process group that the child leads.
func signalGroup(child *os.Process, s signalKind) { signalGroupID(child.Pid, s) }

// signalGroupID sends to a group. That nobody is there to hear it is no error.
func signalGroupID(pgid int, s signalKind) { _ = unix.Kill(-pgid, s) }

// groupAlive tells whether anybody is left in the group. On the way it reaps those members that became our own
// children because we are the system's first process, as in a container, or a subreaper. A thorough look counts members
// that only wait to be reaped by somebody else as gone.
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

// exitStatus splits how a process ended into its code (-1 if a signal ended it) and the signal's name.
func exitStatus(state *os.ProcessState) (code int, signal string) {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return -1, signalName(ws.Signal())
	}
	return state.ExitCode(), ""
}

// signalName is empty if there was none.
func signalName(s syscall.Signal) string { return unix.SignalName(s) }

// executable tells whether the file at path can be run: os.ErrNotExist if it is not there, else why it cannot.
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

// candidates are the file names that a command may have.
func candidates(command string, _ []string) []string { return []string{command} }

// checkArgs finds nothing to object to: arguments reach the child as they are.
func checkArgs(string, []string) error { return nil }
