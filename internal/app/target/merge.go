package target

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/merge"
	"dragoman/adapters/merge/lists"
	"dragoman/adapters/merge/metatools"
	"dragoman/adapters/merge/names"
	"dragoman/adapters/merge/view"
	"dragoman/internal/app/component"
	"dragoman/internal/app/logging"
	"dragoman/internal/config"
	"dragoman/policies/access"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// endpoint is an endpoint of several servers: that of all members, or a group.
type endpoint struct {
	target  string        // its name where a server is named; empty: it is the target of requests that name none
	group   *config.Group // nil: all members
	servers []string
}

// endpoints returns the endpoints of several servers that a configuration has.
func endpoints(c *config.Config) (all []endpoint) {
	if c.Merged() {
		all = append(all, endpoint{servers: upstreamNames(c.Members())})
	}
	for _, g := range c.Groups {
		e := endpoint{target: proxy.GroupTarget(g.Name), group: g, servers: g.Servers}
		if len(e.servers) == 0 {
			e.servers = upstreamNames(c.Members())
		}
		all = append(all, e)
	}
	return all
}

func upstreamNames(ups []*config.Upstream) (names []string) {
	for _, u := range ups {
		names = append(names, u.Name)
	}
	return names
}

// table returns the routes to the targets, and to the endpoints of several of them.
func (b *Builder) table(t *Set) (*proxy.Table, error) {
	var unnamed *proxy.Target
	if only := b.Config.Unnamed(); only != nil {
		unnamed = t.route(only.Name)
		t.Serves[""], t.behind[""] = only.Name, []string{only.Name}
	}
	var routes []*proxy.Target
	for _, one := range t.All {
		routes = append(routes, t.route(one.Name()))
	}
	all := endpoints(b.Config)
	if len(all) == 0 && !b.Config.Aggregator.On() && !t.Pinned() {
		return proxy.NewTable(unnamed, routes...), nil
	}
	if err := b.refresher(t, all); err != nil {
		return nil, err
	}
	for _, e := range all {
		u, err := b.merge(t, &e)
		if err != nil {
			return nil, err
		}
		t.Serves[e.target], t.behind[e.target] = fmt.Sprint(mergePrefix, b.Components.Number(e.component())), e.servers
		route := &proxy.Target{Name: e.target, Upstream: u}
		if e.target == "" {
			unnamed = route
			continue
		}
		routes = append(routes, route)
	}
	sorter, finder, cat, told := b.sorter, b.finder, b.catalogue, len(t.contexts) > 0
	b.Components.OnActivation(func() {
		sorter.Tell(func() {
			finder.CategoriesChanged()
			if told { // find_tools tells some clients of categories
				cat.Resorted()
			}
		})
	})
	return proxy.NewTable(unnamed, routes...), nil
}

// component returns the name of the endpoint's component.
func (e *endpoint) component() string { return mergePrefix + e.target }

// mergePrefix begins the names of components that are endpoints of several servers.
const mergePrefix = "merge "

// route returns the route to a target; nil if there is none.
func (t *Set) route(name string) *proxy.Target {
	if one := t.byName[name]; one != nil {
		return &proxy.Target{Name: name, Upstream: one.guarded}
	}
	return nil
}

// mergeSettings is all that an endpoint of several servers is made from. While it stays equal the endpoint stays, with the sessions of its
// clients; its members may change.
type mergeSettings struct {
	names                        names.Style
	skills                       view.Skills
	own                          string // names of Dragoman's own tools
	self                         string
	catalogue, reader, questions uint64
}

// refreshComponent is the name of the component that keeps the catalogue.
const refreshComponent = "lists"

// refresher makes what keeps the catalogue of the servers of some endpoints.
func (b *Builder) refresher(t *Set, all []endpoint) (err error) {
	if b.catalogue, err = b.openCatalogue(); err != nil {
		return err
	}
	settings := []any{string(b.Self), b.Components.Number(catalogueComponent)}
	b.refreshing, err = component.Get(b.Components, refreshComponent, settings, component.Spec[*lists.Refresher]{Build: func(prometheus.Registerer) (*lists.Refresher, error) {
		return lists.New(lists.Options{Catalogue: b.catalogue, Info: b.Self, NewID: session.NewID, Note: noteServer(b.Log), Changed: reportDefinitions(b.Events)}), nil
	}, Stage: component.Callers, Close: (*lists.Refresher).Close})
	if err != nil {
		return err
	}
	refreshing, grace, firstWait := b.refreshing, max(b.Config.Listing.Grace, 1), b.Config.Listing.FirstWait
	b.Components.OnActivation(func() {
		refreshing.SetGrace(grace)
		refreshing.SetFirstWait(firstWait)
	})
	if err = b.categories(t); err != nil {
		return err
	}
	if err = b.search(); err != nil {
		return err
	}
	var servers []lists.Server
	for _, one := range t.All {
		if b.Config.Aggregator.On() || one.guard != nil || slices.ContainsFunc(all, func(e endpoint) bool { return slices.Contains(e.servers, one.Name()) }) {
			one.lists = b.refreshing
			server := one.listed(b.Components.Number(upstreamComponent(one.Name())))
			mode, _ := b.Config.DefinitionsOf(one.settings)
			if server.Quiet = mode != config.Warn; one.guard != nil {
				server.Read = one.guard.Learn
			}
			servers = append(servers, server)
		}
	}
	t.Catalogue, t.Finder, t.Counts = b.catalogue, b.finder, b.counts
	t.ReadLists, t.Reread = func() {
		refreshing.SetServers(servers)
		for _, one := range t.All {
			one.guard.Load(context.Background())
		}
	}, refreshing.Reread
	return nil
}

