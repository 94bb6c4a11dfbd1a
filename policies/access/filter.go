package access

import (
	"bytes"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Names is what of one kind of thing may be used: names that the server gives, URIs of resources; with a * at the end of one, all
// that begin so. Denied goes before allowed; without Allow all is allowed that is not denied.
type Names struct{ Allow, Deny []string }

// Grant is what may be used of a server.
type Grant struct{ Tools, Prompts, Resources Names }

// FilterOptions say what clients may use of one server, and what they call it.
type FilterOptions struct {
	Server string
	// Grants are by principal; that of "*" is for all who have none of their own, anonymous ones among them.
	Grants map[string]Grant
	// Disabled is what is not there, for anybody.
	Disabled struct{ Tools, Prompts, Resources []string }
	// Versions are the versions of tools' contracts (seed 003, McpToolDefinition), which lists show.
	Versions map[string]string
	// Renamed is what clients call tools, prompts and resources, by the server's own name or URI. One of a resource with a * at
	// its end, in both, changes the beginning of all that begin so.
	Renamed Renames
}

// Filter lets clients see and use what they may: the rest is in no list, and a request for it fails as it does for what
// does not exist, so that nobody learns what there is.
type Filter struct {
	opt      FilterOptions
	grants   map[string]*grant
	disabled [thingKinds]policies.Patterns[bool]
	versions policies.Patterns[string]
	renamed  [thingKinds]renaming
	several  bool // not everybody may use the same
	refused  prometheus.Counter
	hidden   prometheus.Counter
}

// grant is a Grant that can be subject.
type grant [thingKinds]struct{ allow, deny policies.Patterns[bool] }

// thing is of what there are lists.
type thing int

const (
	toolThing thing = iota
	promptThing
	resourceThing
	thingKinds
)

// NewFilter makes the policy; it is nil if nothing is said. metric has the labels server and what.
func NewFilter(opt FilterOptions, metric *prometheus.CounterVec) *Filter {
	if len(opt.Grants) == 0 && len(opt.Disabled.Tools)+len(opt.Disabled.Prompts)+len(opt.Disabled.Resources) == 0 && len(opt.Versions) == 0 && opt.Renamed.empty() {
		return nil
	}
	a := &Filter{opt: opt, grants: make(map[string]*grant), versions: policies.NewPatterns(opt.Versions),
		refused: metric.WithLabelValues(opt.Server, "refused"), hidden: metric.WithLabelValues(opt.Server, "hidden")}
	for k, names := range [thingKinds][]string{opt.Disabled.Tools, opt.Disabled.Prompts, opt.Disabled.Resources} {
		a.disabled[k] = rulesOf(names)
	}
	for who, g := range opt.Grants {
		made := new(grant)
		for k, n := range [thingKinds]Names{g.Tools, g.Prompts, g.Resources} {
			made[k].allow, made[k].deny = rulesOf(n.Allow), rulesOf(n.Deny)
		}
		a.grants[who] = made
		a.several = a.several || who != "*"
	}
	for k, names := range [thingKinds]map[string]string{opt.Renamed.Tools, opt.Renamed.Prompts, opt.Renamed.Resources} {
		a.renamed[k] = newRenaming(names)
	}
	return a
}

// NewFilterMetric registers the counter that all Filter policies share.
func NewFilterMetric(reg prometheus.Registerer) (*prometheus.CounterVec, error) {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dragoman_access_total",
		Help: "Requests refused, and entries hidden from lists, because their client may not use them."}, []string{"server", "what"})
	return c, reg.Register(c)
}

func rulesOf(names []string) policies.Patterns[bool] {
	of := make(map[string]bool, len(names))
	for _, n := range names {
		of[n] = true
	}
	return policies.NewPatterns(of)
}

// permits tells whether a caller may use what the server calls so.
func (a *Filter) permits(who proxy.Caller, k thing, name []byte) bool {
	if _, off := a.disabled[k].Find(name); off {
		return false
	}
	g := a.grants[who.Principal]
	if g == nil || who.Principal == "" {
		g = a.grants["*"]
	}
	if g == nil {
		return true
	}
	if _, denied := g[k].deny.Find(name); denied {
		return false
	}
	_, allowed := g[k].allow.Find(name)
	return allowed || g[k].allow.Empty()
}

