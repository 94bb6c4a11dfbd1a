package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-json"
)

// described is one key as the reference and the schema tell of it.
type described struct {
	table []string // what it is in; anyName stands for names that people choose
	key   string   // in the table; anyName where it is chosen, too
	doc   string
	std   string // as a literal of TOML and JSON; "" if there is none
	notation
	field          field // of an entry of its own; nil of a table
	env, mcp, flag string
	also           string // the key that this one is another name of
	needs          string // the key that has to be there
	null           bool   // may be null in YAML and JSON
	fixed          bool   // a change needs a restart
}

// anyName stands in a path for a name that people choose.
const anyName = "NAME"

// Path is the key with its table.
func (d described) Path() []string { return append(slices.Clone(d.table), d.key) }

// DescribeConfig is every key there is, in the order of the tables of the code.
func DescribeConfig() ([]described, error) {
	// Defaults are what a configuration of nothing has.
	plain := newLoader(LoadOptions{})
	all, err := describeRows(plain.settings, func() *Config { return plain.cfg }, nil)
	if err != nil {
		return nil, err
	}
	server := func() *Upstream {
		return newLoader(LoadOptions{}).upstream([]string{upstreamsKey, defaultName}, Literal{Kind: tableLiteral}, Source{})
	}
	below, err := describeRows(upstreamKeys(), server, []string{upstreamsKey, anyName})
	return append(all, below...), err
}

// describeRows describes the keys of one table of the code; fresh makes what they are keys of, with its defaults.
func describeRows[T any](rows []setting[T], fresh func() *T, table []string) ([]described, error) {
	var all []described
	for i := range rows {
		row := &rows[i]
		path := append(slices.Clone(table), strings.Split(row.Key, ".")...)
		last := len(path) - 1
		if row.field == nil {
			some, err := describeOpen(row, fresh, path)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
			continue
		}
		d := described{table: path[:last], key: path[last], doc: row.doc, env: row.env(), mcp: row.mcp, needs: row.needs, null: row.null}
		if row.flag != "" {
			d.flag = "--" + row.flag
		}
		if row.alias() && row.Key != listenKey {
			d.also = strings.Join(row.writes, ", ")
		}
		if len(table) > 0 {
			d.env = envPrefix + envName(strings.Join(path, "."))
		}
		d.fixed = slices.ContainsFunc(row.cells(), isFixed) && len(table) == 0
		f := row.field(fresh())
		if err := d.notate(f, d.also == "", row.secret); err != nil {
			return nil, fmt.Errorf("config: %s: %w", row.Key, err)
		}
		all = append(all, d)
	}
	return all, nil
}

// isFixed tells whether a key, or the table that it is in, holds from the start of the process to its end.
func isFixed(key string) bool {
	return slices.ContainsFunc(FixedKeys(), func(k fixedKey) bool { return key == k.Key || strings.HasPrefix(key, k.Key+".") })
}

// notate enters how a field is written, and what it is if nobody writes it.
func (d *described) notate(f field, valued, secret bool) error {
	n, ok := f.(notated)
	if !ok {
		return fmt.Errorf("%T has no notation", f)
	}
	d.notation, d.field = n.notation(), f
	if secret && d.kind != "secret" {
		d.kind = "secret " + d.kind
		if d.shape.Pattern != "" {
			d.shape.Pattern += "|^env:.|^file:."
		}
	}
	if at, is := f.(timeField); is && at.at.IsZero() {
		return nil
	}
	if text := f.text(); valued && f.Set(asWritten(text)) == nil {
		d.std = text
	}
	return nil
}

// asWritten is a literal as a file would have it.
func asWritten(text string) Literal {
	var list []string
	if json.Unmarshal([]byte(text), &list) == nil && strings.HasPrefix(text, "[") {
		v := Literal{Kind: listLiteral}
		for _, item := range list {
			v.items = append(v.items, Literal{Kind: QuotedLiteral, Text: item})
		}
		return v
	}
	var inner string
	if json.Unmarshal([]byte(text), &inner) == nil {
		return Literal{Kind: QuotedLiteral, Text: inner}
	}
	return word(text)
}

// samples are names of which every open table takes one.
var samples = []string{anyName, "tool:" + anyName}

// describeOpen describes a table whose names people choose.
func describeOpen[T any](row *setting[T], fresh func() *T, path []string) ([]described, error) {
	last := len(path) - 1
	whole := described{table: path[:last], key: path[last], doc: row.doc, notation: notation{kind: "table"}, needs: row.needs}
	if row.flag != "" {
		whole.flag = "--" + row.flag
	}
	for _, name := range samples {
		switch {
		case row.parts != nil:
			parts, err := row.parts(fresh(), name)
			if err != nil {
				continue
			}
			return describeParts(whole, parts)
		case row.entry != nil:
			f, err := row.entry(fresh(), name)
			if err != nil {
				continue
			}
			d := whole
			d.table, d.key = path, anyName
			err = d.notate(f, false, false)
			return []described{d}, err
		default:
			return describeParts(whole, dependencyParts(&Dependency{Timeout: dependencyTime}))
		}
	}
	return nil, fmt.Errorf("config: %s: no sample name fits", row.Key)
}

func describeParts(whole described, parts []part) ([]described, error) {
	all := []described{whole}
	for _, p := range parts {
		d := described{table: append(whole.Path(), anyName), key: p.key, doc: p.doc}
		if err := d.notate(p.field, true, p.secret); err != nil {
			return nil, fmt.Errorf("config: %s: %w", p.key, err)
		}
		all = append(all, d)
	}
	return all, nil
}
