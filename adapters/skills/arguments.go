package skills

import (
	"strconv"
	"strings"

	"dragoman/proxy/wire"
)

// Bounds of the table of a tool's arguments.
const (
	maxRows     = 100
	maxNested   = 3   // levels: a member of a member is a.b, one of an array's items a[].b
	maxCellName = 128 // characters, as are the others
	maxCellType = 160
	maxCellText = 400
)

// argument is a row of the table.
type argument struct {
	name, kind, value, text string // value: of default
	required                bool
}

// argumentsOf returns the rows for the schema of a tool, in its order, and whether there are more. all is that of newReader.
func argumentsOf(schema []byte, all *int) (rows []argument, more bool) {
	r, whole, ok := newReader(schema, all)
	if !ok {
		return nil, len(schema) > maxSchema || all != nil && *all < 0
	}
	t := table{r: r}
	t.object(r.applied(whole), "", 1)
	return t.rows, t.more
}

type table struct {
	r    *reader
	rows []argument
	more bool
}

func (t *table) object(all subschemas, prefix string, level int) {
	list, more := t.r.properties(all, maxRows)
	t.more = t.more || more
	for _, p := range list {
		if len(t.rows) >= maxRows || t.r.left < 0 {
			t.more = true
			return
		}
		of := t.r.applied(p.schema)
		row := argument{name: prefix + p.name, kind: t.kind(of), required: p.required, text: t.r.text(t.r.keyword(of, "description"))}
		if at := t.r.keyword(of, "default"); at.Present() {
			row.value = string(at.Of(t.r.raw))
		}
		t.rows = append(t.rows, row)
		if level >= maxNested || len(prefix) > maxCellName {
			continue
		}
		below := p.name + "."
		if items := t.r.keyword(of, "items"); items.IsObject(t.r.raw) {
			of, below = t.r.applied(items), p.name+"[]."
		}
		t.object(of, prefix+below, level+1)
	}
}

// kind returns the type of a value as people say it, with its values if they are few, and its bounds.
func (t *table) kind(all subschemas) string {
	name := strings.Join(t.r.types(all), " or ")
	if name == "array" {
		if of := strings.Join(t.r.types(t.r.applied(t.r.keyword(all, "items"))), " or "); of != "" {
			name = "array of " + of
		}
	}
	if name == "" {
		name = "any"
	}
	var values []string
	size := 0
	for _, one := range wire.Items(t.r.raw, t.r.keyword(all, "enum")) {
		if size += int(one.To - one.From); len(values) >= maxItems || size > maxCellType {
			values = append(values, "…")
			break
		}
		values = append(values, string(one.Of(t.r.raw)))
	}
	if len(values) > 0 {
		return name + ": " + strings.Join(values, ", ")
	}
	for _, bound := range [...]struct{ key, sign string }{{"format", ", "}, {"minimum", ", at least "}, {"maximum", ", at most "}, {"pattern", ", matches "}} {
		at := t.r.keyword(all, bound.key)
		switch {
		case at.IsString(t.r.raw):
			name += bound.sign + t.r.text(at)
		case at.Present():
			name += bound.sign + string(at.Of(t.r.raw))
		}
	}
	return name
}

// appendArguments appends the rows as a table, as far as they go into so many bytes.
func appendArguments(dst []byte, rows []argument, more bool, room int) []byte {
	if len(rows) == 0 && !more {
		return append(dst, "It takes no arguments that its schema names.\n"...)
	}
	dst = append(dst, "| argument | type | required | default | description |\n|---|---|---|---|---|\n"...)
	for i, row := range rows {
		line := "| " + cell(row.name, maxCellName) + " | " + cell(row.kind, maxCellType) + " | " + yes(row.required) + " | "
		if row.value != "" {
			line += cell(row.value, maxCellType)
		}
		line += " | "
		if row.text != "" {
			line += cell(row.text, maxCellText)
		}
		line += " |\n"
		if len(dst)+len(line) > room {
			dst = append(dst, "\nArguments left out here: "...)
			return append(strconv.AppendInt(dst, int64(len(rows)-i), 10), ". Read the schema of the tool for them.\n"...)
		}
		dst = append(dst, line...)
	}
	if more {
		dst = append(dst, "\nThere are more arguments. Read the schema of the tool for them.\n"...)
	}
	return dst
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
}
