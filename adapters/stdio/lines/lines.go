// Package lines reads and writes the lines of the stdio transport. It knows bytes only: no JSON, no method, no revision.
package lines

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"dragoman/proxy/wire"
)

// DefaultMaxLine is the default limit of a line, in bytes without its terminator: 64 MiB.
const DefaultMaxLine = 64 << 20

const (
	// prefixSize is how many first bytes of a line that is too long the error holds: enough to find its id and method.
	prefixSize = 1 << 10
	// suffixSize is how many last bytes it holds: some servers write the id last.
	suffixSize = 256
	// keepLeast is the shortest line whose buffer Keep hands over; copying a shorter one is cheaper.
	keepLeast = ChunkSize / 2
	// readMost is the most that one read asks for, so that a region holds little besides its line.
	readMost = 1 << 20
	// emptyReads is how many reads in a row may return nothing before the source counts as broken, as in package bufio.
	emptyReads = 100
)

// LineTooLongError reports that a line was longer than the limit. A Reader has skipped the line and can continue; a
// Writer has written nothing of it.
type LineTooLongError struct {
	Limit  int    // longest line allowed, in bytes without its terminator
	Size   int64  // length of this line, as far as it was read
	Prefix []byte // its first bytes, 1 KiB by default; owned by the error
	Suffix []byte // its last bytes, at most 256, without the terminator; owned by the error; nil from a Writer
}

// Error returns the size and the limit, never the content.
func (e *LineTooLongError) Error() string {
	return fmt.Sprintf("stdio: line of %d bytes is longer than the limit of %d", e.Size, e.Limit)
}

// EndlessAfter is how much longer than the limit a line of a peer may be before it counts as endless, in bytes: 1 GiB.
const EndlessAfter = 1 << 30

// ErrEndless reports that a line does not end: a peer, as in a loop, writes without ever beginning the next one.
var ErrEndless = errors.New("stdio: a line does not end")

// parkReader is a source that waits for data without holding a buffer.
type parkReader interface {
	// ReadPark reads once into the buffer that lend returns. When there is no data, it calls back, so that the buffer can
	// be used elsewhere while it waits, and lend again before the next try.
	ReadPark(lend func() []byte, back func()) (int, error)
}

// Reader splits a byte stream into lines, as the stdio transport frames messages ([2026-07-28 stdio]: one message per
// line, no embedded newline). Only LF and CR LF end a line; U+2028, U+2029, NUL and a lone CR stay in it. A UTF-8 byte
// order mark at the very start and empty lines are dropped. Otherwise the bytes are not interpreted, so characters split
// across reads stay intact.
//
// A Reader is for one goroutine at a time.
type Reader struct {
	src   io.Reader
	park  parkReader // src, if it can wait without a buffer; else nil
	max   int
	keep  int   // bytes of a line that is too long that the error holds
	skips int64 // bytes of a line that are skipped, after which it is endless; 0: no limit

	hold     *slab    // nil while it is empty
	from, to int      // the unread bytes are hold.b[from:to]
	seen     int      // how many of the unread bytes are known to hold no LF
	run      wire.Run // the part of the unread bytes known to hold no LF
	ran      wire.Run // of the line that was returned last
	given    int      // length of the line returned last; 0 if it cannot be kept
	large    bool     // the last non-empty line did not fit the smaller buffers: the next may not either
	begun    bool     // the first line, with a possible byte order mark, has been read
	err      error    // the source's error; permanent
	received atomic.Uint64

	lend func() []byte
	back func()
}

// NewReader returns a Reader of src for lines of at most maxLine bytes without their terminator; maxLine below 1 means
// DefaultMaxLine. It reads up to 64 KiB at a time, buffers more only while a line needs it, and never more than maxLine
// and a few bytes (below 512 KiB rounded up to a power of two). A line beyond 256 KiB grows in a memory region of its
// own, without being copied.
func NewReader(src io.Reader, maxLine int) *Reader {
	if maxLine < 1 {
		maxLine = DefaultMaxLine
	}
	r := &Reader{src: src, max: maxLine, keep: prefixSize}
	r.park, _ = src.(parkReader)
	r.lend, r.back = r.space, r.unload
	return r
}

