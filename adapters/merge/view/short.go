package view

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/metatools"
	"dragoman/adapters/merge/names"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// lessKey is the member of _meta of a list of tools that tells what it spares the client.
const lessKey = "io.dragoman/context"

// bytesPerToken estimates how many bytes of a definition are a token of a model.
const bytesPerToken = 4

// shorts holds the lists of tools that are shown in the place of the whole one, and what they are made of.
type shorts struct {
	mu   sync.Mutex
	each map[*metatools.Rule]*list
	once sync.Once // of what follows
	at   map[names.Name]int
	size int // of the definitions of all tools, in bytes
}

// Listed is the size of a list of tools, and of the one that it takes the place of.
type Listed struct {
	Tools, Bytes       int
	AllTools, AllBytes int
}

// Spared returns how many bytes of definitions a client does not get.
func (l Listed) Spared() int { return max(l.AllBytes-l.Bytes, 0) }

// Tokens estimates how many tokens of a model some bytes of definitions are.
func Tokens(bytes int) int { return bytes / bytesPerToken }

// measure counts the tools, and finds them by name. Sizes are those of the servers' definitions.
func (v *View) measure() {
	v.short.once.Do(func() {
		l := v.list(catalogue.Tools)
		v.short.at = make(map[names.Name]int, len(l.entries))
		for i := range l.entries {
			if l.table.Public(i) != "" {
				v.short.at[l.entries[i].Name] = i
				v.short.size += len(l.entries[i].raw)
			}
		}
	})
}

// Shortens reports whether a rule has the list of tools replaced by the meta-tools.
func (v *View) Shortens(r *metatools.Rule) bool {
	if r.Mode != metatools.Auto {
		return r.Mode == metatools.Search
	}
	v.measure()
	return len(v.short.at) > r.Tools || v.short.size > r.Bytes
}

// AnswerShort is Answer for the list of tools of a client that the rule is about. r must live as long as the view.
func (v *View) AnswerShort(id []byte, r *metatools.Rule, cursor *string, version string) (wire.Message, *proxy.Error) {
	return v.answer(id, catalogue.Tools, v.shortList(r), cursor, version)
}

// Listed returns how much of the tools a rule lists.
func (v *View) Listed(r *metatools.Rule) Listed {
	v.measure()
	all := Listed{Tools: len(v.short.at), Bytes: v.short.size, AllTools: len(v.short.at), AllBytes: v.short.size}
	if r == nil || !v.Shortens(r) {
		return all
	}
	l := v.shortList(r)
	all.Tools, all.Bytes = len(l.entries), size(l.entries)
	return all
}

func size(entries []entry) (n int) {
	for i := range entries {
		n += len(entries[i].raw)
	}
	return n
}

// shortList returns the meta-tools, and the tools that are always listed. Only the caller gets it: another client of the same caller may be
// listed everything.
func (v *View) shortList(r *metatools.Rule) *list {
	v.short.mu.Lock()
	defer v.short.mu.Unlock()
	if l := v.short.each[r]; l != nil {
		return l
	}
	whole := v.list(catalogue.Tools)
	l := &list{private: true, ttl: whole.ttl, pages: map[pageKey]*wire.Message{}, begins: map[int]bool{0: true}}
	for _, raw := range metatools.Definitions(v.Behind()) {
		name := string(wire.Get(raw, wire.Whole(raw), "name").Text(raw))
		l.entries, l.as = append(l.entries, entry{names.Name{Original: name}, raw}), append(l.as, name)
	}
	for i := range whole.entries {
		e := &whole.entries[i]
		if public := whole.table.Public(i); public != "" && r.Lists(e.Server, e.Original) {
			l.entries, l.as = append(l.entries, *e), append(l.as, public)
		}
	}
	v.measure()
	all := Listed{AllTools: len(v.short.at), AllBytes: v.short.size, Bytes: size(l.entries)}
	number := func(n int) []byte { return strconv.AppendInt(nil, int64(n), 10) }
	l.less = wire.Object([]wire.Change{
		{Key: "mode", Value: []byte(`"search"`)}, {Key: "tools", Value: number(all.AllTools)},
		{Key: "sparedBytes", Value: number(all.Spared())}, {Key: "sparedTokensEstimate", Value: number(Tokens(all.Spared()))},
	})
	if v.short.each == nil {
		v.short.each = map[*metatools.Rule]*list{}
	}
	v.short.each[r] = l
	return l
}

