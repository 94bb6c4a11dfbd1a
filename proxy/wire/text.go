package wire

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// AppendText appends text as a JSON string. Invalid UTF-8 becomes U+FFFD; only what JSON demands is escaped.
func AppendText[T string | []byte](dst []byte, text T) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0 // of what is not appended yet
	for i := 0; i < len(text); {
		c := text[i]
		if c >= 0x20 && c < 0x7f && c != '"' && c != '\\' {
			if i++; i-from == longRun {
				i = plainText(text, i)
			}
			continue
		}
		dst = append(dst, text[from:i]...)
		n := 1
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < utf8.RuneSelf:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			var r rune
			r, n = utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
			dst = utf8.AppendRune(dst, r)
		}
		i += n
		from = i
	}
	return append(append(dst, text[from:]...), '"')
}

// longRun is after how many bytes that need no escape AppendText looks at several at once.
const longRun = 32

// plainText returns a position from i on before which AppendText has nothing to escape or to check.
func plainText[T string | []byte](text T, i int) int {
	var raw []byte
	switch text := any(text).(type) {
	case string:
		raw = unsafe.Slice(unsafe.StringData(text), len(text)) //nolint:gosec // it is only read
	case []byte:
		raw = text
	}
	end := plain(raw, i)
	if del := bytes.IndexByte(raw[i:end], 0x7f); del >= 0 {
		end = i + del
	}
	return end
}

// appendUnescaped decodes the inside of a scanned JSON string. A lone surrogate becomes U+FFFD.
func appendUnescaped(dst, in []byte) []byte {
	for i := 0; i < len(in); {
		if in[i] != '\\' || i+1 == len(in) {
			dst = append(dst, in[i])
			i++
			continue
		}
		switch c := in[i+1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, n := unescapeRune(in[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		default:
			dst = append(dst, c)
		}
		i += 2
	}
	return dst
}

// unescapeRune reads \uXXXX, or a surrogate pair of two.
func unescapeRune(in []byte) (rune, int) {
	hex := func(b []byte) rune {
		if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
			return -1
		}
		n, err := strconv.ParseUint(string(b[2:6]), 16, 32)
		if err != nil {
			return -1
		}
		return rune(n) //nolint:gosec // four hexadecimal digits
	}
	r := hex(in)
	if r < 0 {
		return utf8.RuneError, min(6, len(in))
	}
	if utf16.IsSurrogate(r) {
		if pair := utf16.DecodeRune(r, hex(in[6:])); pair != utf8.RuneError {
			return pair, 12
		}
		return utf8.RuneError, 6
	}
	return r, 6
}
