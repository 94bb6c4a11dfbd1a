// Package catalogue keeps what servers offer: their tools, prompts, resources and templates as last listed, what each says of itself, its
// state, and which of several servers a URI belongs to. A store keeps it over a restart, so that lists can be answered while servers
// still connect.
//
// What a reader gets never changes: a [Snapshot] is made anew for each change.
package catalogue

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Kind is a kind of things that servers list.
type Kind uint8

// The kinds; Kinds is their number.
const (
	Tools Kind = iota
	Prompts
	Resources
	Templates
	Kinds
)

// String names the kind.
func (k Kind) String() string { return [...]string{"tools", "prompts", "resources", "templates"}[k] }

// Method is the method that lists the kind.
func (k Kind) Method() string { return methods[k] }

// Member is the member of a result of Method that holds the list.
func (k Kind) Member() string {
	return [...]string{"tools", "prompts", "resources", "resourceTemplates"}[k]
}

// Key is the member of an item by which it is used.
func (k Kind) Key() string { return [...]string{"name", "name", "uri", "uriTemplate"}[k] }

var methods = [Kinds]string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"}

// KindOf returns the kind that a method lists; false if it lists none.
func KindOf(method string) (Kind, bool) {
	for k := range Kinds {
		if methods[k] == method {
			return k, true
		}
	}
	return 0, false
}

// Item is one tool, prompt, resource or resource template.
type Item struct {
	Key     string            // its name; of a resource its uri, of a template its uriTemplate
	Raw     []byte            // its definition as the server sent it, a JSON object
	Sum     [sha256.Size]byte // of Raw
	Since   time.Time         // when it was listed first
	Changed time.Time         // when its definition became what it is
}

// List holds the items of one kind that a server has listed, in the server's order. No two items have the same key.
type List struct {
	Items   []Item
	TTL     time.Duration // for which it may be cached (2026-07-28 caching); 0: it may not
	Private bool          // it may not be cached for others
	Fetched time.Time     // when the server listed it last
}

// Description holds a server's answer to server/discover or initialize.
type Description struct {
	Revision     string
	Info         []byte // serverInfo, a JSON object
	Capabilities []byte // a JSON object
	Instructions string
}

// Status is how a server was when it was looked at last (seed 004, Health Metrics).
type Status struct {
	State               string // of seed 004, Server Lifecycle State Machine
	Since               time.Time
	ConnectedAt         time.Time // zero: never
	CheckedAt           time.Time // zero: never
	ResponseTime        time.Duration
	ConsecutiveFailures int
	LastError           string
}

// Presence says how true the lists of a server are.
type Presence uint8

// The lists of a server that is away are as they were known last, which every server is at first. One that is there is asked when its lists
// change. The lists of one that is out are not shown.
const (
	Away Presence = iota
	There
	Out
)

// Server holds everything that is known of one server.
type Server struct {
	ID         string // given when it was registered, or by ConfiguredID
	Name       string
	Transport  string // STDIO, SSE, HTTP or GRPC
	Origin     []byte // see SetOrigin
	Registered time.Time
	Description
	Status   Status
	Presence Presence
	Since    time.Time    // of its presence; zero: since before the start
	Lists    [Kinds]*List // nil: never listed
	For      string       // tells apart states that clients of one caller are shown; empty: all clients are
}

// Snapshot is the catalogue at one moment. It does not change.
type Snapshot struct {
	Version uint64    // rises with each change but those of a Status
	Servers []*Server // by name
	Sorted  uint64    // rises with each call of Resorted
	owners  map[string]string
}

// Server returns the server of a name; nil if there is none.
func (s *Snapshot) Server(name string) *Server {
	i, found := slices.BinarySearchFunc(s.Servers, name, func(s *Server, name string) int { return cmp.Compare(s.Name, name) })
	if !found {
		return nil
	}
	return s.Servers[i]
}

// Owner returns the name of the server to which a URI, or a URI template, belongs: of those that have listed it the first, for good; empty if
// none has.
func (s *Snapshot) Owner(uri string) string { return s.owners[uri] }

// With returns the snapshot with another list of a server, as one session sees it.
func (s *Snapshot) With(name string, kind Kind, l *List) *Snapshot {
	next := *s
	next.Servers = slices.Clone(s.Servers)
	for i, one := range next.Servers {
		if one.Name == name {
			other := *one
			other.Lists[kind] = l
			next.Servers[i] = &other
		}
	}
	return &next
}

// Instead returns the snapshot with other states of some servers, as one caller sees them. Servers that are not in it are not added.
func (s *Snapshot) Instead(of []*Server) *Snapshot {
	next := *s
	next.Servers = slices.Clone(s.Servers)
	for _, other := range of {
		for i, one := range next.Servers {
			if one.Name == other.Name {
				next.Servers[i] = other
			}
		}
	}
	return &next
}

