package lines

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"
)

// defaultBuffer is how many bytes may wait for a reader that does not read; a single line may be larger.
const defaultBuffer = 4 << 20

// leadChunks limits how many writes a caller performs for others before it leaves the rest to a goroutine.
const leadChunks = 8

// EmbeddedNewlineError reports that a message contains a raw LF or CR and therefore is not a line. (A lone CR is refused
// too, because readers with universal newlines end a line there.) Flatten turns valid JSON into a line.
type EmbeddedNewlineError struct {
	At int // index of the first one
}

// Error returns the index.
func (e *EmbeddedNewlineError) Error() string {
	return fmt.Sprintf("stdio: message has a raw line break at byte %d", e.At)
}

// WriterOptions are the limits of a Writer; zero values mean the defaults.
type WriterOptions struct {
	MaxLine int // longest line in bytes without its newline; 0 means DefaultMaxLine
	Buffer  int // bytes accepted and not yet written; 0 means 4 MiB. A single line is accepted at any size up to MaxLine
}

// directWriter is a destination that can be written to without waiting, and whose waiting can be interrupted.
type directWriter interface {
	// Write writes all of p, waiting as long as needed.
	Write(p []byte) (int, error)
	// TryWrite writes as much as fits, without waiting; a full destination is 0, nil.
	TryWrite(p []byte) (int, error)
	// SetWriteDeadline makes a waiting Write return os.ErrDeadlineExceeded at time t.
	SetWriteDeadline(t time.Time) error
}

// Writer writes lines to one destination. It is safe for concurrent use. A line is accepted or refused as a whole; lines
// are written in the order in which they were accepted. While one goroutine writes, the lines of others gather for the
// next write, so that many small messages cost few system calls. A line over 64 KiB is written from the caller's memory,
// while the caller waits, if the wait can be interrupted, or if ctx cannot end and no other write is in progress. Any
// other line is copied once.
//
// An accepted line has not necessarily been written yet. If the destination fails, the line is lost, and every later call
// returns the failure. If the destination does not read, the buffer fills and callers wait.
//
// The Writer has a goroutine only while bytes wait for a slow destination. It ends when they are written or the
// destination fails, so closing the destination ends it.
type Writer struct {
	dst    io.Writer
	direct directWriter // dst, if it can be written to without waiting; else nil
	max    int
	cap    int

	mu       sync.Mutex
	err      error         // why writing has failed
	shut     error         // why no more lines are accepted
	held     int           // bytes accepted and not yet written
	flushing bool          // a goroutine writes; only that one uses cur and off
	queue    []entry       // accepted lines that wait
	waiting  []*roomWaiter // callers that wait for room, in the order of arrival
	written  chan struct{} // closed when everything is written; nil while no Flush waits
	cur      *slab         // being written
	off      int           // how much of cur has been written
}

// entry is up to 64 KiB of copied lines, or one large line: a copy, or the turn of the caller that writes it itself.
type entry struct {
	slab   *slab
	writer *writeTurn // nil if slab holds the lines
}

// roomWaiter is a caller's place in the queue for room.
type roomWaiter struct {
	need  int
	ok    bool          // granted: need is counted in held
	ready chan struct{} // closed when granted or refused
}

// NewWriter returns a Writer to dst, which it never closes.
func NewWriter(dst io.Writer, opts WriterOptions) *Writer {
	w := &Writer{dst: dst, max: opts.MaxLine, cap: opts.Buffer}
	if w.max < 1 {
		w.max = DefaultMaxLine
	}
	if w.cap < 1 {
		w.cap = defaultBuffer
	}
	w.direct, _ = dst.(directWriter)
	return w
}

// Write is WriteParts for a line in one part, without a limit on waiting.
func (w *Writer) Write(line []byte) error { return w.WriteParts(context.Background(), line) }

// WriteParts accepts a line and writes it with a newline, or leaves that to the goroutine that is writing. The line comes
// in consecutive parts, so that a message with a few changed bytes need not be copied. They are not used after the return.
// WriteParts waits while the buffer is full. If ctx ends during that wait, nothing of the line is ever written. After the
// line has been accepted ctx has no effect, because a half-written line cannot be taken back.
//
// The errors are *EmbeddedNewlineError, *LineTooLongError, ctx's, the cause with which the Writer was shut, and the cause with which it failed: in a
// *RefusedError if it had failed before the line was accepted.
func (w *Writer) WriteParts(ctx context.Context, parts ...[]byte) error {
	if length(parts) <= w.max {
		if err := lineBreak(parts); err != nil {
			return err
		}
	}
	return w.WriteScanned(ctx, parts...)
}

