//go:build unix

package pipe

import (
	"errors"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// New returns the two ends of a pipe. If childReads is true the child has the reading end, else the writing end.
func New(childReads bool) (child, ours *os.File, err error) {
	r, w, err := os.Pipe()
	if childReads {
		return r, w, err
	}
	return w, r, err
}

// ReadPark reads once into the buffer that lend returns. While the pipe is empty it waits without a buffer: it calls back
// before waiting, and lend again afterwards.
func (r *Reader) ReadPark(lend func() []byte, back func()) (int, error) {
	if r.discarded.Load() { // Drain holds the lock until the child has ended
		return 0, ErrDiscarded
	}
	r.reading.Lock()
	defer r.reading.Unlock()
	if r.discarded.Load() {
		return 0, ErrDiscarded
	}
	r.call.lend, r.call.back = lend, back
	defer func() { r.call.lend, r.call.back = nil, nil }()
	if err := r.raw.Read(r.call.step); err != nil {
		if r.finished.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
			return r.result(r.readRest())
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			err = os.ErrClosed // the only other reason for which step is not called
		}
		return r.result(0, err)
	}
	return r.result(r.call.n, r.call.err)
}

// readRest reads the data left after the child's exit, without waiting.
func (r *Reader) readRest() (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	there := false
	if err := r.raw.Control(func(fd uintptr) { there = r.readStep(fd) }); err != nil || !there {
		return 0, io.EOF
	}
	r.left -= r.call.n
	return r.call.n, r.call.err
}

// readStep tries to read once; false makes the poller wait.
func (r *Reader) readStep(fd uintptr) bool {
	c := &r.call
	if c.n, c.err = ReadOnce(int(fd), c.lend()); c.err == unix.EAGAIN {
		c.back()
		return false
	}
	if to := larger(r.grown, c.n, r.size); to > r.grown {
		r.grown = to
		grow(int(fd), to)
	}
	return true
}

// TryWrite writes as much of p as fits into the pipe, without waiting.
func (w *Writer) TryWrite(p []byte) (int, error) {
	w.call.p = p
	err := w.raw.Write(w.call.step)
	w.call.p = nil
	if err != nil {
		return 0, os.ErrClosed
	}
	return w.call.n, w.call.err
}

// Write writes all of p. It waits until the write deadline at most.
func (w *Writer) Write(p []byte) (int, error) {
	if runtime.GOOS != "linux" {
		return w.file.Write(p)
	}
	c := &w.call
	c.p, c.n, c.err = p, 0, nil
	err := w.raw.Write(c.fill)
	c.p = nil
	switch {
	case err == nil:
		err = c.err
	case !errors.Is(err, os.ErrDeadlineExceeded):
		err = os.ErrClosed
	}
	return c.n, err
}

// fillStep writes as much as fits; false makes the poller wait to write the rest. A pipe that has not taken everything is
// full, so there is no second try before waiting.
func (w *Writer) fillStep(fd uintptr) bool {
	c := &w.call
	w.growFor(fd, len(c.p))
	n, err := WriteOnce(int(fd), c.p[c.n:])
	c.n, c.err = c.n+n, err
	return err != nil || c.n == len(c.p)
}

// writeStep writes as much as fits, and never makes the poller wait. A full pipe grows if it is busy enough.
func (w *Writer) writeStep(fd uintptr) bool {
	c := &w.call
	if len(c.p) > capacity {
		w.growFor(fd, len(c.p))
	}
	c.n, c.err = WriteOnce(int(fd), c.p)
	if c.err == nil && c.n < len(c.p) && w.growFor(fd, len(c.p)) {
		var n int
		n, c.err = WriteOnce(int(fd), c.p[c.n:])
		c.n += n
	}
	return true
}

// growFor grows the pipe for a write of n bytes, and reports whether it has grown.
func (w *Writer) growFor(fd uintptr, n int) bool {
	to := larger(w.grown, n, w.size)
	if to <= w.grown {
		return false
	}
	w.grown = to
	grow(int(fd), to)
	return true
}

// ReadOnce reads from a non-blocking descriptor what is there; nothing is 0, EAGAIN.
func ReadOnce(fd int, p []byte) (int, error) {
	for {
		switch n, err := unix.Read(fd, p); err {
		case nil:
			return n, nil
		case unix.EINTR:
		default:
			return 0, err
		}
	}
}

// WriteOnce writes to a non-blocking descriptor as much as fits; a full one is 0, nil.
func WriteOnce(fd int, p []byte) (int, error) {
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

// larger returns the new size of a pipe of size grown through which atOnce bytes went in one call; limit at most. A pipe
// grows in two steps, because all pipes of a user share one quota, and not before half of its first capacity is used.
func larger(grown, atOnce, limit int) int {
	switch {
	case atOnce > capacity, atOnce == capacity && grown > 0:
		return max(grown, limit)
	case atOnce >= capacity/2:
		return max(grown, min(4*capacity, limit))
	}
	return grown
}