// Catalogue keeps servers. It is safe for concurrent use.
type Catalogue struct {
	store   Store // nil: memory only
	now     func() time.Time
	current atomic.Pointer[Snapshot]
	mu      sync.Mutex
	owners  map[string]string // of the next snapshot, by URI
	version uint64
	sorted  uint64        // Snapshot.Sorted
	waiting chan struct{} // closed at the next change; nil: nobody waits
	writer  *writer
}

// Options configure a Catalogue.
type Options struct {
	Store  Store            // nil: it is lost at the end
	Empty  bool             // what the store has is not loaded
	Now    func() time.Time // nil: time.Now
	Failed func(err error)  // called when something cannot be stored, once until something was; it is tried again
}

// Open returns the catalogue of a store. The caller must close it, which closes the store.
func Open(ctx context.Context, opt Options) (*Catalogue, error) {
	c := &Catalogue{store: opt.Store, now: opt.Now, owners: map[string]string{}}
	if c.now == nil {
		c.now = time.Now
	}
	first := &Snapshot{}
	if c.store != nil && !opt.Empty {
		stored, err := c.store.Load(ctx)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(stored.Servers, func(a, b *Server) int { return cmp.Compare(a.Name, b.Name) })
		first.Servers, c.owners = stored.Servers, stored.Owners
	}
	if c.store != nil {
		c.writer = startWriter(c.store, opt.Failed)
	}
	c.publish(first.Servers, true)
	return c, nil
}

// Snapshot returns the present state.
func (c *Catalogue) Snapshot() *Snapshot { return c.current.Load() }

// Changed returns a channel that is closed when what servers offer has changed since the given version.
func (c *Catalogue) Changed(since uint64) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version != since {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	if c.waiting == nil {
		c.waiting = make(chan struct{})
	}
	return c.waiting
}

// publish makes a snapshot of the servers, which it takes over. The caller holds mu, or is the only one.
func (c *Catalogue) publish(servers []*Server, offers bool) {
	if offers {
		c.version++
		if c.waiting != nil {
			close(c.waiting)
			c.waiting = nil
		}
	}
	c.current.Store(&Snapshot{Version: c.version, Servers: servers, Sorted: c.sorted, owners: c.owners})
}

// Renew makes a new version of the present state: clients are shown something else of it than before.
func (c *Catalogue) Renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.publish(c.Snapshot().Servers, true)
}

// Kept is a server that stays, or is added.
type Kept struct {
	ID        string // empty: the one that it has, or ConfiguredID
	Transport string // STDIO, SSE, HTTP or GRPC
}

// Keep removes all servers but those of the given names, with what they own, and adds those that are missing. A server of another ID than
// the given one is another server.
func (c *Catalogue) Keep(all map[string]Kept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var servers []*Server
	var changes []Change
	offers := false
	for _, s := range c.Snapshot().Servers {
		kept, known := all[s.Name]
		if !known || kept.ID != "" && kept.ID != s.ID {
			offers = true
			c.release(s.Name)
			changes = append(changes, Change{Server: s, Removed: true})
			continue
		}
		if s.Transport != kept.Transport {
			next := *s
			next.Transport = kept.Transport
			s = &next
			changes = append(changes, Change{Server: s, Parts: Head})
		}
		servers = append(servers, s)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.ContainsFunc(servers, func(s *Server) bool { return s.Name == name }) {
			continue
		}
		s := &Server{ID: all[name].ID, Name: name, Transport: all[name].Transport, Registered: c.now()}
		if s.ID == "" {
			s.ID = ConfiguredID(s.Name)
		}
		offers, servers = true, append(servers, s)
		changes = append(changes, Change{Server: s, Parts: Head})
	}
	slices.SortFunc(servers, func(a, b *Server) int { return cmp.Compare(a.Name, b.Name) })
	c.write(changes...)
	c.publish(servers, offers)
}

// release takes its URIs from a server that is gone. They belong to the next one that lists them.
func (c *Catalogue) release(server string) {
	owners := maps.Clone(c.owners)
	maps.DeleteFunc(owners, func(_, of string) bool { return of == server })
	c.owners = owners
}

// update replaces a server by what f makes of a copy of it; a server that is not in the catalogue is left alone. f returns the parts that
// it has changed; none: nothing is replaced.
func (c *Catalogue) update(name string, f func(s *Server) Parts) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Snapshot()
	i, found := slices.BinarySearchFunc(now.Servers, name, func(s *Server, name string) int { return cmp.Compare(s.Name, name) })
	if !found {
		return false
	}
	next := *now.Servers[i]
	parts := f(&next)
	if parts == 0 {
		return false
	}
	servers := slices.Clone(now.Servers)
	servers[i] = &next
	change := Change{Server: &next, Parts: parts &^ memory}
	for _, kind := range [...]Kind{Resources, Templates} {
		if parts&(1<<kind) != 0 && next.Lists[kind] != nil {
			change.Owned = append(change.Owned, c.claim(&next, kind)...)
		}
	}
	if change.Parts != 0 {
		c.write(change)
	}
	c.publish(servers, parts&^Health != 0)
	return true
}

