package value

import (
	"bytes"
	"errors"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-json"
)

// KeyText returns a path as it is written in TOML.
func KeyText(path []string) string {
	parts := make([]string, 0, len(path))
	for _, name := range path {
		parts = append(parts, KeyPart(name))
	}
	return strings.Join(parts, ".")
}

// KeyPart returns one part of a path as it is written in TOML: in quotes if it needs them.
func KeyPart(name string) string {
	if bareKey.MatchString(name) {
		return name
	}
	return Quote(Shorten(name))
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Reason returns the cause of a file error without the path, which the message has already.
func Reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// BadByte returns the offset of the first NUL byte or invalid UTF-8; -1 if there is none.
func BadByte(data []byte) int {
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 || r == 0 {
			return at
		}
		at += size
	}
	return -1
}

// LineAt returns the line of a byte offset, from 1.
func LineAt(data []byte, at int) int {
	return 1 + bytes.Count(data[:min(at, len(data))], []byte("\n"))
}

// Quote returns text as a string literal of JSON, which is one of TOML too.
func Quote(text string) string {
	data, err := json.MarshalWithOption(text, json.DisableHTMLEscape())
	if err != nil {
		return strconv.Quote(text) // unreachable: strings always encode
	}
	return string(data)
}

// UnixScheme begins the address of a Unix socket; the rest is its path as it is.
const UnixScheme = "unix:"

// OneOf joins words as "a, b or c".
func OneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// HasControl reports whether text has an ASCII control character.
func HasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// Inheritable matches the name of a variable, or the beginning of one followed by a star.
var Inheritable = regexp.MustCompile(`^[^=*\s\x00-\x1f\x7f]+\*?$`)
