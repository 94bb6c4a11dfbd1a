package wire

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// scanner reads raw. Its methods take the position at which something begins and return the position after it. After a failure s.err is
// set and positions are meaningless.
type scanner struct {
	raw     []byte
	err     *ScanError
	lines   bool    // there is a raw line end between tokens
	escaped bool    // the last string has an escape
	escapes bool    // any string has one
	version bool    // jsonrpc is "2.0"
	seen    bool    // jsonrpc is present
	reader  *Reader // may be nil
	known   Run     // need not be examined
}

func (s *scanner) fail(code int, reason string, at int) int {
	if s.err == nil {
		s.err = &ScanError{code, reason, at}
	}
	return len(s.raw)
}

// object reads an object of a level. Levels are nested four deep at most, so it may call itself.
func (s *scanner) object(i int, m *Message, l level) int {
	if i >= len(s.raw) || s.raw[i] != '{' {
		if l == topMembers {
			return s.value1(i) // not a message; whether it is JSON decides the code
		}
		return s.value(i)
	}
	i = s.space(i + 1)
	if i < len(s.raw) && s.raw[i] == '}' {
		return i + 1
	}
	for s.err == nil {
		keyAt := i
		if i = s.key(i); s.err != nil {
			return i
		}
		keyEnd, escaped := i, s.escaped
		if i = s.space(i); i >= len(s.raw) || s.raw[i] != ':' {
			return s.fail(CodeParse, "expected ':'", i)
		}
		i = s.space(i + 1)
		key := s.raw[keyAt+1 : keyEnd-1]
		if escaped {
			key = appendUnescaped(nil, key)
		}
		if i = s.member(key, keyAt, i, m, l); s.err != nil {
			return i
		}
		i = s.space(i)
		if i >= len(s.raw) {
			break
		}
		switch s.raw[i] {
		case ',':
			i = s.space(i + 1)
		case '}':
			return i + 1
		default:
			return s.fail(CodeParse, "expected ',' or '}'", i)
		}
	}
	return s.fail(CodeParse, "message ends inside an object", i)
}

// value1 reads a top-level value that is not an object.
func (s *scanner) value1(i int) int {
	end := s.value(i)
	if s.err == nil {
		return s.fail(CodeInvalid, "a message must be a JSON object", i)
	}
	return end
}

// member reads the value of a member and records its position.
func (s *scanner) member(key []byte, keyAt, i int, m *Message, l level) int {
	if l == topMembers && string(key) == "jsonrpc" {
		if s.seen {
			return s.fail(CodeInvalid, `duplicate member "jsonrpc"`, keyAt)
		}
		end := s.value(i)
		s.seen, s.version = true, s.err == nil && string(s.raw[i:end]) == `"2.0"`
		return end
	}
	if l == errorMembers && string(key) == "code" {
		end := s.value(i)
		if s.err == nil {
			m.ErrorCode, _ = strconv.Atoi(string(s.raw[i:end]))
		}
		return end
	}
	slot, below := l.slot(m, key)
	if slot == nil {
		if l.variant(key) {
			return s.fail(CodeInvalid, "member "+strconv.Quote(string(key))+" differs only in case from one of the protocol's", keyAt)
		}
		return s.value(i)
	}
	if slot.Present() {
		return s.fail(CodeInvalid, "duplicate member "+strconv.Quote(string(key)), keyAt)
	}
	var end int
	if below == metaMembers && s.reader != nil {
		end = s.meta(i, m)
	} else if below != 0 {
		end = s.object(i, m, below)
	} else {
		end = s.value(i)
	}
	if s.err == nil {
		*slot = Span{uint32(i), uint32(end)} //nolint:gosec // Scan refuses what does not fit
	}
	return end
}

// meta reads params._meta, unless the Reader knows it.
func (s *scanner) meta(i int, m *Message) int {
	if end := s.reader.again(s.raw, i, m); end > 0 {
		return end
	}
	end := s.object(i, m, metaMembers)
	if s.err == nil && !s.lines && !s.escapes {
		s.reader.keep(s.raw, i, end, m)
	}
	return end
}

func (s *scanner) key(i int) int {
	if i >= len(s.raw) || s.raw[i] != '"' {
		return s.fail(CodeParse, "expected a member name", i)
	}
	return s.str(i)
}

// space skips the space between tokens.
func (s *scanner) space(i int) int {
	if i < len(s.raw) && s.raw[i] > ' ' {
		return i
	}
	return s.spaces(i)
}

