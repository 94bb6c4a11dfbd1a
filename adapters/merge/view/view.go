// Package view makes what one caller sees of several servers: their lists as one, with names and URIs that lead to the right server.
package view

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/names"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// entry is one tool, prompt, resource or template as a caller sees it.
type entry struct {
	names.Name        // Original: as the member calls it
	raw        []byte // as the member describes it
}

// Member is one of the servers.
type Member struct {
	Name string
	// Shown filters the lists of the server for a caller; nil: all callers see everything.
	Shown proxy.Policy
	// Apart means that Shown does not show all callers the same.
	Apart bool
	// Instructions returns what is shown in the place of the server's instructions; nil: they are.
	Instructions func(text string) string
	// Pinned means that Shown leaves out what was not approved. A request for that goes to the server, whose own policies say why it is
	// refused.
	Pinned bool
	// Drives means that the server's tasks are driven for clients of the other era: what runs only as a task is shown to all.
	Drives bool
	// Trusted means that what the server declares of its tools in their annotations is believed.
	Trusted bool
}

// Options configure a Maker.
type Options struct {
	Members    []Member
	Names      names.Style
	Own        []string                           // names that belong to tools of Dragoman
	Categories func(server, name string) []string // of a tool, the primary one first; nil: there are none
	Info       []byte                             // serverInfo of results, a JSON object
	PageBytes  int                                // the size from which a list has a further page; 0: 8 MiB
	Skills     Skills                             // whose skills are served
}

// PageBytes is the default of Options.PageBytes. Many clients read the first page only.
const PageBytes = 8 << 20

// Maker makes views, and keeps the newest. It is safe for concurrent use.
type Maker struct {
	opt     Options
	members map[string]*Member
	order   []string // their names, ordered
	apart   bool     // a member is Apart

	everyone atomic.Pointer[View] // the newest, unless apart

	mu   sync.Mutex
	at   uint64           // the version of the catalogue
	each map[string]*View // by caller
	own  *lru.Cache[string, *ownView]

	skills generated
}

// NewMaker returns a Maker of views of the given servers.
func NewMaker(opt Options) *Maker {
	if opt.PageBytes == 0 {
		opt.PageBytes = PageBytes
	}
	k := &Maker{opt: opt, members: make(map[string]*Member, len(opt.Members))}
	k.own, _ = lru.New[string, *ownView](maxViews) // it fails for a size below one only
	for i := range opt.Members {
		m := &opt.Members[i]
		k.members[m.Name], k.order, k.apart = m, append(k.order, m.Name), k.apart || m.Apart
	}
	slices.Sort(k.order)
	return k
}

// View holds the lists of all servers at one moment, as far as a caller may see them. It does not change, and is safe for concurrent use.
type View struct {
	of     *Maker
	snap   *catalogue.Snapshot
	own    []*catalogue.Server // of snap: those that do not show the caller what the catalogue has
	caller proxy.Caller
	apart  bool // it depends on the caller
	lists  [catalogue.Kinds]lazy
	short  shorts
	uris   resolver
	once   sync.Once // of uris
	usable usable
}

// usable holds the members that the caller may use.
type usable struct {
	once    sync.Once
	members map[string]*Member
	order   []string // their names, ordered
}

// members returns the members that the caller may use: the others do not exist for it.
func (v *View) members() map[string]*Member {
	if !v.of.apart {
		return v.of.members
	}
	v.usable.once.Do(func() {
		v.usable.members = make(map[string]*Member, len(v.of.members))
		for _, name := range v.of.order {
			if m := v.of.members[name]; m.serves(v.caller) {
				v.usable.members[name], v.usable.order = m, append(v.usable.order, name)
			}
		}
	})
	return v.usable.members
}

// order returns their names, ordered.
func (v *View) order() []string {
	if !v.of.apart {
		return v.of.order
	}
	v.members()
	return v.usable.order
}

// serves reports whether the rules of a member let a caller in.
func (m *Member) serves(caller proxy.Caller) bool {
	if m.Shown == nil {
		return true
	}
	replies, err := m.ask(caller, "server/discover", wire.Message{})
	if err != nil {
		return false
	}
	_ = replies.Close()
	return true
}

// ask has the rules of a member judge a request of a caller and the reply to it.
func (m *Member) ask(caller proxy.Caller, method string, reply wire.Message) (proxy.Replies, error) {
	request, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":0,"method":"` + method + `"}`))
	if err != nil {
		return nil, err
	}
	ex := &proxy.Exchange{Msg: request, Caller: caller, Server: m.Name, Target: m.Name, Own: true}
	return m.Shown(func(*proxy.Exchange) (proxy.Replies, error) { return proxy.Reply(reply), nil })(ex)
}

