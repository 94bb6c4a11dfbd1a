package skills

import (
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"dragoman/adapters/merge/deceptive"
	"dragoman/proxy/wire"
)

// Quoted returns a text of a server as a code span of one line: words with single spaces between them, at most so many characters, then "…".
// A backtick, and what people do not see, becomes an escape such as \u0060, so that no text can end the span, in any dialect of Markdown. A
// text without words is "(empty)", which is no code span.
func Quoted(text string, most int) string {
	shown := oneLine(text, most)
	if shown == "" {
		return "(empty)"
	}
	return "`" + shown + "`"
}

// cell is Quoted for a cell of a table, which a vertical bar would end.
func cell(text string, most int) string {
	return strings.ReplaceAll(Quoted(text, most), "|", `\u007c`)
}

// oneLine returns a text as Quoted shows it, without the backticks around it.
func oneLine(text string, most int) string {
	var b strings.Builder
	n, apart := 0, false
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		i += size
		if unicode.IsSpace(r) {
			apart = b.Len() > 0
			continue
		}
		if n >= most {
			return b.String() + "…"
		}
		if apart {
			b.WriteByte(' ')
			n++
		}
		b.Write(appendSeen(nil, r))
		n, apart = n+1, false
	}
	return b.String()
}

// appendSeen appends a character of a text, escaped if it is a backtick or cannot be seen.
func appendSeen(dst []byte, r rune) []byte {
	if r == '`' || hidden(r) {
		return wire.AppendEscape(dst, r)
	}
	return utf8.AppendRune(dst, r)
}

// hidden reports whether people do not see a character as it is. Bytes that are no UTF-8 are read as U+FFFD, which is hidden, too.
func hidden(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) || deceptive.Hides(r) }

// seenJSON returns JSON with the same value in which every character can be seen and none is a backtick: both are escaped as JSON does. The
// JSON must have been scanned.
func seenJSON(raw []byte) []byte {
	dst := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRune(raw[i:])
		i += size
		if r > 0xffff && hidden(r) {
			high, low := utf16.EncodeRune(r)
			dst = wire.AppendEscape(wire.AppendEscape(dst, high), low)
			continue
		}
		if r == '\n' || r == '\r' || r == '\t' { // white space between values
			dst = append(dst, ' ')
			continue
		}
		dst = appendSeen(dst, r)
	}
	return dst
}

// fenced returns lines as a fenced block that nothing in them can end.
func fenced(lang, lines string) string {
	longest, run := 2, 0
	var b strings.Builder
	for _, r := range lines {
		if r == '`' {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
		if r == '\n' || r == '`' {
			b.WriteRune(r)
			continue
		}
		b.Write(appendSeen(nil, r))
	}
	fence := strings.Repeat("`", longest+1)
	return fence + lang + "\n" + strings.TrimRight(b.String(), "\n") + "\n" + fence + "\n"
}

// firstSentence returns the beginning of a text up to the end of its first sentence, or of its first line of text.
func firstSentence(text string) string {
	text = strings.TrimSpace(text)
	if at := strings.IndexAny(text, "\n\r"); at >= 0 {
		text = text[:at]
	}
	if at := strings.Index(text, ". "); at >= 0 {
		text = text[:at+1]
	}
	return text
}

// firstWords returns at most so many words of a text, and "…" if it has more.
func firstWords(text string, most int) string {
	if fields := strings.Fields(text); len(fields) > most {
		return strings.Join(fields[:most], " ") + " …"
	}
	return text
}

// words returns how many words a text has: parts with white space between them.
func words(text string) int { return len(strings.Fields(text)) }
