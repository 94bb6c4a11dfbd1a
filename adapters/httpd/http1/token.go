package http1

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// ValidName reports whether name is a field name: a non-empty token (RFC 9110 §5.6.2).
func ValidName[T string | []byte](name T) bool {
	for i := range len(name) {
		if !token[name[i]] {
			return false
		}
	}
	return len(name) > 0
}

// ValidValue reports whether value can be a field value: visible bytes, spaces, tabs and bytes above 0x7F, but no other control
// character, because one could end the line (RFC 9110 §5.5). Outer blanks are not checked.
func ValidValue[T string | []byte](value T) bool {
	for i := range len(value) {
		if control[value[i]] {
			return false
		}
	}
	return true
}

// clean is ValidValue eight bytes at a time.
func clean(value []byte) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for len(value) >= 8 {
		x := binary.LittleEndian.Uint64(value)
		low, del := x-' '*ones, x^0x7f*ones
		if low&^x&high|(del-ones)&^del&high != 0 && !ValidValue(value[:8]) { // the test of eight is too strict about tabs
			return false
		}
		value = value[8:]
	}
	return ValidValue(value)
}

// token and control are isToken and isControl as tables.
var token, control = table(isToken), table(isControl)

func table(is func(byte) bool) (t [256]bool) {
	for b := range t {
		t[b] = is(byte(b))
	}
	return t
}

// isControl reports whether b cannot stand in a field value.
func isControl(b byte) bool { return b < ' ' && b != '\t' || b == 0x7f }

// isToken reports whether b is a tchar of RFC 9110 §5.6.2.
func isToken(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0
}

// ValidTarget reports whether target can stand in a request line: no blank and no control character.
func ValidTarget[T string | []byte](target T) bool {
	for i := range len(target) {
		if b := target[i]; b <= ' ' || b == 0x7f {
			return false
		}
	}
	return len(target) > 0
}

// HasItem reports whether one of the comma-separated items of line is token, case-insensitively.
func HasItem(line []byte, token string) bool {
	for len(line) > 0 {
		item, rest, _ := bytes.Cut(line, []byte{','})
		if bytes.EqualFold(bytes.TrimSpace(item), []byte(token)) {
			return true
		}
		line = rest
	}
	return false
}
