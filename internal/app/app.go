// Package app makes a running proxy from a configuration: upstreams, policies, listeners and telemetry. It also
// reloads the configuration. It knows no commands.
package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/events"
	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/service"
	"dragoman/internal/app/component"
	"dragoman/internal/app/logging"
	"dragoman/internal/app/registry"
	"dragoman/internal/app/target"
	"dragoman/internal/config"
	"dragoman/policies/access"
	"dragoman/policies/telemetry"
	"dragoman/proxy"
	"dragoman/proxy/session"
)

// App holds the parts that outlive a configuration. Each configuration makes a [Generation].
type App struct {
	Log        zerolog.Logger
	Metrics    *prometheus.Registry
	Current    atomic.Pointer[Generation] // the generation that serves; nil until the first is activated
	components *component.Registry
	router     *proxy.Router       // to the targets of the current generation
	level      *telemetry.Level    // of the log
	fastLog    *telemetry.FastLine // its fast path for the access log; nil: it has none

	logDropped  func() uint64                     // lines of the log that were dropped
	rehearsal   bool                              // nothing is started
	events      *events.Emitter                   // of what happens
	registry    *registry.Registry                // of servers that are registered at run time
	mark        access.Mark                       // of the process, on requests to servers
	noteRequest func()                            // called for each request; nil: not called
	clients     atomic.Pointer[httpserver.Server] // server of the main listener; nil: there is none
	certificate atomic.Int64                      // expiry of the main listener's certificate, in Unix seconds; 0: there is none

	// Drain begins to drain the proxy: event streams end, and requests that wait end soon.
	Drain    context.CancelFunc
	draining context.Context // ends when the proxy begins to drain
	streams  session.Usage   // memory kept for clients that lose a stream
	Retiring sync.WaitGroup  // closing of components that a generation has left behind
}

// newApp returns an App without a generation. out, if not nil, is where log goes.
func newApp(log zerolog.Logger, out *logging.Process) *App {
	level := telemetry.NewLevel(log.GetLevel())
	metrics := prometheus.NewRegistry()
	a := &App{Log: level.Logger(log), level: level, Metrics: metrics, components: component.NewRegistry(metrics), mark: access.NewMark(), router: proxy.NewRouter(proxy.NewTable(nil)),
		logDropped: func() uint64 { return 0 }, events: &events.Emitter{}}
	a.registry = registry.New(registry.Options{Log: a.Log, Now: a.now,
		Audit: func() *telemetry.AuditLog { return a.Current.Load().telemetry.audit }, Test: a.testServer})
	a.draining, a.Drain = context.WithCancel(context.Background())
	if out != nil {
		a.logDropped = out.Out.Dropped
		if out.Lines != nil {
			a.fastLog = &telemetry.FastLine{Out: out.Lines, Level: level}
		}
	}
	return a
}

// now returns the configuration of the current generation, with its targets.
func (a *App) now() (*config.Config, *target.Set) {
	if g := a.Current.Load(); g != nil {
		return g.Cfg, g.Targets
	}
	return &config.Config{}, &target.Set{} // what follows the registered servers may be quicker than the first generation
}

// target returns the target of a name in the current generation, or nil.
func (a *App) target(name string) *target.Target {
	if g := a.Current.Load(); g != nil {
		return g.Targets.Named(name)
	}
	return nil
}

// refused has a request recorded that is refused before it reaches the handler of the current generation.
func (a *App) refused(ex *proxy.Exchange) (proxy.Replies, error) {
	return a.Current.Load().pipeline.refused(ex)
}

// Close closes the current generation: sessions first, then the connections to the servers.
func (a *App) Close() {
	a.Drain()
	a.level.Close()
	a.Retiring.Wait() // components of earlier generations
	a.Current.Load().components.Close()
	a.registry.Close()
}

// Generation is everything that is made from one configuration. Components may be handed over to the next one, see
// [component.Set].
type Generation struct {
	*App
	Cfg        *config.Config
	components *component.Set
	shared     shared
	limiters   limiters
	telemetry  observability
	identity   identity
	Targets    *target.Set
	service    serviceState
	pipeline
}

// Assemble makes and activates the proxy for the given upstreams. It sends nothing to them yet.
func Assemble(cfg *config.Config, ups []*config.Upstream, log zerolog.Logger) (*Generation, error) {
	return newApp(log, nil).open(cfg, ups)
}

// AssembleHandler is [Assemble] for a server that answers by itself. handle takes the place of the upstreams and of the
// policies around them for MCP clients, plain for callers of the REST endpoint.
func AssembleHandler(cfg *config.Config, handle, plain proxy.Handler, log zerolog.Logger) (*Generation, error) {
	g, err := Assemble(cfg, nil, log)
	if err == nil {
		g.pipeline = pipeline{Handle: handle, plain: plain, refused: proxy.RefusedBefore}
	}
	return g, err
}

