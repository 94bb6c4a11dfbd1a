package http1

import (
	"bufio"
	"bytes"
)

// HeadReader reads the heads of the messages on one connection, line by line as they arrive. It is strict: no blanks around names, no
// folded lines, no odd first lines (RFC 9112 §5.1, §5.2). A read interrupted by a deadline goes on where it was. The zero HeadReader
// reads responses.
type HeadReader struct {
	Requests bool // it reads requests

	Status    int         // of a response
	HTTP10    bool        // the version is HTTP/1.0
	Length    int64       // Content-Length; -1: there is none
	Coded     bool        // there is a Transfer-Encoding
	Chunked   bool        // the last coding is chunked
	Closes    bool        // Connection: close
	KeepAlive bool        // Connection: keep-alive
	Known     bool        // the head equals the one before, byte by byte
	Request   RequestLine // of a request

	at      int        // the place of the next line in the buffer
	codings int        // how many codings there are, "identity" apart
	started bool       // a byte of the message has arrived
	begun   bool       // the first line was read
	whole   bool       // all of the above describes the head in last
	fields  fieldLines // without their text
	last    lastHead
}

// Start makes h ready for the next head. started reports that a part of the message has been read, as a 1xx response is. The last head
// is kept until another one arrives.
func (h *HeadReader) Start(started bool) {
	h.Known = false
	if h.started = started; !h.whole {
		h.reset()
	}
}

// Started reports whether a byte of the message has arrived.
func (h *HeadReader) Started() bool { return h.started }

// Begun reports whether a line of the message has been read.
func (h *HeadReader) Begun() bool { return h.begun || h.at > 0 }

func (h *HeadReader) reset() {
	h.at, h.Status, h.HTTP10, h.Length, h.Coded, h.codings, h.Chunked = 0, 0, false, -1, false, 0, false
	h.Closes, h.KeepAlive, h.begun, h.whole, h.Request = false, false, false, false, RequestLine{}
	h.fields.reset()
	h.last.differs = false
}

// Read reads until the head is whole in the buffer of br and returns its size. It consumes nothing.
func (h *HeadReader) Read(br *bufio.Reader) (int, error) {
	if h.whole {
		if size, err := h.same(br); size > 0 || err != nil {
			return size, err
		}
	}
	for {
		buf, _ := br.Peek(br.Buffered())
		h.started = h.started || len(buf) > 0
		for h.at < len(buf) {
			if h.begun {
				if known, err := h.again(buf); err != nil {
					return 0, err
				} else if known {
					continue
				}
			}
			i := bytes.IndexByte(buf[h.at:], '\n')
			if i < 0 {
				break
			}
			end, err := h.line(buf, h.at+i+1)
			if err != nil {
				return 0, err
			}
			h.at += i + 1
			if end {
				h.last.keep(buf[:h.at], h.fields.at)
				h.whole = true
				return h.at, nil
			}
		}
		if len(buf) == br.Size() {
			what := ResponseHeader
			if h.Requests {
				what = "request header"
			}
			return 0, &TooLargeError{What: what, Limit: br.Size()}
		}
		if _, err := br.Peek(len(buf) + 1); err != nil {
			return 0, UnexpectedEOF(err)
		}
	}
}

// same returns the size of a head that repeats the last one, as most on a connection do; it need not be parsed again. It returns 0 for
// another head.
func (h *HeadReader) same(br *bufio.Reader) (int, error) {
	if _, err := br.Peek(1); err != nil {
		h.reset()
		return 0, UnexpectedEOF(err)
	}
	h.started = true
	buf, _ := br.Peek(br.Buffered())
	if size := len(h.last.text); len(buf) >= size && string(buf[:size]) == string(h.last.text) {
		h.Known = true
		return size, nil
	}
	h.reset()
	return 0, nil
}

// line reads the line from h.at to next, the LF included.
func (h *HeadReader) line(buf []byte, next int) (end bool, err error) {
	stop := next - 2
	if stop < h.at || buf[stop] != '\r' {
		return false, &MalformedError{What: "line end in head"}
	}
	if !h.begun {
		return false, h.firstLine(buf[h.at:stop])
	}
	if stop == h.at {
		return true, h.check()
	}
	text, colon := buf[h.at:stop], 0
	for colon < len(text) && token[text[colon]] {
		colon++
	}
	if colon == 0 || colon == len(text) || text[colon] != ':' || !clean(text[colon+1:]) {
		return false, &MalformedError{What: "field in head"}
	}
	p := place(buf, h.at, colon, next)
	p.special = isSpecial(text[:colon])
	h.last.differs = true
	return false, h.field(buf, p)
}

