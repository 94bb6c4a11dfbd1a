package wire

import (
	"bytes"
	"fmt"
	"math"
)

// MaxDepth bounds the nesting of objects and arrays. No message of the protocol comes near it; it bounds the cost of a hostile one.
const MaxDepth = 1024

// The JSON-RPC codes of a message that cannot be read.
const (
	CodeParse   = -32700
	CodeInvalid = -32600
)

// ScanError is the reason why a message was refused.
type ScanError struct {
	Code   int    // CodeParse: not JSON; CodeInvalid: JSON, but no JSON-RPC message
	Reason string // for people
	At     int    // position in bytes
}

// Error implements error.
func (e *ScanError) Error() string { return fmt.Sprintf("wire: %s at byte %d", e.Reason, e.At) }

var bom = []byte("\xef\xbb\xbf")

// Scan reads one message. It allocates only if it fails. Then the error is a *ScanError, and the message has what was read until then:
// its ID is set if it was read, so that the answer can have it.
//
// A member that Scan records may occur once only, and not with other capitals: if two readers disagreed about `method` and `Method`, one
// would judge a request and the other run another one. An array is returned as a Batch whose elements are valid JSON, but not yet
// checked as messages: see Items.
func Scan(raw []byte) (Message, error) { return scan(raw, nil, Run{}) }

// ScanKnown is Scan for a text with a known run.
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
		if s.err != nil {
			return m, s.err
		}
		return m, nil
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

// ScanValue returns the only JSON value in raw, without byte order mark and surrounding space, checked as strictly as by Scan. It
// allocates only if it fails, with a *ScanError.
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
	return Span{uint32(from), uint32(to)}, nil //nolint:gosec // checked above
}

// classify determines the Kind and checks that the message is valid JSON-RPC 2.0.
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

// validID reports whether a value is a valid request id: a string or an integer (2026-07-28 basic, Requests).
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
