package eventstream

import (
	"bytes"
	"fmt"
	"io"
	"math"
)

const (
	// DefaultMax is the default limit of one event's data, in bytes.
	DefaultMax = 100 << 20

	firstBuffer = 4 << 10  // size of the first buffer, and the cost of an idle stream
	keepBuffer  = 64 << 10 // larger buffers are not kept for the next stream
	minRead     = 4 << 10  // room beyond the limit, so that reads never become tiny
	// fieldName is the length of the longest field name with colon and space. A line may exceed the limit by it, because
	// the limit counts the data alone.
	fieldName    = len("event: ")
	otherLines   = 64 << 10 // limit of a line that is no data: a comment, a name, an id
	emptyReads   = 100      // reads without a byte before the reader counts as broken, as in bufio
	largestMax   = 1 << 30
	smallEvents  = 16 // small events in a row after which a large buffer is released
	unknownRetry = -1
)

// Fields in their usual form.
var (
	dataField  = []byte("data: ")
	eventField = []byte("event: ")
	idField    = []byte("id: ")
)

var byteOrderMark = [3]byte{0xEF, 0xBB, 0xBF}

// LimitError reports that an event, or one of its lines that is no data, was larger than the limit. The stream cannot be read further.
type LimitError struct {
	Limit int  // limit of one event's data, or of such a line, in bytes
	Line  bool // the line
}

// Error returns the limit.
func (e *LimitError) Error() string {
	if e.Line {
		return fmt.Sprintf("eventstream: a line that is no data exceeds %d bytes", e.Limit)
	}
	return fmt.Sprintf("eventstream: an event exceeds the limit of %d bytes", e.Limit)
}

// Event is one block of an event stream. Its slices are borrowed from the Splitter, or from the argument of Take, until
// the next call: copy what is kept. The bytes are not checked to be UTF-8.
type Event struct {
	// Name is the event's type; empty if none was given, which means message.
	Name []byte
	// Data holds the data lines, joined with LF. It is nil if the block had no data line, and empty but not nil if it had
	// an empty one.
	Data []byte
	// ID is the last valid id field of this block, if HasID.
	ID    []byte
	HasID bool
	// Retry is the reconnection delay in milliseconds; -1 if none was given.
	Retry int
}

// IsMessage reports whether the event's type is the one that carries MCP messages.
func (e *Event) IsMessage() bool {
	return len(e.Name) == 0 || string(e.Name) == "message"
}

// Splitter reads events from a byte stream that arrives in any chunks. The zero value is ready, with DefaultMax. It is
// for one goroutine at a time, and allocates nothing in the steady state.
//
// The data of an event stays where it was read: a single data line is not moved, several are joined in place. A buffer
// that a large event has enlarged is released at Reset, or after 16 small events.
type Splitter struct {
	buf       []byte
	dataFrom  int // buf[dataFrom:dataTo] is the joined data of the event so far
	dataTo    int
	line      int // start of the line being read
	scan      int // the line has no line end before this
	lf        int // the next LF at or after scan, or end if there is none
	end       int // buf[:end] is filled
	max       int
	name, id  []byte // copies: the data behind them moves
	retry     int
	small     int // events of at most firstBuffer bytes in a row
	hasData   bool
	hasID     bool
	hasName   bool
	begun     bool // the possible byte order mark has been read
	skipLF    bool // the last line ended in CR: a following LF belongs to it
	delivered bool // the event in the fields above has been returned
	pending   error
	failed    error
}

// Reset prepares the Splitter for another stream. limit bounds one event's data in bytes: DefaultMax if it is not
// positive, 1 GiB at most. Buffers are kept unless a large event has enlarged them.
func (s *Splitter) Reset(limit int) {
	buf, name, id := s.buf, s.name, s.id
	if len(buf) > keepBuffer {
		buf = nil
	}
	if cap(name)+cap(id) > firstBuffer {
		name, id = nil, nil
	}
	*s = Splitter{buf: buf, name: name[:0], id: id[:0], max: min(limit, largestMax), retry: unknownRetry}
}

// Holder is a reader that bounds how much of a stream is held at a time.
type Holder interface {
	// Hold says that the Splitter's buffer shall have n bytes. An error forbids it, and is that of Next.
	Hold(n int) error
}

// Next returns the next event, reading from r as far as needed. r should be the same reader at each call.
//
// By the standard, a block without a data line is no event. Next returns it nevertheless, with nil Data, if it has an id
// or a retry field, which apply to the stream. An id with NUL and a retry that is not a number are ignored.
//
// The errors are io.EOF at a clean end; io.ErrUnexpectedEOF if the stream ended inside an event, which is discarded;
// *LimitError, permanently, if an event is larger than the limit; that of a
// Holder, permanently; or the reader's own error, unwrapped. After an error of
// the reader, such as a passed deadline, Next may be called again: no data is lost.
func (s *Splitter) Next(r io.Reader) (Event, error) {
	if s.failed != nil {
		return Event{}, s.failed
	}
	if s.delivered || s.max <= 0 {
		s.begin()
	}
	for {
		if s.parse() {
			return s.event(), nil
		}
		if s.failed != nil {
			return Event{}, s.failed
		}
		if err := s.pending; err != nil {
			s.pending = nil
			if err == io.EOF && s.unfinished() {
				err = io.ErrUnexpectedEOF
			}
			return Event{}, err
		}
		s.fill(r)
	}
}

