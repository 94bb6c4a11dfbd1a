package access

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Names selects things of one kind: tools and prompts by the server's names, resources by URI. A trailing * matches any
// ending. Deny takes precedence over Allow. An empty Allow allows everything that is not denied. Deny holds for every
// spelling that a server may take for a denied name (see policies.Fold and policies.URI), Allow for none but its own.
type Names struct{ Allow, Deny []string }

// Grant lists what a principal may use of one server.
type Grant struct{ Tools, Prompts, Resources Names }

// FilterOptions configures a [Filter]: what clients may use of one server, and under which names.
type FilterOptions struct {
	Server string
	// Grants are keyed by principal. The entry "*" applies to every caller without an entry of its own, anonymous
	// callers included.
	Grants map[string]Grant
	// Disabled lists what no client can see or use.
	Disabled struct{ Tools, Prompts, Resources []string }
	// Versions are the contract versions of tools, which lists show (seed 003, McpToolDefinition).
	Versions map[string]string
	// Renamed maps the server's own names and URIs to those that clients see. A resource entry that ends in * on both
	// sides renames the common prefix of several URIs.
	Renamed Renames
}

// Filter restricts what clients see and use of one server. What a client may not use is missing from its lists, and a
// request for it fails exactly as one for something that does not exist, so that clients cannot find out what is
// hidden.
type Filter struct {
	opt      FilterOptions
	grants   map[string]*grant
	disabled [thingKinds]selector
	versions policies.Patterns[string]
	renamed  [thingKinds]renaming
	moved    selector // the server's own URIs of renamed resources
	several  bool     // grants differ between principals
	refused  prometheus.Counter
	hidden   prometheus.Counter
}

// grant is a compiled [Grant], indexed by thing.
type grant [thingKinds]struct{ allow, deny selector }

// thing is a kind of object that servers list.
type thing int

const (
	toolThing thing = iota
	promptThing
	resourceThing
	thingKinds
)

// NewFilter returns the filter, or nil if opt configures nothing. metric has the labels server and what.
func NewFilter(opt FilterOptions, metric *prometheus.CounterVec) *Filter {
	if len(opt.Grants) == 0 && len(opt.Disabled.Tools)+len(opt.Disabled.Prompts)+len(opt.Disabled.Resources) == 0 && len(opt.Versions) == 0 && opt.Renamed.empty() {
		return nil
	}
	a := &Filter{opt: opt, grants: make(map[string]*grant), versions: policies.NewPatterns(opt.Versions),
		refused: metric.WithLabelValues(opt.Server, "refused"), hidden: metric.WithLabelValues(opt.Server, "hidden")}
	for k, names := range [thingKinds][]string{opt.Disabled.Tools, opt.Disabled.Prompts, opt.Disabled.Resources} {
		a.disabled[k] = newSelector(thing(k), names)
	}
	for who, g := range opt.Grants {
		made := new(grant)
		for k, n := range [thingKinds]Names{g.Tools, g.Prompts, g.Resources} {
			made[k].allow, made[k].deny = newSelector(thing(k), n.Allow), newSelector(thing(k), n.Deny)
		}
		a.grants[who] = made
		a.several = a.several || who != "*"
	}
	for k, names := range [thingKinds]map[string]string{opt.Renamed.Tools, opt.Renamed.Prompts, opt.Renamed.Resources} {
		a.renamed[k] = newRenaming(names)
	}
	a.moved = newSelector(resourceThing, slices.Collect(maps.Keys(opt.Renamed.Resources)))
	return a
}

// NewFilterMetric registers the counter that all Filter policies share.
func NewFilterMetric(reg prometheus.Registerer) (*prometheus.CounterVec, error) {
	r := policies.NewRegistry(reg)
	return r.Counter("dragoman_access_total", "Requests refused, and entries hidden from lists, because the client is not allowed to use them.", "server", "what"), r.Err()
}

// grantOf returns the grant of a caller; nil: everything that is not disabled.
func (a *Filter) grantOf(who proxy.Caller) *grant {
	g := a.grants[who.Principal]
	if g == nil || who.Principal == "" {
		g = a.grants["*"]
	}
	return g
}

