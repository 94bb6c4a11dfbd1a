package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// given is a value that is given for the key at path.
type given struct {
	path []string
	value.Literal
	from value.Source
}

func (g given) key() string { return value.KeyText(g.path) }

// isTable reports whether g is the header of a table, or an empty one.
func (g given) isTable() bool { return g.Kind == value.TableLiteral || g.Kind == value.NullLiteral }

// refuse reports an error of a given value.
func (l *loader) refuse(g given, what, fix string) { l.fail(g.key(), g.from, what, fix) }

// assign writes one value to its key.
func (l *loader) assign(path []string, v value.Literal, from value.Source) {
	g := given{path, v, from}
	if slices.ContainsFunc(l.unknown, func(table []string) bool { return hasPrefix(path, table) }) {
		return
	}
	if path[0] != UpstreamsKey {
		l.assignTo(l.keys, g, 0)
		return
	}
	switch {
	case len(path) == 1 && g.isTable():
	case len(path) == 1:
		l.unknown = append(l.unknown, path)
		l.refuse(g, "must be a table of upstreams by name, not "+g.Kind.String(), "write upstreams.NAME.url or upstreams.NAME.command")
	default:
		if u := l.upstream(g); u != nil && len(path) > 2 {
			l.assignTo(l.keysOf(u), g, 2)
		}
	}
}

// upstream returns the upstream that a key lies in, which it makes if there is none; nil after an error.
func (l *loader) upstream(g given) *Upstream {
	name := g.path[1]
	switch {
	case !UpstreamName.MatchString(name) || len(name) > cmp.Or(l.mostName, maxName):
		l.unknown = append(l.unknown, g.path[:2])
		l.fail(value.KeyText(g.path[:2]), g.from, fmt.Sprintf("%q is not a name for an upstream", value.Shorten(name)),
			"use at most 64 lower-case letters, digits, hyphens and underscores, a letter first")
		return nil
	case len(g.path) == 2 && !g.isTable():
		l.unknown = append(l.unknown, g.path)
		l.refuse(g, "must be a table, not "+g.Kind.String(), fmt.Sprintf("write upstreams.%s.url or upstreams.%s.command", name, name))
		return nil
	}
	if u := l.cfg.Upstream(name); u != nil {
		return u
	}
	u := &Upstream{Name: name}
	l.standard(l.keysOf(u))
	l.cfg.Upstreams = append(l.cfg.Upstreams, u)
	l.cfg.sources[value.KeyText(g.path[:2])] = g.from
	return u
}

// assignTo finds the setting of a key among rows, and writes it. The first skip parts of the path do not belong to the
// key.
func (l *loader) assignTo(rows []setting, g given, skip int) {
	key := strings.Join(g.path[skip:], ".")
	var found *setting
	for i := range rows {
		row := &rows[i]
		switch {
		case row.key == key, row.open != nil && hasPrefix(g.path[skip:], strings.Split(row.key, ".")):
			found = row
		case strings.HasPrefix(row.key, key+"."): // a table of keys
			if !g.isTable() {
				l.unknown = append(l.unknown, g.path)
				l.refuse(g, "is a table, not a key", "write a key of it such as "+strings.Join(append(slices.Clone(g.path[:skip]), row.key), "."))
			}
			return
		}
	}
	switch {
	case found == nil:
		l.unknownKey(rows, g, skip)
	case found.open != nil:
		l.assignOpen(found, g, skip+strings.Count(found.key, ".")+1)
	case g.Kind == value.NullLiteral && found.null:
	case g.Kind == value.NullLiteral:
		l.refuse(g, "has no value", "write "+field.Allowed(found.field)+", or remove the key")
	default:
		l.assignKey(rows, found, g)
	}
}

// assignKey writes one of the keys in rows.
func (l *loader) assignKey(rows []setting, row *setting, g given) {
	if row.secret && !l.resolve(&g) {
		return
	}
	cells := row.writes
	if len(cells) == 0 {
		cells = []string{g.key()}
	}
	text := func(cell string) string {
		if at := slices.IndexFunc(rows, func(s setting) bool { return s.key == cell }); at >= 0 {
			return rows[at].field.Text()
		}
		return row.field.Text()
	}
	if row.secret {
		text = nil
	}
	l.store(row.field, g, cells, text)
}

// assignOpen writes an entry of a table whose names users choose, or a key of one. The first skip parts of the path are
// the table's.
func (l *loader) assignOpen(row *setting, g given, skip int) {
	own := g.path[skip:]
	switch {
	case row.open.take != nil: // free-form: accepted as it is, at any depth
		if table := value.KeyText(g.path[:skip]); !l.cfg.sources[table].Set() {
			l.cfg.sources[table] = g.from
		}
		if err := row.open.take(own, g.Literal); err != nil {
			l.failWith(err, g.key(), g.from)
		}
	case len(own) == 0 && g.isTable():
	case len(own) == 0 && row.open.parts != nil:
		l.refuse(g, "must be a table of names, not "+g.Kind.String(), fmt.Sprintf("write a table [%s.NAME]", g.key()))
	case len(own) == 0:
		l.refuse(g, "must be a table of names and values, not "+g.Kind.String(), fmt.Sprintf("write %s.NAME = \"VALUE\"", g.key()))
	case row.open.parts != nil:
		l.assignPart(row, g, skip+1)
	case len(own) > 1:
		l.refuse(g, "has a name of several parts", fmt.Sprintf("quote the name: %s.%s", value.KeyText(g.path[:skip]), value.Quote(strings.Join(own, "."))))
	default:
		place, err := row.open.entry(own[0])
		if err != nil {
			l.failWith(err, g.key(), g.from)
			return
		}
		if row.secret && !l.resolveEntry(row, &g) {
			return
		}
		l.store(place, g, []string{row.open.cell(value.KeyText(g.path[:skip]), own[0])}, nil)
	}
}

