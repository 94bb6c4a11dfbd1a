package config

import (
	"fmt"
	"slices"
	"strings"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// assign writes one value to the key at path.
func (l *loader) assign(path []string, v value.Literal, from value.Source) {
	if slices.ContainsFunc(l.unknown, func(table []string) bool { return hasPrefix(path, table) }) {
		return
	}
	if path[0] != UpstreamsKey {
		assignTo(l, l.cfg, l.settings, path, 0, v, from)
		return
	}
	switch {
	case len(path) == 1 && (v.Kind == value.TableLiteral || v.Kind == value.NullLiteral):
	case len(path) == 1:
		l.unknown = append(l.unknown, path)
		l.fail(&value.Problem{What: "must be a table of upstreams by name, not " + v.Kind.String(), Fix: "write upstreams.NAME.url or upstreams.NAME.command"}, UpstreamsKey, from, "")
	default:
		if u := l.upstream(path, v, from); u != nil && len(path) > 2 {
			assignTo(l, u, l.below, path, 2, v, from)
		}
	}
}

// upstream returns the upstream that a path lies in, which it makes if there is none; nil after an error.
func (l *loader) upstream(path []string, v value.Literal, from value.Source) *Upstream {
	name := path[1]
	switch {
	case !UpstreamName.MatchString(name) || len(name) > maxName:
		l.unknown = append(l.unknown, path[:2])
		l.fail(&value.Problem{
			What: fmt.Sprintf("%q is not a name for an upstream", value.Shorten(name)),
			Fix:  "use at most 64 lower-case letters, digits, hyphens and underscores, a letter first",
		}, value.KeyText(path[:2]), from, "")
		return nil
	case len(path) == 2 && v.Kind != value.TableLiteral && v.Kind != value.NullLiteral:
		l.unknown = append(l.unknown, path)
		l.fail(&value.Problem{
			What: "must be a table, not " + v.Kind.String(),
			Fix:  fmt.Sprintf("write upstreams.%s.url or upstreams.%s.command", name, name),
		}, value.KeyText(path), from, "")
		return nil
	}
	if u := l.cfg.Upstream(name); u != nil {
		return u
	}
	u := &Upstream{Name: name}
	for _, s := range l.below {
		if s.field != nil && s.Key != UrlKey && s.Key != CommandKey {
			l.standard(s.field(u), s.Key, s.std)
		}
	}
	l.cfg.Upstreams = append(l.cfg.Upstreams, u)
	l.cfg.sources[value.KeyText(path[:2])] = from
	return u
}

// assignTo finds the setting of a path among rows, and writes it. The first skip parts of the path do not belong to the
// key.
func assignTo[T any](l *loader, at *T, rows []setting[T], path []string, skip int, v value.Literal, from value.Source) {
	key, shown := strings.Join(path[skip:], "."), value.KeyText(path)
	var longest *setting[T]
	for i := range rows {
		row := &rows[i]
		switch {
		case row.Key == key:
			longest = row
		case row.open && hasPrefix(path[skip:], strings.Split(row.Key, ".")):
			longest = row
		case strings.HasPrefix(row.Key, key+"."): // a table of keys
			if v.Kind != value.TableLiteral && v.Kind != value.NullLiteral {
				l.unknown = append(l.unknown, path)
				l.fail(&value.Problem{What: "is a table, not a key", Fix: "write a key of it such as " + strings.Join(append(slices.Clone(path[:skip]), row.Key), ".")}, shown, from, "")
			}
			return
		}
	}
	switch {
	case longest == nil:
		l.unknownKey(rowKeys(rows), path, skip, from)
	case longest.open:
		assignOpen(l, at, longest, path, skip+strings.Count(longest.Key, "."), v, from)
	case v.Kind == value.NullLiteral && longest.null:
	case v.Kind == value.NullLiteral:
		l.fail(value.Problemf("has no value"), shown, from, longest.field(at).Allowed()+", or remove the key")
	default:
		if text, ok := v.ScalarText(); ok && longest.secret {
			var err error
			if v.Text, err = l.resolve(text); err != nil {
				l.fail(err, shown, from, "")
				return
			}
		}
		store(l, longest.field(at), v, slot{key: shown, cells: prefixed(path[:skip], longest.cells()), secret: longest.secret, text: cellText(rows, longest, at)}, from)
	}
}

// assignOpen writes one entry of a table whose names users choose.
func assignOpen[T any](l *loader, at *T, row *setting[T], path []string, skip int, v value.Literal, from value.Source) {
	shown := value.KeyText(path)
	own := path[skip+1:]
	switch {
	case row.parts != nil:
		assignPart(l, at, row, path, skip, v, from)
	case row.entry == nil: // free-form: accepted as it is, at any depth
		table := value.KeyText(path[:skip+1])
		if _, set := l.cfg.sources[table]; !set {
			l.cfg.sources[table] = from
		}
		if row.take != nil {
			if err := row.take(at, own, v); err != nil {
				l.fail(err, shown, from, "")
			}
		}
	case len(own) == 0 && (v.Kind == value.TableLiteral || v.Kind == value.NullLiteral):
	case len(own) == 0:
		l.fail(&value.Problem{What: "must be a table of names and values, not " + v.Kind.String(), Fix: fmt.Sprintf("write %s.NAME = \"VALUE\"", shown)}, shown, from, "")
	case len(own) > 1:
		l.fail(&value.Problem{What: "has a name of several parts", Fix: fmt.Sprintf("quote the name: %s.%s", value.KeyText(path[:skip+1]), value.Quote(strings.Join(own, ".")))}, shown, from, "")
	default:
		place, err := row.entry(at, own[0])
		if err != nil {
			l.fail(err, shown, from, "")
			return
		}
		cell := value.KeyText(path)
		if row.Key == HeadersKey || row.Key == ForwardKey || row.Key == TracingHeadersKey { // names are case-insensitive (RFC 9110 §5.1)
			cell = value.KeyText(append(slices.Clone(path[:len(path)-1]), strings.ToLower(own[0])))
		}
		if text, ok := v.ScalarText(); ok && row.Key != ScopesKey && row.Key != ForwardKey && (row.Key != EnvKey || value.Refers(text)) {
			if v.Text, err = l.resolve(text); err != nil {
				l.fail(err, shown, from, "")
				return
			}
		}
		store(l, place, v, slot{key: shown, cells: []string{cell}, secret: true, text: func(string) string { return "" }}, from)
	}
}

// slot is where store writes: a key and its cells.
type slot struct {
	key    string
	cells  []string
	secret bool
	text   func(cell string) string // the cell's current value
}

// store sets one field and records its source. Two keys of one layer that set one cell to different values are an
// error. Across layers, the higher one takes precedence.
func store(l *loader, f field.Field, v value.Literal, s slot, from value.Source) {
	if err := f.Set(v); err != nil {
		l.fail(err, s.key, from, f.Allowed())
		return
	}
	for _, cell := range s.cells {
		now := writer{key: s.key, source: from, text: s.text(cell), secret: s.secret}
		before, again := l.written[cell]
		if again && (before.text != now.text || s.secret) {
			l.fail(&value.Problem{
				What: fmt.Sprintf("contradicts %s (%s): both set %s", before.key, before.source, cell),
				Fix:  "keep one of the two",
			}, s.key, from, "")
		}
		l.written[cell] = now
		l.cfg.sources[cell] = from
	}
}

// cellText returns a function that reads the current value of a cell among rows.
func cellText[T any](rows []setting[T], row *setting[T], at *T) func(string) string {
	return func(cell string) string {
		for i := range rows {
			if rows[i].Key == cell && rows[i].field != nil {
				return rows[i].field(at).Text()
			}
		}
		return row.field(at).Text()
	}
}

// unknownKey reports an unknown key, with the known one that is nearest.
func (l *loader) unknownKey(known []string, path []string, skip int, from value.Source) {
	l.unknown = append(l.unknown, path)
	key := strings.Join(path[skip:], ".")
	fix := "remove it; `dragoman config print` lists the keys"
	if near := value.Nearest(key, known); near != "" {
		fix = "did you mean " + strings.Join(append(slices.Clone(path[:skip]), near), ".") + "?"
	}
	l.errs = append(l.errs, &value.ConfigError{Source: from, Key: value.KeyText(path), Problem: "unknown key", Fix: fix})
}

// rowKeys returns the keys of rows and the tables that they are in.
func rowKeys[T any](rows []setting[T]) []string {
	var keys []string
	for i := range rows {
		for at, c := range rows[i].Key {
			if c == '.' && !slices.Contains(keys, rows[i].Key[:at]) {
				keys = append(keys, rows[i].Key[:at])
			}
		}
		keys = append(keys, rows[i].Key)
	}
	if _, top := any(rows).([]setting[Config]); top {
		keys = append(keys, UpstreamsKey)
	}
	return keys
}

func prefixed(prefix, cells []string) []string {
	if len(prefix) == 0 {
		return cells
	}
	out := make([]string, 0, len(cells))
	for _, c := range cells {
		out = append(out, value.KeyText(prefix)+"."+c)
	}
	return out
}

func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

// assignPart writes one key of a named entry.
func assignPart[T any](l *loader, at *T, row *setting[T], path []string, skip int, v value.Literal, from value.Source) {
	shown, own := value.KeyText(path), path[skip+1:]
	table := v.Kind == value.TableLiteral || v.Kind == value.NullLiteral
	if len(own) == 0 {
		if !table {
			l.fail(&value.Problem{What: "must be a table of names, not " + v.Kind.String(), Fix: fmt.Sprintf("write a table [%s.NAME]", shown)}, shown, from, "")
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
		l.fail(&value.Problem{What: "must be a table, not " + v.Kind.String(), Fix: "write a key of it such as " + shown + "." + known[0]}, shown, from, "")
	case i < 0:
		l.unknownKey(known, path, len(path)-len(own)+1, from)
	default:
		if text, ok := v.ScalarText(); ok && parts[i].secret {
			if v.Text, err = l.resolve(text); err != nil {
				l.fail(err, shown, from, "")
				return
			}
		}
		store(l, parts[i].field, v, slot{key: shown, cells: []string{shown}, secret: parts[i].secret, text: func(string) string { return parts[i].field.Text() }}, from)
	}
}
