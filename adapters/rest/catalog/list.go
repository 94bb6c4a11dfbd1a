package catalog

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"strconv"
	"time"

	"dragoman/adapters/rest/mcpcall"
	"dragoman/adapters/service"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Tool is one tool of a list (seed 000, ToolSchema). The schemas are raw JSON.
type Tool struct {
	Name        string // as the server gives it
	Title       string // may be empty
	Description string // never empty: the title or the name stands in for a missing one
	InputSchema []byte // an object; missing type and properties are filled in
	// Arguments is the inputSchema as the server gives it, Output the outputSchema; nil if there is none.
	Arguments, Output []byte
	Annotations       []byte // nil if there are none

	list *List
}

// Sum identifies the contents of a list.
type Sum = [sha256.Size]byte

// List is one state of a server's tools. It is immutable.
type List struct {
	Server  string // the name by which the server was asked; empty for the default one
	Version string
	Tools   []Tool
	Sum     Sum // of the tools and the version

	target  string        // the server that answered
	at      time.Time     // when it was asked for
	useFor  time.Duration // how long calls may go by it
	showFor time.Duration // how long it may be shown: shorter if the server says that it changes
	// rest is how long the list is used whatever the server says, so that a large one is not fetched all the time: ten times as long
	// as that took, and Options.TTL at most. Zero for others.
	rest  time.Duration
	index map[string]int
	size  int
}

// Bytes is the size of the list, about.
func (l *List) Bytes() int { return l.size }

func (l *List) find(name string) (*Tool, bool) {
	i, ok := l.index[name]
	if !ok {
		return nil, false
	}
	return &l.Tools[i], true
}

// maxTools bounds the tools of a list: short ones take many times the memory of their text.
const maxTools = 250_000

// fetch reads all pages of the list of tools.
func (c *Catalog) fetch(o *mcpcall.Origin, at time.Time) (*List, error) {
	l := &List{Server: o.Server, at: at, useFor: c.opt.TTL, showFor: c.opt.TTL, index: map[string]int{}}
	sum, version := sha256.New(), ""
	target, err := o.Collect("tools/list", func(m *wire.Message) error {
		l.size += len(m.Raw)
		l.limit(m)
		if version == "" {
			version = versionIn(m)
		}
		for _, s := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "tools")) {
			sum.Write(s.Of(m.Raw))
			if l.add(m.Raw, s); len(l.Tools) > maxTools {
				return proxy.Errf(proxy.ResponseTooLarge, "the upstream server's tools/list has more than %d tools", maxTools)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if version == "" && c.opt.Version == "" {
		if version, err = serverVersion(o); err != nil {
			return nil, err
		}
	}
	l.target, l.Version = target, service.Version(c.opt.Version, version)
	sum.Write([]byte(l.Version))
	sum.Sum(l.Sum[:0])
	return l, nil
}

// limit shortens the lifetime of the list to the ttlMs of a page (2026-07-28 caching). Zero means that nothing is known: the
// list is not shown again, but calls may go by it.
func (l *List) limit(m *wire.Message) {
	ms, err := strconv.ParseInt(string(wire.Get(m.Raw, m.Result, "ttlMs").Of(m.Raw)), 10, 64)
	if err != nil || ms < 0 || ms > 1<<40 {
		return
	}
	ttl := time.Duration(ms) * time.Millisecond
	l.showFor = min(l.showFor, ttl)
	if ttl > 0 {
		l.useFor = min(l.useFor, ttl)
	}
}

// add adds a tool of a page. Tools without a name are left out, and so are all but the first of one name.
func (l *List) add(raw []byte, at wire.Span) {
	named := wire.Get(raw, at, "name")
	if !at.IsObject(raw) || !named.IsString(raw) {
		return
	}
	text := func(key string) string { return string(wire.Get(raw, at, key).Text(raw)) }
	sub := func(key string) []byte {
		if s := wire.Get(raw, at, key); s.IsObject(raw) {
			return bytes.Clone(s.Of(raw))
		}
		return nil
	}
	t := Tool{Name: string(named.Text(raw)), Title: text("title"), Description: text("description"),
		Arguments: sub("inputSchema"), Output: sub("outputSchema"), Annotations: sub("annotations"), list: l}
	if _, twice := l.index[t.Name]; twice {
		return
	}
	if t.Description == "" {
		t.Description = t.Title
	}
	if t.Description == "" {
		t.Description = "Tool " + t.Name
	}
	t.InputSchema = filled(t.Arguments)
	l.index[t.Name] = len(l.Tools)
	l.Tools = append(l.Tools, t)
}

// filled returns an input schema with the type and the properties that ToolSchema demands.
func filled(schema []byte) []byte {
	if schema == nil {
		return []byte(`{"type":"object","properties":{}}`)
	}
	m := wire.Message{Raw: schema}
	var changes []wire.Change
	if !wire.Get(schema, m.Whole(), "type").Is(schema, "object") {
		changes = append(changes, wire.Change{Key: "type", Value: []byte(`"object"`)})
	}
	if !wire.Get(schema, m.Whole(), "properties").IsObject(schema) {
		changes = append(changes, wire.Change{Key: "properties", Value: []byte("{}")})
	}
	if len(changes) == 0 {
		return schema
	}
	m.EditObject(m.Whole(), changes)
	return m.Append(nil)
}

// versionIn returns the serverInfo version of a result.
func versionIn(m *wire.Message) string {
	return string(wire.Get(m.Raw, m.Info, "version").Text(m.Raw))
}

// serverVersion asks for the version of a server whose list does not have it.
func serverVersion(o *mcpcall.Origin) (string, error) {
	m, _, err := o.Ask("server/discover", nil)
	var failed *mcpcall.ServerError
	switch {
	case errors.As(err, &failed):
		return "", nil
	case err != nil:
		return "", err
	}
	return versionIn(&m), nil
}