// unowned reports whether a listed URI belongs to nobody.
func (c *Catalogue) unowned(l *List) bool {
	return slices.ContainsFunc(l.Items, func(item Item) bool { _, taken := c.owners[item.Key]; return !taken })
}

// located reports whether the keys of a kind are URIs, or templates of URIs.
func located(kind Kind) bool { return kind == Resources || kind == Templates }

// claim gives a server the listed URIs that belong to nobody, and returns them.
func (c *Catalogue) claim(s *Server, kind Kind) (owned []string) {
	for _, item := range s.Lists[kind].Items {
		if _, taken := c.owners[item.Key]; !taken {
			owned = append(owned, item.Key)
		}
	}
	if owned == nil {
		return nil
	}
	owners := maps.Clone(c.owners)
	for _, uri := range owned {
		owners[uri] = s.Name
	}
	c.owners = owners
	return owned
}

// SetOrigin says which server has a name, by a hash of its address or command. If it is another one than before, it has listed nothing and
// said nothing of itself; the URIs of the name stay.
func (c *Catalogue) SetOrigin(name string, origin []byte) {
	c.update(name, func(s *Server) Parts {
		if bytes.Equal(s.Origin, origin) {
			return 0
		}
		if s.Origin == nil {
			s.Origin = origin
			return Head
		}
		*s = Server{ID: s.ID, Name: s.Name, Transport: s.Transport, Registered: s.Registered, Origin: origin, Presence: s.Presence, Since: s.Since}
		return Head | Health | lists
	})
}

// Describe sets what a server says of itself. It reports whether that is new.
func (c *Catalogue) Describe(name string, d Description) bool {
	return c.update(name, func(s *Server) Parts {
		if s.Revision == d.Revision && bytes.Equal(s.Info, d.Info) && bytes.Equal(s.Capabilities, d.Capabilities) && s.Instructions == d.Instructions {
			return 0
		}
		s.Description = d
		return Head
	})
}

// SetStatus sets the status of a server.
func (c *Catalogue) SetStatus(name string, status Status) {
	c.update(name, func(s *Server) Parts {
		if s.Status == status {
			return 0
		}
		s.Status = status
		return Health
	})
}

// SetPresence sets how true the lists of a server are.
func (c *Catalogue) SetPresence(name string, p Presence) {
	c.update(name, func(s *Server) Parts {
		if s.Presence == p {
			return 0
		}
		s.Presence, s.Since = p, c.now()
		return memory
	})
}

// SetList sets what a server has listed of a kind: items with Key and Raw, which it takes over, and how it may be cached. Of several items
// with one key the last counts, in the place of the first (seed 004, BR-003). It reports whether the list differs from before.
func (c *Catalogue) SetList(name string, kind Kind, l List) bool {
	differs := false
	c.update(name, func(s *Server) Parts {
		now := c.now()
		next := &l
		next.Items, next.Fetched = Distinct(next.Items), now
		before := s.Lists[kind]
		items := stamp(before, next, now) || before == nil || !sameKeys(before.Items, next.Items)
		differs = items || before.TTL != next.TTL || before.Private != next.Private
		s.Lists[kind] = next
		switch {
		case items || located(kind) && c.unowned(next):
			return Parts(1) << kind
		case differs:
			return Health | memory // how it may be cached is not stored, but the time is
		}
		return Health
	})
	return differs
}

func sameKeys(a, b []Item) bool {
	return slices.EqualFunc(a, b, func(a, b Item) bool { return a.Key == b.Key })
}

// stamp sets sums and times of the items of a list that replaces another. It reports whether a definition has changed.
func stamp(before, next *List, now time.Time) (changed bool) {
	var known map[string]*Item
	if before != nil {
		known = make(map[string]*Item, len(before.Items))
		for i := range before.Items {
			known[before.Items[i].Key] = &before.Items[i]
		}
	}
	for i := range next.Items {
		item := &next.Items[i]
		item.Sum, item.Since, item.Changed = sha256.Sum256(item.Raw), now, now
		old := known[item.Key]
		switch {
		case old == nil:
			changed = true
		case old.Sum == item.Sum:
			item.Raw, item.Since, item.Changed = old.Raw, old.Since, old.Changed
		default:
			item.Since, changed = old.Since, true
		}
	}
	return changed
}

// write hands changes to the writer.
func (c *Catalogue) write(changes ...Change) {
	if c.writer != nil {
		c.writer.add(changes)
	}
}

// Flush waits until all that was changed before is stored.
func (c *Catalogue) Flush(ctx context.Context) error {
	if c.writer == nil {
		return nil
	}
	return c.writer.flush(ctx)
}

// Close stores what is not stored yet, and closes the store.
func (c *Catalogue) Close() error {
	if c.writer == nil {
		return nil
	}
	c.writer.close()
	return c.store.Close()
}