// Policy guards one server.
func (a *Filter) Policy() proxy.Policy {
	if a == nil {
		return nil
	}
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Msg.Kind != wire.Request {
				return next(ex)
			}
			asks, err := a.judge(ex)
			if err != nil {
				a.refused.Inc()
				ex.RefusedBy = "access"
				return nil, err
			}
			replies, err := next(ex)
			if err != nil || replies == nil {
				return replies, err
			}
			return &accessed{Replies: replies, a: a, ex: ex, asks: asks}, nil
		}
	}
}

// subject is what a request is about.
type subject int

const (
	forOther subject = iota
	forTools
	forPrompts
	forResources
	forTemplates
	forRead
	forContent // whose result may have resources in it
)

// judge takes a request to the server's names, or refuses it.
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
		return forContent, a.single(ex, toolThing, m.Name, unknownTool)
	case "prompts/get":
		return forContent, a.single(ex, promptThing, m.Name, unknownPrompt)
	case "resources/read":
		return forRead, a.single(ex, resourceThing, m.URI, unknownResource)
	case "resources/subscribe", "resources/unsubscribe":
		return forOther, a.single(ex, resourceThing, m.URI, unknownResource)
	case "completion/complete":
		ref := wire.Get(m.Raw, m.Params, "ref")
		if uri := wire.Get(m.Raw, ref, "uri"); uri.Present() {
			return forOther, a.single(ex, resourceThing, uri, unknownResource)
		}
		return forOther, a.single(ex, promptThing, wire.Get(m.Raw, ref, "name"), unknownPrompt)
	case "subscriptions/listen":
		return forOther, a.listened(ex)
	}
	return forOther, nil
}

func unknownTool(_ *proxy.Exchange, name []byte) error {
	return proxy.Errf(proxy.ToolUnknown, "Tool not found: %s", name)
}

func unknownPrompt(_ *proxy.Exchange, name []byte) error {
	return proxy.Errf(proxy.InvalidParams, "Prompt not found: %s", name)
}

// unknownResource is -32002 to legacy clients, -32602 to modern ones, each with the URI (2025-11-25 resources, 2026-07-28 resources,
// Error Handling).
func unknownResource(ex *proxy.Exchange, uri []byte) error {
	err := proxy.Errf(proxy.InvalidParams, "Resource not found: %s", uri)
	if ex.Client.Era == proxy.Legacy {
		err.Code = proxy.CodeResourceNotFound
	}
	err.Data = append(wire.AppendText([]byte(`{"uri":`), uri), '}')
	return err
}

// single judges a request about one thing, whose name lies at s, and takes it to the server's name.
func (a *Filter) single(ex *proxy.Exchange, k thing, s wire.Span, unknown func(*proxy.Exchange, []byte) error) error {
	m := &ex.Msg
	name := m.Text(s)
	own, ok := a.renamed[k].server(name)
	if !ok || s.Present() && !a.permits(ex.Caller, k, own) {
		return unknown(ex, name)
	}
	if !bytes.Equal(own, name) {
		m.Replace(s, wire.AppendText(nil, own))
		if _, err := m.Settle(nil); err != nil {
			return proxy.Errf(proxy.Internal, "a renamed request is no message: %w", err)
		}
	}
	return nil
}

// listened leaves of a listen's resources those that may be used, by the server's URIs.
func (a *Filter) listened(ex *proxy.Exchange) error {
	m := &ex.Msg
	list := wire.Get(m.Raw, m.Notifications, "resourceSubscriptions")
	if !list.Present() {
		return nil
	}
	kept, changed := []byte{'['}, false
	for _, item := range wire.Items(m.Raw, list) {
		uri := item.Text(m.Raw)
		own, ok := a.renamed[resourceThing].server(uri)
		if !ok || !a.permits(ex.Caller, resourceThing, own) {
			changed = true
			continue
		}
		changed = changed || !bytes.Equal(own, uri)
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = wire.AppendText(kept, own)
	}
	if !changed {
		return nil
	}
	m.Replace(list, append(kept, ']'))
	_, err := m.Settle(nil)
	return err
}

// accessed are replies in the client's names, without what it may not see.
type accessed struct {
	proxy.Replies
	a    *Filter
	ex   *proxy.Exchange
	asks subject
	own  []byte
}

