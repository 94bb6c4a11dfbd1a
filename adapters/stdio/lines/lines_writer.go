package lines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"
)

// ErrClosed is the cause that Shut and Fail take where the caller gives none.
var ErrClosed = errors.New("stdio: writer is closed")

// defaultBuffer is how many bytes may wait for a reader that does not read, unless a single line is larger.
const defaultBuffer = 4 << 20

// leadChunks bounds how much of other people's work a writer does before it hands the rest to a goroutine.
const leadChunks = 8

// EmbeddedNewlineError says that a message contains a raw LF or CR and therefore is no line. (A CR alone is refused as
// well, because readers with universal newlines end a line there.) Flatten makes a line of valid JSON.
type EmbeddedNewlineError struct {
	At int // where the first one stands
}

// Error names the place.
func (e *EmbeddedNewlineError) Error() string {
	return fmt.Sprintf("stdio: message has a raw line break at byte %d", e.At)
}

// WriterOptions are the bounds of a Writer; zero values mean the defaults.
type WriterOptions struct {
	MaxLine int // longest line in bytes without its newline; DefaultMaxLine
	Buffer  int // how many bytes may be accepted and not yet written, 4 MiB; a lone line is accepted at any size up to MaxLine
}

// directWriter is a destination that can be written to without waiting, and whose waiting can be cut short.
type directWriter interface {
	// Write writes all of p, waiting as long as needed.
	Write(p []byte) (int, error)
	// TryWrite writes what there is room for at once; no room is 0, nil.
	TryWrite(p []byte) (int, error)
	// SetWriteDeadline makes a Write that waits return os.ErrDeadlineExceeded.
	SetWriteDeadline(t time.Time) error
}

// Writer writes lines to one destination for any number of goroutines. A line is accepted or refused whole; lines leave
// in the order in which they were accepted. While one goroutine writes, the others' lines gather and leave together with
// the next write, so that many small messages cost few system calls. A large line leaves from the caller's memory, who waits
// for his turn, where the waiting can be cut short, or is not to be and nobody is writing; any other is copied once.
//
// An accepted line has not necessarily been written yet: if the destination fails, it is lost, and every later call
// says why. A destination that does not read fills the buffer, and then writers wait.
//
// The Writer starts a goroutine only while bytes wait for a slow destination; it ends when they are written or when
// the destination fails, so whoever owns the destination ends it by closing that.
type Writer struct {
	dst    io.Writer
	direct directWriter // dst again, where it can be written to without waiting; else nil
	max    int
	cap    int

	mu       sync.Mutex
	err      error         // why nothing can be written any more
	shut     error         // why nothing more is accepted
	held     int           // bytes accepted and not yet written
	flushing bool          // somebody writes; he alone touches cur and off
	queue    []entry       // lines that wait
	turns    []*turn       // writers that wait for room, first come first served
	calm     chan struct{} // closed when everything is written; nil while nobody waits for that
	cur      *slab         // what is being written
	off      int           // how much of it is
}

// entry is up to 64 KiB of lines that were copied, or one large line: a copy, or its writer, who writes it when it is his turn.
type entry struct {
	slab   *slab
	writer *baton // nil: there is a copy
}

// turn is a writer's place in the row of those that wait for room.
type turn struct {
	need  int
	ok    bool          // granted: need is part of held
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

// Write is WriteContext without a limit on waiting.
func (w *Writer) Write(line []byte) error { return w.WriteContext(context.Background(), line) }

// WriteContext accepts the line and writes it with a newline, or leaves that to whoever is writing just now. The line
// is not kept after the return. It waits while the buffer is full; ctx ends that and then nothing of the line is ever
// written. Once the line is accepted ctx has no say: a line half written cannot be taken back.
//
// The errors: *EmbeddedNewlineError, *LineTooLongError, ctx's, or the cause with which the Writer failed or was shut.
func (w *Writer) WriteContext(ctx context.Context, line []byte) error { return w.WriteParts(ctx, line) }

// WriteParts is WriteContext for a line that stands in several places, one behind the other: so a message with a few changed
// bytes need not be copied to be written.
func (w *Writer) WriteParts(ctx context.Context, parts ...[]byte) error {
	if length(parts) <= w.max {
		if err := lineBreak(parts); err != nil {
			return err
		}
	}
	return w.WriteScanned(ctx, parts...)
}

// WriteScanned is WriteParts for parts of which the caller knows that there is no line break in them: one would end the line, and
// begin another.
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
	// Those who are ready to run get the chance to add their lines to this write: at a depth of hundreds it makes one
	// system call of many, alone it costs next to nothing.
	runtime.Gosched()
	return w.lead(w.settle(0, nil))
}