// field notes a field.
func (h *HeadReader) field(buf []byte, p fieldPlace) error {
	h.fields.add(p, buf)
	if !p.special {
		return nil
	}
	if h.Requests {
		h.Request.field(buf, p)
	}
	return h.framing(buf[p.from:p.nameEnd], buf[p.value:p.valueEnd])
}

// isSpecial reports whether a field of this name may be one whose value the reader needs.
func isSpecial(name []byte) bool {
	switch len(name) {
	case len("Host"), len("Expect"), len("Connection"), len("Content-Length"), len("Transfer-Encoding"):
		return true
	}
	return false
}

// lastHead is the last head of a connection. Most lines of the next are the same, and known to be valid.
type lastHead struct {
	text    []byte
	at      []fieldPlace
	differs bool // the head that is being read has other lines
}

// again accepts a line that equals the one in the same place of the last head.
func (h *HeadReader) again(buf []byte) (bool, error) {
	i := len(h.fields.at)
	if i >= len(h.last.at) {
		return false, nil
	}
	old := &h.last.at[i]
	size, by := old.end-old.from, h.at-old.from
	if len(buf)-h.at < size || string(buf[h.at:h.at+size]) != string(h.last.text[old.from:old.end]) {
		return false, nil
	}
	p := fieldPlace{from: h.at, nameEnd: old.nameEnd + by, value: old.value + by, valueEnd: old.valueEnd + by, end: h.at + size, special: old.special}
	if !p.special {
		h.fields.add(p, buf)
	} else if err := h.field(buf, p); err != nil {
		return false, err
	}
	h.at = p.end
	return true, nil
}

// keep remembers a head.
func (l *lastHead) keep(head []byte, at []fieldPlace) {
	if l.differs || len(at) != len(l.at) || string(head) != string(l.text) {
		l.text, l.at = append(l.text[:0], head...), append(l.at[:0], at...)
	}
}

// Forget removes the last head from memory, which may hold credentials.
func (h *HeadReader) Forget() {
	h.reset()
	h.last.forget()
}

func (l *lastHead) forget() {
	clear(l.text)
	l.text, l.at = l.text[:0], l.at[:0]
	if cap(l.text) > maxKeptBuffer {
		*l = lastHead{}
	}
}

func (h *HeadReader) firstLine(text []byte) error {
	switch {
	case !h.Requests:
		h.begun = true
		return h.statusLine(text)
	case len(text) == 0: // empty lines may precede a request (RFC 9112 §2.2)
		return nil
	}
	h.begun = true
	return h.requestLine(text)
}

// framing notes a field that determines the end of the message or of its connection.
func (h *HeadReader) framing(name, value []byte) error {
	switch len(name) {
	case len("Connection"):
		if equalFold(name, "Connection") {
			h.Closes = h.Closes || HasItem(value, "close")
			h.KeepAlive = h.KeepAlive || HasItem(value, "keep-alive")
		}
	case len("Content-Length"):
		if !equalFold(name, "Content-Length") {
			break
		}
		if h.Length >= 0 || !digits(value) || len(value) > 18 { // 18 digits fit into an int64
			return &MalformedError{What: "content-length"}
		}
		h.Length = 0
		for _, d := range value {
			h.Length = 10*h.Length + int64(d-'0')
		}
	case len("Transfer-Encoding"):
		if equalFold(name, "Transfer-Encoding") {
			h.Coded = true
			h.coding(value)
		}
	}
	return nil
}

// coding notes the codings of a body.
func (h *HeadReader) coding(value []byte) {
	for len(value) > 0 {
		item, rest, _ := bytes.Cut(value, []byte{','})
		value = rest
		if item = bytes.TrimSpace(item); h.Requests || len(item) > 0 && !bytes.EqualFold(item, []byte("identity")) {
			h.codings++
			h.Chunked = bytes.EqualFold(item, []byte("chunked"))
		}
	}
}

// check applies the rules for the whole head.
func (h *HeadReader) check() error {
	switch {
	case h.Length >= 0 && h.Coded: // readers that differ about the end of the body let requests be smuggled (RFC 9112 §6.3)
		return &MalformedError{What: "head: both content-length and transfer-encoding"}
	case h.Requests:
		return h.checkRequest()
	case h.codings > 1 || h.codings == 1 && !h.Chunked: // no coding was asked for (RFC 9110 §10.1.4), and none is implemented
		return &MalformedError{What: "transfer-encoding"}
	}
	return nil
}

