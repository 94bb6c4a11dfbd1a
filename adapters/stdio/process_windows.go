package stdio

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// signalKind is one of the two signals that Stop sends. Windows knows neither; both end the child at once. What it has
// started is not reached without a job object, which is not used yet.
type signalKind int

const (
	sigTerm signalKind = iota
	sigKill
)

// sysProcAttr keeps a console's Ctrl-C from the child.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

func launch(cmd *exec.Cmd) error { return cmd.Start() }

func released() {}

func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() } // says what ProcessState says

func signalGroup(child *os.Process, _ signalKind) { _ = child.Kill() } // fails only if it has exited

func signalGroupID(int, signalKind) {}

func groupAlive(int, bool) bool { return false }

func exitStatus(state *os.ProcessState) (code int, signal string) { return state.ExitCode(), "" }

// Read reads once, waiting for something to be there.
func (o *outPipe) Read(p []byte) (int, error) {
	o.reading.Lock()
	defer o.reading.Unlock()
	if o.muted.Load() {
		return 0, ErrStopped
	}
	return o.verdict(o.file.Read(p))
}

func (o *outPipe) readStep(uintptr) bool { return true }

func (i *inPipe) writeStep(uintptr) bool { return true }

func growPipe(syscall.RawConn, int) {}

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

// candidates are the file names that a command may have, by PATHEXT: npx is npx.cmd.
func candidates(command string, env []string) []string {
	exts := envValue(env, "PATHEXT")
	if exts == "" {
		exts = ".COM;.EXE;.BAT;.CMD"
	}
	var names []string
	if filepath.Ext(command) != "" {
		names = append(names, command)
	}
	for ext := range strings.SplitSeq(exts, ";") {
		if ext != "" {
			names = append(names, command+strings.ToLower(ext))
		}
	}
	return names
}

// checkArgs refuses arguments that cmd.exe, which runs batch files, would take for more than text.
func checkArgs(path string, args []string) error {
	ext := strings.ToLower(filepath.Ext(path))
	if ext != ".cmd" && ext != ".bat" {
		return nil
	}
	for _, arg := range args {
		if strings.ContainsAny(arg, "\"%!^&|<>\r\n") {
			return errBatchArgument
		}
	}
	return nil
}
