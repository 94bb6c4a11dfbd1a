//go:build unix

package stdio

import (
	"errors"
	"io"
	"os"
	"runtime"
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
		return -1, signalName(ws.Signal())
	}
	return state.ExitCode(), ""
}

// signalName is empty if there was none.
func signalName(s syscall.Signal) string { return unix.SignalName(s) }

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
	if to := larger(o.grown, c.n, o.size); to > o.grown {
		o.grown = to
		growPipeFD(int(fd), to)
	}
	return true
}

// TryWrite writes what the pipe has room for.
func (i *inPipe) TryWrite(p []byte) (int, error) {
	i.call.p = p
	err := i.raw.Write(i.call.step)
	i.call.p = nil
	if err != nil {
		return 0, os.ErrClosed
	}
	return i.call.n, i.call.err
}

// Write writes all of p, waiting as long as needed.
func (i *inPipe) Write(p []byte) (int, error) {
	if runtime.GOOS != "linux" {
		return i.file.Write(p)
	}
	c := &i.call
	c.p, c.n, c.err = p, 0, nil
	err := i.raw.Write(c.fill)
	c.p = nil
	switch {
	case err == nil:
		err = c.err
	case !errors.Is(err, os.ErrDeadlineExceeded):
		err = os.ErrClosed
	}
	return c.n, err
}

// fillStep writes what there is room for, and asks to wait with the rest. A pipe that has not taken all is full: when it is read the
// poller says so, and there is no need to try once more before waiting.
func (i *inPipe) fillStep(fd uintptr) bool {
	c := &i.call
	i.growFor(fd, len(c.p))
	n, err := writeOnce(int(fd), c.p[c.n:])
	c.n, c.err = c.n+n, err
	return err != nil || c.n == len(c.p)
}

// writeStep writes and never asks to wait. A pipe that has no room is made larger, if it is busy enough.
func (i *inPipe) writeStep(fd uintptr) bool {
	c := &i.call
	if len(c.p) > chunkSize {
		i.growFor(fd, len(c.p))
	}
	c.n, c.err = writeOnce(int(fd), c.p)
	if c.err == nil && c.n < len(c.p) && i.growFor(fd, len(c.p)) {
		var n int
		n, c.err = writeOnce(int(fd), c.p[c.n:])
		c.n += n
	}
	return true
}

// growFor enlarges the pipe for a write of n bytes; false if it is as large as it becomes.
func (i *inPipe) growFor(fd uintptr, n int) bool {
	to := larger(i.grown, n, i.size)
	if to <= i.grown {
		return false
	}
	i.grown = to
	growPipeFD(int(fd), to)
	return true
}

// writeOnce writes what there is room for at once.
func writeOnce(fd int, p []byte) (int, error) {
	for {
		switch n, err := unix.Write(fd, p); err {
		case nil:
			return n, nil
		case unix.EAGAIN:
			return 0, nil
		case unix.EINTR:
		default:
			return 0, err
		}
	}
}

// larger answers what a pipe of which as much as was put in at once, or taken out, is to grow to: no more than most. It grows in two
// steps, since all pipes of a user count against one limit; it does not begin below half of what a pipe holds from the start.
func larger(grown, atOnce, most int) int {
	switch {
	case atOnce > chunkSize, atOnce == chunkSize && grown > 0:
		return max(grown, most)
	case atOnce >= chunkSize/2:
		return max(grown, min(4*chunkSize, most))
	}
	return grown
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