// Take reads an event directly from b, the next part of the stream, without copying. ok reports that b begins with a
// complete event of n bytes. Take handles the usual form only: one data line, LF line ends, and no unfinished event
// before it. Anything else is left to Next, as if Take had not been called. Data that Next has read comes before b.
func (s *Splitter) Take(b []byte) (ev Event, n int, ok bool) {
	if s.failed != nil || s.pending != nil || s.line < s.end || s.skipLF || !s.delivered && s.unfinished() || !s.begun && len(b) > 0 && b[0] == byteOrderMark[0] {
		return Event{}, 0, false
	}
	ev.Retry = unknownRetry
	for n < len(b) {
		size := bytes.IndexByte(b[n:], '\n')
		if size < 0 {
			break
		}
		if len(ev.Data)+size > s.limit()+fieldName {
			break
		}
		line := b[n : n+size : n+size]
		n += size + 1
		if size == 0 {
			if ev.Data == nil || bytes.IndexByte(b[:n], '\r') >= 0 {
				break
			}
			s.begun = true
			return ev, n, true
		}
		if !ev.line(line) || len(ev.Data) > s.limit() {
			break
		}
	}
	return Event{}, 0, false
}

// line parses one line of an event. It returns false for a repeated field and for one that Take does not handle.
func (e *Event) line(line []byte) bool {
	switch {
	case bytes.HasPrefix(line, dataField) && e.Data == nil:
		e.Data = line[len(dataField):]
	case bytes.HasPrefix(line, eventField) && e.Name == nil:
		e.Name = line[len(eventField):]
	case bytes.HasPrefix(line, idField) && !e.HasID && bytes.IndexByte(line, 0) < 0:
		e.ID, e.HasID = line[len(idField):], true
	default:
		return false
	}
	return true
}

// limit returns the limit of one event's data, in bytes.
func (s *Splitter) limit() int {
	if s.max <= 0 {
		return DefaultMax
	}
	return s.max
}

// begin discards the event that was returned.
func (s *Splitter) begin() {
	if s.max <= 0 {
		s.max = DefaultMax
	}
	s.name, s.id, s.retry = s.name[:0], s.id[:0], unknownRetry
	s.hasData, s.hasID, s.hasName, s.delivered = false, false, false, false
	s.dataFrom, s.dataTo = s.line, s.line
}

// event returns the event that the lines so far make.
func (s *Splitter) event() Event {
	s.delivered = true
	if s.small++; s.dataTo-s.dataFrom > firstBuffer {
		s.small = 0
	}
	e := Event{Name: s.name, HasID: s.hasID, Retry: s.retry}
	if s.hasID {
		e.ID = s.id
	}
	if s.hasData {
		e.Data = s.buf[s.dataFrom:s.dataTo:s.dataTo]
	}
	return e
}

// unfinished reports whether the end of the stream would lose data.
func (s *Splitter) unfinished() bool {
	if s.hasData || s.hasID || s.hasName || s.retry != unknownRetry {
		return true
	}
	return s.line < s.end && s.buf[s.line] != ':' // a cut keep-alive loses nothing
}

// parse reads the complete lines in the buffer and reports whether one of them ended an event.
func (s *Splitter) parse() bool {
	if !s.begun && !s.skipMark() {
		return false
	}
	for s.failed == nil {
		if s.skipLF && s.line < s.end {
			s.skipLF = false
			if s.buf[s.line] == '\n' {
				s.line++
				s.scan = s.line
			}
		}
		end, ok := s.lineEnd()
		if line := s.buf[s.line:end]; len(line) > otherLines && !bytes.HasPrefix(line, dataField[:len("data")]) {
			s.failed = &LimitError{Limit: otherLines, Line: true}
			return false
		}
		held := s.dataTo - s.dataFrom + end - s.line
		if held > s.max+fieldName {
			s.failed = &LimitError{Limit: s.max}
			return false
		}
		if !ok {
			return false
		}
		from := s.line
		s.skipLF = s.buf[end] == '\r'
		s.line = end + 1
		s.scan = s.line
		if end > from {
			s.field(from, end)
			continue
		}
		if s.hasData || s.hasID || s.retry != unknownRetry {
			return true
		}
		s.begin() // a block without data is no event; its name is discarded
	}
	return false
}

// skipMark skips a byte order mark at the very start and reports whether enough has been read to decide.
func (s *Splitter) skipMark() bool {
	got := s.buf[:min(s.end, len(byteOrderMark))]
	if !bytes.HasPrefix(byteOrderMark[:], got) {
		s.begun = true
		return true
	}
	if len(got) < len(byteOrderMark) {
		return false
	}
	s.begun = true
	s.line = len(byteOrderMark)
	s.scan, s.dataFrom, s.dataTo = s.line, s.line, s.line
	return true
}

