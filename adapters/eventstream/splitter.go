package eventstream

import (
	"bytes"
	"fmt"
	"io"
	"math"
)

const (
	// DefaultMax is the limit in bytes of one event where Reset is given none.
	DefaultMax = 100 << 20

	firstBuffer = 4 << 10  // what a silent stream costs
	keepBuffer  = 64 << 10 // larger buffers are not kept for the next stream
	minRead     = 4 << 10  // room beyond the limit, so that reads never become tiny
	// fieldName is the longest field name with colon and space: a line may be
	// longer than the limit by it, so that the limit is one of the data alone.
	fieldName    = len("event: ")
	emptyReads   = 100 // as bufio: more reads than this without a byte are a fault
	largestMax   = 1 << 30
	smallEvents  = 16 // so many small events in a row give a large buffer back
	unknownRetry = -1
)

// Fields as they are mostly written.
var (
	dataField  = []byte("data: ")
	eventField = []byte("event: ")
	idField    = []byte("id: ")
)

var byteOrderMark = [3]byte{0xEF, 0xBB, 0xBF}

// LimitError says that an event was larger than the reader allows. The stream
// cannot be used any further.
type LimitError struct {
	Limit int // bytes of data that one event may have
}

// Error names the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("eventstream: an event exceeds the limit of %d bytes", e.Limit)
}

// Event is one block of an event stream. Its byte slices are borrowed from the
// Splitter until its next call; who keeps them, copies them. The bytes are as
// they came: nobody has checked that they are UTF-8.
type Event struct {
	// Name is the event's type; empty where it was not given, which means message.
	Name []byte
	// Data is the joined data lines. It is nil where the block had no data line
	// at all, and empty but not nil where it had an empty one.
	Data []byte
	// ID is the last valid id field of this block, if HasID.
	ID    []byte
	HasID bool
	// Retry is the reconnection time in milliseconds; -1 where it was not given.
	Retry int
}

// IsMessage tells whether the event is of the type that carries MCP messages.
func (e *Event) IsMessage() bool {
	return len(e.Name) == 0 || string(e.Name) == "message"
}

// Splitter reads events from a byte stream, whatever the chunks it comes in.
// The zero value is ready, with DefaultMax. It is for one goroutine at a time,
// and in the steady state it allocates nothing.
//
// The data of an event stays where it was read: one data line is never moved,
// several are pushed together in place. A buffer that a large event has made
// large is given back at Reset, or after 16 small events.
type Splitter struct {
	buf       []byte
	dataFrom  int // buf[dataFrom:dataTo] is the joined data of the event so far
	dataTo    int
	line      int // where the line begins that is being read
	scan      int // up to here the line has no line end
	lf        int // the next LF at or after scan, or end if there is none
	end       int // buf[:end] is filled
	max       int
	name, id  []byte // copies: the data behind them moves
	retry     int
	small     int // events of at most firstBuffer bytes in a row
	hasData   bool
	hasID     bool
	hasName   bool
	begun     bool // the place of a byte order mark is passed
	skipLF    bool // the last line ended in CR: an LF belongs to it
	delivered bool // the event in the fields above has been handed out
	pending   error
	failed    error
}

// Reset makes the Splitter ready for another stream, with max as the limit in
// bytes of one event's data (DefaultMax if it is not positive, 1 GiB at most).
// Buffers are kept unless a large event has made them large.
func (s *Splitter) Reset(max int) {
	buf, name, id := s.buf, s.name, s.id
	if len(buf) > keepBuffer {
		buf = nil
	}
	if cap(name)+cap(id) > firstBuffer {
		name, id = nil, nil
	}
	*s = Splitter{buf: buf, name: name[:0], id: id[:0], max: min(max, largestMax), retry: unknownRetry}
}

// Next returns the next event, reading from r as far as needed. r should be the
// same reader at each call.
//
// As the standard says, a block without a data line is no event; it is returned
// all the same, with nil Data, if it carries an id or a retry field, which hold
// for the stream. An id with NUL and a retry that is not a number are ignored.
//
// Errors: io.EOF at a clean end; io.ErrUnexpectedEOF where the stream ended
// inside an event, which is discarded; *LimitError, for good, where an event is
// larger than the limit; else the reader's own error, unwrapped. After that
// last kind, a passed deadline say, Next may be called again: nothing is lost.
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

// Take reads the event that is all of the next part of a stream from b, where it stays: ok says that there is one, of n bytes. It takes what
// most events are, with one line of data, line ends of LF, and nothing before it that is not over; what else b has is left to Next, as if Take
// had not been called. What Next has read is read before b.
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

// line takes one line of an event, if it is of a kind that may stand there once.
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

// limit is how many bytes of data an event may have.
func (s *Splitter) limit() int {
	if s.max <= 0 {
		return DefaultMax
	}
	return s.max
}

// begin forgets the event that was handed out.
func (s *Splitter) begin() {
	if s.max <= 0 {
		s.max = DefaultMax
	}
	s.name, s.id, s.retry = s.name[:0], s.id[:0], unknownRetry
	s.hasData, s.hasID, s.hasName, s.delivered = false, false, false, false
	s.dataFrom, s.dataTo = s.line, s.line
}

// event hands out what the lines so far have gathered.
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

// unfinished tells whether the end of the stream loses something.
func (s *Splitter) unfinished() bool {
	if s.hasData || s.hasID || s.hasName || s.retry != unknownRetry {
		return true
	}
	return s.line < s.end && s.buf[s.line] != ':' // a cut keep-alive loses nothing
}

// parse takes the complete lines in the buffer and tells whether one of them
// ended an event.
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
		s.begin() // a block without data is no event; its name ends with it
	}
	return false
}

// skipMark passes over a byte order mark at the very start and tells whether
// enough has been read to know.
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

// lineEnd finds the end of the line that begins at s.line. It remembers how far
// it has looked, and where the next LF is, so that neither long lines in small
// chunks nor short lines in large ones are searched twice.
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

// field takes one line that is not empty.
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

// dataLine adds a value to the data. The first stays where it is; a further one
// moves down behind it, over line ends and fields that are already read.
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

// digits reads a decimal number without sign; one that is too large for 31 bits
// counts as the largest, some 24 days.
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

// fill reads once into the free part of the buffer, after making one.
func (s *Splitter) fill(r io.Reader) {
	s.makeRoom()
	s.lf = -1 // not known in what comes now
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

// makeRoom moves what is still needed to the front, or makes the buffer larger.
// Only an unfinished line can move more than once within an event of unchanged
// buffer, and only after a line before it was finished.
func (s *Splitter) makeRoom() {
	held := s.dataTo - s.dataFrom + s.end - s.line
	if len(s.buf) == 0 {
		s.buf = make([]byte, firstBuffer)
	}
	if len(s.buf) > keepBuffer && s.small >= smallEvents && held < firstBuffer/2 {
		s.place(make([]byte, firstBuffer))
		return
	}
	if held == 0 {
		s.place(s.buf)
		return
	}
	if len(s.buf)-s.end >= len(s.buf)/8 {
		return
	}
	largest := s.max + fieldName + minRead
	if free := len(s.buf) - held; free >= len(s.buf)/4 || len(s.buf) >= largest {
		s.place(s.buf)
		return
	}
	s.place(make([]byte, max(firstBuffer, min(2*len(s.buf), largest))))
}

// place puts the data and the unfinished line at the start of to, which may be
// the buffer itself.
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
