package config

import (
	"fmt"
	"io"
	"strings"

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
	var all []printed
	for _, row := range Keys() {
		if row.field != nil && (!row.alias() || row.Key == listenKey) {
			text := row.field(c).Text()
			if row.secret && text == value.Quote(value.Hidden) {
				all = append(all, newPrinted(row.Key, "", c.Source(row.Key), true))
				continue
			}
			all = append(all, newPrinted(row.Key, text, c.Source(row.Key), false))
		}
		if row.parts != nil {
			all = append(all, printedParts(c, c, &row, row.Key)...)
		}
		if row.Key == TracingHeadersKey {
			all = append(all, c.printedTracing()...)
		}
	}
	for _, u := range c.Upstreams {
		all = append(all, c.printedUpstream(u)...)
	}
	return all
}

func (c *Config) printedUpstream(u *Upstream) []printed {
	table := UpstreamsKey + "." + u.Name + "."
	var all []printed
	for _, row := range upstreamKeys() {
		key := table + row.Key
		switch {
		case row.Key == HeadersKey:
			for _, h := range u.Headers {
				from := c.sources[key+"."+value.KeyText([]string{strings.ToLower(h.Name)})]
				all = append(all, newPrinted(key+"."+value.KeyText([]string{h.Name}), "", from, true))
			}
		case row.parts != nil:
			all = append(all, printedParts(c, u, &row, key)...)
		case row.Key == ForwardKey:
			all = append(all, c.printedForward(u, key)...)
		case row.Key == ScopesKey:
			all = append(all, c.printedScopes(u, key)...)
		case row.open:
			for _, v := range u.Env {
				name := key + "." + value.KeyText([]string{v.Name})
				all = append(all, newPrinted(name, "", c.sources[name], true))
			}
		case row.Key == UrlKey && u.URL == "", row.Key == CommandKey && len(u.Command) == 0:
		case row.secret && row.field(u).Text() == value.Quote(value.Hidden):
			all = append(all, newPrinted(key, "", c.sources[key], true))
		default:
			from := c.sources[key]
			all = append(all, newPrinted(key, row.field(u).Text(), from, redacted(row.Key, u)))
		}
	}
	return all
}

// redacted reports whether a value is shown only in part. PrintTOML comments such a value out, since it would not be
// the same when read back.
func redacted(key string, u *Upstream) bool {
	switch key {
	case UrlKey:
		return value.RedactURL(u.URL) != u.URL
	case "proxy":
		return u.Proxy != "" && u.Proxy != field.Off && value.RedactURL(u.Proxy) != u.Proxy
	}
	return false
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

// printedParts returns the keys that were set in the entries of a table.
func printedParts[T any](c *Config, at *T, row *setting[T], table string) []printed {
	var all []printed
	for _, name := range row.names(at) {
		parts, err := row.parts(at, name)
		if err != nil {
			continue // cannot happen: the entry exists, so its name is valid
		}
		for _, p := range parts {
			key := value.KeyText(append(strings.Split(table, "."), name)) + "." + p.key
			from, set := c.sources[key]
			switch {
			case !set:
			case p.secret:
				all = append(all, newPrinted(key, "", from, true))
			default:
				all = append(all, newPrinted(key, p.field.Text(), from, false))
			}
		}
	}
	return all
}

// printedForward returns the headers that are forwarded to an upstream.
func (c *Config) printedForward(u *Upstream, key string) []printed {
	all := make([]printed, 0, len(u.Forward))
	for _, x := range u.Forward {
		from := c.sources[key+"."+value.KeyText([]string{strings.ToLower(x.From)})]
		all = append(all, newPrinted(key+"."+value.KeyText([]string{x.From}), value.Quote(x.To), from, false))
	}
	return all
}

// printedScopes returns the scope rules of an upstream.
func (c *Config) printedScopes(u *Upstream, key string) []printed {
	var all []printed
	for _, r := range u.Scopes {
		name := key + "." + value.KeyText([]string{r.About})
		all = append(all, newPrinted(name, field.List{At: &r.Scopes}.Text(), c.sources[name], false))
	}
	return all
}

// printedTracing returns the headers for the collector, without values.
func (c *Config) printedTracing() (all []printed) {
	for _, h := range c.Tracing.Headers {
		from := c.sources[TracingHeadersKey+"."+value.KeyText([]string{strings.ToLower(h.Name)})]
		all = append(all, newPrinted(TracingHeadersKey+"."+value.KeyText([]string{h.Name}), "", from, true))
	}
	return all
}
