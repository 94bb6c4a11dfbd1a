package http1

import (
	"cmp"
	"strconv"
	"sync"
)

// Request is a request to be sent. It keeps its fields as the lines that are sent, so that sending is copying, and checks each once,
// when it is set; fasthttp writes, normalises and checks its request for every call. The zero Request is a GET of the origin's default
// path. A Request may be used again after Reset, and is for one goroutine.
type Request struct {
	Method string   // GET if empty
	Target string   // in origin form, "/path?query"; empty for the origin's path
	Body   []byte   // borrowed until the request is sent; nil is a body of no bytes
	Behind [][]byte // further pieces of the body; borrowed likewise, the slice itself too

	fields fieldLines
	err    error // the first field that could not be set
}

// Origin holds the parts of a request that depend on its server.
type Origin struct {
	Authority string // for the Host field
	Path      string // for requests without a target
	Absolute  string // scheme and authority before the target, for an HTTP proxy; else empty
	Via       string // the line of the Via field, with CRLF, of a request that has passed no other intermediary; empty: none
}

// maxKeptBuffer is the largest buffer that goes back into a pool. A pooled buffer never shrinks.
const maxKeptBuffer = 64 << 10

var requests = sync.Pool{New: func() any { return new(Request) }}

// AcquireRequest returns a Request from a pool; Release gives it back.
func AcquireRequest(method, target string, body []byte) *Request {
	r := requests.Get().(*Request)
	r.Method, r.Target, r.Body = method, target, body
	return r
}

// Release gives r back to the pool of AcquireRequest. r and its fields must not be used any more.
func (r *Request) Release() {
	r.Reset()
	requests.Put(r)
}

// Reset makes r the zero Request and keeps its memory.
func (r *Request) Reset() {
	r.Method, r.Target, r.Body, r.Behind, r.err = "", "", nil, nil, nil
	r.fields.reset()
	if cap(r.fields.raw) > maxKeptBuffer {
		r.fields = fieldLines{}
	}
}

// Set sets a field and replaces others of its name. A name that is no token or a value with a control character is a
// *MalformedError, which Err returns as well.
func (r *Request) Set(name, value string) error { return setField(r, name, value) }

// SetBytes is Set for a value in bytes.
func (r *Request) SetBytes(name string, value []byte) error { return setField(r, name, value) }

// SetValue is SetBytes for a name that is known to be valid.
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

// SetKnown is Set for a name and a value that are known to be valid, such as constants.
func (r *Request) SetKnown(name, value string) {
	r.fields.del(name)
	appendField(&r.fields, name, value)
}

// Del removes all fields of a name.
func (r *Request) Del(name string) { r.fields.del(name) }

// Field returns the value of the first field of a name, nil if there is none.
func (r *Request) Field(name string) []byte { return r.fields.get(name) }

// Err returns the first error of Set. A request with one must not be sent.
func (r *Request) Err() error { return r.err }

// AppendHead appends the head to dst. Host, Content-Length and Transfer-Encoding must not be set.
func (r *Request) AppendHead(dst []byte, o *Origin) []byte {
	dst = append(append(dst, cmp.Or(r.Method, "GET")...), ' ')
	dst = append(append(dst, o.Absolute...), cmp.Or(r.Target, o.Path)...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	dst = append(append(append(dst, "Host: "...), o.Authority...), "\r\n"...)
	dst = append(r.fields.appendTo(dst), o.Via...)
	if size := r.Size(); size > 0 || !r.Is("GET") && !r.Is("HEAD") {
		dst = strconv.AppendInt(append(dst, "Content-Length: "...), int64(size), 10)
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// Size returns the length of the body in bytes.
func (r *Request) Size() int {
	n := len(r.Body)
	for _, piece := range r.Behind {
		n += len(piece)
	}
	return n
}

// Is reports whether the request has a method.
func (r *Request) Is(method string) bool { return cmp.Or(r.Method, "GET") == method }

// Template holds the fields that all requests of a kind have, laid out once.
type Template struct{ lines fieldLines }

// NewTemplate makes a Template from pairs of names and values. They are not checked, and no name may occur twice.
func NewTemplate(pairs ...string) *Template {
	t := new(Template)
	for ; len(pairs) > 1; pairs = pairs[2:] {
		appendField(&t.lines, pairs[0], pairs[1])
	}
	return t
}

// Acquire is AcquireRequest with these fields set.
func (t *Template) Acquire(method, target string, body []byte) *Request {
	r := AcquireRequest(method, target, body)
	r.fields.copy(&t.lines)
	return r
}