// ReadLine returns the next non-empty line, without its terminator. The bytes are borrowed until the next call, and the
// caller may change them. The error is a *LineTooLongError, after which the Reader continues with the next line, or the
// source's error, permanently. At io.EOF a last line without a terminator is returned first. With any other error such a
// line is dropped as incomplete.
func (r *Reader) ReadLine() ([]byte, error) {
	r.given, r.ran = 0, wire.Run{}
	for {
		if i := r.lineEnd(); i >= 0 {
			raw := r.unread()[:i]
			if r.from += i + 1; r.begun {
				r.ran = r.run
			}
			r.seen, r.run = 0, wire.Run{}
			if line, err := r.accept(raw); line != nil || err != nil {
				return line, err
			}
			continue
		}
		r.seen = r.to - r.from
		if r.seen > r.longest() {
			return nil, r.skip()
		}
		if r.err != nil {
			return r.last()
		}
		r.received.Add(r.fill())
	}
}

// lineEnd returns the index of the first LF in the unread bytes; negative if there is none.
func (r *Reader) lineEnd() int {
	text := r.unread()
	if r.seen < r.run.From {
		if i := bytes.IndexByte(text[r.seen:r.run.From], '\n'); i >= 0 {
			return r.seen + i
		}
	}
	from := max(r.seen, r.run.To)
	i := bytes.IndexByte(text[from:], '\n')
	if i >= 0 {
		i += from
	}
	return i
}

// Run describes the line that ReadLine returned last.
func (r *Reader) Run() wire.Run { return r.ran }

// Received returns the number of bytes read so far, without those that were skipped because their line was too long: they
// are no sign that a peer will send another message. It may be called by any goroutine.
func (r *Reader) Received() uint64 { return r.received.Load() }

// Ended reports whether the source has ended, so that the line that ReadLine returned last may be cut off.
func (r *Reader) Ended() bool { return r.err != nil }

// SetPrefix sets how many bytes of a line that is too long the error holds; the default is 1 KiB.
func (r *Reader) SetPrefix(n int) { r.keep = n }

// SetEndless makes a line endless that is more than n bytes longer than the limit: ReadLine returns a *LineTooLongError,
// and then ErrEndless, permanently. By default, and with n below 1, lines are skipped however long they are.
func (r *Reader) SetEndless(n int64) { r.skips = n }

// unread returns the bytes read but not yet returned.
func (r *Reader) unread() []byte {
	if r.hold == nil {
		return nil
	}
	return r.hold.B[r.from:r.to]
}

// longest returns how many bytes without an LF may still become an allowed line: the limit, a CR, and at the very start a
// byte order mark.
func (r *Reader) longest() int {
	if r.begun {
		return r.max + 1
	}
	return r.max + 1 + len(byteOrderMark)
}

const byteOrderMark = "\xEF\xBB\xBF"

// strip removes the byte order mark from the first line.
func (r *Reader) strip(raw []byte) []byte {
	if r.begun {
		return raw
	}
	r.begun = true
	return bytes.TrimPrefix(raw, []byte(byteOrderMark))
}

// accept returns the bytes before an LF as a line: nil if it is empty, an error if it is too long.
func (r *Reader) accept(raw []byte) ([]byte, error) {
	line := bytes.TrimSuffix(r.strip(raw), []byte{'\r'})
	switch {
	case len(line) == 0:
		return nil, nil
	case len(line) > r.max:
		return nil, r.tooLong(line)
	}
	r.given, r.large = len(line), len(line) > ChunkSize*4
	return line[:len(line):len(line)], nil
}

func (r *Reader) tooLong(line []byte) *LineTooLongError {
	return &LineTooLongError{Limit: r.max, Size: int64(len(line)), Prefix: bytes.Clone(line[:min(len(line), r.keep)]),
		Suffix: bytes.Clone(line[max(0, len(line)-suffixSize):])}
}

// Keep transfers the line that ReadLine returned last to the caller: it stays valid until release instead of the next
// ReadLine. release must be called exactly once, by any goroutine; the line must not be used afterwards. Keep returns
// nil, and changes nothing, if copying the line is better, because it is below 32 KiB or less than half of what was read
// with it, or if it has been kept already.
func (r *Reader) Keep() (release func()) {
	s := r.hold
	if r.given < keepLeast || s == nil || 2*r.given < r.to || !s.ours && 2*r.given < cap(s.B) {
		return nil
	}
	r.given = 0
	s.high = max(s.high, r.to)
	rest := r.unread()
	if r.hold = nil; len(rest) > 0 {
		r.hold = Borrow(len(rest))
		copy(r.hold.B[:len(rest)], rest)
	}
	r.from, r.to = 0, len(rest)
	return s.Free
}