// Next implements proxy.Replies.
func (r *accessed) Next(until time.Time) (*wire.Message, error) {
	m, err := r.Replies.Next(until)
	if err != nil {
		return m, err
	}
	if !r.concerns(m) {
		return m, nil
	}
	if len(m.Edits) > 0 { // what was edited on the way is looked at as it will leave
		if r.own, err = m.Settle(r.own); err != nil {
			return m, proxy.Errf(proxy.Internal, "an edited reply is no message: %w", err)
		}
	}
	l, isList := listed[r.asks]
	switch {
	case m.Kind == wire.Notification:
		r.uri(m, m.URI)
	case m.Kind == wire.Failure:
		r.uri(m, wire.Get(m.Raw, m.ErrorData, "uri"))
	case isList:
		r.trim(m, wire.Get(m.Raw, m.Result, l.list), l.name, l.k)
	default:
		r.links(m)
	}
	if m.Kind == wire.Result && r.asks != forContent {
		r.keepApart(m)
	}
	return m, nil
}

// keepApart says of a result that is another for others that nobody may share it (2026-07-28 caching, Cache Scope).
func (r *accessed) keepApart(m *wire.Message) {
	if scope := wire.Get(m.Raw, m.Result, "cacheScope"); r.a.several && scope.Is(m.Raw, "public") {
		m.Replace(scope, []byte(`"private"`))
	}
}

// concerns tells whether there may be names in a reply that are to be changed.
func (r *accessed) concerns(m *wire.Message) bool {
	moved := !r.a.renamed[resourceThing].empty()
	switch m.Kind {
	case wire.Result:
		_, isList := listed[r.asks]
		return isList || moved && r.asks != forOther || r.a.several && r.asks == forRead
	case wire.Notification:
		return moved && m.Is("notifications/resources/updated")
	case wire.Failure:
		return moved && m.ErrorData.Present()
	}
	return false
}

// uri writes the client's URI in the place of the server's.
func (r *accessed) uri(m *wire.Message, s wire.Span) {
	if s.Present() {
		r.a.renamed[resourceThing].replace(m, s)
	}
}

// listed are the members of the results of lists, and of their entries that name them.
var listed = map[subject]struct {
	list, name string
	k          thing
}{
	forTools: {"tools", "name", toolThing}, forPrompts: {"prompts", "name", promptThing},
	forResources: {"resources", "uri", resourceThing}, forTemplates: {"resourceTemplates", "uriTemplate", resourceThing},
}

// trim leaves of a list what the client may see, under the names that it knows.
func (r *accessed) trim(m *wire.Message, list wire.Span, member string, k thing) {
	kept, changed := []byte{'['}, false
	for _, item := range wire.Items(m.Raw, list) {
		at := wire.Get(m.Raw, item, member)
		name := at.Text(m.Raw)
		if !r.a.permits(r.ex.Caller, k, name) {
			r.a.hidden.Inc()
			changed = true
			continue
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		entry := item.Of(m.Raw)
		if theirs := r.a.renamed[k].client(name); !bytes.Equal(theirs, name) {
			changed = true
			entry = slices.Concat(m.Raw[item.From:at.From], wire.AppendText(nil, theirs), m.Raw[at.To:item.To])
		}
		if v, ok := r.a.versions.Find(name); ok && k == toolThing {
			changed = true
			entry = versioned(entry, v)
		}
		kept = append(kept, entry...)
	}
	if changed {
		m.Replace(list, append(kept, ']'))
	}
}

// versionKey is under which a tool's _meta has the version of its contract.
const versionKey = "io.dragoman/version"

// versioned puts a version into the _meta of a tool. The entry is an object.
func versioned(entry []byte, version string) []byte {
	whole := wire.Span{To: uint32(len(entry))} //nolint:gosec // a message is smaller than 4 GiB
	value := wire.AppendText(append(wire.AppendText(nil, versionKey), ':'), version)
	if meta := wire.Get(entry, whole, "_meta"); meta.IsObject(entry) {
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

// links renames the resources that a result carries or points to.
func (r *accessed) links(m *wire.Message) {
	content := func(block wire.Span) { // a link, or a resource embedded
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