// open makes and activates the first generation.
func (a *App) open(cfg *config.Config, ups []*config.Upstream) (*Generation, error) {
	g, err := a.build(cfg, ups)
	if err != nil {
		return nil, err
	}
	if _, err := g.activate(); err != nil {
		g.Close()
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return g, nil
}

// build makes the generation of a configuration. The current one is unaffected until the new one is activated.
func (a *App) build(cfg *config.Config, ups []*config.Upstream) (_ *Generation, err error) {
	before := a.Current.Load()
	var active *component.Set
	if before != nil {
		active = before.components
	}
	set := a.components.NewSet(active)
	defer func() {
		if err != nil {
			set.Discard()
		}
	}()
	g := &Generation{App: a, Cfg: cfg, components: set}
	if g.shared, err = buildShared(set, cfg, ups, a.Log, a.rehearsal, a.refused); err != nil {
		return nil, err
	}
	if err = a.buildGauges(set, &g.shared); err != nil {
		return nil, err
	}
	reported, err := buildEvents(set, cfg, a.Log, a.events, a.rehearsal)
	if err != nil {
		return nil, err
	}
	if g.telemetry, err = buildTelemetry(set, cfg, a.Log, a.fastLog, reported); err != nil {
		return nil, err
	}
	if g.limiters, err = buildLimiters(set, cfg); err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	if g.identity, err = buildIdentity(set, cfg, a.Log); err != nil {
		return nil, fmt.Errorf("authentication: %w", err)
	}
	decides, err := buildHook(set, cfg, g.telemetry.tracing, a.Log)
	if err != nil {
		return nil, err
	}
	targets := target.Builder{Components: set, Config: cfg, Log: a.Log, Self: clientInfo(cfg), Reaper: g.shared.reaper, Pending: g.shared.pending, Arrivals: g.shared.arrivals,
		Cache: g.limiters.cache, Rate: g.limiters.rate, Filtered: g.limiters.filtered, Scopes: g.identity.scopes, Hook: decides, Tracing: g.telemetry.tracing, Current: a.target, Router: a.router, Rehearsal: a.rehearsal, Refuse: a.registry.Refuse, Touch: a.registry.Touch, Events: a.events, Via: a.mark.Via()}
	if g.Targets, err = targets.Build(ups); err != nil {
		return nil, err
	}
	if g.service, err = buildService(set, cfg, a.Log,
		func() []service.Dependency { return a.Current.Load().Targets.States() },
		func() []service.Dependency { return a.Current.Load().service.dependencies() }); err != nil {
		return nil, err
	}
	g.pipeline = g.buildPipeline()
	if before != nil {
		set.OnActivation(func() { a.registry.Activated(before.Cfg, cfg) })
	}
	if before != nil && before.Cfg.Log.Level != cfg.Log.Level {
		set.OnActivation(func() { a.level.Set(logging.Levels[cfg.Log.Level]) })
	}
	return g, nil
}

// activate makes g the current generation, and returns the components of the previous one that are no longer needed.
func (g *Generation) activate() (component.Left, error) {
	return g.components.Activate(func() { g.App.Current.Store(g) })
}

// pipeline holds the way of a request from a listener to the upstreams.
type pipeline struct {
	// Handle is the handler of MCP clients.
	Handle proxy.Handler
	// refused records requests that are refused before they reach Handle.
	refused proxy.Handler
	through proxy.Policy  // makes calls through call_tool those of other tools; nil: there are none
	plain   proxy.Handler // for callers without a revision; the REST endpoint puts the recording policies around it
}

// buildPipeline puts the policies around the router.
func (g *Generation) buildPipeline() (p pipeline) {
	g.components.OnActivation(func() {
		g.router.Swap(g.Targets.Table)
		for _, u := range g.Targets.Fresh {
			g.limiters.cache.Forget(u.Name()) // the name may have belonged to another upstream
		}
	})
	around := append([]proxy.Policy{g.identity.scopes.Policy()}, g.limiters.policies()...)
	p.plain = proxy.Chain(g.router.Do, around...)
	p.through = g.Targets.Through()
	p.Handle = proxy.Chain(proxy.Chain(g.router.Do, append(around, access.Eras(g.Cfg.Served()))...), append([]proxy.Policy{p.through}, g.telemetry.policies...)...)
	p.refused = proxy.Chain(proxy.RefusedBefore, g.telemetry.policies...)
	return p
}

// userError reduces an error of an upstream to its message for people.
func userError(err error) error {
	if e, ok := errors.AsType[*proxy.Error](err); ok {
		return errors.New(e.Message)
	}
	return err
}
