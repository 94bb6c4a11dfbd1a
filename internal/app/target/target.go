// Package target makes the upstreams of a configuration, each with its transports, its policies and its health monitor.
package target

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/definitions"
	"dragoman/adapters/era/input"
	"dragoman/adapters/events"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/merge"
	"dragoman/adapters/merge/find"
	"dragoman/adapters/merge/lists"
	"dragoman/adapters/merge/metatools"
	"dragoman/adapters/rules"
	"dragoman/adapters/search"
	"dragoman/adapters/service"
	"dragoman/adapters/stdio/reaper"
	"dragoman/internal/app/component"
	"dragoman/internal/app/sorting"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
	"dragoman/policies"
	"dragoman/policies/access"
	"dragoman/policies/cache"
	"dragoman/policies/health"
	"dragoman/policies/hook"
	"dragoman/policies/limits"
	"dragoman/policies/resilience"
	"dragoman/policies/telemetry"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Target is an upstream as one generation uses it.
type Target struct {
	*Upstream
	// Check is the health check of the upstream.
	Check    func(context.Context) error
	Monitor  *health.Monitor
	guarded  proxy.Upstream // the upstream with its policies
	plain    proxy.Handler  // the upstream with those that say nothing about callers
	settings *config.Upstream
	lists    *lists.Refresher   // reads the lists of the server; nil: nothing does
	filter   *access.Filter     // of guarded; nil: everybody may use everything
	guard    *definitions.Guard // nil: definitions need no approval
	scopes   *access.ScopePolicy
	cache    *cache.Cache // nil: nothing is cached
}

// Lookup returns the target of a name in the current generation; nil if there is none. Components use it for what may
// have changed since they were made. The methods of a nil target do nothing.
type Lookup func(name string) *Target

// Tried reports to the monitor that the upstream was probed, since when, and with which result.
func (t *Target) Tried(began time.Time, err error) {
	if t != nil {
		t.Monitor.Tried(began, err)
	}
}

// Trying reports to the monitor that the upstream is being probed.
func (t *Target) Trying() {
	if t != nil {
		t.Monitor.Trying()
	}
}

// changed drops what the cache holds of the list or resource that a notification of the upstream names. If definitions need approval, a list is
// read again.
func (t *Target) changed(m *wire.Message) {
	if t == nil {
		return
	}
	t.cache.Changed(t.Name(), m)
	if t.guard != nil && t.lists != nil {
		t.lists.Heard(t.Name(), m)
	}
}

// Refuse returns the error by which the access rules of the target, or a definition that is held, refuse a request, recorded; nil if they do not.
func (t *Target) Refuse(ex *proxy.Exchange) error {
	if t == nil {
		return nil
	}
	if err := t.filter.Refuse(ex); err != nil {
		return err
	}
	return t.guard.Refuse(ex)
}

// notice reports whether the caller may receive a notification that is no reply to a call, and writes the client's names into it. A target
// that was removed from the configuration has no notices about resources.
func (t *Target) notice(who proxy.Caller, m *wire.Message) bool {
	if t == nil {
		return !m.Is(rules.ResourceUpdated)
	}
	return t.scopes.Notice(t.Name(), who, m) && t.filter.Notice(who, m)
}

// recorded puts the state of the server into the catalogue, and tells what reads its lists whether it answers.
func (t *Target) recorded(r *health.Report) {
	if t == nil || t.lists == nil {
		return
	}
	status := catalogue.Status{State: string(r.State), Since: r.Since, CheckedAt: r.CheckedAt, ResponseTime: r.Took, ConsecutiveFailures: r.Failures, LastError: r.LastError}
	if known := t.lists.Catalogue().Snapshot().Server(t.Name()); known != nil {
		status.ConnectedAt = known.Status.ConnectedAt
	}
	answers := r.State == health.Connected || r.State == health.Degraded
	if r.State == health.Connected {
		status.ConnectedAt = r.Since
	}
	t.lists.Catalogue().SetStatus(t.Name(), status)
	if t.answers.Swap(answers) != answers {
		t.lists.Seen(t.Name(), answers)
	}
}

