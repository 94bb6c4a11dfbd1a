package wire

import (
	"bytes"
	"iter"
)

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

// Members iterates over the members of the object at obj: the span of each name, with its quotes, and of its value. The bytes must have
// been scanned. It yields nothing if obj is absent or not an object.
func Members(raw []byte, obj Span) iter.Seq2[Span, Span] {
	return func(yield func(key, value Span) bool) {
		if !obj.IsObject(raw) {
			return
		}
		i := SkipSpace(raw, obj.From+1)
		for raw[i] != '}' {
			key := Span{i, Skip(raw, i)}
			i = SkipSpace(raw, SkipSpace(raw, key.To)+1)
			value := Span{i, Skip(raw, i)}
			if !yield(key, value) {
				return
			}
			if i = SkipSpace(raw, value.To); raw[i] == ',' {
				i = SkipSpace(raw, i+1)
			}
		}
	}
}

// Items iterates over the elements of the array at arr: index and span. The bytes must have been scanned. It yields nothing if arr is
// absent or not an array.
func Items(raw []byte, arr Span) iter.Seq2[int, Span] {
	return func(yield func(int, Span) bool) {
		if !arr.Present() || raw[arr.From] != '[' {
			return
		}
		i := SkipSpace(raw, arr.From+1)
		for n := 0; raw[i] != ']'; n++ {
			item := Span{i, Skip(raw, i)}
			if !yield(n, item) {
				return
			}
			if i = SkipSpace(raw, item.To); raw[i] == ',' {
				i = SkipSpace(raw, i+1)
			}
		}
	}
}

// Get returns the value of the first member named key in the object at obj; the zero Span if there is none. The bytes must have been
// scanned.
func Get(raw []byte, obj Span, key string) Span {
	for k, v := range Members(raw, obj) {
		if k.Is(raw, key) {
			return v
		}
	}
	return Span{}
}

// Path returns a value in nested objects: Path(raw, obj, "a", "b") is the b in the a of obj.
func Path(raw []byte, obj Span, keys ...string) Span {
	for _, k := range keys {
		obj = Get(raw, obj, k)
	}
	return obj
}

// SkipSpace returns the position of the next byte that is no white space; there must be one.
func SkipSpace(raw []byte, i uint32) uint32 {
	for isSpace(raw[i]) {
		i++
	}
	return i
}

// Skip returns the position after the value at i. The bytes must have been scanned.
func Skip(raw []byte, i uint32) uint32 {
	switch raw[i] {
	case '"':
		return skipString(raw, i)
	case '{', '[':
		return skipNested(raw, i)
	}
	for int(i) < len(raw) {
		switch raw[i] {
		case ',', '}', ']', ' ', '\n', '\r', '\t':
			return i
		}
		i++
	}
	return i
}

func skipString(raw []byte, i uint32) uint32 {
	for i++; ; {
		n := bytes.IndexByte(raw[i:], '"')
		i += uint32(n) //nolint:gosec // the bytes were scanned: there is an end
		if raw[i-1] != '\\' || !escaped(raw, i) {
			return i + 1
		}
		i++
	}
}

// escaped reports whether the quote at i follows an odd number of backslashes.
func escaped(raw []byte, i uint32) bool {
	n := 0
	for raw[i-1] == '\\' {
		i--
		n++
	}
	return n%2 == 1
}

func skipNested(raw []byte, i uint32) uint32 {
	depth := 0
	for {
		switch raw[i] {
		case '"':
			i = skipString(raw, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
}