// ruled reports whether any rule about a kind of things applies to a caller.
func (a *Filter) ruled(who proxy.Caller, k thing) bool {
	g := a.grantOf(who)
	return !a.disabled[k].empty() || !a.renamed[k].empty() || g != nil && !(g[k].allow.empty() && g[k].deny.empty())
}

// Apart reports whether callers may use different things.
func (a *Filter) Apart() bool { return a != nil && a.several }

// permits reports whether a caller may use the thing with the given name at the server.
func (a *Filter) permits(who proxy.Caller, k thing, name []byte) bool {
	if !a.ruled(who, k) {
		return true
	}
	n, err := newSubject(k, name)
	return err == nil && a.permitted(who, k, &n)
}

// permitted is permits for a name that was read.
func (a *Filter) permitted(who proxy.Caller, k thing, n *named) bool {
	if a.disabled[k].covers(n) {
		return false
	}
	g := a.grantOf(who)
	return g == nil || !g[k].deny.covers(n) && (g[k].allow.empty() || g[k].allow.permits(n))
}

// Policy returns the policy that enforces the filter, or nil for a nil Filter.
func (a *Filter) Policy() proxy.Policy {
	if a == nil {
		return nil
	}
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Msg.Kind != wire.Request {
				return next(ex)
			}
			about, err := a.refusal(ex)
			if err != nil {
				return nil, err
			}
			replies, err := next(ex)
			if err != nil {
				return nil, err
			}
			if about == forListen { // the current filter judges its notices, by Notice
				return replies, nil
			}
			return &filtered{Replies: replies, a: a, ex: ex, about: about}, nil
		}
	}
}

// Refuse returns the error that refuses a request, recorded as the policy records it, and nil for a request that the client
// may make. It is for callers that decide before the policy that a request does not reach the server.
func (a *Filter) Refuse(ex *proxy.Exchange) error {
	if a == nil {
		return nil
	}
	_, err := a.refusal(ex)
	return err
}

// refusal judges a request and records a refusal: it is the one place that does.
func (a *Filter) refusal(ex *proxy.Exchange) (subject, error) {
	about, err := a.judge(ex)
	if err != nil {
		a.refused.Inc()
		ex.RefusedBy = "access"
	}
	return about, err
}

// subject is the object of a request, as far as the filtering of its replies depends on it.
type subject int

const (
	forOther subject = iota
	forTools
	forPrompts
	forResources
	forTemplates
	forRead
	forContent // the result may contain resources
	forSkills
	forListen
)

// judge translates the names in a request to the server's names, or returns the error that refuses it.
func (a *Filter) judge(ex *proxy.Exchange) (subject, error) {
	m := &ex.Msg
	switch string(m.Text(m.Method)) {
	case "tools/list":
		return forTools, nil
	case "prompts/list":
		return forPrompts, nil
	case "resources/list":
		return forResources, nil
	case "resources/templates/list":
		return forTemplates, nil
	case "tools/call":
		return forContent, a.single(ex, toolThing, m.Name)
	case "prompts/get":
		return forContent, a.single(ex, promptThing, m.Name)
	case "resources/read":
		return forRead, a.single(ex, resourceThing, m.URI)
	case "resources/subscribe", "resources/unsubscribe":
		return forOther, a.single(ex, resourceThing, m.URI)
	case "completion/complete":
		return forOther, a.completed(ex)
	case "subscriptions/listen":
		return forListen, a.listened(ex)
	case "skills/list":
		return forSkills, nil
	case "skills/get":
		return forSkills, a.single(ex, resourceThing, m.URI)
	case "resources/directory/read":
		return forResources, a.directory(ex, m.URI)
	}
	return forOther, checkMethod(m)
}

// maxEchoed bounds the URI that an error returns as data, in bytes.
const maxEchoed = 2 << 10

// unknown returns the error for a thing that does not exist. For a resource, its code is -32002 for legacy clients and
// -32602 for modern ones, and its data has the URI (2025-11-25 resources, 2026-07-28 resources, Error Handling).
func unknown(ex *proxy.Exchange, k thing, name []byte) error {
	switch k {
	case toolThing:
		return proxy.Errf(proxy.ToolUnknown, "Tool not found: %s", name)
	case promptThing:
		return proxy.Errf(proxy.InvalidParams, "Prompt not found: %s", name)
	}
	err := proxy.Errf(proxy.InvalidParams, "Resource not found: %s", name)
	if ex.Client.Era == proxy.Legacy {
		err.Code = proxy.CodeResourceNotFound
	}
	if len(name) <= maxEchoed {
		err.Data = append(wire.AppendText([]byte(`{"uri":`), name), '}')
	}
	return err
}