// WriteScanned is WriteParts without the search for line breaks. The parts must not contain any: a line break would end
// the line and begin another.
func (w *Writer) WriteScanned(ctx context.Context, parts ...[]byte) error {
	size := length(parts)
	if size > w.max {
		return w.tooLong(parts, size)
	}
	w.mu.Lock()
	if err := w.admit(ctx, size+1); err != nil {
		w.mu.Unlock()
		return err
	}
	lead := !w.flushing
	w.flushing = true
	if size > ChunkSize && (w.direct != nil || lead && ctx.Done() == nil) {
		if !lead {
			return w.writeInTurn(ctx, parts, size)
		}
		w.mu.Unlock()
		return w.writeLarge(ctx, parts, size)
	}
	w.enqueue(parts, size+1)
	w.mu.Unlock()
	if !lead {
		return nil
	}
	if w.direct == nil {
		go w.drain()
		return nil
	}
	// Other ready goroutines get the chance to add their lines to this write. With hundreds of calls in flight this saves
	// many system calls; alone it costs next to nothing.
	runtime.Gosched()
	return w.lead(w.settle(0, nil))
}

// Shut refuses further lines with cause; accepted lines are still written. The first cause stays.
func (w *Writer) Shut(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shut == nil {
		w.shut = cause
	}
	w.refuseWaiting()
}

// Fail drops the lines that are not written yet and refuses further lines with cause, which replaces an earlier one: the
// exit of a process says more than the broken pipe just before it. Closing dst ends a write in progress.
func (w *Writer) Fail(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = cause
	w.refuseWaiting()
	w.refuseTurns()
	w.wakeFlush()
}

