package httpd

import (
	"bytes"
	"strconv"
	"sync"
)

// Request is what a Host sends. It keeps its fields as the lines in which they leave, so that sending is copying, and each is
// looked over once, when it is set: fasthttp's own request would be written, normalised and looked over for every call. The
// zero Request is a GET of the Host's path. It may be used again after Reset, and is for one goroutine.
type Request struct {
	Method string // GET if empty
	Target string // in origin form, "/path?query"; empty for the Host's Path
	Body   []byte // borrowed until Send has returned; nil is a body of no bytes

	fields fieldLines
	err    error // the first field that could not be set
	close  bool
}

var requests = sync.Pool{New: func() any { return new(Request) }}

// AcquireRequest gives a Request from a pool; give it back with Release.
func AcquireRequest(method, target string, body []byte) *Request {
	r := requests.Get().(*Request)
	r.Method, r.Target, r.Body = method, target, body
	return r
}

// Release gives r back to the pool of AcquireRequest: nothing of it may be used any more.
func (r *Request) Release() {
	r.Reset()
	requests.Put(r)
}

// Reset makes r the zero Request and keeps its memory.
func (r *Request) Reset() {
	fields := r.fields
	fields.reset()
	if cap(fields.raw) > keptBuffer {
		fields = fieldLines{}
	}
	*r = Request{fields: fields}
}

// Set sets a field, replacing others of its name. A name that is no token or a value with a control character is refused with
// a *MalformedError, and so is the whole request by Send, whether or not this error was looked at.
func (r *Request) Set(name, value string) error { return setField(r, name, value) }

// SetBytes is Set for a value that is not a string.
func (r *Request) SetBytes(name string, value []byte) error { return setField(r, name, value) }

func setField[V string | []byte](r *Request, name string, value V) error {
	var err error
	switch {
	case !ValidName(name):
		err = &MalformedError{What: "field name"}
	case !ValidValue(value):
		err = &MalformedError{What: "value of field " + name}
	default:
		r.fields.del(name)
		appendField(&r.fields, name, value)
		return nil
	}
	if r.err == nil {
		r.err = err
	}
	return err
}

// Del removes all fields of a name.
func (r *Request) Del(name string) { r.fields.del(name) }

// appendTo writes the head to dst. What is said of the body's length, and of who is asked, has been removed before.
func (r *Request) appendTo(dst []byte, h *Host) []byte {
	dst = append(append(dst, or(r.Method, "GET")...), ' ')
	dst = append(append(dst, h.absolute...), or(r.Target, h.path)...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	if len(r.fields.get("Host")) == 0 {
		dst = append(append(append(dst, "Host: "...), h.authority...), "\r\n"...)
	}
	dst = r.fields.appendTo(dst)
	if len(r.Body) > 0 || !r.is("GET") && !r.is("HEAD") {
		dst = strconv.AppendInt(append(dst, "Content-Length: "...), int64(len(r.Body)), 10)
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...)
}

func (r *Request) is(method string) bool { return or(r.Method, "GET") == method }

// fieldLines are fields as lines, and where in them each name and value stands.
type fieldLines struct {
	raw []byte
	at  []fieldPlace
}

// fieldPlace is where a line, its name and its value begin and end. A removed one has no name.
type fieldPlace struct{ from, nameEnd, value, valueEnd, end int }

func (l *fieldLines) reset() { l.raw, l.at = l.raw[:0], l.at[:0] }

func appendField[V string | []byte](l *fieldLines, name string, value V) {
	p := fieldPlace{from: len(l.raw)}
	l.raw = append(l.raw, name...)
	p.nameEnd = len(l.raw)
	l.raw = append(l.raw, ": "...)
	p.value = len(l.raw)
	l.raw = append(l.raw, value...)
	p.valueEnd = len(l.raw)
	l.raw = append(l.raw, "\r\n"...)
	p.end = len(l.raw)
	l.at = append(l.at, p)
}

// find gives the place of the first field of a name at or behind from; -1: there is none.
func (l *fieldLines) find(name string, from int) int {
	for i := from; i < len(l.at); i++ {
		p := &l.at[i]
		if p.nameEnd-p.from == len(name) && equalFold(l.raw[p.from:p.nameEnd], name) {
			return i
		}
	}
	return -1
}

func (l *fieldLines) get(name string) []byte {
	if i := l.find(name, 0); i >= 0 {
		return l.raw[l.at[i].value:l.at[i].valueEnd]
	}
	return nil
}

func (l *fieldLines) del(name string) {
	for i := l.find(name, 0); i >= 0; i = l.find(name, i+1) {
		l.at[i].nameEnd = l.at[i].from
		l.at[i].end = -1
	}
}

func (l *fieldLines) appendTo(dst []byte) []byte {
	for i := range l.at {
		if p := &l.at[i]; p.end >= 0 {
			dst = append(dst, l.raw[p.from:p.end]...)
		}
	}
	return dst
}

// equalFold compares names of equal length without regard to case. Names are ASCII.
func equalFold(a []byte, b string) bool { return string(a) == b || bytes.EqualFold(a, []byte(b)) }

// Fields are the header of a response, as it came. They are valid as long as the Answer is.
type Fields struct{ lines fieldLines }

// Get gives the value of the first field of a name, whatever its case, without outer blanks; nil if there is none.
func (f *Fields) Get(name string) []byte { return f.lines.get(name) }

// ContentType is Get("Content-Type").
func (f *Fields) ContentType() []byte { return f.lines.get("Content-Type") }

// keep makes f the header in head, whose lines are at the places given.
func (f *Fields) keep(head []byte, at []fieldPlace) {
	f.lines.raw = append(f.lines.raw[:0], head...)
	f.lines.at = at
}