// single checks a request about one thing, whose name is at s, and replaces that name by the server's.
func (a *Filter) single(ex *proxy.Exchange, k thing, s wire.Span) error {
	m := &ex.Msg
	if !s.Present() || !a.ruled(ex.Caller, k) {
		return nil
	}
	if !s.IsString(m.Raw) {
		return errNoString(k)
	}
	name := m.Text(s)
	own, ok := a.renamed[k].server(name)
	if !ok {
		return unknown(ex, k, name)
	}
	n, err := newSubject(k, own)
	if err != nil {
		return err
	}
	renamed := !bytes.Equal(own, name)
	if !a.permitted(ex.Caller, k, &n) || !renamed && k == resourceThing && a.moved.covers(&n) {
		return unknown(ex, k, name)
	}
	if renamed {
		if ex.PublicName == nil {
			ex.PublicName = name
		}
		m.Replace(s, wire.AppendText(nil, own))
		if _, err := m.Settle(nil); err != nil {
			return proxy.Errf(proxy.Internal, "a renamed request is no message: %w", err)
		}
	}
	return nil
}

// completed checks the reference of a completion. Both of its names count: a server may go by either.
func (a *Filter) completed(ex *proxy.Exchange) error {
	m := &ex.Msg
	name, _, err := reference(m)
	if err != nil {
		return err
	}
	if err := a.single(ex, promptThing, name); err != nil {
		return err
	}
	_, uri, err := reference(m) // the message may have changed
	if err != nil {
		return err
	}
	return a.single(ex, resourceThing, uri)
}

// listened removes the resources that the caller may not use from a listen, and replaces the URIs of the others by the
// server's.
func (a *Filter) listened(ex *proxy.Exchange) error {
	m := &ex.Msg
	list, err := subscribed(m)
	if err != nil {
		return err
	}
	if !a.ruled(ex.Caller, resourceThing) {
		return nil
	}
	editItems(m, list, func(item wire.Span) []byte {
		uri := item.Text(m.Raw)
		own, ok := a.renamed[resourceThing].server(uri)
		n, err := newSubject(resourceThing, own)
		renamed := !bytes.Equal(own, uri)
		switch {
		case !ok || err != nil || !item.IsString(m.Raw) || !a.permitted(ex.Caller, resourceThing, &n) || !renamed && a.moved.covers(&n):
			return nil
		case !renamed:
			return item.Of(m.Raw)
		}
		return wire.AppendText(nil, own)
	})
	_, err = m.Settle(nil)
	return err
}

// editItems replaces each item of the array at list by what edit returns; nil removes it.
func editItems(m *wire.Message, list wire.Span, edit func(item wire.Span) []byte) {
	kept, changed := []byte{'['}, false
	for _, item := range wire.Items(m.Raw, list) {
		entry := edit(item)
		changed = changed || !bytes.Equal(entry, item.Of(m.Raw))
		if entry != nil && len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(kept, entry...)
	}
	if changed {
		m.Replace(list, append(kept, ']'))
	}
}

// filtered wraps replies. It hides what the client may not see, and translates the server's names to the client's.
type filtered struct {
	proxy.Replies
	a     *Filter
	ex    *proxy.Exchange
	about subject
	own   []byte
}

// Next implements proxy.Replies.
func (r *filtered) Next(until time.Time) (*wire.Message, error) {
	m, err := r.Replies.Next(until)
	for err == nil && m.Kind == wire.Notification && !r.a.Notice(r.ex.Caller, m) {
		m, err = r.Replies.Next(until)
	}
	if err != nil || m.Kind == wire.Notification || !r.concerns(m) {
		return m, err
	}
	if len(m.Edits) > 0 { // apply pending edits first: the filter concerns the message as it will be sent
		if r.own, err = m.Settle(r.own); err != nil {
			return m, proxy.Errf(proxy.Internal, "an edited reply is no message: %w", err)
		}
	}
	l, isList := listed[r.about]
	switch {
	case m.Kind == wire.Failure:
		r.uri(m, wire.Get(m.Raw, m.ErrorData, "uri"))
	case r.about == forSkills:
		r.skills(m)
	case isList:
		r.trim(m, wire.Get(m.Raw, m.Result, l.list), l.name, l.k)
	default:
		r.links(m)
	}
	if m.Kind == wire.Result && r.about != forContent {
		r.keepApart(m)
	}
	return m, nil
}

