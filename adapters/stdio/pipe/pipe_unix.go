//go:build unix

package pipe

import (
	"errors"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// New makes a pipe. The child reads from it, or else writes to it.
func New(childReads bool) (child, ours *os.File, err error) {
	r, w, err := os.Pipe()
	if childReads {
		return r, w, err
	}
	return w, r, err
}

// ReadPark reads once into what lend returns. While the pipe is empty it waits without a buffer: it calls back before, and lend again
// after.
func (r *Reader) ReadPark(lend func() []byte, back func()) (int, error) {
	if r.discarded.Load() { // Drain has the lock, for as long as the child takes to end
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
			err = os.ErrClosed // the only other reason for it not to call step
		}
		return r.result(0, err)
	}
	return r.result(r.call.n, r.call.err)
}

// readRest reads what is there, without waiting: the child has exited.
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

// readStep tries to read; false asks the poller to wait.
func (r *Reader) readStep(fd uintptr) bool {
	c := &r.call
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
	if to := larger(r.grown, c.n, r.size); to > r.grown {
		r.grown = to
		grow(int(fd), to)
	}
	return true
}

// TryWrite writes what the pipe has room for, without waiting.
func (w *Writer) TryWrite(p []byte) (int, error) {
	w.call.p = p
	err := w.raw.Write(w.call.step)
	w.call.p = nil
	if err != nil {
		return 0, os.ErrClosed
	}
	return w.call.n, w.call.err
}

// Write writes all of p. It waits as long as the deadline permits.
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

// fillStep writes what there is room for; false asks the poller to wait with the rest. A pipe that has not taken all is full, so there is
// no need to try again before waiting.
func (w *Writer) fillStep(fd uintptr) bool {
	c := &w.call
	w.growFor(fd, len(c.p))
	n, err := writeOnce(int(fd), c.p[c.n:])
	c.n, c.err = c.n+n, err
	return err != nil || c.n == len(c.p)
}

// writeStep writes what there is room for, and does not ask to wait. A pipe without room grows if it is busy enough.
func (w *Writer) writeStep(fd uintptr) bool {
	c := &w.call
	if len(c.p) > capacity {
		w.growFor(fd, len(c.p))
	}
	c.n, c.err = writeOnce(int(fd), c.p)
	if c.err == nil && c.n < len(c.p) && w.growFor(fd, len(c.p)) {
		var n int
		n, c.err = writeOnce(int(fd), c.p[c.n:])
		c.n += n
	}
	return true
}

// growFor grows the pipe for a write of n bytes. It reports whether the pipe has become larger.
func (w *Writer) growFor(fd uintptr, n int) bool {
	to := larger(w.grown, n, w.size)
	if to <= w.grown {
		return false
	}
	w.grown = to
	grow(int(fd), to)
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

// larger returns the size for a pipe that has grown to a size and through which atOnce bytes went in one call: limit at most. A pipe grows
// in two steps, because all pipes of a user count against one quota, and not before half of its first capacity is used.
func larger(grown, atOnce, limit int) int {
	switch {
	case atOnce > capacity, atOnce == capacity && grown > 0:
		return max(grown, limit)
	case atOnce >= capacity/2:
		return max(grown, min(4*capacity, limit))
	}
	return grown
}