// lineEnd finds the end of the line that begins at s.line. It remembers how far it has searched and where the next LF is,
// so that neither long lines in small chunks nor short lines in large ones are searched twice.
func (s *Splitter) lineEnd() (int, bool) {
	if s.lf < s.scan {
		s.lf = s.scan
		if at := bytes.IndexByte(s.buf[s.scan:s.end], '\n'); at >= 0 {
			s.lf += at
		} else {
			s.lf = s.end
		}
	}
	if at := bytes.IndexByte(s.buf[s.scan:s.lf], '\r'); at >= 0 {
		return s.scan + at, true
	}
	if s.lf < s.end {
		return s.lf, true
	}
	s.scan = s.end
	return s.end, false
}

// field parses one non-empty line.
func (s *Splitter) field(from, end int) {
	colon := bytes.IndexByte(s.buf[from:min(end, from+fieldName)], ':')
	value := end
	name := s.buf[from:end]
	if colon >= 0 {
		name = s.buf[from : from+colon]
		value = from + colon + 1
		if value < end && s.buf[value] == ' ' {
			value++
		}
	}
	switch string(name) { // a comment's name is empty
	case "data":
		s.dataLine(value, end)
	case "event":
		s.name = append(s.name[:0], s.buf[value:end]...)
		s.hasName = true
	case "id":
		if bytes.IndexByte(s.buf[value:end], 0) < 0 {
			s.id = append(s.id[:0], s.buf[value:end]...)
			s.hasID = true
		}
	case "retry":
		if ms, ok := digits(s.buf[value:end]); ok {
			s.retry = ms
		}
	}
	if !s.hasData {
		s.dataFrom, s.dataTo = s.line, s.line
	}
}

// dataLine appends a value to the data. The first value stays where it is; a further one moves down behind it, over line
// ends and fields that have been parsed.
func (s *Splitter) dataLine(value, end int) {
	if !s.hasData {
		s.hasData, s.dataFrom, s.dataTo = true, value, end
	} else {
		s.buf[s.dataTo] = '\n'
		s.dataTo += 1 + copy(s.buf[s.dataTo+1:], s.buf[value:end])
	}
	if s.dataTo-s.dataFrom > s.max {
		s.failed = &LimitError{Limit: s.max}
	}
}

// digits parses a decimal number without sign. A number beyond 31 bits counts as the largest, some 24 days.
func digits(b []byte) (int, bool) {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int(c-'0'), math.MaxInt32)
	}
	return n, len(b) > 0
}

// fill reads once into the free part of the buffer, which it makes first.
func (s *Splitter) fill(r io.Reader) {
	if s.failed = s.makeRoom(r); s.failed != nil {
		return
	}
	s.lf = -1 // unknown for the new bytes
	for range emptyReads {
		n, err := r.Read(s.buf[s.end:])
		if n < 0 || n > len(s.buf)-s.end {
			s.failed = io.ErrNoProgress
			return
		}
		s.end += n
		s.pending = err
		if n > 0 || err != nil {
			return
		}
	}
	s.pending = io.ErrNoProgress
}

// makeRoom moves the data still needed to the front, or enlarges the buffer. While the buffer keeps its size, only an
// unfinished line can move more than once within an event, and only after an earlier line was finished.
func (s *Splitter) makeRoom(r io.Reader) error {
	held := s.dataTo - s.dataFrom + s.end - s.line
	if len(s.buf) == 0 {
		s.buf = make([]byte, firstBuffer)
	}
	if len(s.buf) > keepBuffer && s.small >= smallEvents && held < firstBuffer/2 {
		return s.resize(r, firstBuffer)
	}
	if held == 0 {
		s.place(s.buf)
		return nil
	}
	if len(s.buf)-s.end >= len(s.buf)/8 {
		return nil
	}
	largest := s.max + fieldName + minRead
	if free := len(s.buf) - held; free >= len(s.buf)/4 || len(s.buf) >= largest {
		s.place(s.buf)
		return nil
	}
	return s.resize(r, max(firstBuffer, min(2*len(s.buf), largest)))
}

// resize moves the data still needed to a buffer of size bytes.
func (s *Splitter) resize(r io.Reader, size int) error {
	if h, ok := r.(Holder); ok && max(size, len(s.buf)) > keepBuffer {
		if err := h.Hold(size); err != nil {
			return err
		}
	}
	s.place(make([]byte, size))
	return nil
}

// place copies the data and the unfinished line to the start of to, which may be the buffer itself.
func (s *Splitter) place(to []byte) {
	data, line := s.dataTo-s.dataFrom, s.end-s.line
	other := &to[0] != &s.buf[0]
	if other || s.dataFrom > 0 {
		copy(to, s.buf[s.dataFrom:s.dataTo])
	}
	if other || s.line > data {
		copy(to[data:], s.buf[s.line:s.end])
	}
	s.buf = to
	s.scan += data - s.line
	s.dataFrom, s.dataTo = 0, data
	s.line, s.end = data, data+line
}
