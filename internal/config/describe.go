package config

import (
	"fmt"
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

// AnyName stands in a path for a name that the user chooses.
const AnyName = "NAME"

// Path returns the key with its table.
func (d Described) Path() []string { return append(slices.Clone(d.Table), d.Key) }

// DescribeConfig returns every key, in the order of the tables in the code.
func DescribeConfig() ([]Described, error) {
	// An empty configuration has the defaults.
	plain := newLoader(LoadOptions{})
	all, err := describeRows(plain.settings, func() *Config { return plain.cfg }, nil)
	if err != nil {
		return nil, err
	}
	server := func() *Upstream {
		return newLoader(LoadOptions{}).upstream([]string{UpstreamsKey, defaultName}, value.Literal{Kind: value.TableLiteral}, value.Source{})
	}
	below, err := describeRows(upstreamKeys(), server, []string{UpstreamsKey, AnyName})
	return append(all, below...), err
}

// describeRows describes the keys of one table in the code. fresh returns what they are keys of, with its defaults.
func describeRows[T any](rows []setting[T], fresh func() *T, table []string) ([]Described, error) {
	var all []Described
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
		d := Described{Table: path[:last], Key: path[last], Doc: row.doc, Env: row.env(), Mcp: row.mcp, Needs: row.needs, Null: row.null}
		if row.flag != "" {
			d.Flag = "--" + row.flag
		}
		if row.alias() && row.Key != listenKey {
			d.Also = strings.Join(row.writes, ", ")
		}
		if len(table) > 0 {
			d.Env = envPrefix + envName(strings.Join(path, "."))
		}
		d.Fixed = slices.ContainsFunc(row.cells(), isFixed) && len(table) == 0
		f := row.field(fresh())
		if err := d.notate(f, d.Also == "", row.secret); err != nil {
			return nil, fmt.Errorf("config: %s: %w", row.Key, err)
		}
		all = append(all, d)
	}
	return all, nil
}

// isFixed reports whether a change of a key, or of its table, needs a restart.
func isFixed(key string) bool {
	return slices.ContainsFunc(FixedKeys(), func(k fixedKey) bool { return key == k.Key || strings.HasPrefix(key, k.Key+".") })
}

// notate adds the notation of a field, and its default if valued.
func (d *Described) notate(f field.Field, valued, secret bool) error {
	n, ok := f.(field.Notated)
	if !ok {
		return fmt.Errorf("%T has no notation", f)
	}
	d.Notation, d.Field = n.Notation(), f
	if secret && d.Kind != "secret" {
		d.Kind = "secret " + d.Kind
		if d.Shape.Pattern != "" {
			d.Shape.Pattern += "|^env:.|^file:."
		}
	}
	if at, is := f.(field.Time); is && at.At.IsZero() {
		return nil
	}
	if text := f.Text(); valued && f.Set(AsWritten(text)) == nil {
		d.Std = text
	}
	return nil
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

// samples are names of which every open table accepts at least one.
var samples = []string{AnyName, "tool:" + AnyName}

// describeOpen describes a table whose names the user chooses.
func describeOpen[T any](row *setting[T], fresh func() *T, path []string) ([]Described, error) {
	last := len(path) - 1
	whole := Described{Table: path[:last], Key: path[last], Doc: row.doc, Notation: field.Notation{Kind: "table"}, Needs: row.needs}
	if row.flag != "" {
		whole.Flag = "--" + row.flag
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
			d.Table, d.Key = path, AnyName
			err = d.notate(f, false, false)
			return []Described{d}, err
		default:
			return describeParts(whole, dependencyParts(&Dependency{Timeout: dependencyTime}))
		}
	}
	return nil, fmt.Errorf("config: %s: no sample name fits", row.Key)
}

func describeParts(whole Described, parts []part) ([]Described, error) {
	all := []Described{whole}
	for _, p := range parts {
		d := Described{Table: append(whole.Path(), AnyName), Key: p.key, Doc: p.doc}
		if err := d.notate(p.field, true, p.secret); err != nil {
			return nil, fmt.Errorf("config: %s: %w", p.key, err)
		}
		all = append(all, d)
	}
	return all, nil
}
