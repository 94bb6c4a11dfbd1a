package wire

import "bytes"

// Span is the position of a value in a message: raw[From:To]. The zero Span is an absent value; a value never ends at 0. Strings include
// their quotes.
type Span struct{ From, To uint32 }

// Present reports whether the value is present.
func (s Span) Present() bool { return s.To != 0 }

// Of returns the bytes at the span, borrowed from raw; nil if it is absent.
func (s Span) Of(raw []byte) []byte {
	if s.To == 0 {
		return nil
	}
	return raw[s.From:s.To:s.To]
}

// holds reports whether o is inside s; an empty one may be at either end.
func (s Span) holds(o Span) bool { return o.From >= s.From && o.To <= s.To }

// IsObject reports whether the value at the span is a JSON object.
func (s Span) IsObject(raw []byte) bool { return s.To != 0 && raw[s.From] == '{' }

// IsString reports whether the value at the span is a JSON string.
func (s Span) IsString(raw []byte) bool { return s.To != 0 && raw[s.From] == '"' }

// Text returns the characters of the JSON string at the span: borrowed from raw if it has no escapes, else decoded into new memory. It
// returns nil if the value is absent or not a string.
func (s Span) Text(raw []byte) []byte {
	if !s.IsString(raw) {
		return nil
	}
	in := raw[s.From+1 : s.To-1]
	if bytes.IndexByte(in, '\\') < 0 {
		return in
	}
	return appendUnescaped(make([]byte, 0, len(in)), in)
}

// Is reports whether the value at the span is the JSON string want, which must not have a backslash.
func (s Span) Is(raw []byte, want string) bool {
	if int(s.To-s.From) < len(want)+2 || raw[s.From] != '"' {
		return false
	}
	in := raw[s.From+1 : s.To-1]
	if len(in) == len(want) { // with escapes it would be longer
		return string(in) == want
	}
	return bytes.IndexByte(in, '\\') >= 0 && string(s.Text(raw)) == want
}
