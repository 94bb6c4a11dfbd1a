package httpd

import "bytes"

// requestLine is what a request's head says beside the framing of its message.
type requestLine struct {
	lineAt            int // where the line begins: empty ones may be in front
	methodEnd, target int // of the line
	targetEnd         int
	hosts             int // Host lines
	host              fieldPlace
	expects           bool // 100-continue (RFC 9110 §10.1.1)
}

// requestLine wants a method, a target and the version, with one blank between them (RFC 9112 §3).
func (s *headScan) requestLine(text []byte) error {
	r := &s.request
	r.lineAt = s.at
	r.methodEnd = bytes.IndexByte(text, ' ')
	r.targetEnd = bytes.LastIndexByte(text, ' ')
	r.target = r.methodEnd + 1
	if r.methodEnd < 1 || r.targetEnd <= r.target || !ValidName(text[:r.methodEnd]) || !validTarget(text[r.target:r.targetEnd]) {
		return &MalformedError{What: "request line"}
	}
	switch string(text[r.targetEnd+1:]) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		s.oldest = true
	default:
		return &MalformedError{What: "version"} // RFC 9112 §2.3
	}
	return nil
}

// field takes note of a field that says to whom a request goes, or when its body comes. Of other expectations nothing is known,
// and nothing is waited for.
func (r *requestLine) field(raw []byte, p fieldPlace) {
	switch name := raw[p.from:p.nameEnd]; len(name) {
	case len("Host"):
		if equalFold(name, "Host") {
			r.hosts++
			r.host = p
		}
	case len("Expect"):
		if equalFold(name, "Expect") && bytes.EqualFold(raw[p.value:p.valueEnd], []byte("100-continue")) {
			r.expects = true
		}
	}
}

// settleRequest judges what only the whole head tells.
func (s *headScan) settleRequest() error {
	switch {
	case s.coded && (s.codings != 1 || !s.chunked):
		return &MalformedError{What: "transfer-encoding"} // RFC 9112 §6.1
	case s.coded && s.oldest:
		return &MalformedError{What: "transfer-encoding in HTTP/1.0"} // the same
	case s.request.hosts > 1 || s.request.host.value == s.request.host.valueEnd && !s.oldest:
		return &MalformedError{What: "host"} // RFC 9112 §3.2
	}
	return nil
}

// line, method and target give the parts of the request line in head, which begins with what was scanned.
func (r *requestLine) line(head []byte) []byte   { return head[r.lineAt : r.lineAt+r.targetEnd] }
func (r *requestLine) method(head []byte) []byte { return head[r.lineAt : r.lineAt+r.methodEnd] }
func (r *requestLine) path(head []byte) []byte   { return head[r.lineAt+r.target : r.lineAt+r.targetEnd] }

// simple gives how many bytes of a target stand before a query in which every character means itself; all if there is no query, -1 if
// there is another one.
func simple(target []byte) int {
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
