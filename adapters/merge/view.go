package merge

import (
	"slices"
	"strings"
	"sync"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/names"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// listNames are the members of results that hold lists, keys the members of their entries by which these are used.
var (
	listNames = [catalogue.Kinds]string{"tools", "prompts", "resources", "resourceTemplates"}
	keys      = [catalogue.Kinds]string{"name", "name", "uri", "uriTemplate"}
	methods   = [catalogue.Kinds]string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"}
)

// kindOf returns the kind that a method lists.
func kindOf(method string) (catalogue.Kind, bool) {
	i := slices.Index(methods[:], method)
	return catalogue.Kind(max(i, 0)), i >= 0 //nolint:gosec // a few
}

// entry is one tool, prompt, resource or template as a caller sees it.
type entry struct {
	names.Name        // Original: as the member calls it
	raw        []byte // as the member describes it
}

// view is what a caller may see of all members, at one moment. It is safe for concurrent use.
type view struct {
	u      *Upstream
	snap   *catalogue.Snapshot
	caller proxy.Caller
	apart  bool // it depends on the caller
	lists  [catalogue.Kinds]lazy
	uris   resolver
	once   sync.Once // of uris
}

// lazy is a list that is made when it is used first.
type lazy struct {
	once sync.Once
	list *list
}

// list is what a caller sees of one kind.
type list struct {
	entries []entry
	table   *names.Table // of tools and prompts
	ttl     time.Duration
	private bool

	mu     sync.Mutex
	begins map[int]bool // where pages begin
	pages  map[pageKey][]byte
}

// list returns what the caller sees of a kind.
func (v *view) list(kind catalogue.Kind) *list {
	at := &v.lists[kind]
	at.once.Do(func() { at.list = v.makeList(kind) })
	return at.list
}

func (v *view) makeList(kind catalogue.Kind) *list {
	l := &list{private: v.apart, ttl: -1, pages: map[pageKey][]byte{}, begins: map[int]bool{0: true}}
	whole := true
	for _, s := range v.snap.Servers {
		m := v.u.members[s.Name]
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
			own = v.u.opt.Own
		}
		l.table = names.New(v.u.opt.Names, v.u.order, own, all)
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
	raw := append([]byte(`{"jsonrpc":"2.0","id":0,"result":{"`), listNames[kind]...)
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
	request, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":0,"method":"` + methods[kind] + `"}`))
	if err != nil {
		return nil
	}
	ex := &proxy.Exchange{Msg: request, Caller: caller, Server: m.Name, Target: m.Name, Own: true}
	replies, err := m.Shown(func(*proxy.Exchange) (proxy.Replies, error) { return proxy.Reply(reply), nil })(ex)
	if err != nil {
		return nil // a caller that may not list sees nothing
	}
	seen, err := proxy.Response(replies, time.Time{})
	if err != nil || seen.Kind != wire.Result {
		return nil
	}
	var all []entry
	for _, item := range wire.Items(seen.Raw, wire.Get(seen.Raw, seen.Result, listNames[kind])) {
		key := string(wire.Get(seen.Raw, item, keys[kind]).Text(seen.Raw))
		all = append(all, entry{names.Name{Server: m.Name, Original: key}, item.Of(seen.Raw)})
	}
	return all
}

// public returns the key under which clients find an entry; empty: they do not.
func (v *view) public(kind catalogue.Kind, l *list, i int) string {
	e := &l.entries[i]
	switch {
	case l.table != nil:
		return l.table.Public(i)
	case kind == catalogue.Templates && v.snap.Owner(e.Original) == e.Server:
		return e.Original
	case kind == catalogue.Templates:
		return names.PublicURI(e.Server, e.Original)
	}
	return v.publicURI(e.Server, e.Original)
}

// publicURI returns the URI by which clients reach a resource of a member: the plain one, if that leads to the member.
func (v *view) publicURI(server, uri string) string {
	if to, err := v.server(uri); err == nil && to == server {
		return uri
	}
	return names.PublicURI(server, uri)
}

// rendered appends an entry as clients see it; nothing if they do not.
func (v *view) rendered(dst []byte, kind catalogue.Kind, l *list, i int) []byte {
	e := &l.entries[i]
	public := v.public(kind, l, i)
	if public == "" {
		return dst
	}
	m := wire.Message{Raw: e.raw}
	if public != e.Original {
		m.Replace(wire.Get(e.raw, m.Whole(), keys[kind]), wire.AppendText(nil, public))
	}
	if kind == catalogue.Tools {
		v.appURIs(&m, e.Server)
	}
	return m.Append(dst)
}

// appURIs makes the references of a tool to the resources that show it lead to its server (MCP Apps, SEP-1865).
func (v *view) appURIs(m *wire.Message, server string) {
	meta := wire.Get(m.Raw, m.Whole(), "_meta")
	for _, at := range [...]wire.Span{wire.Path(m.Raw, meta, "ui", "resourceUri"), wire.Get(m.Raw, meta, "ui/resourceUri")} {
		if !at.IsString(m.Raw) {
			continue
		}
		uri := string(at.Text(m.Raw))
		if public := v.publicURI(server, uri); public != uri {
			m.Replace(at, wire.AppendText(nil, public))
		}
	}
}

// views keeps the newest views.
type views struct {
	mu   sync.Mutex
	at   uint64           // the version of the catalogue
	each map[string]*view // by caller
}

// maxViews bounds the callers whose views are kept.
const maxViews = 64

// view returns the present view of a caller.
func (u *Upstream) view(caller proxy.Caller) *view {
	snap := u.opt.Catalogue.Snapshot()
	key := u.viewKey(&caller)
	x := &u.views
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.at != snap.Version || len(x.each) >= maxViews && x.each[key] == nil {
		x.at, x.each = snap.Version, map[string]*view{}
	}
	v := x.each[key]
	if v == nil {
		v = &view{u: u, snap: snap, caller: caller, apart: u.apart}
		x.each[key] = v
	}
	return v
}

// viewKey tells callers apart that may see different lists.
func (u *Upstream) viewKey(caller *proxy.Caller) string {
	if !u.apart {
		return ""
	}
	key := string(caller.Identity().Append(nil))
	if r := caller.Rights; r != nil {
		key += "\x00" + r.Kind + "\x00" + r.Name + "\x00" + strings.Join(r.Scopes, " ")
	}
	return key
}

// capabilities returns the union of the capabilities of all members: of objects the union of their members, of truth values their
// disjunction, of others the first.
func (v *view) capabilities() []byte {
	all := []byte("{}")
	for _, s := range v.snap.Servers {
		if v.u.members[s.Name] != nil && len(s.Capabilities) > 0 {
			all = union(all, s.Capabilities, 0)
		}
	}
	return all
}

// maxUnion bounds the depth to which union looks.
const maxUnion = 4

// union joins two JSON objects.
func union(a, b []byte, depth int) []byte {
	var changes []wire.Change
	for key, value := range wire.Members(b, wire.Whole(b)) {
		name := string(key.Of(b))
		name = name[1 : len(name)-1]
		before := wire.Get(a, wire.Whole(a), string(key.Text(b)))
		switch {
		case !before.Present(), string(before.Of(a)) == "false" && string(value.Of(b)) == "true":
			changes = append(changes, wire.Change{Key: name, Value: value.Of(b)})
		case before.IsObject(a) && value.IsObject(b) && depth < maxUnion:
			changes = append(changes, wire.Change{Key: name, Value: union(before.Of(a), value.Of(b), depth+1)})
		}
	}
	for part := range slices.Chunk(changes, maxChanges) {
		a = wire.With(a, part...)
	}
	return a
}

// maxChanges is how many members of an object are edited at once (wire.EditObject).
const maxChanges = 64

// instructions joins those of the members, each under its name.
func (v *view) instructions() string {
	var b strings.Builder
	for _, s := range v.snap.Servers {
		if v.u.members[s.Name] == nil || s.Instructions == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString("# " + s.Name + "\n\n" + s.Instructions)
	}
	return b.String()
}

// member returns the member of a name, or the error that lists those that there are.
func (u *Upstream) member(name string) (*Member, *proxy.Error) {
	if m := u.members[name]; m != nil {
		return m, nil
	}
	return nil, proxy.Errf(proxy.ServerUnknown, "no server %q is behind this endpoint; there is %s", name, strings.Join(u.order, ", "))
}