func (s *scanner) spaces(i int) int {
	for i < len(s.raw) {
		switch s.raw[i] {
		case ' ', '\t':
		case '\n', '\r':
			s.lines = true
		default:
			return i
		}
		i++
	}
	return i
}

// value reads any value.
func (s *scanner) value(i int) int {
	if i < len(s.raw) {
		switch c := s.raw[i]; {
		case c == '"':
			return s.str(i)
		case c != '{' && c != '[':
			return s.atom(i)
		}
	}
	return s.nested(i)
}

// nested reads any value without recursion: open objects and arrays are bits on a stack of fixed size.
func (s *scanner) nested(i int) int {
	var stack [MaxDepth / 64]uint64 // 1: object
	depth := 0
	for {
		if i >= len(s.raw) {
			return s.fail(CodeParse, "message ends where a value is expected", i)
		}
		switch c := s.raw[i]; {
		case c == '{' || c == '[':
			if depth == MaxDepth {
				return s.fail(CodeParse, "more than "+strconv.Itoa(MaxDepth)+" objects and arrays in one another", i)
			}
			if c == '{' {
				stack[depth>>6] |= 1 << (depth & 63)
			} else {
				stack[depth>>6] &^= 1 << (depth & 63)
			}
			depth++
			i = s.space(i + 1)
			if i < len(s.raw) && s.raw[i] == c+2 { // '}' is '{'+2, ']' is '['+2
				depth--
				i++
				break
			}
			if c == '{' {
				i = s.name(i)
			}
			if s.err != nil {
				return i
			}
			continue
		case c == '"':
			i = s.str(i)
		default:
			i = s.atom(i)
		}
		if s.err != nil {
			return i
		}
		if i, depth = s.after(i, depth, &stack); s.err != nil || depth == 0 {
			return i
		}
	}
}

// after reads what follows a value inside objects and arrays: any number of ends, then a comma and, in an object, the next name. Depth 0
// means that the outermost value has ended.
func (s *scanner) after(i, depth int, stack *[MaxDepth / 64]uint64) (int, int) {
	for depth > 0 {
		i = s.space(i)
		if i >= len(s.raw) {
			return s.fail(CodeParse, "message ends inside an object or array", i), depth
		}
		inObject := stack[(depth-1)>>6]&(1<<((depth-1)&63)) != 0
		switch c := s.raw[i]; {
		case c == ',':
			i = s.space(i + 1)
			if inObject {
				i = s.name(i)
			}
			return i, depth
		case c == '}' && inObject, c == ']' && !inObject:
			i++
			depth--
		default:
			return s.fail(CodeParse, "expected ',' or the end of the object or array", i), depth
		}
	}
	return i, 0
}

// name reads a member name and the colon after it.
func (s *scanner) name(i int) int {
	if i = s.key(i); s.err != nil {
		return i
	}
	if i = s.space(i); i >= len(s.raw) || s.raw[i] != ':' {
		return s.fail(CodeParse, "expected ':'", i)
	}
	return s.space(i + 1)
}

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plainWords returns a position from i on before which the string in raw has nothing that str must examine. It advances in steps of 32
// bytes.
func plainWords(raw []byte, i int) int {
	for len(raw)-i >= 32 {
		p := raw[i : i+32 : i+32]
		odd := odd(binary.LittleEndian.Uint64(p)) | odd(binary.LittleEndian.Uint64(p[8:])) |
			odd(binary.LittleEndian.Uint64(p[16:])) | odd(binary.LittleEndian.Uint64(p[24:]))
		if odd&highs != 0 {
			break
		}
		i += 32
	}
	return i
}

// skim advances from i to the next byte that str must examine, if there are eight more bytes.
func (s *scanner) skim(i int) int {
	raw := s.raw
	for words := 0; len(raw)-i >= 8; words++ {
		if odd := odd(binary.LittleEndian.Uint64(raw[i:])) & highs; odd != 0 {
			return i + bits.TrailingZeros64(odd)/8
		}
		if i += 8; words == 3 { // this string is longer than most
			if s.known.has(i) {
				i = min(s.known.To, len(raw)) // spaces at the end do not belong to the message
			}
			i = plain(raw, i)
		}
	}
	return i
}

// odd sets the high bit of each byte that str must examine; bits above the first such byte are meaningless. With bit 1 inverted, a quote
// (0x22) is 0x20 and control characters stay below: one comparison finds both.
func odd(w uint64) uint64 {
	return ((w ^ lows*0x02) - lows*0x21) | ((w ^ lows*'\\') - lows) | w
}

