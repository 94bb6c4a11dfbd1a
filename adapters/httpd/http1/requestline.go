package http1

import "bytes"

// RequestLine is what the head of a request says besides the framing of its message.
type RequestLine struct {
	Expects           bool // Expect: 100-continue (RFC 9110 §10.1.1)
	lineAt            int  // where the line begins: empty ones may precede it
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

// checkRequest checks what only the whole head of a request shows.
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
