package logging

import (
	"io"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"dragoman/proxy/wire"
)

// maxField is how many bytes of one text a line of the log has. What is longer holds a peer's text that nobody has cut, or
// the stacks of a panic.
const maxField = 8 << 10

// visible writes lines of JSON in which every character can be seen and no text is longer than maxField, whatever a server
// or a client has put in: what reads a log may be a terminal. It is the last of several checks.
type visible struct {
	to io.Writer
	// decoded says that what reads the lines shows the texts without the escapes of JSON. Then the escapes are escaped, and
	// line ends are marked.
	decoded bool
}

// Write implements io.Writer.
func (v visible) Write(line []byte) (int, error) { return v.WriteLevel(zerolog.NoLevel, line) }

// WriteLevel implements zerolog.LevelWriter.
func (v visible) WriteLevel(level zerolog.Level, line []byte) (n int, err error) {
	seen := line
	if !plainLine(line) {
		seen = v.shown(line)
	}
	if l, ok := v.to.(zerolog.LevelWriter); ok {
		_, err = l.WriteLevel(level, seen)
	} else {
		_, err = v.to.Write(seen)
	}
	return len(line), err
}

// plainLine reports whether a line is short, in ASCII, and without escapes.
func plainLine(line []byte) bool {
	for _, c := range line {
		if c >= 0x7f || c == '\\' {
			return false
		}
	}
	return len(line) <= maxField
}

// shown returns the line as it is written.
func (v visible) shown(line []byte) []byte {
	out := make([]byte, 0, min(len(line)+256, 2*maxField))
	for i := 0; i < len(line); {
		if line[i] != '"' {
			out = append(out, line[i])
			i++
			continue
		}
		end := i + 1
		for end < len(line) && line[end] != '"' {
			if line[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(line))
		out = append(v.text(append(out, '"'), line[i+1:end]), '"')
		i = end + 1
	}
	return out
}

// text appends the inside of a JSON string.
func (v visible) text(out, in []byte) []byte {
	began := len(out)
	for i := 0; i < len(in); {
		if len(out)-began >= maxField {
			out = append(out, "… ("...)
			return append(strconv.AppendInt(out, int64(len(in)), 10), " bytes)"...)
		}
		r, n, escaped := character(in[i:])
		switch {
		case !v.decoded && (escaped || r < utf8.RuneSelf && r != 0x7f), unicode.IsPrint(r), r == '\t':
			out = append(out, in[i:i+n]...)
		case v.decoded && r == '\n':
			out = append(out, `\n  | `...)
		case v.decoded:
			out = wire.AppendEscape(append(out, '\\'), r)
		case r > 0xffff:
			out = wire.AppendVisible(out, in[i:i+n])
		default:
			out = wire.AppendEscape(out, r)
		}
		i += n
	}
	return out
}

// character returns the character that the inside of a JSON string begins with, its length there, and whether it is written
// as an escape.
func character(in []byte) (r rune, n int, escaped bool) {
	if in[0] != '\\' || len(in) == 1 {
		r, n = utf8.DecodeRune(in)
		return r, n, false
	}
	switch in[1] {
	case 'n':
		return '\n', 2, true
	case 't':
		return '\t', 2, true
	case 'r', 'b', 'f':
		return map[byte]rune{'r': '\r', 'b': '\b', 'f': '\f'}[in[1]], 2, true
	case 'u':
		if len(in) >= 6 {
			if code, err := strconv.ParseUint(string(in[2:6]), 16, 16); err == nil {
				return rune(code), 6, true
			}
		}
	}
	return rune(in[1]), 2, true
}