// Flush waits until every accepted line is written. The error is ctx's, or the cause with which the Writer failed.
func (w *Writer) Flush(ctx context.Context) error {
	for {
		w.mu.Lock()
		if w.err != nil || w.held == 0 {
			defer w.mu.Unlock()
			return w.err
		}
		if w.written == nil {
			w.written = make(chan struct{})
		}
		done := w.written
		w.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func length(parts [][]byte) (n int) {
	for _, p := range parts {
		n += len(p)
	}
	return n
}

// lineBreak returns an *EmbeddedNewlineError if the parts contain a line break.
func lineBreak(parts [][]byte) error {
	off := 0
	for _, p := range parts {
		at := bytes.IndexByte(p, '\n')
		if cr := bytes.IndexByte(p, '\r'); cr >= 0 && (at < 0 || cr < at) {
			at = cr
		}
		if at >= 0 {
			return &EmbeddedNewlineError{At: off + at}
		}
		off += len(p)
	}
	return nil
}

func (w *Writer) tooLong(parts [][]byte, size int) error {
	prefix := make([]byte, 0, prefixSize)
	for _, p := range parts {
		prefix = append(prefix, p[:min(len(p), prefixSize-len(prefix))]...)
	}
	return &LineTooLongError{Limit: w.max, Size: int64(size), Prefix: prefix}
}

// RefusedError says that nothing of a line was written, because the Writer had failed before.
type RefusedError struct{ Cause error }

// Error implements error.
func (e *RefusedError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Cause }

// admit reserves room for need bytes, waiting for it in the order of arrival. mu is held on entry and return.
func (w *Writer) admit(ctx context.Context, need int) error {
	switch err := ctx.Err(); {
	case w.err != nil:
		return &RefusedError{w.err}
	case w.shut != nil:
		return w.shut
	case err != nil:
		return err
	}
	if len(w.waiting) == 0 && w.fits(need) {
		w.held += need
		return nil
	}
	t := &roomWaiter{need: need, ready: make(chan struct{})}
	w.waiting = append(w.waiting, t)
	w.mu.Unlock()
	select {
	case <-t.ready:
	case <-ctx.Done():
	}
	w.mu.Lock()
	switch {
	case w.err != nil:
		return &RefusedError{w.err}
	case t.ok: // granted before Shut, or just as ctx ended: the line is accepted
		return nil
	case w.shut != nil:
		return w.shut
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(o *roomWaiter) bool { return o == t })
	w.grant() // a waiter behind this one may need less
	return ctx.Err()
}

func (w *Writer) fits(need int) bool { return w.held == 0 || w.held+need <= w.cap }

// grant admits the waiters that have room now. mu is held.
func (w *Writer) grant() {
	for len(w.waiting) > 0 && w.fits(w.waiting[0].need) {
		t := w.waiting[0]
		w.waiting = slices.Delete(w.waiting, 0, 1)
		w.held += t.need
		t.ok = true
		close(t.ready)
	}
}

// refuseWaiting refuses all callers that wait for room. mu is held, and err or shut is set.
func (w *Writer) refuseWaiting() {
	for _, t := range w.waiting {
		close(t.ready)
	}
	w.waiting = nil
}

func (w *Writer) wakeFlush() {
	if w.written != nil {
		close(w.written)
		w.written = nil
	}
}

// enqueue appends a copy of the line to the queue; need is its length with the newline. mu is held.
func (w *Writer) enqueue(parts [][]byte, need int) {
	var s *slab
	if n := len(w.queue); n > 0 {
		s = w.queue[n-1].slab
	}
	if s == nil || cap(s.B)-len(s.B) < need || s.ours {
		s = Borrow(need)
		w.queue = append(w.queue, entry{slab: s})
	}
	for _, p := range parts {
		s.B = append(s.B, p...)
	}
	s.B = append(s.B, '\n')
}

// settle records n written bytes and returns the next bytes to write. It returns nil if nothing is left, if another
// goroutine writes next, or if the Writer has failed. Only the goroutine that set flushing calls it; after nil that
// goroutine no longer writes.
func (w *Writer) settle(n int, err error) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("stdio: write: %w", err)
		w.refuseWaiting()
	}
	w.off += n
	if w.err == nil && w.cur != nil && w.off < len(w.cur.B) {
		return w.cur.B[w.off:]
	}
	if w.cur != nil {
		w.held -= len(w.cur.B)
		w.cur.Free()
		w.cur, w.off = nil, 0
	}
	if w.err == nil && len(w.queue) > 0 {
		next := w.queue[0]
		w.queue = slices.Delete(w.queue, 0, 1)
		w.grant()
		if next.writer != nil {
			next.writer.pass()
			return nil
		}
		w.cur = next.slab
		return w.cur.B
	}
	w.refuseTurns()
	for _, next := range w.queue { // only if the Writer has failed
		next.slab.Free()
	}
	w.queue, w.flushing = slices.Delete(w.queue, 0, len(w.queue)), false
	w.grant()
	w.wakeFlush()
	return nil
}

// lead writes next and the lines that gather behind it, as long as the destination takes them at once, and leaves the
// rest to a goroutine. It returns the Writer's error.
func (w *Writer) lead(next []byte) error {
	for i := 0; next != nil && i < leadChunks; i++ {
		n, err := w.direct.TryWrite(next)
		full := n == len(next)
		next = w.settle(n, err)
		if !full {
			break
		}
	}
	if next != nil {
		go w.drain()
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// drain writes until nothing is left. The Writer has no other goroutine, and at most one of this.
func (w *Writer) drain() {
	for next := w.settle(0, nil); next != nil; {
		n, err := w.dst.Write(next)
		if n < len(next) && err == nil {
			err = io.ErrShortWrite
		}
		next = w.settle(n, err)
	}
}

// Flatten appends msg to dst with every LF and CR outside of JSON strings replaced by a space, which does not change the
// value of valid JSON. Line breaks inside strings are not valid JSON; they stay, and Write refuses them.
func Flatten(dst, msg []byte) []byte {
	dst = append(dst, msg...)
	out := dst[len(dst)-len(msg):]
	if bytes.IndexByte(out, '\n') < 0 && bytes.IndexByte(out, '\r') < 0 {
		return dst
	}
	quoted := false
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && (c == '\n' || c == '\r'):
			out[i] = ' '
		}
	}
	return dst
}
