package config

import (
	"fmt"
	"io"

	"github.com/goccy/go-json"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// printed is one line of `config print`.
type printed struct {
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"value,omitempty"`  // absent or redacted when hidden
	Hidden bool            `json:"hidden,omitempty"` // set, and secret at least in part
	Source printedSource   `json:"source"`

	from value.Source
}

// printedSource is a [value.Source] for programs.
type printedSource struct {
	Kind string `json:"kind"` // default, file, environment or flag
	Name string `json:"name,omitempty"`
	Line int    `json:"line,omitempty"`
}

func newPrinted(key, text string, from value.Source, secret bool) printed {
	return printed{
		Key: key, Value: json.RawMessage(text), Hidden: secret, from: from,
		Source: printedSource{Kind: from.Kind.String(), Name: from.Name, Line: from.Line},
	}
}

// printedValues returns the whole configuration in the order of the tables, each value once, under its proper key.
func (c *Config) printedValues() []printed {
	all := c.printedRows(c.keys(), "")
	for _, u := range c.Upstreams {
		all = append(all, c.printedRows(u.keys(), upstreamKey(u.Name, ""))...)
	}
	return all
}

// printedRows returns the values of some keys below a table.
func (c *Config) printedRows(rows []setting, table string) (all []printed) {
	for _, row := range rows {
		key := table + row.key
		switch {
		case row.alias(), row.open != nil && row.open.names == nil:
		case row.open != nil && row.open.parts != nil:
			all = append(all, c.printedParts(row.open, key)...)
		case row.open != nil:
			for _, name := range row.open.names() {
				text := ""
				if f, err := row.open.entry(name); err == nil && !row.secret {
					text = f.Text()
				}
				all = append(all, newPrinted(key+"."+value.KeyPart(name), text, c.sources[row.open.cell(key, name)], row.secret))
			}
		case (row.key == UrlKey || row.key == CommandKey) && !c.Source(key).Set():
		case row.secret && row.field.Text() == value.Quote(value.Hidden):
			all = append(all, newPrinted(key, "", c.Source(key), true))
		default: // PrintTOML comments out a redacted value, which would not be the same when read back
			all = append(all, newPrinted(key, row.field.Text(), c.Source(key), field.Redacts(row.field)))
		}
	}
	return all
}

// printedParts returns the keys that were set in the entries of a table.
func (c *Config) printedParts(t *table, key string) (all []printed) {
	for _, name := range t.names() {
		parts, err := t.parts(name)
		if err != nil {
			continue // cannot happen: the entry exists, so its name is valid
		}
		for _, p := range parts {
			part := t.cell(key, name) + "." + p.key
			if p.open != nil {
				all = append(all, c.printedRows([]setting{p}, t.cell(key, name)+".")...)
			} else if from, set := c.sources[part]; set && p.secret {
				all = append(all, newPrinted(part, "", from, true))
			} else if set {
				all = append(all, newPrinted(part, p.field.Text(), from, false))
			}
		}
	}
	return all
}

// PrintJSON writes every value with its source as a JSON array.
func (c *Config) PrintJSON(w io.Writer) error {
	data, err := json.MarshalIndentWithOption(c.printedValues(), "", "  ", json.DisableHTMLEscape())
	if err != nil {
		return fmt.Errorf("config: print: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", data)
	return err
}

// maxColumn is the last column up to which sources are aligned, in characters.
const maxColumn = 48

// PrintTOML writes every value with its source as a comment. The output is a configuration file again, in which hidden
// values are commented out.
func (c *Config) PrintTOML(w io.Writer) error {
	rows := c.printedValues()
	texts := make([]string, 0, len(rows))
	width := 0
	for _, row := range rows {
		text := fmt.Sprintf("%s = %s", row.Key, row.Value)
		switch {
		case row.Hidden && len(row.Value) > 0:
			text = "# " + text
		case row.Hidden:
			text = fmt.Sprintf("# %s %s", row.Key, value.Hidden)
		}
		texts = append(texts, text)
		if len(text) <= maxColumn {
			width = max(width, len(text))
		}
	}
	for i, row := range rows {
		if _, err := fmt.Fprintf(w, "%-*s  # %s\n", width, texts[i], row.from); err != nil {
			return err
		}
	}
	return nil
}