// assignPart writes one key of an entry, whose path has skip parts.
func (l *loader) assignPart(row *setting, g given, skip int) {
	parts, err := row.open.parts(g.path[skip-1])
	if err != nil {
		l.failWith(err, g.key(), g.from)
		return
	}
	own := g.path[skip:]
	i := slices.IndexFunc(parts, func(s setting) bool {
		return s.key == strings.Join(own, ".") || s.open != nil && len(own) > 0 && s.key == own[0]
	})
	switch {
	case len(own) == 0 && g.isTable():
	case len(own) == 0:
		l.refuse(g, "must be a table, not "+g.Kind.String(), "write a key of it such as "+g.key()+"."+parts[0].key)
	case i < 0:
		l.unknownKey(parts, g, skip)
	case parts[i].open != nil:
		l.assignOpen(&parts[i], g, skip+1)
	default:
		l.assignKey(nil, &parts[i], g)
	}
}

// final writes a header or a variable of an upstream whose references are replaced already.
func (l *loader) final(u *Upstream, g given) {
	rows, key, name := l.keysOf(u), g.path[2], g.path[3]
	row := &rows[slices.IndexFunc(rows, func(s setting) bool { return s.key == key })]
	place, err := row.open.entry(name)
	if err != nil {
		l.failWith(err, g.key(), g.from)
		return
	}
	l.store(place, g, []string{row.open.cell(UpstreamsKey+"."+u.Name+"."+key, name)}, nil)
}

// resolveEntry replaces the references of a header or a variable: the whole value, or each ${NAME} in it. It returns false after an error.
func (l *loader) resolveEntry(row *setting, g *given) bool {
	whole := value.Refers(g.Text) || row.key != envKey && (strings.HasPrefix(g.Text, "env:") || strings.HasPrefix(g.Text, "file:"))
	if whole {
		return l.resolve(g)
	}
	text, err := value.Expand(g.Text, func(ref string) (string, error) {
		if !value.Refers(ref) {
			return "${" + strings.TrimPrefix(ref, "env:") + "}", nil // of another notation
		}
		return value.ResolveSecret(ref, l.lookup)
	})
	if err != nil {
		l.failWith(err, g.key(), g.from)
		return false
	}
	g.Text = text
	return true
}

// resolve replaces a reference to a secret by the value. It returns false after an error.
func (l *loader) resolve(g *given) bool {
	text, ok := g.ScalarText()
	if !ok {
		return true // the field refuses it
	}
	if path, ok := strings.CutPrefix(text, "file:"); ok {
		l.cfg.secretFiles = append(l.cfg.secretFiles, path)
	}
	text, err := value.ResolveSecret(text, l.lookup)
	if err != nil {
		l.failWith(err, g.key(), g.from)
		return false
	}
	g.Text = text
	return true
}

// store sets one field and records its source. Two keys of one layer that set one cell to different values are an
// error. Across layers, the higher one takes precedence. text returns the current value of a cell; if it is nil, two
// equal values are an error too.
func (l *loader) store(f field.Field, g given, cells []string, text func(cell string) string) {
	if err := f.Set(g.Literal); err != nil {
		l.errs = append(l.errs, value.AsConfigError(err, g.key(), g.from, field.Allowed(f)))
		return
	}
	for _, cell := range cells {
		now := writer{key: g.key(), source: g.from}
		if text != nil {
			now.text = text(cell)
		}
		before, again := l.written[cell]
		if again && (text == nil || before.text != now.text) {
			l.refuse(g, fmt.Sprintf("contradicts %s (%s): both set %s", before.key, before.source, cell), "keep one of the two")
		}
		l.written[cell] = now
		l.cfg.sources[cell] = g.from
	}
}

// unknownKey reports an unknown key, with the one of rows that is nearest.
func (l *loader) unknownKey(rows []setting, g given, skip int) {
	l.unknown = append(l.unknown, g.path)
	var known []string
	for _, row := range rows {
		for at, c := range row.key {
			if c == '.' && !slices.Contains(known, row.key[:at]) {
				known = append(known, row.key[:at])
			}
		}
		known = append(known, row.key)
	}
	if skip == 0 {
		known = append(known, UpstreamsKey)
	}
	fix := "remove it; `dragoman config print` lists the keys"
	if near := value.Nearest(strings.Join(g.path[skip:], "."), known); near != "" {
		fix = "did you mean " + strings.Join(append(slices.Clone(g.path[:skip]), near), ".") + "?"
	}
	if key, ok := elsewhere[g.path[len(g.path)-1]]; ok && skip > 1 && g.path[0] == UpstreamsKey {
		fix = fmt.Sprintf("what a principal may use is %s.%s.%s.PRINCIPAL.%s; PRINCIPAL \"*\" is everybody", UpstreamsKey, g.path[1], accessKey, key)
	}
	l.refuse(g, "unknown key", fix)
}

// elsewhere has names of other gateways for keys in the access of an upstream.
var elsewhere = map[string]string{"allow_tools": "tools", "allowed_tools": "tools", "allow_prompts": "prompts", "allow_resources": "resources",
	"denied_tools": "deny_tools", "deny_tools": "deny_tools", "deny_prompts": "deny_prompts", "deny_resources": "deny_resources"}

func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}
