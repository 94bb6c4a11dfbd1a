package lines

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"
)

// largeTail is the size in bytes of the end of a large line, which is written together with its newline, so that the
// reader is not woken for the newline alone.
const largeTail = 4 << 10

// writeTurn passes the right to write to the caller of a large line when its turn has come.
type writeTurn struct {
	passed  bool          // guarded by the Writer's mu
	settled chan struct{} // closed when its turn has come, or never will
}

func (b *writeTurn) pass() {
	b.passed = true
	close(b.settled)
}

// refuseTurns refuses the large lines that have not been started, because the Writer has failed. mu is held.
func (w *Writer) refuseTurns() {
	w.queue = slices.DeleteFunc(w.queue, func(q entry) bool {
		if q.writer != nil {
			close(q.writer.settled)
		}
		return q.writer != nil
	})
}

// writeInTurn writes a line of size bytes from the caller's memory after everything accepted before. mu is held on entry,
// while another goroutine writes, and released on return.
func (w *Writer) writeInTurn(ctx context.Context, parts [][]byte, size int) error {
	b := &writeTurn{settled: make(chan struct{})}
	w.queue = append(w.queue, entry{writer: b})
	w.mu.Unlock()
	select {
	case <-b.settled:
	case <-ctx.Done():
	}
	w.mu.Lock()
	over := ctx.Err()
	switch {
	case b.passed && over == nil:
		w.mu.Unlock()
		return w.writeLarge(ctx, parts, size)
	case b.passed: // nothing of the line has been written or will be: continue with the next
		w.held -= size + 1
		w.mu.Unlock()
		_ = w.lead(w.settle(0, nil)) // the error belongs to the other lines
		return over
	case w.err != nil:
		defer w.mu.Unlock()
		return w.err
	}
	w.queue = slices.DeleteFunc(w.queue, func(q entry) bool { return q.writer == b })
	w.held -= size + 1
	w.grant()
	w.mu.Unlock()
	return over
}

// writeLarge writes a line of size bytes from the caller's memory. The caller has set flushing, and the queue was empty.
// If ctx ends during the write, the rest is copied and left to drain.
func (w *Writer) writeLarge(ctx context.Context, parts [][]byte, size int) error {
	var err error
	done, scratch := 0, Borrow(ChunkSize)
	for err == nil && done < size-largeTail {
		var n int
		n, err = w.writeReady(ctx, piece(parts, done, size-largeTail-done, scratch.B[:0:largeTail]))
		done += n
	}
	scratch.Free()
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		w.settle(0, err)
		return w.lead(nil)
	}
	rest := Borrow(size - done + 1)
	for _, p := range parts {
		rest.B = append(rest.B, p[min(done, len(p)):]...)
		done = max(0, done-len(p))
	}
	rest.B = append(rest.B, '\n')
	w.mu.Lock()
	w.held -= size + 1 - len(rest.B)
	w.cur, w.off = rest, 0
	w.mu.Unlock()
	if w.direct == nil {
		go w.drain()
		return nil
	}
	return w.lead(w.settle(0, nil))
}

// piece returns the next bytes, at most most, of a line of which off bytes have been written. They are returned from
// their own memory if that fills scratch at least, else gathered in scratch.
func piece(parts [][]byte, off, most int, scratch []byte) []byte {
	for _, p := range parts {
		if off >= len(p) {
			off -= len(p)
			continue
		}
		p = p[off:]
		off = 0
		if len(scratch) == 0 && len(p) >= cap(scratch) {
			return p[:min(len(p), most)]
		}
		scratch = append(scratch, p[:min(len(p), cap(scratch)-len(scratch), most-len(scratch))]...)
		if len(scratch) == min(cap(scratch), most) {
			break
		}
	}
	return scratch
}

// writeReady is writeInterruptible that prepares for waiting only if it has to wait.
func (w *Writer) writeReady(ctx context.Context, p []byte) (n int, err error) {
	if w.direct != nil {
		if n, err = w.direct.TryWrite(p); n == len(p) || err != nil {
			return n, err
		}
	}
	more, err := w.writeInterruptible(ctx, p[n:])
	return n + more, err
}

// writeInterruptible writes all of p. If ctx ends it returns os.ErrDeadlineExceeded and how many bytes were written.
func (w *Writer) writeInterruptible(ctx context.Context, p []byte) (int, error) {
	if w.direct == nil {
		n, err := w.dst.Write(p)
		if n < len(p) && err == nil {
			err = io.ErrShortWrite
		}
		return n, err
	}
	if ctx.Done() == nil {
		return w.direct.Write(p)
	}
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(fired)
		_ = w.direct.SetWriteDeadline(time.Unix(1, 0)) // without deadlines the write only waits longer
	})
	n, err := w.direct.Write(p)
	if !stop() {
		<-fired
		_ = w.direct.SetWriteDeadline(time.Time{}) // as above
	}
	return n, err
}