// Behind describes what the caller can find. A tool counts in each of its categories.
func (v *View) Behind() *metatools.Behind {
	l := v.list(catalogue.Tools)
	b := &metatools.Behind{}
	categories := map[string]int{}
	for i := range l.entries {
		e := &l.entries[i]
		if l.table.Public(i) == "" {
			continue
		}
		b.Tools++
		if n := len(b.Servers); n == 0 || b.Servers[n-1].Name != e.Server {
			b.Servers = append(b.Servers, metatools.Group{Name: e.Server})
		}
		b.Servers[len(b.Servers)-1].Tools++
		if of := v.of.opt.Categories; of != nil {
			for _, name := range of(e.Server, e.Original) {
				categories[name]++
			}
		}
		b.ReadOnly = b.ReadOnly || v.readOnly(e)
		support := wire.Path(e.raw, wire.Whole(e.raw), "execution", "taskSupport")
		b.Tasks = b.Tasks || support.Is(e.raw, "optional") || support.Is(e.raw, "required")
	}
	for _, name := range slices.Sorted(maps.Keys(categories)) {
		b.Categories = append(b.Categories, metatools.Group{Name: name, Tools: categories[name]})
	}
	return b
}

// ReadOnly reports whether a trusted server declares a tool to change nothing.
func (v *View) ReadOnly(server, name string) bool {
	v.measure()
	i, known := v.short.at[names.Name{Server: server, Original: name}]
	return known && v.readOnly(&v.list(catalogue.Tools).entries[i])
}

func (v *View) readOnly(e *entry) bool {
	m := v.of.members[e.Server]
	return m != nil && m.Trusted && declaresReadOnly(e.raw)
}

// declaresReadOnly reports whether a definition says that the tool changes nothing.
func declaresReadOnly(raw []byte) bool {
	return string(wire.Path(raw, wire.Whole(raw), "annotations", "readOnlyHint").Of(raw)) == "true"
}

// Findable reports whether a search may return a tool: the caller sees it, its server serves calls at present (seed 004, Behavior by State),
// and it declares to change nothing if readOnly is set. now is the present state of the catalogue, to which the view may be older.
func (v *View) Findable(now *catalogue.Snapshot, server, name string, readOnly bool) bool {
	v.measure()
	i, known := v.short.at[names.Name{Server: server, Original: name}]
	if !known || !serves(now.Server(server)) {
		return false
	}
	return !readOnly || declaresReadOnly(v.list(catalogue.Tools).entries[i].raw)
}

// serves reports whether a server serves calls. One that no call has tried yet, or that sleeps, does if it answers Dragoman.
func serves(s *catalogue.Server) bool {
	if s == nil {
		return false
	}
	switch s.Status.State {
	case "CONNECTED", "DEGRADED":
		return true
	case "", "DISCONNECTED":
		return s.Presence == catalogue.There
	}
	return false
}

// Tool describes a tool that the caller sees.
func (v *View) Tool(now *catalogue.Snapshot, hit metatools.Hit) (t metatools.Tool, known bool) {
	v.measure()
	i, known := v.short.at[names.Name{Server: hit.Server, Original: hit.Name}]
	if !known {
		return t, false
	}
	l := v.list(catalogue.Tools)
	t = metatools.Tool{Public: l.table.Public(i), Server: hit.Server, ReadOnly: v.readOnly(&l.entries[i]), Raw: l.entries[i].raw, Hit: hit}
	if s := now.Server(hit.Server); s != nil {
		t.Status = s.Status.State
	}
	return t, true
}

// Named returns the server and the name there of a tool that the caller sees, by any name that a call may have.
func (v *View) Named(name string) (server, original string, err *proxy.Error) {
	at, err := v.named(catalogue.Tools, []byte(name), "")
	return at.Server, at.Original, err
}

// Own returns the servers that show the caller other lists than the catalogue has.
func (v *View) Own() []*catalogue.Server { return v.own }