// statusLine expects "HTTP/1.x NNN", then a blank and any reason, or nothing (RFC 9112 §4).
func (h *HeadReader) statusLine(text []byte) error {
	if len(text) < 12 || string(text[:7]) != "HTTP/1." || text[7] != '0' && text[7] != '1' ||
		text[8] != ' ' || len(text) > 12 && text[12] != ' ' || !digits(text[9:12]) || !ValidValue(text) {
		return &MalformedError{What: "status line"}
	}
	h.Status = int(text[9]-'0')*100 + int(text[10]-'0')*10 + int(text[11]-'0')
	h.HTTP10 = text[7] == '0'
	if h.Status < 100 || h.Status > 599 {
		return &MalformedError{What: "status code"}
	}
	return nil
}

func digits(b []byte) bool {
	for _, d := range b {
		if d < '0' || d > '9' {
			return false
		}
	}
	return len(b) > 0
}

// RequestLine holds what the head of a request has besides the framing of its message.
type RequestLine struct {
	Expects           bool // Expect: 100-continue (RFC 9110 §10.1.1)
	lineAt            int  // the start of the line: empty ones may precede it
	methodEnd, target int  // of the line
	targetEnd         int
	hosts             int // Host fields
	host              fieldPlace
}

// requestLine expects a method, a target and the version, with one blank between them (RFC 9112 §3).
func (h *HeadReader) requestLine(text []byte) error {
	r := &h.Request
	r.lineAt = h.at
	r.methodEnd = bytes.IndexByte(text, ' ')
	r.targetEnd = bytes.LastIndexByte(text, ' ')
	r.target = r.methodEnd + 1
	if r.methodEnd < 1 || r.targetEnd <= r.target || !ValidName(text[:r.methodEnd]) || !ValidTarget(text[r.target:r.targetEnd]) {
		return &MalformedError{What: "request line"}
	}
	switch string(text[r.targetEnd+1:]) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.HTTP10 = true
	default:
		return &MalformedError{What: "version"} // RFC 9112 §2.3
	}
	return nil
}

// field notes a Host or Expect field. Other expectations are ignored.
func (r *RequestLine) field(raw []byte, p fieldPlace) {
	switch name := raw[p.from:p.nameEnd]; len(name) {
	case len("Host"):
		if equalFold(name, "Host") {
			r.hosts++
			r.host = p
		}
	case len("Expect"):
		if equalFold(name, "Expect") && bytes.EqualFold(raw[p.value:p.valueEnd], []byte("100-continue")) {
			r.Expects = true
		}
	}
}

// checkRequest applies the rules for the whole head of a request.
func (h *HeadReader) checkRequest() error {
	switch {
	case h.Coded && (h.codings != 1 || !h.Chunked):
		return &MalformedError{What: "transfer-encoding"} // RFC 9112 §6.1
	case h.Coded && h.HTTP10:
		return &MalformedError{What: "transfer-encoding in HTTP/1.0"} // the same
	case h.Request.hosts > 1 || h.Request.host.value == h.Request.host.valueEnd && !h.HTTP10:
		return &MalformedError{What: "host"} // RFC 9112 §3.2
	}
	return nil
}

// MethodAndTarget returns the request line in head without the version.
func (r *RequestLine) MethodAndTarget(head []byte) []byte {
	return head[r.lineAt : r.lineAt+r.targetEnd]
}

// Method returns the method in head.
func (r *RequestLine) Method(head []byte) []byte { return head[r.lineAt : r.lineAt+r.methodEnd] }

// Target returns the request target in head.
func (r *RequestLine) Target(head []byte) []byte {
	return head[r.lineAt+r.target : r.lineAt+r.targetEnd]
}

// Host returns the value of the Host field in head.
func (r *RequestLine) Host(head []byte) []byte { return head[r.host.value:r.host.valueEnd] }

// PlainPath returns the length of the path of a target whose query, if any, has only characters that stand for themselves; -1 for
// another target.
func PlainPath(target []byte) int {
	at := bytes.IndexByte(target, '?')
	if at < 0 {
		return len(target)
	}
	for _, b := range target[at+1:] {
		if !('a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '_' || b == '=' || b == '&') {
			return -1
		}
	}
	return at
}