// Shut refuses further lines with cause; those accepted are still written. The first cause stands.
func (w *Writer) Shut(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shut == nil {
		w.shut = orClosed(cause)
	}
	w.refuseTurns()
}

// Fail drops what is not written yet and refuses further lines with cause, which replaces an earlier one: the exit of
// a process says more than the broken pipe that came a moment before. A write under way is ended by closing dst.
func (w *Writer) Fail(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = orClosed(cause)
	w.refuseTurns()
	w.refuseBatons()
	w.wakeCalm()
}

func orClosed(cause error) error {
	if cause == nil {
		return ErrClosed
	}
	return cause
}

// Flush waits until every accepted line is written: nil, or ctx's error, or why it never will be.
func (w *Writer) Flush(ctx context.Context) error {
	for {
		w.mu.Lock()
		if w.err != nil || w.held == 0 {
			defer w.mu.Unlock()
			return w.err
		}
		if w.calm == nil {
			w.calm = make(chan struct{})
		}
		calm := w.calm
		w.mu.Unlock()
		select {
		case <-calm:
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

// lineBreak finds what makes the parts no line.
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

// admit reserves room for need bytes, waiting for it in the order of arrival. Called and returning with mu held.
func (w *Writer) admit(ctx context.Context, need int) error {
	if err := w.refusal(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(w.turns) == 0 && w.fits(need) {
		w.held += need
		return nil
	}
	t := &turn{need: need, ready: make(chan struct{})}
	w.turns = append(w.turns, t)
	w.mu.Unlock()
	select {
	case <-t.ready:
	case <-ctx.Done():
	}
	w.mu.Lock()
	switch {
	case w.err != nil:
		return w.err
	case t.ok: // granted before it was shut, or at the same moment as ctx ended: as good as accepted
		return nil
	case w.shut != nil:
		return w.shut
	}
	w.turns = slices.DeleteFunc(w.turns, func(o *turn) bool { return o == t })
	w.grant() // one that needs less may have stood behind
	return ctx.Err()
}

func (w *Writer) refusal() error {
	if w.err != nil {
		return w.err
	}
	return w.shut
}

func (w *Writer) fits(need int) bool { return w.held == 0 || w.held+need <= w.cap }

// grant lets those in who have room now. mu is held.
func (w *Writer) grant() {
	for len(w.turns) > 0 && w.fits(w.turns[0].need) {
		t := w.turns[0]
		w.turns = slices.Delete(w.turns, 0, 1)
		w.held += t.need
		t.ok = true
		close(t.ready)
	}
}

// refuseTurns sends away those who wait. mu is held, and err or shut is set.
func (w *Writer) refuseTurns() {
	for _, t := range w.turns {
		close(t.ready)
	}
	w.turns = nil
}

func (w *Writer) wakeCalm() {
	if w.calm != nil {
		close(w.calm)
		w.calm = nil
	}
}

// enqueue copies the line, once, behind what waits already; need is its length with the newline. mu is held.
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

// settle books what has just been written and returns what comes next, nil when nothing is left, when somebody else writes what
// comes next, or when the Writer has failed. Only who set flushing calls it; nil means he has given it back, or away.
func (w *Writer) settle(n int, err error) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("stdio: write: %w", err)
		w.refuseTurns()
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
	w.refuseBatons()
	for _, next := range w.queue { // it has failed
		next.slab.Free()
	}
	w.queue, w.flushing = slices.Delete(w.queue, 0, len(w.queue)), false
	w.grant()
	w.wakeCalm()
	return nil
}

// lead writes next and what gathers behind it as long as the destination takes it at once, and leaves the rest to a
// goroutine. It returns why the Writer has failed, if it has.
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

// drain writes until nothing is left. It is the Writer's only goroutine; there is never more than one.
func (w *Writer) drain() {
	for next := w.settle(0, nil); next != nil; {
		n, err := w.dst.Write(next)
		if n < len(next) && err == nil {
			err = io.ErrShortWrite
		}
		next = w.settle(n, err)
	}
}

// Flatten appends msg to dst, with every LF and CR outside of JSON strings replaced by a space, which leaves the value
// of valid JSON as it is. Inside strings they are not valid JSON; they stay, and Write refuses them.
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
