package wire

import "bytes"

// Span is the place of a value in a message: raw[From:To]. The zero Span means that the value is absent; a value can
// never end at 0. Strings include their quotes.
type Span struct{ From, To uint32 }

// Present tells whether the value was there at all.
func (s Span) Present() bool { return s.To != 0 }

// Of returns the bytes at the span, nil if it is absent. They are borrowed from raw.
func (s Span) Of(raw []byte) []byte {
	if s.To == 0 {
		return nil
	}
	return raw[s.From:s.To:s.To]
}

// holds tells whether o lies in s; one that is empty may lie at either end.
func (s Span) holds(o Span) bool { return o.From >= s.From && o.To <= s.To }

// IsObject tells whether the value at the span is a JSON object.
func (s Span) IsObject(raw []byte) bool { return s.To != 0 && raw[s.From] == '{' }

// IsString tells whether the value at the span is a JSON string.
func (s Span) IsString(raw []byte) bool { return s.To != 0 && raw[s.From] == '"' }

// Text returns the characters of the JSON string at the span: borrowed from raw if it has no escapes, else decoded into
// new memory. It returns nil if the span is absent or no string.
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

// Is tells whether the value at the span is the JSON string want, which has no backslash.
func (s Span) Is(raw []byte, want string) bool {
	if int(s.To-s.From) < len(want)+2 || raw[s.From] != '"' {
		return false
	}
	in := raw[s.From+1 : s.To-1]
	if len(in) == len(want) { // escapes make a string longer, and want has none
		return string(in) == want
	}
	return bytes.IndexByte(in, '\\') >= 0 && string(s.Text(raw)) == want
}
