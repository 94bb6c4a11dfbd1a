package config

import (
	"slices"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// Described is one key as the reference and the schema show it.
type Described struct {
	Table []string // path of its table; AnyName stands for a name that the user chooses
	Key   string   // in the table; AnyName where the user chooses it
	Doc   string
	Std   string // default as a literal of TOML and JSON; "" if there is none
	field.Notation
	Field          field.Field // nil for a table
	Env, Mcp, Flag string
	Also           string // the key that this one is an alias of
	Needs          string // the key that the upstream must have
	Null           bool   // may be null in YAML and JSON
	Fixed          bool   // a change needs a restart
}

// Path returns the key with its table.
func (d Described) Path() []string { return append(slices.Clone(d.Table), d.Key) }

// DescribeConfig returns every key, in the order of the tables in the code.
func DescribeConfig() []Described {
	// An empty configuration has the defaults.
	l := newLoader(LoadOptions{})
	server := l.upstream(given{path: []string{UpstreamsKey, defaultName}, Literal: value.Literal{Kind: value.TableLiteral}})
	return append(describeRows(l.keys, nil, true), describeRows(server.keys(), []string{UpstreamsKey, AnyName}, true)...)
}

// describeRows describes the keys of one table in the code. variables says that they have variables.
func describeRows(rows []setting, table []string, variables bool) []Described {
	var all []Described
	for _, row := range rows {
		path := append(slices.Clone(table), strings.Split(row.key, ".")...)
		last := len(path) - 1
		d := Described{Table: path[:last], Key: path[last], Doc: row.doc, Mcp: row.mcp, Needs: row.needs, Null: row.null}
		if row.flag != "" {
			d.Flag = "--" + row.flag
		}
		if row.open != nil {
			all = append(all, d.entries(row.open)...)
			continue
		}
		if row.alias() {
			d.Also = strings.Join(row.writes, ", ")
		}
		if variables && row.env() != "" {
			d.Env = envPrefix + envName(strings.Join(path, "."))
		}
		d.Fixed = slices.ContainsFunc(row.cells(), isFixed) && len(table) == 0
		d.describe(row.field, d.Also == "")
		all = append(all, d)
	}
	return all
}

// isFixed reports whether a change of a key, or of its table, needs a restart.
func isFixed(key string) bool {
	return slices.ContainsFunc(new(Config).fixedKeys(), func(k fixedKey) bool { return key == k.key || strings.HasPrefix(key, k.key+".") })
}

// describe adds what is known of a field, and its default if valued.
func (d *Described) describe(f field.Field, valued bool) {
	d.Notation, d.Field = f.Notation(), f
	if text := f.Text(); valued && f.Set(AsWritten(text)) == nil {
		d.Std = text
	}
}

// AsWritten returns the literal that text would be in a file.
func AsWritten(text string) value.Literal {
	var list []string
	if json.Unmarshal([]byte(text), &list) == nil && strings.HasPrefix(text, "[") {
		v := value.Literal{Kind: value.ListLiteral}
		for _, item := range list {
			v.Items = append(v.Items, value.Literal{Kind: value.QuotedLiteral, Text: item})
		}
		return v
	}
	var inner string
	if json.Unmarshal([]byte(text), &inner) == nil {
		return value.Literal{Kind: value.QuotedLiteral, Text: inner}
	}
	return value.Word(text)
}

// entries describes a table whose names the user chooses. Of these sample names, every such table accepts one.
func (d Described) entries(t *table) []Described {
	for _, name := range []string{AnyName, strings.ToLower(AnyName), "tool:" + AnyName} {
		if t.parts != nil {
			if parts, err := t.parts(name); err == nil {
				d.Kind = "table"
				return append([]Described{d}, describeRows(parts, append(d.Path(), AnyName), false)...)
			}
		} else if f, err := t.entry(name); err == nil {
			d.Table, d.Key = d.Path(), AnyName
			d.describe(f, false)
			return []Described{d}
		}
	}
	return nil
}