// lazy is a list that is made when it is used first.
type lazy struct {
	once sync.Once
	list *list
}

// list holds the entries of one kind that a caller sees.
type list struct {
	entries []entry
	table   *names.Table // of tools and prompts
	as      []string     // of a list that is a part of another: the public names
	less    []byte       // so: what _meta tells of it
	ttl     time.Duration
	private bool

	mu     sync.Mutex
	begins map[int]bool // where pages begin
	pages  map[pageKey]*wire.Message
}

// list returns what the caller sees of a kind.
func (v *View) list(kind catalogue.Kind) *list {
	at := &v.lists[kind]
	at.once.Do(func() { at.list = v.makeList(kind) })
	return at.list
}

func (v *View) makeList(kind catalogue.Kind) *list {
	l := &list{private: v.apart, ttl: -1, pages: map[pageKey]*wire.Message{}, begins: map[int]bool{0: true}}
	whole := true
	for _, s := range v.snap.Servers {
		m := v.members()[s.Name]
		if m == nil {
			continue
		}
		of := s.Lists[kind]
		if s.Presence == catalogue.Out || of == nil {
			whole = false
			continue
		}
		whole = whole && s.Presence == catalogue.There
		l.private = l.private || of.Private
		if l.ttl < 0 || of.TTL < l.ttl {
			l.ttl = of.TTL
		}
		l.entries = append(l.entries, m.shown(v.caller, kind, of.Items)...)
	}
	if l.ttl < 0 || !whole {
		l.ttl = 0
	}
	if kind == catalogue.Tools || kind == catalogue.Prompts {
		all := make([]names.Name, len(l.entries))
		for i := range l.entries {
			all[i] = l.entries[i].Name
		}
		var own []string
		if kind == catalogue.Tools {
			own = v.of.opt.Own
		}
		l.table = names.New(v.of.opt.Names, v.of.order, own, all)
	}
	return l
}

// shown returns what a caller may see of the items of a member's list.
func (m *Member) shown(caller proxy.Caller, kind catalogue.Kind, items []catalogue.Item) []entry {
	if m.Shown == nil {
		all := make([]entry, len(items))
		for i := range items {
			all[i] = entry{names.Name{Server: m.Name, Original: items[i].Key}, items[i].Raw}
		}
		return all
	}
	raw := append([]byte(`{"jsonrpc":"2.0","id":0,"result":{"`), kind.Member()...)
	raw = append(raw, `":[`...)
	for i := range items {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(raw, items[i].Raw...)
	}
	reply, err := wire.Scan(append(raw, "]}}"...))
	if err != nil {
		return nil
	}
	replies, err := m.ask(caller, kind.Method(), reply)
	if err != nil {
		return nil // a caller that may not list sees nothing
	}
	seen, err := proxy.Response(replies, time.Time{})
	if err != nil || seen.Kind != wire.Result {
		return nil
	}
	var all []entry
	for _, item := range wire.Items(seen.Raw, wire.Get(seen.Raw, seen.Result, kind.Member())) {
		key := string(wire.Get(seen.Raw, item, kind.Key()).Text(seen.Raw))
		all = append(all, entry{names.Name{Server: m.Name, Original: key}, item.Of(seen.Raw)})
	}
	return all
}

// public returns the key under which clients find an entry; empty: they do not.
func (v *View) public(kind catalogue.Kind, l *list, i int) string {
	e := &l.entries[i]
	switch {
	case l.as != nil:
		return l.as[i]
	case l.table != nil:
		return l.table.Public(i)
	case kind == catalogue.Templates && v.skillURI(e.Server, e.Original) != "":
		return v.skillURI(e.Server, e.Original)
	case kind == catalogue.Templates && v.lister(e.Original) == e.Server && !v.names(e.Original):
		return e.Original
	case kind == catalogue.Templates:
		return names.PublicURI(e.Server, e.Original)
	}
	return v.PublicURI(e.Server, e.Original)
}

// PublicURI returns the URI by which clients reach a resource of a member: the plain one, if that leads to the member. One that looks like
// a long one of this endpoint, as those of another Dragoman may, does not.
func (v *View) PublicURI(server, uri string) string {
	if public := v.skillURI(server, uri); public != "" {
		return public
	}
	if to, err := v.server(uri); err == nil && to == server && !v.names(uri) {
		return uri
	}
	return names.PublicURI(server, uri)
}

