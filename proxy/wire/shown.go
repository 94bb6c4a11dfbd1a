package wire

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxShown is how many bytes of a text that a peer chose go into one log line, error, metric or span.
const MaxShown = 256

// Shown returns a text that a peer chose as it goes into a log line, an error, a span or onto a terminal: at most MaxShown bytes of it,
// with its length if it has more. Characters that cannot be seen, or that change how others are seen, are escaped as in Go: controls,
// line separators, formats such as those of direction and of zero width, and bytes that are not UTF-8.
func Shown[T string | []byte](text T) string {
	if IsShown(text) {
		return string(text)
	}
	return string(appendShown(make([]byte, 0, min(len(text), MaxShown)+32), text, MaxShown))
}

// maxShownText is how many bytes of a text that we have made ourselves, with parts of peers in it, go there.
const maxShownText = 4 * MaxShown

// ShownText is Shown for a text of our own, such as an error, in which a peer's text may be: it may be four times as long.
func ShownText(text string) string {
	if len(text) <= maxShownText && printable(text) {
		return text
	}
	return string(appendShown(nil, text, maxShownText))
}

// Visible returns a text that a peer chose, with lines and of any length, as it goes onto a terminal or into a document: with the escapes of
// Shown, except for line ends and tabs.
func Visible(text string) string {
	hidden := func(r rune) bool { return r == utf8.RuneError || r != '\n' && r != '\t' && !unicode.IsPrint(r) }
	at := strings.IndexFunc(text, hidden)
	if at < 0 {
		return text
	}
	dst := append(make([]byte, 0, len(text)+32), text[:at]...)
	for rest := text[at:]; rest != ""; {
		kept := strings.IndexAny(rest, "\n\t")
		if kept < 0 {
			return string(appendVisible(dst, rest))
		}
		dst = append(appendVisible(dst, rest[:kept]), rest[kept])
		rest = rest[kept+1:]
	}
	return string(dst)
}

// IsShown reports whether Shown would return the text as it is. It may say no of one in other than ASCII.
func IsShown[T string | []byte](text T) bool { return len(text) <= MaxShown && printable(text) }

// AppendShown appends what Shown returns as a JSON string.
func AppendShown[T string | []byte](dst []byte, text T) []byte {
	if IsShown(text) {
		return AppendText(dst, text)
	}
	return AppendText(dst, appendShown(nil, text, MaxShown))
}

// printable reports whether a text is ASCII without controls.
func printable[T string | []byte](text T) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] >= 0x7f {
			return false
		}
	}
	return true
}

func appendShown[T string | []byte](dst []byte, text T, most int) []byte {
	kept := text
	if len(text) > most {
		end := most
		for end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		kept = text[:end]
	}
	dst = appendVisible(dst, string(kept))
	if len(kept) < len(text) {
		dst = append(dst, "… ("...)
		dst = append(strconv.AppendInt(dst, int64(len(text)), 10), " bytes)"...)
	}
	return dst
}

// appendVisible appends a text with what cannot be seen escaped.
func appendVisible(dst []byte, text string) []byte {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, '\\', 'x', lowHex[text[i]>>4], lowHex[text[i]&15])
		case unicode.IsPrint(r):
			dst = append(dst, text[i:i+n]...)
		default:
			dst = AppendEscape(dst, r)
		}
		i += n
	}
	return dst
}

const lowHex = "0123456789abcdef"

// AppendEscape appends the escape that Shown has for a character: that of JSON and Go up to U+FFFF.
func AppendEscape(dst []byte, r rune) []byte {
	switch r {
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	digits := 4
	if dst = append(dst, '\\', 'u'); r > 0xffff {
		dst[len(dst)-1], digits = 'U', 8
	}
	for i := digits - 1; i >= 0; i-- {
		dst = append(dst, lowHex[r>>(4*i)&15])
	}
	return dst
}

// AppendVisible appends JSON with the same value in which every character of a string can be seen: those that Shown escapes have the
// escapes of JSON.
func AppendVisible(dst, json []byte) []byte {
	for i := 0; i < len(json); {
		if json[i] < 0x7f {
			dst = append(dst, json[i])
			i++
			continue
		}
		r, n := utf8.DecodeRune(json[i:])
		switch {
		case unicode.IsPrint(r):
			dst = utf8.AppendRune(dst, r) // U+FFFD for what is not UTF-8
		case r > 0xffff:
			r -= 0x10000
			dst = AppendEscape(AppendEscape(dst, 0xd800+r>>10), 0xdc00+r&0x3ff)
		default:
			dst = AppendEscape(dst, r)
		}
		i += n
	}
	return dst
}
