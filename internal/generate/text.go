package generate

import (
	"strings"

	"dragoman/internal/generate/shape"
	"dragoman/proxy/wire"
)

// maxText bounds a text of a server in generated files, in bytes.
const maxText = 16 << 10

// Plain returns a text of a server for people: characters that cannot be seen, but for the ends of lines, are escaped; spaces at the ends of lines
// and empty lines around it go; a text that is too long is cut.
func Plain(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	var lines []string
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		line = strings.ReplaceAll(line, "\t", "    ")
		lines = append(lines, strings.TrimRight(wire.Visible(line), " "))
	}
	for len(lines) > 0 && lines[0] == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return strings.Join(lines, "\n")
}

// FirstOf returns the first text that is more than space.
func FirstOf(texts ...string) string {
	for _, t := range texts {
		if strings.TrimSpace(t) != "" {
			return t
		}
	}
	return ""
}

// Notes says what a field's description may not: its values, its default, its bounds.
func Notes(f *shape.Field) (notes []string) {
	t, null := f.Type.Nullable()
	if t.Kind == shape.Array {
		t = t.Items
	}
	if t.Kind == shape.Enum && len(t.Values) <= 40 {
		var all []string
		for _, v := range t.Values {
			all = append(all, string(v))
		}
		notes = append(notes, "one of "+strings.Join(all, ", "))
	}
	if f.Bounds != "" {
		notes = append(notes, f.Bounds)
	}
	if null && f.Type.Kind != shape.Null {
		notes = append(notes, "may be null")
	}
	if f.Default != nil && len(f.Default) <= 200 {
		notes = append(notes, "default "+string(f.Default))
	}
	return notes
}

// Line returns the beginning of a text of a server in one line, of about so many bytes.
func Line(text string, most int) string {
	text = strings.Join(strings.Fields(Plain(text)), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
