package lines

import (
	"bytes"
	"fmt"
	"io"

	"dragoman/proxy/wire"
)

// DefaultMaxLine is the longest line, in bytes without its terminator, that is read or written where nothing else is
// configured: 64 MiB.
const DefaultMaxLine = 64 << 20

const (
	// prefixSize is how much of a line that is too long is shown in the error: enough to find its id and method.
	prefixSize = 1 << 10
	// suffixSize is how much of its end: some servers write the id last.
	suffixSize = 256
	// keepLeast is the shortest line that is worth its buffer: a shorter one is copied at less expense.
	keepLeast = ChunkSize / 2
	// readMost is what one read asks for at most, so that little but the line gets into its region.
	readMost = 1 << 20
	// emptyReads is how often in a row a source may return nothing before it counts as broken, as in package bufio.
	emptyReads = 100
)

// LineTooLongError says that a line was longer than the limit. A Reader has skipped it to its end and can go on; a
// Writer has written nothing of it.
type LineTooLongError struct {
	Limit  int    // the longest line allowed, in bytes without its terminator
	Size   int64  // how long this one was, as far as it was there
	Prefix []byte // its first bytes, at most 1 KiB; owned by the error
	Suffix []byte // its last bytes, at most 256, without its terminator; likewise. A Writer gives none
}

// Error names the size and the limit, never the content.
func (e *LineTooLongError) Error() string {
	return fmt.Sprintf("stdio: line of %d bytes is longer than the limit of %d", e.Size, e.Limit)
}

// parkReader is a source that waits for bytes without holding a buffer meanwhile.
type parkReader interface {
	// ReadPark reads once into what lend returns. Whenever it finds nothing to read it calls back, so that the buffer can
	// be used elsewhere while it waits, and calls lend again before the next try.
	ReadPark(lend func() []byte, back func()) (int, error)
}

// Reader splits a byte stream into lines, as the stdio transport frames messages ([2026-07-28 stdio]: one message per
// line, no embedded newline). It ends lines at LF and at CR LF and nowhere else, so that U+2028, U+2029, NUL and a
// lone CR stay in the line. A UTF-8 byte order mark at the very start is dropped, and so are empty lines. It knows
// nothing of UTF-8 beyond that: characters split across reads cannot be damaged.
//
// A Reader belongs to one goroutine at a time.
type Reader struct {
	src  io.Reader
	park parkReader // src again, where it can wait without a buffer; else nil
	max  int
	keep int // how much of a line that is too long goes into the error

	hold     *slab    // nil while there is nothing in it
	from, to int      // the unread bytes are hold.b[from:to]
	seen     int      // how many of them are known to hold no LF
	run      wire.Run // of them: holds none either
	ran      wire.Run // of the line that was returned last
	given    int      // length of the line that was returned last, if it may still be kept
	large    bool     // the last line but empty ones did not fit the smaller buffers: the next may not either
	begun    bool     // the first line, with its byte order mark, has gone by
	err      error    // what the source said last; sticks

	lend func() []byte
	back func()
}

// NewReader returns a Reader of src for lines of at most maxLine bytes without their terminator; maxLine below 1 means
// DefaultMaxLine. It reads up to 64 KiB at a time, holds more only for as long as a line needs it, and never more than
// maxLine and a few bytes (below 512 KiB rounded up to a power of two). A line beyond 256 KiB grows in a region of memory of
// its own, uncopied.
func NewReader(src io.Reader, maxLine int) *Reader {
	if maxLine < 1 {
		maxLine = DefaultMaxLine
	}
	r := &Reader{src: src, max: maxLine, keep: prefixSize}
	r.park, _ = src.(parkReader)
	r.lend, r.back = r.space, r.unload
	return r
}

// ReadLine returns the next line that is not empty, without its terminator. The bytes are borrowed until the next call
// and may be changed meanwhile. The error is a *LineTooLongError, after which the Reader goes on with the next line;
// or what the source returned, for good: io.EOF at its end, where a last line without a terminator has been returned
// before. Such a line is dropped if the source ends with any other error, since it is incomplete.
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
		r.fill()
	}
}

// lineEnd returns where the first LF of what is unread is; negative: there is none.
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

// Run is what is known of the line that ReadLine has returned last.
func (r *Reader) Run() wire.Run { return r.ran }

