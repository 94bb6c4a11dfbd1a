// Package pipe has our ends of the pipes between us and a child process. They wait in the runtime's poller, without a buffer while
// there is nothing to read, and grow while they are busy.
package pipe

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrDiscarded is what a Reader returns after Discard or Close.
var ErrDiscarded = errors.New("pipe: discarded")

const (
	// DefaultSize is what a busy pipe grows to where nothing else is asked for: the most an unprivileged Linux process may have.
	DefaultSize = 1 << 20
	// capacity is that of a new pipe on Linux.
	capacity = 64 << 10
)

// Reader is our end of a child's stdout or stderr.
//
// The kernel reports the end of a pipe only when the last holder of the other end is gone, which may be a daemon that the child has
// started. So the end is declared: after Finish, a reader gets what lies in the pipe and then io.EOF. After Discard it gets
// ErrDiscarded, not io.EOF, lest a line cut off in the middle pass for the last one.
type Reader struct {
	file *os.File
	raw  syscall.RawConn
	size int // what the pipe grows to; below 1 it does not

	discarded atomic.Bool
	finished  atomic.Bool

	reading sync.Mutex // held while reading
	grown   int        // what the pipe has grown to; guarded by reading, as is the rest
	left    int        // how much is still read after Finish, lest a holder that never stops writing keep us
	call    readCall
}

// readCall is one read from the descriptor. It is kept in the Reader because it would be allocated for each read otherwise.
type readCall struct {
	lend func() []byte
	back func()
	n    int
	err  error
	step func(fd uintptr) bool
}

// NewReader returns a Reader of f that grows its pipe up to size bytes, or not at all if size is below 1.
func NewReader(f *os.File, size int) (*Reader, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	r := &Reader{file: f, raw: raw, size: size, left: max(size, DefaultSize)}
	r.call.step = r.readStep
	return r, nil
}

// Finish says that the child has exited. A Read that waits returns what is there, then io.EOF.
func (r *Reader) Finish() {
	r.finished.Store(true)
	r.interrupt()
}

// interrupt makes a Read that waits return. Where pipes have no deadlines, it waits on for the real end or for Close.
func (r *Reader) interrupt() { _ = r.file.SetReadDeadline(time.Unix(1, 0)) }

// Discard takes the pipe away from its reader: Read returns ErrDiscarded from now on. Drain has to follow.
func (r *Reader) Discard() {
	r.discarded.Store(true)
	r.interrupt()
}

// Drain drops what comes after Discard, until the end or Close.
func (r *Reader) Drain() {
	r.reading.Lock()
	defer r.reading.Unlock()
	if !r.finished.Load() {
		_ = r.file.SetReadDeadline(time.Time{}) // should Finish come in between, Close still ends the copy
	}
	_, _ = io.Copy(io.Discard, r.file) // any end is as good
}

// Read reads once. It waits until there is something to read.
func (r *Reader) Read(p []byte) (int, error) {
	return r.ReadPark(func() []byte { return p }, func() {})
}

// Close closes our end. A Read that waits returns ErrDiscarded.
func (r *Reader) Close() error { return r.file.Close() }

// SyscallConn implements syscall.Conn.
func (r *Reader) SyscallConn() (syscall.RawConn, error) { return r.file.SyscallConn() }

// result turns the result of a read from the descriptor into that of Read.
func (r *Reader) result(n int, err error) (int, error) {
	switch {
	case r.discarded.Load(), errors.Is(err, os.ErrClosed):
		return 0, ErrDiscarded
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return n, err
}

// Writer is our end of a child's stdin. One goroutine at a time writes.
type Writer struct {
	file  *os.File
	raw   syscall.RawConn
	size  int
	grown int // what the pipe has grown to
	call  writeCall
}

type writeCall struct {
	p          []byte
	n          int
	err        error
	step, fill func(fd uintptr) bool
}

// NewWriter returns a Writer to f that grows its pipe up to size bytes, or not at all if size is below 1.
func NewWriter(f *os.File, size int) (*Writer, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	w := &Writer{file: f, raw: raw, size: size}
	w.call.step, w.call.fill = w.writeStep, w.fillStep
	return w, nil
}

// SetWriteDeadline limits how long Write waits.
func (w *Writer) SetWriteDeadline(t time.Time) error { return w.file.SetWriteDeadline(t) }

// Close ends the child's stdin.
func (w *Writer) Close() error { return w.file.Close() }

// SyscallConn implements syscall.Conn.
func (w *Writer) SyscallConn() (syscall.RawConn, error) { return w.file.SyscallConn() }
