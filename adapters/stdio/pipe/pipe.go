// Package pipe implements the proxy's ends of the pipes to a child process. They wait in the runtime's poller, hold no
// buffer while there is nothing to read, and grow while they are busy.
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

// ErrDiscarded is the error of a Reader after Discard or Close.
var ErrDiscarded = errors.New("pipe: discarded")

const (
	// DefaultSize is the size in bytes to which a busy pipe grows by default: the most that an unprivileged Linux process
	// may have.
	DefaultSize = 1 << 20
	// capacity is the size in bytes of a new pipe on Linux.
	capacity = 64 << 10
)

// Reader is the proxy's end of a child's stdout or stderr.
//
// The kernel reports the end of a pipe only when the last holder of the other end is gone, which may be a daemon that the
// child has started. So the caller declares the end. After Finish, Read returns the data left in the pipe and then
// io.EOF. After Discard it returns ErrDiscarded, not io.EOF, so that a truncated line does not pass for the last one.
type Reader struct {
	file *os.File
	raw  syscall.RawConn
	size int // size to which the pipe grows; below 1 it does not grow

	discarded atomic.Bool
	finished  atomic.Bool

	reading sync.Mutex // held while reading
	grown   int        // current size; guarded by reading, like the fields below
	left    int        // bytes that may still be read after Finish, since another holder may never stop writing
	call    readCall
}

// readCall is the state of one read from the descriptor. It is part of the Reader because it would otherwise be allocated
// for each read.
type readCall struct {
	lend func() []byte
	back func()
	n    int
	err  error
	step func(fd uintptr) bool
}

// NewReader returns a Reader of f. The pipe grows up to size bytes, or not at all if size is below 1.
func NewReader(f *os.File, size int) (*Reader, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	r := &Reader{file: f, raw: raw, size: size, left: max(size, DefaultSize)}
	r.call.step = r.readStep
	return r, nil
}

// Finish declares that the child has exited. A waiting Read returns the data left, then io.EOF.
func (r *Reader) Finish() {
	r.finished.Store(true)
	r.interrupt()
}

// interrupt makes a waiting Read return. Without pipe deadlines the Read waits for the real end or for Close.
func (r *Reader) interrupt() { _ = r.file.SetReadDeadline(time.Unix(1, 0)) }

// Discard ends reading: Read returns ErrDiscarded from now on. Drain must follow.
func (r *Reader) Discard() {
	r.discarded.Store(true)
	r.interrupt()
}

// Drain reads and drops the data after Discard, until the end or Close.
func (r *Reader) Drain() {
	r.reading.Lock()
	defer r.reading.Unlock()
	if !r.finished.Load() {
		_ = r.file.SetReadDeadline(time.Time{}) // if Finish comes in between, Close still ends the copy
	}
	_, _ = io.Copy(io.Discard, r.file) // any error ends the draining
}

// Read reads once. It waits until there is data.
func (r *Reader) Read(p []byte) (int, error) {
	return r.ReadPark(func() []byte { return p }, func() {})
}

// Close closes the pipe. A waiting Read returns ErrDiscarded.
func (r *Reader) Close() error { return r.file.Close() }

// SyscallConn implements syscall.Conn.
func (r *Reader) SyscallConn() (syscall.RawConn, error) { return r.file.SyscallConn() }

// result converts the result of a read from the descriptor to that of Read.
func (r *Reader) result(n int, err error) (int, error) {
	switch {
	case r.discarded.Load(), errors.Is(err, os.ErrClosed):
		return 0, ErrDiscarded
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return n, err
}

// Writer is the proxy's end of a child's stdin. It is for one goroutine at a time.
type Writer struct {
	file  *os.File
	raw   syscall.RawConn
	size  int
	grown int // current size of the pipe
	call  writeCall
}

type writeCall struct {
	p          []byte
	n          int
	err        error
	step, fill func(fd uintptr) bool
}

// NewWriter returns a Writer to f. The pipe grows up to size bytes, or not at all if size is below 1.
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
