package app

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/service"
	"dragoman/internal/app/component"
	"dragoman/internal/app/logging"
	"dragoman/internal/app/target"
	"dragoman/internal/config"
	"dragoman/policies/access"
	"dragoman/proxy"
)

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
	targets    *target.Set
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
		g.pipeline = pipeline{Handle: handle, plain: plain}
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
	if g.shared, err = buildShared(set, cfg, ups, a.Log); err != nil {
		return nil, err
	}
	if err = a.buildGauges(set, &g.shared); err != nil {
		return nil, err
	}
	if g.telemetry, err = buildTelemetry(set, cfg, a.Log, a.fastLog); err != nil {
		return nil, err
	}
	if g.limiters, err = buildLimiters(set, cfg); err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	if g.identity, err = buildIdentity(set, cfg, a.Log); err != nil {
		return nil, fmt.Errorf("authentication: %w", err)
	}
	targets := target.Builder{Components: set, Config: cfg, Log: a.Log, Self: clientInfo(cfg), Reaper: g.shared.reaper, Pending: g.shared.pending,
		Cache: g.limiters.cache, Rate: g.limiters.rate, Filtered: g.limiters.filtered, Tracing: g.telemetry.tracing, Current: a.target}
	if g.targets, err = targets.Build(ups); err != nil {
		return nil, err
	}
	if g.service, err = buildService(set, cfg, a.Log,
		func() []service.Dependency { return a.Current.Load().targets.States() },
		func() []service.Dependency { return a.Current.Load().service.dependencies() }); err != nil {
		return nil, err
	}
	if g.pipeline, err = buildPipeline(set, cfg, g.targets, g.identity.scopes, &g.limiters, g.telemetry.policies); err != nil {
		return nil, err
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
	plain  proxy.Handler // for callers without a revision; the REST endpoint puts the recording policies around it
}

// buildPipeline puts the policies around the router.
func buildPipeline(set *component.Set, cfg *config.Config, t *target.Set, scopes proxy.Policy, l *limiters, recording []proxy.Policy) (p pipeline, err error) {
	router, err := component.Get(set, "router", nil, component.Spec[*proxy.Router]{Build: func(prometheus.Registerer) (*proxy.Router, error) {
		return proxy.NewRouter(t.Table), nil
	}})
	if err != nil {
		return p, err
	}
	set.OnActivation(func() {
		router.Swap(t.Table)
		for _, u := range t.Fresh {
			l.cache.Forget(u.Name()) // the name may have belonged to another upstream
		}
	})
	around := append([]proxy.Policy{scopes}, l.policies()...)
	p.plain = proxy.Chain(router.Do, around...)
	p.Handle = proxy.Chain(proxy.Chain(router.Do, append(around, access.Eras(cfg.Served()))...), recording...)
	return p, nil
}

// Drain announces that the proxy begins to drain: event streams end, and requests that wait end soon.
func (g *Generation) Drain() { g.shared.draining.cancel() }

// userError reduces an error of an upstream to its message for people.
func userError(err error) error {
	var e *proxy.Error
	if errors.As(err, &e) {
		return errors.New(e.Message)
	}
	return err
}
