package wire

import (
	"bytes"
	"fmt"
	"math"
)

// MaxDepth is how many objects and arrays may lie in one another. No message of the protocol comes near it; it bounds
// what a hostile one can cost.
const MaxDepth = 1024

// The JSON-RPC codes of a message that cannot be read.
const (
	CodeParse   = -32700
	CodeInvalid = -32600
)

// ScanError says why a message was refused.
type ScanError struct {
	Code   int    // CodeParse: no JSON; CodeInvalid: JSON, but no JSON-RPC message
	Reason string // for people
	At     int    // the byte at which it was noticed
}

// Error implements error.
func (e *ScanError) Error() string { return fmt.Sprintf("wire: %s at byte %d", e.Reason, e.At) }

var bom = []byte("\xef\xbb\xbf")

// Scan reads one message. It allocates nothing unless it fails. On failure the error is a *ScanError and the message
// holds what was understood until then: its ID is set if it was read, so that the answer can carry it.
//
// A member that Scan reads may occur once only, and in no other spelling of capitals: two readers that disagree about
// which of `method` and `Method` counts would judge one request and run another. An array is returned as a Batch whose
// elements are checked JSON, but not yet checked messages: see Items.
func Scan(raw []byte) (Message, error) { return scan(raw, nil, Run{}) }

// ScanKnown is Scan for a text of which a run was found while it was read.
func ScanKnown(raw []byte, known Run) (Message, error) { return scan(raw, nil, known) }

func scan(raw []byte, r *Reader, known Run) (Message, error) {
	room := cap(raw)
	raw = bytes.TrimPrefix(raw, bom)
	raw = trimSpace(raw)
	m := Message{Raw: raw}
	if uint64(len(raw)) > math.MaxUint32 {
		return m, &ScanError{CodeInvalid, "message of 4 GiB or more", 0}
	}
	s := scanner{raw: raw, reader: r, known: known.behind(room - cap(raw))}
	if len(raw) > 0 && raw[0] == '[' {
		if end := s.value(0); s.err == nil && end != len(raw) {
			s.fail(CodeParse, "text after the end of the message", end)
		}
		m.Kind, m.Lines = Batch, s.lines
		return m, s.error()
	}
	end := s.object(0, &m, topMembers)
	if s.err == nil && end != len(raw) {
		s.fail(CodeParse, "text after the end of the message", end)
	}
	m.Lines, m.plain = s.lines, !s.escapes && s.err == nil
	if s.err != nil {
		return m, s.err
	}
	return m, m.classify(&s)
}

// ScanValue finds the one JSON value in raw, as strictly as Scan reads a message; a byte order mark and spaces around it do not count.
// It allocates nothing unless it fails, with a *ScanError.
func ScanValue(raw []byte) (Span, error) {
	if uint64(len(raw)) > math.MaxUint32 {
		return Span{}, &ScanError{CodeInvalid, "value of 4 GiB or more", 0}
	}
	from := 0
	if bytes.HasPrefix(raw, bom) {
		from = len(bom)
	}
	s := scanner{raw: raw}
	from = s.space(from)
	to := s.value(from)
	if s.err == nil && s.space(to) != len(raw) {
		s.fail(CodeParse, "text after the end of the value", to)
	}
	if s.err != nil {
		return Span{}, s.err
	}
	return Span{uint32(from), uint32(to)}, nil //nolint:gosec // looked at above
}

// classify decides the Kind and checks the shape that JSON-RPC 2.0 prescribes for it.
func (m *Message) classify(s *scanner) error {
	bad := func(reason string) error { return &ScanError{CodeInvalid, reason, 0} }
	if !s.version {
		return bad(`member "jsonrpc" is not "2.0"`)
	}
	if m.Params.Present() && !m.Params.IsObject(m.Raw) {
		return bad(`member "params" is not an object`)
	}
	switch {
	case m.Method.Present():
		if !m.Method.IsString(m.Raw) || m.Method.To-m.Method.From == 2 {
			return bad(`member "method" is not a string with content`)
		}
		if m.Result.Present() || m.Error.Present() {
			return bad(`a message with "method" cannot have "result" or "error"`)
		}
		m.Kind = Notification
		if m.ID.Present() {
			m.Kind = Request
			if !validID(m.Of(m.ID)) {
				m.ID = Span{}
				return bad(`member "id" is neither a string nor an integer`)
			}
		}
	case m.Result.Present() && m.Error.Present():
		return bad(`a response cannot have both "result" and "error"`)
	case m.Result.Present():
		if !validID(m.Of(m.ID)) {
			return bad(`a result needs an "id" that is a string or an integer`)
		}
		m.Kind = Result
	case m.Error.Present():
		if !m.Error.IsObject(m.Raw) {
			return bad(`member "error" is not an object`)
		}
		if !validID(m.Of(m.ID)) {
			m.ID = Span{} // absent or null: the server could not read the request's id
		}
		m.Kind = Failure
	default:
		return bad(`neither "method" nor "result" nor "error"`)
	}
	return nil
}

// validID tells whether a value may be a request id: a string or an integer (2026-07-28 basic, Requests).
func validID(v []byte) bool {
	if len(v) == 0 {
		return false
	}
	if v[0] == '"' {
		return true
	}
	if v[0] != '-' && (v[0] < '0' || v[0] > '9') {
		return false
	}
	for _, c := range v[1:] { // it is a JSON number
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

func trimSpace(raw []byte) []byte {
	for len(raw) > 0 && isSpace(raw[0]) {
		raw = raw[1:]
	}
	for len(raw) > 0 && isSpace(raw[len(raw)-1]) {
		raw = raw[:len(raw)-1]
	}
	return raw
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }
