// Package deceptive finds text in the definitions of servers that a model reads and that a person, who looks at it before, does not see as it
// is: control characters, invisible characters, changes of the direction of writing, and comments of markup.
package deceptive

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"dragoman/proxy/wire"
)

// Finding is one such place.
type Finding struct {
	Place string `json:"place"` // the members that lead to the text, as in inputSchema.properties.path.description
	What  string `json:"what"`  // what is there, in printable characters
	At    int    `json:"at"`    // where it begins in the text, in characters from 0
}

// MaxFindings bounds the findings of one definition.
const MaxFindings = 20

// maxDepth bounds how deep a definition is looked into. No schema of a tool comes near it.
const maxDepth = 64

// Find returns the findings in a definition, which must have been scanned, in the order of the text: the first of each kind in each text, and
// MaxFindings in all.
func Find(raw []byte) []Finding {
	f := finder{raw: raw}
	f.value(wire.Whole(raw), 0)
	return f.found
}

type finder struct {
	raw   []byte
	path  []string
	found []Finding
}

func (f *finder) value(s wire.Span, depth int) {
	switch {
	case depth > maxDepth || len(f.found) >= MaxFindings:
	case s.IsString(f.raw):
		f.text(string(s.Text(f.raw)))
	case s.IsObject(f.raw):
		for key, value := range wire.Members(f.raw, s) {
			f.path = append(f.path, string(key.Text(f.raw)))
			f.text(f.path[len(f.path)-1])
			f.value(value, depth+1)
			f.path = f.path[:len(f.path)-1]
		}
	default:
		for i, item := range wire.Items(f.raw, s) {
			f.path = append(f.path, fmt.Sprint(i))
			f.value(item, depth+1)
			f.path = f.path[:len(f.path)-1]
		}
	}
}

// text looks into a text, or the name of a member.
func (f *finder) text(text string) {
	var seen []string
	add := func(kind, what string, at int) {
		if len(f.found) < MaxFindings && !slices.Contains(seen, kind) {
			seen = append(seen, kind)
			f.found = append(f.found, Finding{Place: wire.Shown([]byte(strings.Join(f.path, "."))), What: what, At: at})
		}
	}
	at := 0
	for _, r := range text {
		if kind := kindOf(r); kind != "" {
			add(kind, fmt.Sprintf("%s U+%04X", kind, r), at)
		}
		at++
	}
	for _, begin := range comments {
		if i := strings.Index(strings.ToLower(text), begin); i >= 0 {
			add("markup", "markup that is not shown: "+begin, len([]rune(strings.ToLower(text)[:i])))
		}
	}
}

// comments begin what markup does not show.
var comments = []string{"<!--", "[//]: #", "display:none", "display: none", "visibility:hidden", "font-size:0", "<hidden>", "<important>", "<system>"}

// Hides reports whether a character is one of those that Find finds, wherever it is.
func Hides(r rune) bool { return kindOf(r) != "" }

// kindOf returns which kind of deceptive character a character is; empty: none. A joiner between letters is none: some scripts need it.
func kindOf(r rune) string {
	switch {
	case r == '\n' || r == '\r' || r == '\t':
		return ""
	case r == 0x1b || r == 0x9b:
		return "terminal escape sequence"
	case unicode.Is(unicode.Cc, r):
		return "control character"
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f, r == 0x061c:
		return "change of the direction of writing"
	case r >= 0xe0000 && r <= 0xe01ef:
		return "invisible tag or selector"
	case r == 0x200b, r >= 0x2060 && r <= 0x2064, r == 0xfeff, r == 0x00ad, r == 0x180e, r == 0x3164, r == 0xffa0, r == 0x115f, r == 0x1160, r >= 0xfff9 && r <= 0xfffb, r == 0x034f, r == 0x2800:
		return "invisible character"
	case unicode.Is(unicode.Co, r):
		return "character of private use"
	}
	return ""
}
