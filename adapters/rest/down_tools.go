package rest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"strconv"
	"time"

	"dragoman/adapters/service"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Bounds of merged lists.
const (
	maxPages     = 1000
	maxListBytes = 64 << 20
)

// Tool is one tool of a list (seed 000, ToolSchema). The schemas are raw JSON.
type Tool struct {
	Name        string // as the server gives it
	Title       string // may be empty
	Description string // never empty: one that is missing is made of the title, or of the name
	InputSchema []byte // an object with type and properties, filled in where they are missing
	// Arguments is the schema as the server gives it, nil if there is none; Output that of the structured result, likewise.
	Arguments, Output []byte
	Annotations       []byte // likewise

	list *toolList // that it is in
}

// toolList is one state of a server's tools. It is not changed.
type toolList struct {
	server  string            // as it was asked for
	target  string            // whose it is
	sum     [sha256.Size]byte // of all that the server said in it
	at      time.Time         // when it was asked for
	ttl     time.Duration     // how long it may be used
	shown   time.Duration     // how long it may be shown as what there is: shorter, if the server says that it changes
	version string
	tools   []Tool
	index   map[string]int
	size    int
}

func (l *toolList) bytes() int { return l.size }

func (l *toolList) find(name string) (*Tool, bool) {
	i, ok := l.index[name]
	if !ok {
		return nil, false
	}
	return &l.tools[i], true
}

// fetchTools reads all pages of the list of tools.
func (q *inquiry) fetchTools(at time.Time) (*toolList, error) {
	l := &toolList{server: q.server, at: at, ttl: q.d.opt.ToolsTTL, shown: q.d.opt.ToolsTTL, index: map[string]int{}}
	sum, version := sha256.New(), ""
	target, err := q.collect("tools/list", func(m *wire.Message) {
		l.size += len(m.Raw)
		l.limit(m)
		if version == "" {
			version = versionIn(m)
		}
		for _, s := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "tools")) {
			sum.Write(s.Of(m.Raw))
			l.add(m.Raw, s)
		}
	})
	if err != nil {
		return nil, err
	}
	if version == "" && q.d.opt.Version == "" {
		if version, err = q.serverVersion(); err != nil {
			return nil, err
		}
	}
	l.target, l.version = target, service.Version(q.d.opt.Version, version)
	sum.Write([]byte(l.version))
	sum.Sum(l.sum[:0])
	return l, nil
}

// limit shortens the time for which the list holds to what the server says of it (2026-07-28 caching). Zero says that nothing
// is known: then it is not shown again, but calls may go by it.
func (l *toolList) limit(m *wire.Message) {
	ms, err := strconv.ParseInt(string(wire.Get(m.Raw, m.Result, "ttlMs").Of(m.Raw)), 10, 64)
	if err != nil || ms < 0 || ms > 1<<40 {
		return
	}
	ttl := time.Duration(ms) * time.Millisecond
	l.shown = min(l.shown, ttl)
	if ttl > 0 {
		l.ttl = min(l.ttl, ttl)
	}
}

// add takes a tool of a page. Of several of one name the first counts; what has no name nobody can call.
func (l *toolList) add(raw []byte, at wire.Span) {
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
	l.index[t.Name] = len(l.tools)
	l.tools = append(l.tools, t)
}

// filled fills in what ToolSchema demands of an input schema: type and properties.
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

// versionIn is the server's version, as a result tells it.
func versionIn(m *wire.Message) string {
	return string(wire.Get(m.Raw, m.Info, "version").Text(m.Raw))
}

// serverVersion asks a server that did not tell its version with its tools.
func (q *inquiry) serverVersion() (string, error) {
	m, _, err := q.ask("server/discover", nil)
	var failed *serverError
	switch {
	case errors.As(err, &failed):
		return "", nil
	case err != nil:
		return "", err
	}
	return versionIn(&m), nil
}

// collect reads all pages of a list; target is the server that has it. A server that does not have the list has an empty one.
func (q *inquiry) collect(method string, page func(m *wire.Message)) (target string, err error) {
	var cursor []byte
	size := 0
	for n := range maxPages {
		var params members
		if cursor != nil {
			params.add("cursor", cursor)
		}
		var m wire.Message
		if m, target, err = q.ask(method, params); err != nil {
			if n == 0 && unknownMethod(err) {
				err = nil
			}
			return target, err
		}
		if size += len(m.Raw); size > maxListBytes {
			return target, proxy.Errf(proxy.ResponseTooLarge, "the upstream server's %s is larger than %d bytes", method, maxListBytes)
		}
		page(&m)
		next := wire.Get(m.Raw, m.Result, "nextCursor")
		if !next.IsString(m.Raw) || bytes.Equal(next.Of(m.Raw), cursor) {
			return target, nil
		}
		cursor = bytes.Clone(next.Of(m.Raw))
	}
	return target, proxy.Errf(proxy.ResponseTooLarge, "the upstream server's %s has more than %d pages", method, maxPages)
}

// unknownMethod tells whether an error says that the server does not have the method.
func unknownMethod(err error) bool {
	var failed *serverError
	if errors.As(err, &failed) {
		return failed.code == proxy.CodeMethodNotFound
	}
	var e *proxy.Error
	return errors.As(err, &e) && e.Name == proxy.MethodNotFound.Name
}