// last returns the final line without a terminator, once, and then the error that ended the stream.
func (r *Reader) last() ([]byte, error) {
	raw := r.unread()
	r.from, r.seen, r.run = r.to, 0, wire.Run{}
	if len(raw) > 0 && r.err == io.EOF {
		if line, err := r.accept(raw); line != nil || err != nil {
			return line, err
		}
	}
	r.drop()
	return nil, r.err
}

// skip reads the rest of a line that is too long, in chunks, without enlarging the buffer.
func (r *Reader) skip() error {
	e := r.tooLong(r.strip(r.unread()))
	r.seen, r.run = 0, wire.Run{}
	for r.err == nil {
		if r.skips > 0 && e.Size > int64(r.max)+r.skips {
			r.err = ErrEndless
			break
		}
		r.from, r.to = 0, 0
		n := r.fill()
		r.run = wire.Run{}
		chunk := r.unread()
		i := bytes.IndexByte(chunk, '\n')
		if i >= 0 {
			chunk = chunk[:i]
			r.from += i + 1
			r.received.Add(n)
		}
		e.Size += int64(len(chunk))
		e.ends(chunk)
		if i >= 0 {
			e.Suffix = bytes.TrimSuffix(e.Suffix, []byte{'\r'})
			return e
		}
	}
	r.from = r.to
	return e
}

// ends updates Suffix with the next bytes of the line.
func (e *LineTooLongError) ends(chunk []byte) {
	e.Suffix = append(e.Suffix, chunk[max(0, len(chunk)-suffixSize):]...)
	e.Suffix = e.Suffix[max(0, len(e.Suffix)-suffixSize):]
}

// fill makes room, reads once and returns the number of bytes. It sets r.err to the source's error.
func (r *Reader) fill() uint64 {
	r.compact()
	for range emptyReads {
		n, err := r.read()
		r.to += n
		r.err = err
		r.run.Grow(r.unread(), r.to-r.from-n)
		if n > 0 || err != nil {
			return uint64(n) //nolint:gosec // not negative
		}
	}
	r.err = io.ErrNoProgress
	return 0
}

func (r *Reader) read() (int, error) {
	if r.park != nil {
		return r.park.ReadPark(r.lend, r.back)
	}
	return r.src.Read(r.space())
}

// compact moves an unfinished line to the front, at most once for each line, and replaces a buffer that a large line has
// left behind with a small one.
func (r *Reader) compact() {
	switch n := r.to - r.from; {
	case r.hold == nil:
	case n == 0 && cap(r.hold.B) > ChunkSize:
		r.drop()
	case n == 0:
		r.from, r.to = 0, 0
	case r.from > 0 && n <= ChunkSize/2 && cap(r.hold.B) > ChunkSize:
		r.move(Borrow(ChunkSize))
	case r.from > 0:
		whole := r.hold.B[:cap(r.hold.B)]
		r.hold.high = max(r.hold.high, r.to)
		copy(whole, whole[r.from:r.to])
		r.from, r.to = 0, n
	}
}

// move moves the unread bytes into another buffer.
func (r *Reader) move(to *slab) {
	n := copy(to.B[:cap(to.B)], r.unread())
	r.release()
	r.hold, r.from, r.to = to, 0, n
}

// space returns the free part of the buffer. It is never empty, because a line that fills max and its margin is skipped
// before.
func (r *Reader) space() []byte {
	switch {
	case r.hold == nil:
		r.hold = Borrow(ChunkSize)
		r.from, r.to = 0, 0
	case r.to == cap(r.hold.B):
		r.move(r.bigger())
	}
	return r.hold.B[r.to:min(r.to+readMost, cap(r.hold.B))]
}

// bigger returns a buffer for a line that has filled its buffer: four times as large, then one for the longest line.
func (r *Reader) bigger() *slab {
	most := max(r.max+2+len(byteOrderMark), cap(r.hold.B)+1)
	if next := 4 * cap(r.hold.B); next <= largestSlab && !r.large || next >= most {
		return Borrow(min(next, most))
	}
	if s := regions.take(most); s != nil {
		return s
	}
	return Borrow(min(2*cap(r.hold.B), most)) // ordinary memory grows step by step
}

// unload releases the buffer if it is empty.
func (r *Reader) unload() {
	if r.from == r.to {
		r.drop()
	}
}

func (r *Reader) drop() {
	r.release()
	r.from, r.to, r.seen = 0, 0, 0
}

// release releases the buffer.
func (r *Reader) release() {
	if r.hold == nil {
		return
	}
	r.hold.high = max(r.hold.high, r.to)
	r.hold.Free()
	r.hold = nil
}
