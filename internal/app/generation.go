package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/era"
	"dragoman/adapters/era/input"
	"dragoman/adapters/era/sessions"
	restupstream "dragoman/adapters/rest/upstream"
	"dragoman/adapters/service"
	"dragoman/adapters/stdio/reaper"
	"dragoman/adapters/stdio/supervisor"
	"dragoman/internal/config"
	"dragoman/internal/config/field"
	"dragoman/policies/access"
	"dragoman/policies/cache"
	"dragoman/policies/idempotency"
	"dragoman/policies/limits"
	"dragoman/policies/telemetry"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// Generation is everything that one configuration makes. Components may be handed over to the next one, see keep.
type Generation struct {
	*App
	Cfg           *config.Config
	Components    map[string]*component
	previous      map[string]*component // of the generation before, while this one is built
	onActivation  []func()              // called on activation
	Store         *session.Store
	Upstreams     []*era.Upstream
	Added         []*upstream                       // of these, those that are new
	Dialers       map[string]*supervisor.Dialer     // of the upstreams that are children
	Services      map[string]*restupstream.Upstream // of the upstreams that speak the REST envelope
	reaper        *reaper.Reaper                    // starts and ends all children
	Service       *service.Service                  // the state that we are in
	Depends       *service.Checks                   // of what the service depends on besides; nil: nothing
	router        *proxy.Router
	table         *proxy.Table
	Handle        proxy.Handler
	observers     []proxy.Policy // see every request and what becomes of it, also those that a listener refuses
	plain         proxy.Handler  // for callers that speak no revision; what watches stands around it elsewhere
	Pending       *input.Store   // where calls wait for answers to their questions
	streamUsage   *session.Usage // what is kept for clients that lose a stream
	Duplicates    *idempotency.Policy
	rate          *limits.Rate           // how much may come
	slots         *limits.Slots          // how much runs at a time
	listens       proxy.Policy           // how much is listened for
	cache         *cache.Cache           // what servers let be kept; nil: nothing is
	filterMetrics *prometheus.CounterVec // what clients may not use
	Monitoring    *monitoring            // how the upstreams are
	meters        *telemetry.Metrics
	tracing       *telemetry.Tracing  // nil: nobody traces
	auditLog      *telemetry.AuditLog // nil: nothing is audited
	reloads       *reloads
	identity      identity
	draining      context.Context // ends when the proxy is about to end
	Drain         context.CancelFunc
}

// Assemble makes the proxy for the given upstreams; nothing is said to them yet.
func Assemble(cfg *config.Config, ups []*config.Upstream, log zerolog.Logger) (*Generation, error) {
	return newApp(log, nil).open(cfg, ups)
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

// build makes the generation of a configuration. Nothing changes until it is activated.
func (a *App) build(cfg *config.Config, ups []*config.Upstream) (*Generation, error) {
	g := &Generation{App: a, Cfg: cfg, Components: make(map[string]*component), Dialers: make(map[string]*supervisor.Dialer), Services: make(map[string]*restupstream.Upstream)}
	if now := a.Current.Load(); now != nil {
		g.previous = now.Components
	} else {
		a.Current.Store(g)
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"", func() error { return g.buildShared(ups) }}, {"limits", g.buildLimits}, {"metrics", g.buildMonitoring}, {"authentication", g.buildIdentity},
		{"", func() error { return g.buildUpstreams(ups) }}, {"", g.buildService}, {"idempotency", g.buildIdempotency}, {"", g.buildPipeline},
	} {
		if err := step.do(); err != nil {
			g.discard()
			if step.what != "" {
				err = fmt.Errorf("%s: %w", step.what, err)
			}
			return nil, err
		}
	}
	return g, nil
}