// annotations returns those of a tool, a JSON object, as the catalogue has them; nil if it does not know the tool.
func (t *Target) annotations(tool []byte) []byte {
	if t == nil || t.lists == nil {
		return nil
	}
	known := t.lists.Catalogue().Snapshot().Server(t.Name())
	if known == nil || known.Lists[catalogue.Tools] == nil {
		return nil
	}
	for _, item := range known.Lists[catalogue.Tools].Items {
		if item.Key == string(tool) {
			if says := wire.Get(item.Raw, wire.Whole(item.Raw), "annotations"); says.IsObject(item.Raw) {
				return says.Of(item.Raw)
			}
		}
	}
	return nil
}

// do handles a request, for the fallback of another target.
func (t *Target) do(ex *proxy.Exchange) (proxy.Replies, error) {
	if t == nil {
		return nil, proxy.Errf(proxy.Unreachable, "the fallback of this server was removed from the configuration")
	}
	return t.guarded.Do(ex)
}

// Set holds the targets of a generation.
type Set struct {
	// All holds the targets in the order of the configuration.
	All []*Target
	// Fresh holds the upstreams that no earlier generation had, but for those that are not to be connected.
	Fresh []*Upstream
	// Catalogue holds what the servers offer of which several are one; nil: there are none.
	Catalogue *catalogue.Catalogue
	// Finder searches the tools in Catalogue; nil: there is none.
	Finder *search.Engine
	// Counts counts what lists of tools spare clients; nil: there is nothing to count.
	Counts *find.Counts
	// Sorter knows the categories of the tools in Catalogue; nil: there is none.
	Sorter *sorting.Sorter
	// ReadLists begins to read what the servers offer of which several are one.
	ReadLists func()
	// Reread reads the lists of one of these servers again.
	Reread func(server string)
	// Table leads requests to the targets.
	Table *proxy.Table
	// Serves says what serves each name under which several servers, or the only one, can be reached: a name for that, which is
	// another one when something else does.
	Serves map[string]string
	pins   *pins               // approved definitions; nil: none need approval
	behind map[string][]string // servers by such a name
	// contexts are the rules by which tools are listed, by such a name; nil: everything is.
	contexts map[string]*metatools.Rules
	merged   map[string]*merge.Upstream // endpoints of several servers, by such a name
	byName   map[string]*Target
}

// Named returns the target of a name; nil if there is none.
func (t *Set) Named(name string) *Target { return t.byName[name] }

// Behind returns the servers behind the name of a server or of a group; behind the empty name are those of requests that name none.
func (t *Set) Behind(name string) []string {
	if t.byName[name] != nil {
		return []string{name}
	}
	return t.behind[name]
}

// Several reports whether a name is one under which several servers are one.
func (t *Set) Several(name string) bool { return strings.HasPrefix(t.Serves[name], mergePrefix) }

// States returns the state of each upstream.
func (t *Set) States() []service.Dependency {
	all := make([]service.Dependency, 0, len(t.All))
	for _, one := range t.All {
		all = append(all, one.State())
	}
	return all
}

// Builder makes the targets of a generation.
type Builder struct {
	Components *component.Set
	Config     *config.Config
	Log        zerolog.Logger
	// Self is the clientInfo of requests that Dragoman makes on its own behalf.
	Self []byte
	// Reaper starts and ends all child processes.
	Reaper *reaper.Reaper
	// Pending holds the calls that wait for answers of modern clients.
	Pending *input.Store
	// Arrivals bounds the unfinished answers of all servers over HTTP.
	Arrivals *httpclient.Arrivals
	// Cache holds responses; nil: nothing is cached.
	Cache *cache.Cache
	Rate  *limits.Rate
	// Filtered counts refused requests and hidden entries.
	Filtered *prometheus.CounterVec
	// Scopes says which scopes notices need; nil: none.
	Scopes *access.ScopePolicy
	// Hook asks a decision point about requests; nil: there is none.
	Hook *hook.Hook
	// Tracing makes client spans; nil: tracing is off.
	Tracing *telemetry.Tracing
	// Current finds the target of a name in the generation that serves.
	Current Lookup
	// Router leads to the targets of the generation that serves.
	Router *proxy.Router
	// Rehearsal means that nothing is started.
	Rehearsal bool
	// Refuse judges the addresses of registered servers, see httpclient.HostOptions.
	Refuse func(to netip.AddrPort) error
	// Via is what requests to servers name Dragoman in their Via field.
	Via string
	// Events gets what happens to servers.
	Events *events.Emitter
	// Touch is called when the state of a server may have changed. It must not wait, nor call back.
	Touch func()

	monitoring monitoring
	catalogue  *catalogue.Catalogue // of the servers of which several are one; nil: there are none
	refreshing *lists.Refresher     // of that
	finder     *search.Engine       // of that
	sorter     *sorting.Sorter      // of that
	counts     *find.Counts         // of what short lists spare clients
	pins       *pins                // nil: no definition needs approval
}