// KnownURI returns the URI by which a client that has asked for a resource of a member knows it: the one with which it has asked, unless that
// belongs to another member now. asked is empty if it has not asked.
func (v *View) KnownURI(server, uri, asked string) string {
	if owner := v.snap.Owner(asked); asked == "" || owner != "" && owner != server {
		return v.PublicURI(server, uri)
	}
	return asked
}

// rendered appends an entry as clients see it; nothing if they do not.
func (v *View) rendered(dst []byte, kind catalogue.Kind, l *list, i int) []byte {
	e := &l.entries[i]
	public := v.public(kind, l, i)
	if public == "" {
		return dst
	}
	m := wire.Message{Raw: e.raw}
	if public != e.Original {
		m.Replace(wire.Get(e.raw, m.Whole(), kind.Key()), wire.AppendText(nil, public))
	}
	if kind == catalogue.Tools {
		v.appURIs(&m, wire.Get(m.Raw, m.Whole(), "_meta"), e.Server)
	}
	return m.Append(dst)
}

// maxViews bounds the callers whose views are kept.
const maxViews = 64

// Everyone returns what every caller sees of a snapshot; nil if they do not all see the same, or if it was not made yet.
func (k *Maker) Everyone(snap *catalogue.Snapshot) *View {
	if v := k.everyone.Load(); v != nil && v.snap == snap {
		return v
	}
	return nil
}

// Of returns what a caller sees of a snapshot. Callers that may see the same get the same view.
func (k *Maker) Of(snap *catalogue.Snapshot, caller proxy.Caller) *View {
	key := ""
	if k.apart {
		key = keyOf(&caller)
	} else if v := k.Everyone(snap); v != nil {
		return v
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at != snap.Version || len(k.each) >= maxViews && k.each[key] == nil {
		k.at, k.each = snap.Version, map[string]*View{}
	}
	v := k.each[key]
	if v == nil {
		v = &View{of: k, snap: snap, caller: caller, apart: k.apart}
		k.each[key] = v
	}
	if !k.apart {
		k.everyone.Store(v)
	}
	return v
}

// Alone returns what the caller sees of another snapshot, which belongs to that caller.
func (v *View) Alone(snap *catalogue.Snapshot) *View {
	return &View{of: v.of, snap: snap, own: v.own, caller: v.caller, apart: true}
}

// ownView is a view of a caller to which some servers show other lists than the catalogue has.
type ownView struct {
	version uint64
	own     []*catalogue.Server
	view    *View
}

// Own returns what a caller sees of a snapshot to which some servers show other lists. It is the same view while these are the same.
func (k *Maker) Own(snap *catalogue.Snapshot, caller proxy.Caller, own []*catalogue.Server) *View {
	key := keyOf(&caller)
	for _, s := range own {
		key += "\x00" + s.For
	}
	if v, known := k.own.Get(key); known && v.version == snap.Version && slices.Equal(v.own, own) {
		return v.view
	}
	v := &ownView{snap.Version, own, &View{of: k, snap: snap.Instead(own), own: own, caller: caller, apart: true}}
	k.own.Add(key, v)
	return v.view
}

// keyOf tells callers apart that may see different lists.
func keyOf(caller *proxy.Caller) string {
	key := string(caller.Identity().Append(nil))
	if r := caller.Rights; r != nil {
		key += "\x00" + r.Kind + "\x00" + r.Name + "\x00" + strings.Join(r.Scopes, " ")
	}
	return key
}

// Snapshot returns the state of the catalogue that is seen.
func (v *View) Snapshot() *catalogue.Snapshot { return v.snap }

// member returns an error that lists the servers unless there is one of a name.
func (v *View) member(name string) *proxy.Error {
	if v.members()[name] != nil {
		return nil
	}
	return proxy.Errf(proxy.ServerUnknown, "no server %q is behind this endpoint; there is %s", name, strings.Join(v.order(), ", "))
}

// Changed returns the lists that differ from another view of the caller, as notices name them.
func (v *View) Changed(before *View) (lists []string) {
	for kind := range catalogue.Kinds {
		list := rules.NoticeLists[min(kind, catalogue.Resources)]
		if !slices.Contains(lists, list) && !slices.EqualFunc(v.list(kind).entries, before.list(kind).entries, sameEntry) {
			lists = append(lists, list)
		}
	}
	return lists
}

func sameEntry(a, b entry) bool { return a.Name == b.Name && bytes.Equal(a.raw, b.raw) }