// drainSignal is how the proxy is told that it is about to end.
type drainSignal struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// buildShared are what lasts as long as the process, but for its bounds.
func (g *Generation) buildShared(ups []*config.Upstream) (err error) {
	end, err := keep(g, "ending", nil, spec[drainSignal]{build: func(prometheus.Registerer) (e drainSignal, err error) {
		e.ctx, e.cancel = context.WithCancel(context.Background())
		return e, nil
	}, stage: endsFirst, close: func(e drainSignal) { e.cancel() }})
	if err != nil {
		return err
	}
	g.draining, g.Drain = end.ctx, end.cancel
	if g.reaper, err = keep(g, "reaper", nil, spec[*reaper.Reaper]{build: func(prometheus.Registerer) (*reaper.Reaper, error) {
		return reaper.New(reaper.Options{Note: func(err error) { g.Log.Warn().Err(err).Msg("the reaper of child processes") }}), nil
	}, stage: endsReaper, close: (*reaper.Reaper).Close}); err != nil {
		return err
	}
	if slices.ContainsFunc(ups, func(up *config.Upstream) bool { return len(up.Command) > 0 }) {
		g.reaper.Prestart() // beside all that is still to be made: it takes longer than that
	}
	opt := session.Options{IdleTTL: g.Cfg.Sessions.IdleTTL, Max: g.Cfg.Sessions.Max,
		Repeats: g.Cfg.Idempotency.Mode != idempotency.Off, MaxPerPrincipal: g.Cfg.Sessions.MaxPerPrincipal}
	if g.Store, err = keep(g, "sessions", nil, spec[*session.Store]{build: func(prometheus.Registerer) (*session.Store, error) { return session.NewStore(opt) },
		stage: endsSessions, close: (*session.Store).Close}); err != nil {
		return fmt.Errorf("sessions: %w", err)
	}
	g.onActivation = append(g.onActivation, func() { g.Store.Adjust(opt) })
	if g.streamUsage, err = keep(g, "streams", nil, spec[*session.Usage]{build: func(prometheus.Registerer) (*session.Usage, error) { return new(session.Usage), nil }}); err != nil {
		return err
	}
	q := g.Cfg.Questions
	if g.Pending, err = keep(g, "questions", nil, spec[*input.Store]{build: func(prometheus.Registerer) (*input.Store, error) {
		return input.NewStore(input.Options{TTL: q.TTL, Settle: q.Settle, LeaseWait: q.LeaseWait, MaxParked: q.MaxParked,
			MaxPerPrincipal: q.MaxParkedPerPrincipal, Rounds: q.Rounds, Key: []byte(q.StateKey.Reveal())})
	}}); err != nil {
		return fmt.Errorf("questions: %w", err)
	}
	if g.reloads, err = keep(g, "reloads", nil, spec[*reloads]{build: newReloads}); err != nil {
		return err
	}
	if g.tracing, err = g.buildTracing(); err != nil {
		return fmt.Errorf("tracing: %w", err)
	}
	_, err = keep(g, "gauges", nil, spec[struct{}]{build: g.buildGauges})
	return err
}

// buildPipeline puts the policies around the way to the upstreams.
func (g *Generation) buildPipeline() (err error) {
	if g.meters, err = keep(g, "requests", nil, spec[*telemetry.Metrics]{build: telemetry.NewMetrics}); err != nil {
		return err
	}
	if g.router, err = keep(g, "router", nil, spec[*proxy.Router]{build: func(prometheus.Registerer) (*proxy.Router, error) {
		return proxy.NewRouter(g.table), nil
	}}); err != nil {
		return err
	}
	around := append([]proxy.Policy{g.identity.scopes, g.Duplicates.Wrap}, g.admissionPolicies()...)
	if g.observers, err = g.buildObservers(); err != nil {
		return err
	}
	g.plain = proxy.Chain(g.router.Do, around...)
	g.Handle = proxy.Chain(proxy.Chain(g.router.Do, append(around, access.Eras(g.Cfg.Served()))...), g.observers...)
	return nil
}

// isolation is how the clients of an upstream are kept apart.
func isolation(up *config.Upstream) sessions.Isolation {
	kind, size := up.Isolated()
	switch kind {
	case field.PerPrincipal:
		return sessions.Isolation{Sharing: sessions.ByPrincipal}
	case field.Pooled:
		return sessions.Isolation{Sharing: sessions.Pooled, Size: size}
	case field.SharedByAll:
		return sessions.Isolation{Sharing: sessions.Shared}
	}
	return sessions.Isolation{}
}

// upstreamLog writes what an upstream reports of itself.
func upstreamLog(log zerolog.Logger) func(level, msg string, err error) {
	return func(level, msg string, err error) {
		l, perr := zerolog.ParseLevel(level)
		if perr != nil {
			l = zerolog.InfoLevel
		}
		log.WithLevel(l).AnErr("cause", err).Msg(msg)
	}
}

// clientInfo is the clientInfo with which Dragoman asks on its own behalf.
func clientInfo(cfg *config.Config) []byte {
	version := cfg.Service.Version
	if version == "" {
		version = ReadVersion().Version
	}
	v := wire.AppendText([]byte(`{"name":`), cfg.Service.Name)
	return append(wire.AppendText(append(v, `,"version":`...), version), '}')
}

// profileSettings is what decides, besides its verdict, what clients lose at an upstream.
func (g *Generation) profileSettings(name string) era.Setting {
	up := g.Cfg.Upstream(name)
	return era.Setting{Stdio: speaksLines(up), Isolation: isolation(up), DeclareAll: up.Declare == "all", DriveTasks: up.Tasks == "drive",
		AsksOnCall: up.PushesOnCall, Clients: g.Cfg.Served()}
}

// Close closes the current generation: sessions first, then the connections to the servers.
func (a *App) Close() {
	h := a.Current.Load()
	h.Drain()
	a.level.Close()
	a.Retiring.Wait() // what earlier generations have left
	closeComponents(h.Components)
}

// userError is what a person is told of an error of an upstream.
func userError(err error) error {
	var e *proxy.Error
	if errors.As(err, &e) {
		return errors.New(e.Message)
	}
	return err
}