// noteServer returns what logs the notes about servers.
func noteServer(log zerolog.Logger) func(level, server, msg string, err error) {
	var each sync.Map // by server
	return func(level, server, msg string, err error) {
		note, known := each.Load(server)
		if !known {
			note, _ = each.LoadOrStore(server, logging.Notes(log.With().Str("upstream", server).Logger()))
		}
		note.(func(level, msg string, err error))(level, msg, err)
	}
}

// merge makes an endpoint of several servers.
func (b *Builder) merge(t *Set, e *endpoint) (*merge.Upstream, error) {
	c := b.Config
	context := c.Context(e.group)
	var own []string
	if context.On() {
		own = metatools.Names()
	}
	settings := mergeSettings{names: c.Style(e.group), skills: c.Skills(), own: strings.Join(own, " "), self: string(b.Self),
		questions: b.Components.Number("questions"), catalogue: b.Components.Number(catalogueComponent), reader: b.Components.Number(refreshComponent)}
	u, err := component.Get(b.Components, e.component(), settings, component.Spec[*merge.Upstream]{Build: func(prometheus.Registerer) (*merge.Upstream, error) {
		return merge.New(merge.Options{Lists: b.refreshing, Names: settings.names, Skills: settings.skills, Own: own, Finder: b.finder, Categories: b.sorter.Of, Counts: b.counts, Info: b.Self, Sealer: b.Pending.Sealer(), StateTTL: c.Questions.TTL, Note: noteServer(b.Log)}), nil
	}, Stage: component.Callers, Close: func(u *merge.Upstream) { _ = u.Close() }})
	if err != nil {
		return nil, fmt.Errorf("several servers as one: %w", err)
	}
	var members []merge.Member
	for _, name := range e.servers {
		if one := t.byName[name]; one != nil {
			members = append(members, b.member(one, e.group))
		}
	}
	if context.On() {
		b.Components.OnActivation(b.finder.Start)
		t.contexts[e.target] = context
	} else {
		context = nil
	}
	t.merged[e.target] = u
	strict := c.Listing.Strict || e.group != nil && e.group.Strict
	b.Components.OnActivation(func() { u.SetStrict(strict); u.SetContext(context); u.SetMembers(members) })
	return u, nil
}

// member returns a target as a member of an endpoint. What it may be used for there is what its own rules allow, and of that what those of
// the group do.
func (b *Builder) member(t *Target, group *config.Group) merge.Member {
	name := t.Name()
	scopes := b.Scopes.At(name)
	rules, shown := []proxy.Policy{scopes}, []proxy.Policy{b.Scopes.Shown(name), t.filter.Policy(), t.guard.Shown()}
	var notice func(proxy.Caller, *wire.Message) bool
	if group != nil {
		grant := group.At(name)
		narrow := access.NewFilter(access.FilterOptions{Server: proxy.GroupTarget(group.Name), Grants: map[string]access.Grant{"*": grant.Grant()}}, b.Filtered)
		rules, shown, notice = append(rules, narrow.Policy()), append([]proxy.Policy{narrow.Policy()}, shown...), narrow.Notice
	}
	m := merge.Member{Notice: notice, Member: view.Member{Name: name, Apart: scopes != nil || t.filter.Apart(), Drives: t.settings.Tasks == "drive", Trusted: t.settings.Trusted}}
	if t.guard != nil {
		m.Instructions, m.Pinned = t.guard.Instructions, true
	}
	m.Do = proxy.Chain(func(ex *proxy.Exchange) (proxy.Replies, error) { return b.Router.DoAt(name, ex) }, rules...)
	if shown = slices.DeleteFunc(shown, func(p proxy.Policy) bool { return p == nil }); len(shown) > 0 {
		m.Shown = func(next proxy.Handler) proxy.Handler { return proxy.Chain(next, shown...) }
	}
	return m
}

// modern finds out whether the server is modern.
func (t *Target) modern(ctx context.Context) (bool, error) {
	p, err := t.Profile(ctx)
	if err != nil {
		return false, err
	}
	return p.Modern, nil
}

// listed returns the target as what keeps the catalogue sees it: without the rules for callers.
func (t *Target) listed(instance uint64) lists.Server {
	s := lists.Server{Name: t.Name(), ID: t.settings.Registration, Left: t.settings.Disconnected, Instance: instance, Sleeps: t.settings.IdleExit > 0, Transport: "HTTP", Do: t.plain, Modern: t.modern, Dual: t.Dual}
	at := t.settings.URL
	if len(t.settings.Command) > 0 {
		s.Transport, at = "STDIO", strings.Join(t.settings.Command, "\x00")
	} else if t.settings.Transport == "sse" {
		s.Transport = "SSE"
	} else if _, _, grpc := t.settings.GRPC(); grpc {
		s.Transport = "GRPC"
	}
	sum := sha256.Sum256([]byte(at))
	s.Origin = sum[:]
	var telling []string // names of forwarded headers that tell callers apart
	for _, f := range t.settings.Forward {
		if name := strings.ToLower(f.From); proxy.Identifies(name) {
			telling = append(telling, name)
		}
	}
	if telling != nil {
		s.Contextual = func(who proxy.Caller) bool {
			return slices.ContainsFunc(telling, func(name string) bool { _, sent := who.Forwarded.Get(name); return sent })
		}
	}
	return s
}
