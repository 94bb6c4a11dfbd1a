//go:build unix

package stdio

import (
	"errors"
	"io"
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

// newPipe makes a pipe and says which end is the child's.
func newPipe(childReads bool) (child, ours *os.File, err error) {
	r, w, err := os.Pipe()
	if childReads {
		return r, w, err
	}
	return w, r, err
}

// exitStatus splits how a process ended into its code (-1 if a signal ended it) and the signal's name.
func exitStatus(state *os.ProcessState) (code int, signal string) {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return -1, unix.SignalName(ws.Signal())
	}
	return state.ExitCode(), ""
}

// Read reads once, waiting for something to be there.
func (o *outPipe) Read(p []byte) (int, error) {
	return o.ReadPark(func() []byte { return p }, func() {})
}

// ReadPark implements parkReader: while the pipe is empty the goroutine waits in the poller without a buffer.
func (o *outPipe) ReadPark(lend func() []byte, back func()) (int, error) {
	if o.muted.Load() { // discard has the lock, for as long as the child takes to end
		return 0, ErrStopped
	}
	o.reading.Lock()
	defer o.reading.Unlock()
	if o.muted.Load() {
		return 0, ErrStopped
	}
	o.call.lend, o.call.back = lend, back
	defer func() { o.call.lend, o.call.back = nil, nil }()
	if err := o.raw.Read(o.call.step); err != nil {
		if o.finished.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
			return o.verdict(o.readRest())
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			err = os.ErrClosed // the only other reason for it not to call step
		}
		return o.verdict(0, err)
	}
	return o.verdict(o.call.n, o.call.err)
}

// readRest reads what is there without waiting: the child has exited.
func (o *outPipe) readRest() (int, error) {
	if o.left <= 0 {
		return 0, io.EOF
	}
	there := false
	if err := o.raw.Control(func(fd uintptr) { there = o.readStep(fd) }); err != nil || !there {
		return 0, io.EOF
	}
	o.left -= o.call.n
	return o.call.n, o.call.err
}

// readStep tries to read; false asks the poller to wait.
func (o *outPipe) readStep(fd uintptr) bool {
	c := &o.call
	p := c.lend()
	for {
		c.n, c.err = unix.Read(int(fd), p)
		if c.err != unix.EINTR {
			break
		}
	}
	if c.err != nil {
		c.n = 0
	}
	if c.err == unix.EAGAIN {
		c.back()
		return false
	}
	if c.n >= chunkSize && !o.grown && o.size > 0 {
		o.grown = true
		growPipeFD(int(fd), o.size)
	}
	return true
}

// TryWrite writes what the pipe has room for.
func (i *inPipe) TryWrite(p []byte) (int, error) {
	i.grow(len(p))
	i.call.p = p
	err := i.raw.Write(i.call.step)
	i.call.p = nil
	if err != nil {
		return 0, os.ErrClosed
	}
	return i.call.n, i.call.err
}

// writeStep writes once and never asks to wait.
func (i *inPipe) writeStep(fd uintptr) bool {
	c := &i.call
	for {
		c.n, c.err = unix.Write(int(fd), c.p)
		if c.err != unix.EINTR {
			break
		}
	}
	if c.err != nil {
		c.n = 0
	}
	if c.err == unix.EAGAIN {
		c.err = nil
	}
	return true
}

// growPipe enlarges the pipe behind raw, where the system can.
func growPipe(raw syscall.RawConn, size int) {
	if size > 0 {
		_ = raw.Control(func(fd uintptr) { growPipeFD(int(fd), size) }) // closed meanwhile: nothing to enlarge
	}
}

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