// Ended reports whether the source has ended: the line that ReadLine has returned last may be cut off.
func (r *Reader) Ended() bool { return r.err != nil }

// SetPrefix sets how many bytes of a line that is too long its error holds; they are 1 KiB otherwise.
func (r *Reader) SetPrefix(n int) { r.keep = n }

// unread returns the bytes read but not yet returned.
func (r *Reader) unread() []byte {
	if r.hold == nil {
		return nil
	}
	return r.hold.B[r.from:r.to]
}

// longest is how many bytes without an LF may still become an allowed line: the limit, a CR, and at the very start a
// byte order mark.
func (r *Reader) longest() int {
	if r.begun {
		return r.max + 1
	}
	return r.max + 1 + len(byteOrderMark)
}

const byteOrderMark = "\xEF\xBB\xBF"

// strip takes the byte order mark off the first line.
func (r *Reader) strip(raw []byte) []byte {
	if r.begun {
		return raw
	}
	r.begun = true
	return bytes.TrimPrefix(raw, []byte(byteOrderMark))
}

// accept turns what stood before an LF into a line: nil if it is empty, an error if it is too long.
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

// Keep makes the line that ReadLine has returned last the caller's: it is borrowed no longer until the next ReadLine but
// until release, which must be called exactly once, by any goroutine, and after which nothing may look at the line any more.
// It answers nil, and changes nothing, where the line is better copied: below 32 KiB, or of less than half of what has been
// read with it; and if it has been kept already.
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

// last returns the line without a terminator before the end, once, and then the error that ended the stream.
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

// skip passes over the rest of a line that is too long, a chunk at a time, without growing the buffer any further.
func (r *Reader) skip() error {
	e := r.tooLong(r.strip(r.unread()))
	r.seen, r.run = 0, wire.Run{}
	for r.err == nil {
		r.from, r.to = 0, 0
		r.fill()
		r.run = wire.Run{}
		chunk := r.unread()
		i := bytes.IndexByte(chunk, '\n')
		if i >= 0 {
			chunk = chunk[:i]
			r.from += i + 1
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

// ends keeps the last bytes of what has gone by.
func (e *LineTooLongError) ends(chunk []byte) {
	e.Suffix = append(e.Suffix, chunk[max(0, len(chunk)-suffixSize):]...)
	e.Suffix = e.Suffix[max(0, len(e.Suffix)-suffixSize):]
}

// fill makes room and reads once; what the source says besides is kept in r.err.
func (r *Reader) fill() {
	r.compact()
	for range emptyReads {
		n, err := r.read()
		r.to += n
		r.err = err
		r.run.Grow(r.unread(), r.to-r.from-n)
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

func (r *Reader) read() (int, error) {
	if r.park != nil {
		return r.park.ReadPark(r.lend, r.back)
	}
	return r.src.Read(r.space())
}

// compact moves an unfinished line to the front, at most once for each line, and exchanges a buffer that a large line
// has left behind for a small one.
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

// move takes what is unread into another buffer.
func (r *Reader) move(to *slab) {
	n := copy(to.B[:cap(to.B)], r.unread())
	r.release()
	r.hold, r.from, r.to = to, 0, n
}

// space returns where the next bytes go: never empty, since a line that fills max and its margin is skipped before.
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

// bigger returns a buffer for a line that has filled the one it stands in: four times as large, and then one for the longest.
func (r *Reader) bigger() *slab {
	most := max(r.max+2+len(byteOrderMark), cap(r.hold.B)+1)
	if next := 4 * cap(r.hold.B); next <= largestSlab && !r.large || next >= most {
		return Borrow(min(next, most))
	}
	if s := regions.take(most); s != nil {
		return s
	}
	return Borrow(min(2*cap(r.hold.B), most)) // plain memory is filled before there is more of it
}

// unload gives the buffer away if nothing is in it.
func (r *Reader) unload() {
	if r.from == r.to {
		r.drop()
	}
}

func (r *Reader) drop() {
	r.release()
	r.from, r.to, r.seen = 0, 0, 0
}

// release gives the buffer back.
func (r *Reader) release() {
	if r.hold == nil {
		return
	}
	r.hold.high = max(r.hold.high, r.to)
	r.hold.Free()
	r.hold = nil
}
