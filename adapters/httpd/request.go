package httpd

import (
	"strconv"
	"sync"
)

// Request is what a Host sends. It keeps its fields as the lines in which they leave, so that sending is copying, and each is
// looked over once, when it is set: fasthttp's own request would be written, normalised and looked over for every call. The
// zero Request is a GET of the Host's path. It may be used again after Reset, and is for one goroutine.
type Request struct {
	Method string   // GET if empty
	Target string   // in origin form, "/path?query"; empty for the Host's Path
	Body   []byte   // borrowed until Send has returned; nil is a body of no bytes
	Behind [][]byte // of the body, behind Body, piece by piece; borrowed likewise, the places themselves too

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
	r.Method, r.Target, r.Body, r.Behind, r.err, r.close = "", "", nil, nil, nil, false
	r.fields.reset()
	if cap(r.fields.raw) > keptBuffer {
		r.fields = fieldLines{}
	}
}

// Set sets a field, replacing others of its name. A name that is no token or a value with a control character is refused with
// a *MalformedError, and so is the whole request by Send, whether or not this error was looked at.
func (r *Request) Set(name, value string) error { return setField(r, name, value) }

// SetBytes is Set for a value that is not a string.
func (r *Request) SetBytes(name string, value []byte) error { return setField(r, name, value) }

// SetValue is SetBytes for a name that is known to be one.
func (r *Request) SetValue(name string, value []byte) error {
	if !clean(value) {
		return setField(r, name, value)
	}
	r.fields.del(name)
	appendField(&r.fields, name, value)
	return nil
}

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

// SetKnown is Set for a name and a value that are known to be right, constants above all.
func (r *Request) SetKnown(name, value string) {
	r.fields.del(name)
	appendField(&r.fields, name, value)
}

// Del removes all fields of a name.
func (r *Request) Del(name string) { r.fields.del(name) }

// appendTo writes the head to dst. What is said of the body's length, and of who is asked, has been removed before.
func (r *Request) appendTo(dst []byte, h *Host) []byte {
	dst = append(append(dst, or(r.Method, "GET")...), ' ')
	dst = append(append(dst, h.absolute...), or(r.Target, h.path)...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	if r.fields.find("Host") < 0 {
		dst = append(append(append(dst, "Host: "...), h.authority...), "\r\n"...)
	}
	dst = r.fields.appendTo(dst)
	if size := r.size(); size > 0 || !r.is("GET") && !r.is("HEAD") {
		dst = strconv.AppendInt(append(dst, "Content-Length: "...), int64(size), 10)
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// size is the length of the body in bytes.
func (r *Request) size() int {
	n := len(r.Body)
	for _, piece := range r.Behind {
		n += len(piece)
	}
	return n
}

func (r *Request) is(method string) bool { return or(r.Method, "GET") == method }
