package python

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/internal/generate"
	"dragoman/internal/generate/shape"
)

// expression returns a type as an annotation.
func (m *module) expression(t *shape.Type) string {
	if name := m.named[t]; name != "" {
		return name
	}
	return m.unnamed(t)
}

// unnamed returns a type as an annotation that does not use its own name.
func (m *module) unnamed(t *shape.Type) string { return strings.Join(m.parts(t), " | ") }

// parts returns the alternatives of a type.
func (m *module) parts(t *shape.Type) []string {
	switch t.Kind {
	case shape.Null:
		return []string{"None"}
	case shape.Boolean:
		return []string{"bool"}
	case shape.Integer:
		return []string{"int"}
	case shape.Number:
		return []string{"float"}
	case shape.String:
		return m.text(t.Format)
	case shape.Array:
		return []string{"list[" + m.expression(t.Items) + "]"}
	case shape.Map:
		return []string{"dict[str, " + m.expression(t.Items) + "]"}
	case shape.Enum:
		return m.enum(t)
	case shape.Union:
		return m.union(t)
	}
	m.imports.any = true
	return []string{"Any"}
}

// text returns the type of a text in a format. A text is allowed in each, so that a result in another form is kept as it is.
func (m *module) text(format string) []string {
	switch format {
	case "date-time":
		m.imports.datetime = true
		return []string{"datetime", "str"}
	case "date":
		m.imports.date = true
		return []string{"date", "str"}
	case "uuid":
		m.imports.uuid = true
		return []string{"UUID", "str"}
	}
	return []string{"str"}
}

func (m *module) union(t *shape.Type) (all []string) {
	null := false
	for _, o := range t.Options {
		parts := []string{m.named[o]}
		if parts[0] == "" {
			parts = m.parts(o)
		}
		for _, one := range parts {
			if null = null || one == "None"; one != "None" && !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	if slices.Contains(all, "Any") {
		return []string{"Any"}
	}
	if null {
		all = append(all, "None")
	}
	return all
}

// enum returns the type of some values. Those that Literal cannot have are of their kind.
func (m *module) enum(t *shape.Type) []string {
	var values, others []string
	for _, v := range t.Values {
		text := string(v)
		switch {
		case text == "null":
			others = append(others, "None")
		case text == "true":
			values = append(values, "True")
		case text == "false":
			values = append(values, "False")
		case text[0] == '"':
			values = append(values, quoteJSON(v))
		case len(text) <= 18 && !strings.ContainsAny(text, ".eE"):
			values = append(values, text)
		default:
			others = append([]string{"float"}, others...)
		}
	}
	if len(values) > 0 {
		m.imports.literal = true
		others = append([]string{"Literal[" + strings.Join(values, ", ") + "]"}, others...)
	}
	return slices.Compact(others)
}

// quote returns a literal of a text.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c >= ' ' && c < 0x7f:
			b.WriteRune(c)
		case c > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String() + `"`
}

// quoteJSON returns a literal of a JSON string.
func quoteJSON(raw []byte) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return `""`
	}
	return quote(text)
}

// docstring returns a text as a string of documentation, with a line end.
func docstring(indent, text string) string {
	text = strings.NewReplacer(`\`, `\\`, `"""`, `\"\"\"`).Replace(generate.Plain(text))
	lines := strings.Split(text, "\n")
	var b strings.Builder
	b.WriteString(indent + `"""`)
	for i, line := range lines {
		if i > 0 && line != "" {
			b.WriteString(indent)
		}
		b.WriteString(line)
		if i < len(lines)-1 {
			b.WriteString("\n")
		}
	}
	if len(lines) > 1 {
		b.WriteString("\n" + indent)
	} else if strings.HasSuffix(text, `"`) {
		b.WriteString(" ")
	}
	return b.String() + "\"\"\"\n"
}