// str reads a string: no raw control characters, valid escapes, valid UTF-8.
func (s *scanner) str(i int) int {
	raw := s.raw
	s.escaped = false
	if i++; len(raw)-i >= 8 { // as skim does; most names end here
		odd := odd(binary.LittleEndian.Uint64(raw[i:])) & highs
		if odd != 0 {
			i += bits.TrailingZeros64(odd) / 8
		} else {
			i = s.skim(i + 8)
		}
		if i < len(raw) && raw[i] == '"' {
			return i + 1
		}
	}
	return s.rest(i)
}

// rest reads a string from a position inside it.
func (s *scanner) rest(i int) int {
	raw := s.raw
	for i < len(raw) {
		switch c := raw[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			s.escaped, s.escapes = true, true
			if i+1 < len(raw) && plainEscape(raw[i+1]) {
				i += 2
			} else if i = s.escape(i); s.err != nil {
				return i
			}
		case c < 0x20:
			return s.fail(CodeParse, "control character in a string", i)
		case c < utf8.RuneSelf:
			i++
		default:
			if i = s.wide(i); s.err != nil {
				return i
			}
		}
		i = s.skim(i)
	}
	return s.fail(CodeParse, "message ends inside a string", i)
}

// wide reads characters until the next ASCII one; there is at least one.
func (s *scanner) wide(i int) int {
	raw := s.raw
	for i < len(raw) && raw[i] >= utf8.RuneSelf {
		// The two and three bytes of most scripts. Package utf8 decides the rest: the ends of ranges, surrogates, four bytes.
		if c := raw[i]; len(raw)-i >= 3 && c >= 0xc2 && c < 0xed && c != 0xe0 && raw[i+1]&0xc0 == 0x80 {
			if c < 0xe0 {
				i += 2
				continue
			}
			if raw[i+2]&0xc0 == 0x80 {
				i += 3
				continue
			}
		}
		r, n := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && n == 1 {
			return s.fail(CodeParse, "invalid UTF-8", i)
		}
		i += n
	}
	return i
}

// plainEscape reports whether a backslash and c are a complete escape.
func plainEscape(c byte) bool {
	const low, high = 1<<'"' | 1<<'/', 1<<('\\'-64) | 1<<('b'-64) | 1<<('f'-64) | 1<<('n'-64) | 1<<('r'-64) | 1<<('t'-64)
	set := uint64(low)
	if c >= 64 {
		set = high
	}
	return c < 128 && set>>(c&63)&1 != 0
}

// escape reads an escape of more characters.
func (s *scanner) escape(i int) int {
	switch {
	case i+1 >= len(s.raw):
		return s.fail(CodeParse, "message ends inside a string", i)
	case s.raw[i+1] != 'u':
		return s.fail(CodeParse, "invalid escape", i)
	}
	for k := i + 2; k < i+6; k++ {
		if k >= len(s.raw) || !isHex(s.raw[k]) {
			return s.fail(CodeParse, "invalid \\u escape", i)
		}
	}
	return i + 6
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

// atom reads true, false, null or a number.
func (s *scanner) atom(i int) int {
	rest := s.raw[i:]
	switch rest[0] {
	case 't':
		if bytes.HasPrefix(rest, []byte("true")) {
			return i + 4
		}
	case 'f':
		if bytes.HasPrefix(rest, []byte("false")) {
			return i + 5
		}
	case 'n':
		if bytes.HasPrefix(rest, []byte("null")) {
			return i + 4
		}
	default:
		return s.number(i)
	}
	return s.fail(CodeParse, "expected a value", i)
}

func (s *scanner) number(i int) int {
	start, raw := i, s.raw
	if raw[i] == '-' {
		i++
	}
	whole := digits(raw, i)
	if whole == i {
		return s.fail(CodeParse, "expected a value", start)
	}
	if raw[i] == '0' {
		whole = i + 1 // no digits follow a leading zero
	}
	if i = whole; i == len(raw) {
		return i
	}
	if raw[i] == '.' {
		from := i + 1
		if i = digits(raw, from); i == from {
			return s.fail(CodeParse, "invalid number", start)
		}
	}
	if i < len(raw) && raw[i]|0x20 == 'e' {
		i++
		if i < len(raw) && (raw[i] == '+' || raw[i] == '-') {
			i++
		}
		from := i
		if i = digits(raw, from); i == from {
			return s.fail(CodeParse, "invalid number", start)
		}
	}
	return i
}

// digits returns the position after the digits at i.
func digits(raw []byte, i int) int {
	for i < len(raw) && raw[i]-'0' <= 9 {
		i++
	}
	return i
}