// Build makes the targets of the given upstreams. Errors name the upstream at fault.
func (b *Builder) Build(ups []*config.Upstream) (*Set, error) {
	var err error
	if b.monitoring, err = buildMonitoring(b.Components); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	t := &Set{ReadLists: func() {}, Reread: func(string) {}, Serves: map[string]string{}, behind: map[string][]string{}, contexts: map[string]*metatools.Rules{}, merged: map[string]*merge.Upstream{}, byName: make(map[string]*Target, len(ups))}
	for _, up := range ups {
		one, err := b.target(up)
		if err != nil {
			return nil, fmt.Errorf("upstreams.%s: %w", up.Name, err)
		}
		t.All, t.byName[up.Name] = append(t.All, one), one
		if b.Components.Fresh(upstreamComponent(up.Name)) && !up.Disconnected {
			t.Fresh = append(t.Fresh, one.Upstream)
		}
	}
	t.pins = b.pins
	t.Table, err = b.table(t)
	return t, err
}

// target makes the target of one upstream.
func (b *Builder) target(up *config.Upstream) (*Target, error) {
	u, err := b.upstream(up)
	if err != nil {
		return nil, err
	}
	check, err := b.check(up, u)
	if err != nil {
		return nil, err
	}
	monitor, err := b.monitor(up, u, check)
	if err != nil {
		return nil, err
	}
	t := &Target{Upstream: u, Check: check, Monitor: monitor, filter: access.NewFilter(up.AccessOptions(), b.Filtered), scopes: b.Scopes, cache: b.Cache,
		plain: proxy.Chain(u.Do, disconnected(up), monitor.Policy, u.Hide.Policy), settings: up}
	if t.guard, err = b.guard(up, t); err != nil {
		return nil, err
	}
	around, err := b.policies(up, t)
	if err != nil {
		return nil, err
	}
	t.guarded = proxy.Around(u.Upstream, around...)
	return t, nil
}

// disconnected returns the policy that sends nothing to a registered server that is not to be connected; nil for any other.
func disconnected(up *config.Upstream) proxy.Policy {
	if !up.Disconnected {
		return nil
	}
	err := proxy.Errf(proxy.Unreachable, "the server %q is disconnected until an operator connects it", up.Name)
	return func(proxy.Handler) proxy.Handler {
		return func(*proxy.Exchange) (proxy.Replies, error) { return nil, err }
	}
}

// policies returns the policies of one upstream, the outermost first.
func (b *Builder) policies(up *config.Upstream, t *Target) ([]proxy.Policy, error) {
	u := t.Upstream
	rated := config.Ruled(up, func(t *config.ToolConfig) (int, bool) { return t.RateLimit, t.RateLimit > 0 })
	rates, err := component.GetPolicy(b.Components, "rates "+up.Name, []any{rated, b.Components.Number("rates")}, func() proxy.Policy { return b.Rate.Tools(up.Name, rated) })
	if err != nil {
		return nil, err
	}
	single := config.Ruled(up, func(t *config.ToolConfig) (int, bool) { return t.Concurrency, t.Concurrency > 0 })
	turns, err := component.GetPolicy(b.Components, "turns "+up.Name, []any{up.Concurrency, single, b.Components.Number(upstreamComponent(up.Name))},
		func() proxy.Policy { return limits.Concurrency(up.Concurrency, single) })
	if err != nil {
		return nil, err
	}
	failures, err := b.failurePolicies(up, u, t.Monitor)
	if err != nil {
		return nil, err
	}
	c := b.Config.Timeouts
	timeouts := &limits.Timeouts{Tool: c.Tool, Resource: c.Resource, Prompt: c.Prompt, Server: up.Name,
		Tools: policies.NewPatterns(config.Ruled(up, func(t *config.ToolConfig) (time.Duration, bool) { return t.Timeout, t.Timed() }))}
	var reauthorize proxy.Policy
	if u.client != nil { // its tokens may become invalid before they expire
		reauthorize = resilience.Reauthorize(u.client.Dropped)
	}
	asks := b.Hook.Policy(up.Name, func(tool []byte) []byte { return b.Current(up.Name).annotations(tool) })
	all := append([]proxy.Policy{t.filter.Policy(), disconnected(up), t.guard.Policy(), rates, asks, b.Cache.Policy(up.Name)}, failures...)
	return append(all, turns, timeouts.Policy, reauthorize, clientSpan(b.Tracing, up, u.Revision), u.Hide.Policy), nil
}

