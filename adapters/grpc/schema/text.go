package schema

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"dragoman/proxy/wire"
)

// Bytes of descriptions. Comments of protobuf files may be essays, and a model reads them with every request.
const (
	maxDescription = 2 << 10 // of a method
	maxComment     = 512     // of a type, field or enum
)

// comment returns the comment of a declaration in its file, without what is meant for linters and authors; empty if there is none or the
// descriptors have no source information.
func comment(d protoreflect.Descriptor, most int) string {
	at := d.ParentFile().SourceLocations().ByDescriptor(d)
	raw := at.LeadingComments
	if raw == "" {
		raw = at.TrailingComments
	}
	raw = raw[:min(len(raw), 8*maxDescription)]
	for { // (-- notes of an API's authors, AIP-192 --)
		from := strings.Index(raw, "(--")
		to := strings.Index(raw, "--)")
		if from < 0 || to < from {
			break
		}
		raw = raw[:from] + raw[to+len("--)"):]
	}
	var lines []string
	for line := range strings.Lines(raw) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "buf:lint:") || line == "" && (len(lines) == 0 || lines[len(lines)-1] == "") {
			continue
		}
		lines = append(lines, line)
	}
	return cut(wire.Visible(strings.TrimSpace(strings.Join(lines, "\n"))), most)
}

// cut shortens a text to most bytes.
func cut(s string, most int) string {
	const more = "…"
	if len(s) <= most {
		return s
	}
	end := most - len(more)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.TrimRightFunc(s[:end], unicode.IsSpace) + more
}

// describe adds the comment of a declaration before the description that a schema has, and marks it if it is deprecated.
func (g *generator) describe(o *object, d protoreflect.Descriptor) {
	if deprecated(d) {
		o.yes("deprecated")
	}
	if !g.comments {
		return
	}
	var texts []string
	if c := comment(d, maxComment); c != "" {
		texts = append(texts, c)
	}
	if ed, ok := d.(protoreflect.EnumDescriptor); ok {
		for i := range ed.Values().Len() {
			v := ed.Values().Get(i)
			if c := comment(v, maxComment); c != "" {
				texts = append(texts, string(v.Name())+": "+c)
			}
		}
	}
	if len(texts) > 0 {
		o.note(cut(strings.Join(texts, "\n"), maxDescription))
	}
}

func deprecated(d protoreflect.Descriptor) bool {
	o, ok := d.Options().(interface{ GetDeprecated() bool })
	return ok && o.GetDeprecated()
}

// shown returns the full name of a declaration as it goes into an error.
func shown(d protoreflect.Descriptor) string { return wire.Shown(string(d.FullName())) }

// words separates the words of a name in camel case: GetHTTPRoute becomes Get HTTP Route.
func words(name string) string {
	runes := []rune(name)
	var b strings.Builder
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(strings.ReplaceAll(b.String(), "_", " "))
}
