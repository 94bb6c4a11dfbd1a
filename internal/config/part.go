package config

import (
	"fmt"
	"slices"
	"strings"
)

// part is one key of an entry in a table whose entries the user names: upstreams.NAME.tools.TOOL.timeout is the part "timeout" of
// the entry TOOL.
type part struct {
	key    string
	doc    string // one line: what it is
	secret bool   // never shown; "env:NAME" and "file:/path" are followed
	field  field
}

// partsOf makes the parts function of a setting: find gives the entry of a name, made if it was not there, or says what is wrong
// with the name; keys gives its keys.
func partsOf[T, E any](find func(at *T, name string) (*E, error), keys func(e *E) []part) func(*T, string) ([]part, error) {
	return func(at *T, name string) ([]part, error) {
		e, err := find(at, name)
		if err != nil {
			return nil, err
		}
		return keys(e), nil
	}
}

// entryOf finds the entry of a name in a list, or appends the one that fresh makes.
func entryOf[E any](list *[]*E, name func(*E) string, wanted string, fresh func() *E) *E {
	if i := slices.IndexFunc(*list, func(e *E) bool { return name(e) == wanted }); i >= 0 {
		return (*list)[i]
	}
	e := fresh()
	*list = append(*list, e)
	return e
}

// assignPart writes one key of a named entry.
func assignPart[T any](l *loader, at *T, row *setting[T], path []string, skip int, v Literal, from Source) {
	shown, own := KeyText(path), path[skip+1:]
	table := v.Kind == tableLiteral || v.Kind == nullLiteral
	if len(own) == 0 {
		if !table {
			l.fail(&problem{what: "must be a table of names, not " + v.Kind.String(), fix: fmt.Sprintf("write a table [%s.NAME]", shown)}, shown, from, "")
		}
		return
	}
	parts, err := row.parts(at, own[0])
	if err != nil {
		l.fail(err, shown, from, "")
		return
	}
	known := make([]string, 0, len(parts))
	for _, p := range parts {
		known = append(known, p.key)
	}
	key := strings.Join(own[1:], ".")
	i := slices.Index(known, key)
	switch {
	case len(own) == 1 && table:
	case len(own) == 1:
		l.fail(&problem{what: "must be a table, not " + v.Kind.String(), fix: "write a key of it such as " + shown + "." + known[0]}, shown, from, "")
	case i < 0:
		l.unknownKey(known, path, len(path)-len(own)+1, from)
	default:
		if text, ok := v.scalarText(); ok && parts[i].secret {
			if v.Text, err = l.resolve(text); err != nil {
				l.fail(err, shown, from, "")
				return
			}
		}
		store(l, parts[i].field, v, slot{key: shown, cells: []string{shown}, secret: parts[i].secret, text: func(string) string { return parts[i].field.text() }}, from)
	}
}

// printedParts are the keys that were set of the entries of a table.
func printedParts[T any](c *Config, at *T, row *setting[T], table string) []printed {
	var all []printed
	for _, name := range row.names(at) {
		parts, err := row.parts(at, name)
		if err != nil {
			continue // the entry is there, so that its name was good
		}
		for _, p := range parts {
			key := KeyText(append(strings.Split(table, "."), name)) + "." + p.key
			from, set := c.sources[key]
			switch {
			case !set:
			case p.secret:
				all = append(all, newPrinted(key, "", from, true))
			default:
				all = append(all, newPrinted(key, p.field.text(), from, false))
			}
		}
	}
	return all
}