// State describes an upstream in the terms of GET /health.
func (t *Target) State() service.Dependency {
	if t == nil {
		return service.Dependency{}
	}
	ok, told, why := t.available()
	r := t.Monitor.Now()
	d := service.Dependency{Name: t.Name(), Connected: ok && t.Ready(), Error: told, Detail: why, Upstream: true,
		State: string(r.State), Failures: r.Failures, Took: r.Took, CheckedAt: r.CheckedAt, Warning: r.Warning}
	switch r.State {
	case health.Errored, health.Connecting:
		if r.State == health.Connecting && t.Dialer != nil { // its circuit is half-open: the next call starts it
			break
		}
		if d.Connected = false; d.Error == "" {
			d.Error, d.Detail = r.Gist, r.LastError
		}
	case health.Degraded:
		d.Warning, d.Detail = r.Gist, r.LastError
	}
	switch {
	case d.Connected || d.Error != "":
	case t.settings.Disconnected:
		d.Error = "disconnected until an operator connects it"
	default:
		d.Error = "not reached yet"
	}
	return d
}

// available reports whether a server's starts go well, or whether a REST service is healthy, and if not, why: told to any caller, and
// if there is more to say, to the operator. Any other server is always available.
func (t *Target) available() (ok bool, told, why string) {
	if t.Service != nil {
		return t.Service.Healthy()
	}
	if t.Dialer == nil {
		return true, "", ""
	}
	s := t.Dialer.Health()
	if s.State != "open" {
		return true, "", ""
	}
	return false, fmt.Sprintf("%d starts in a row failed; the last one: the server %s", s.Failures, s.Last), ""
}

// clientSpan returns the policy of an upstream's client span, or nil if tracing is off.
func clientSpan(tracing *telemetry.Tracing, up *config.Upstream, revision func() string) proxy.Policy {
	if tracing == nil {
		return nil
	}
	at := peer(up)
	at.Revision = revision
	return tracing.Ask(at)
}

// peer describes an upstream for its spans.
func peer(up *config.Upstream) telemetry.Peer {
	at := telemetry.Peer{Name: up.Name, Transport: "pipe"}
	if len(up.Command) > 0 {
		return at
	}
	if path, ok := strings.CutPrefix(up.URL, value.UnixScheme); ok {
		at.Transport, at.Address = "unix", path
		return at
	}
	u, err := url.Parse(up.URL)
	if err != nil {
		return at
	}
	at.Transport, at.Address = "tcp", u.Hostname()
	at.Port, _ = strconv.Atoi(u.Port())
	if target, _, ok := up.GRPC(); ok {
		at.Transport, at.Protocol = "tcp", "grpc"
		at.Address, at.Port = hostPort(target)
		return at
	}
	switch u.Scheme {
	case "http", "https":
		if at.Protocol = "http"; at.Port == 0 {
			at.Port = map[string]int{"http": 80, "https": 443}[u.Scheme]
		}
	}
	return at
}

// hostPort returns the host and port at the end of a gRPC address.
func hostPort(target string) (host string, port int) {
	host, text, _ := net.SplitHostPort(target[strings.LastIndexByte(target, '/')+1:])
	port, _ = strconv.Atoi(text)
	return host, port
}
