package rest

import (
	"bytes"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Bounds of merged lists, and of what is kept of them.
const (
	maxPages     = 1000
	maxListBytes = 64 << 20
	cachedLists  = 256
	cachedBytes  = 64 << 20
	// justNow is how old a list may be that a call is refused by; an older one is fetched anew first.
	justNow = time.Second
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
}

// toolList is one state of a server's tools. It is not changed.
type toolList struct {
	at      time.Time     // when it was asked for
	ttl     time.Duration // how long it may be used
	shown   time.Duration // how long it may be shown as what there is: shorter, if the server says that it changes
	version string
	tools   []Tool
	index   map[string]int
	size    int
}

func (l *toolList) find(name string) (*Tool, bool) {
	i, ok := l.index[name]
	if !ok {
		return nil, false
	}
	return &l.tools[i], true
}

// listCache keeps the lists of tools, by server and principal, and sees to it that each is fetched once at a time.
type listCache struct {
	mu      sync.Mutex
	lists   *simplelru.LRU[string, *toolList]
	size    int
	flights map[string]*flight
	waits   int // for flights
}

// waiting tells how many wait for a fetch of another.
func (c *listCache) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waits
}

// flight is a fetch under way.
type flight struct {
	at   time.Time
	done chan struct{}
	list *toolList
	err  error
}

func newListCache() (*listCache, error) {
	c := &listCache{flights: map[string]*flight{}}
	var err error
	c.lists, err = simplelru.NewLRU(cachedLists, func(_ string, l *toolList) { c.size -= l.size })
	return c, err
}

// get answers a list that good accepts, from the cache or else from fetch; several that want it at once share one fetch, which
// must have begun at or after since.
func (c *listCache) get(r *request, key string, since time.Time, good func(*toolList) bool) (*toolList, error) {
	for {
		c.mu.Lock()
		if l, ok := c.lists.Get(key); ok && good(l) {
			c.mu.Unlock()
			return l, nil
		}
		f := c.flights[key]
		if f == nil || f.at.Before(since) {
			f = &flight{at: r.d.opt.Now(), done: make(chan struct{})}
			c.flights[key] = f
			c.mu.Unlock()
			c.fly(r, key, f)
			return f.list, f.err
		}
		c.waits++
		c.mu.Unlock()
		if err := c.wait(r, f); err != nil {
			return nil, err
		}
		if !errors.Is(f.err, proxy.ErrCancelled) { // else who fetched has left; whoever is first now takes over
			return f.list, f.err
		}
	}
}

// fly fetches a list. Whatever becomes of that, nobody waits for it afterwards.
func (c *listCache) fly(r *request, key string, f *flight) {
	f.err = proxy.Errf(proxy.Internal, "internal error; the log of Dragoman has the cause")
	defer c.land(key, f)
	f.list, f.err = r.fetchTools(f.at)
}

// wait waits for the end of a flight, as long as the caller does.
func (c *listCache) wait(r *request, f *flight) error {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.waits--
	}()
	late := time.NewTimer(time.Until(r.end))
	defer late.Stop()
	select {
	case <-f.done:
		return nil
	case <-r.life.Done():
		return proxy.ErrCancelled
	case <-late.C:
		return proxy.Overdue(r.d.opt.Cap)
	}
}

// land ends a flight.
func (c *listCache) land(key string, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights[key] == f {
		delete(c.flights, key)
	}
	close(f.done)
	if f.err != nil || f.list.ttl <= 0 || f.list.size > cachedBytes {
		return
	}
	if old, ok := c.lists.Peek(key); ok {
		if old.at.After(f.list.at) {
			return
		}
		c.lists.Remove(key)
	}
	c.size += f.list.size
	c.lists.Add(key, f.list)
	for c.size > cachedBytes && c.lists.Len() > 1 {
		c.lists.RemoveOldest()
	}
}

// listed answers the tools as they may be shown.
func (r *request) listed() (*toolList, error) {
	now := r.d.opt.Now()
	return r.d.lists.get(r, r.place(), time.Time{}, func(l *toolList) bool { return now.Sub(l.at) < l.shown })
}

// known answers the tools for a call. A list that may be out of date does no harm here: nothing is refused by it.
func (r *request) known() (*toolList, error) {
	now := r.d.opt.Now()
	return r.d.lists.get(r, r.place(), time.Time{}, func(l *toolList) bool { return now.Sub(l.at) < l.ttl })
}

// renewed answers l if it is no older than a second, else a fresh list.
func (r *request) renewed(l *toolList) (*toolList, error) {
	now := r.d.opt.Now()
	if now.Sub(l.at) < justNow {
		return l, nil
	}
	return r.d.lists.get(r, r.place(), now.Add(-justNow), func(l *toolList) bool { return now.Sub(l.at) < justNow })
}

// place is the key of the caller's list.
func (r *request) place() string { return r.server + "\x00" + r.caller.Principal }

// fetchTools reads all pages of the list of tools.
func (r *request) fetchTools(at time.Time) (*toolList, error) {
	l := &toolList{at: at, ttl: r.d.opt.ToolsTTL, shown: r.d.opt.ToolsTTL, index: map[string]int{}}
	err := r.collect("tools/list", func(m *wire.Message) {
		l.size += len(m.Raw)
		l.limit(m)
		if l.version == "" {
			l.version = versionIn(m)
		}
		for _, s := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "tools")) {
			l.add(m.Raw, s)
		}
	})
	if err != nil {
		return nil, err
	}
	switch {
	case r.d.opt.Version != "":
		l.version = r.d.opt.Version
	case l.version == "":
		if l.version, err = r.serverVersion(); err != nil {
			return nil, err
		}
	}
	if !semver.MatchString(l.version) {
		l.version = "0.0.0"
	}
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
		Arguments: sub("inputSchema"), Output: sub("outputSchema"), Annotations: sub("annotations")}
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
func (r *request) serverVersion() (string, error) {
	m, err := r.ask("server/discover", nil)
	var failed *serverError
	switch {
	case errors.As(err, &failed):
		return "", nil
	case err != nil:
		return "", err
	}
	return versionIn(&m), nil
}

// collect reads all pages of a list. A server that does not have the list has an empty one.
func (r *request) collect(method string, page func(m *wire.Message)) error {
	var cursor []byte
	size := 0
	for n := range maxPages {
		var params members
		if cursor != nil {
			params.add("cursor", cursor)
		}
		m, err := r.ask(method, params)
		if err != nil {
			if n == 0 && unknownMethod(err) {
				return nil
			}
			return err
		}
		if size += len(m.Raw); size > maxListBytes {
			return proxy.Errf(proxy.ResponseTooLarge, "the upstream server's %s is larger than %d bytes", method, maxListBytes)
		}
		page(&m)
		next := wire.Get(m.Raw, m.Result, "nextCursor")
		if !next.IsString(m.Raw) || bytes.Equal(next.Of(m.Raw), cursor) {
			return nil
		}
		cursor = bytes.Clone(next.Of(m.Raw))
	}
	return proxy.Errf(proxy.ResponseTooLarge, "the upstream server's %s has more than %d pages", method, maxPages)
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