// keepApart changes cacheScope from public to private if the result depends on the principal, so that no cache shares
// it (2026-07-28 caching, Cache Scope).
func (r *filtered) keepApart(m *wire.Message) {
	if scope := wire.Get(m.Raw, m.Result, "cacheScope"); r.a.several && scope.Is(m.Raw, "public") {
		m.Replace(scope, []byte(`"private"`))
	}
}

// concerns reports whether a reply may contain names to hide or to translate.
func (r *filtered) concerns(m *wire.Message) bool {
	moved := !r.a.renamed[resourceThing].empty()
	switch m.Kind {
	case wire.Result:
		_, isList := listed[r.about]
		return isList || r.about == forSkills || moved && r.about != forOther || r.a.several && r.about == forRead
	case wire.Failure:
		return moved && m.ErrorData.Present()
	}
	return false
}

// uri replaces the server's URI at s by the client's.
func (r *filtered) uri(m *wire.Message, s wire.Span) {
	if s.Present() {
		r.a.renamed[resourceThing].replace(m, s)
	}
}

// listed gives for each kind of list the array in the result, and the member that names its entries.
var listed = map[subject]struct {
	list, name string
	k          thing
}{
	forTools: {"tools", "name", toolThing}, forPrompts: {"prompts", "name", promptThing},
	forResources: {"resources", "uri", resourceThing}, forTemplates: {"resourceTemplates", "uriTemplate", resourceThing},
}

// trim removes the entries that the client may not see from a list, and translates the names of the others.
func (r *filtered) trim(m *wire.Message, list wire.Span, member string, k thing) {
	editItems(m, list, func(item wire.Span) []byte {
		at := wire.Get(m.Raw, item, member)
		name := at.Text(m.Raw)
		if !r.a.permits(r.ex.Caller, k, name) {
			r.a.hidden.Inc()
			return nil
		}
		entry := item.Of(m.Raw)
		if theirs := r.a.renamed[k].client(name); !bytes.Equal(theirs, name) {
			entry = slices.Concat(m.Raw[item.From:at.From], wire.AppendText(nil, theirs), m.Raw[at.To:item.To])
		}
		if v, ok := r.a.versions.Find(name); ok && k == toolThing {
			entry = versioned(entry, v)
		}
		return entry
	})
}

// versionKey is the member of a tool's _meta that holds the version of its contract.
const versionKey = "io.dragoman/version"

// versioned returns a tool with a version in its _meta. entry must be a JSON object.
func versioned(entry []byte, version string) []byte {
	value := wire.AppendText(append(wire.AppendText(nil, versionKey), ':'), version)
	if meta := wire.Get(entry, wire.Whole(entry), "_meta"); meta.IsObject(entry) {
		if inner := bytes.TrimSpace(entry[meta.From+1 : meta.To-1]); len(inner) > 0 {
			value = append(value, ',')
		}
		return slices.Concat(entry[:meta.From+1], value, entry[meta.From+1:])
	}
	end := bytes.LastIndexByte(entry, '}')
	if len(bytes.TrimSpace(entry[1:end])) > 0 {
		return slices.Concat(entry[:end], []byte(`,"_meta":{`), value, []byte("}}"))
	}
	return slices.Concat(entry[:end], []byte(`"_meta":{`), value, []byte("}}"))
}

// links translates the URIs of the resources that a result contains or links to.
func (r *filtered) links(m *wire.Message) {
	content := func(block wire.Span) { // a resource link, or an embedded resource
		if wire.Get(m.Raw, block, "type").Is(m.Raw, "resource_link") {
			r.uri(m, wire.Get(m.Raw, block, "uri"))
		}
		r.uri(m, wire.Path(m.Raw, block, "resource", "uri"))
	}
	for _, item := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "contents")) {
		r.uri(m, wire.Get(m.Raw, item, "uri"))
	}
	for _, item := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "content")) {
		content(item)
	}
	for _, item := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "messages")) {
		content(wire.Get(m.Raw, item, "content"))
	}
}
