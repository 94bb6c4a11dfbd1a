// Package app makes a running proxy from a configuration: upstreams, policies, listeners and telemetry. It also
// reloads the configuration. It knows no commands.
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

// Generation is everything that is made from one configuration. Components may be handed over to the next one, see
// [keep].
type Generation struct {
	*App
	Cfg           *config.Config
	Components    map[string]*component
	previous      map[string]*component // of the generation before, while this one is built
	onActivation  []func()              // called on activation
	Store         *session.Store
	Upstreams     []*era.Upstream
	Added         []*upstream                       // of these, those that are new
	Dialers       map[string]*supervisor.Dialer     // of the upstreams that are child processes
	Services      map[string]*restupstream.Upstream // of the upstreams that speak the REST envelope
	reaper        *reaper.Reaper                    // starts and ends all child processes
	Service       *service.Service                  // state of the service
	Depends       *service.Checks                   // checks of other dependencies; nil: there are none
	router        *proxy.Router
	table         *proxy.Table
	Handle        proxy.Handler
	observers     []proxy.Policy // see every request and its outcome, also requests that a listener refuses
	plain         proxy.Handler  // for callers without a revision; the REST endpoint puts observers around it
	Pending       *input.Store   // calls that wait for answers to their questions
	streamUsage   *session.Usage // memory kept for clients that lose a stream
	Duplicates    *idempotency.Policy
	rate          *limits.Rate           // rate limits
	slots         *limits.Slots          // limits on running requests
	listens       proxy.Policy           // limits on listens
	cache         *cache.Cache           // nil: nothing is cached
	filterMetrics *prometheus.CounterVec // counts refused requests and hidden entries
	Monitoring    *monitoring            // health of the upstreams
	meters        *telemetry.Metrics
	tracing       *telemetry.Tracing  // nil: tracing is off
	auditLog      *telemetry.AuditLog // nil: nothing is audited
	reloads       *reloads
	identity      identity
	draining      context.Context // done when the proxy begins to drain
	Drain         context.CancelFunc
}

// Assemble makes and activates the proxy for the given upstreams. It sends nothing to them yet.
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

// build makes the generation of a configuration. The current one is unaffected until the new one is activated.
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

// drainSignal announces that the proxy begins to drain.
type drainSignal struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// buildShared makes the components that last as long as the process. Only their bounds can change.
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
		g.reaper.Prestart() // in parallel with what follows, which takes less time
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

// buildPipeline puts the policies around the router.
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

// isolation returns how the clients of an upstream are kept apart.
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

// upstreamLog returns a function that logs what an upstream reports of itself.
func upstreamLog(log zerolog.Logger) func(level, msg string, err error) {
	return func(level, msg string, err error) {
		l, perr := zerolog.ParseLevel(level)
		if perr != nil {
			l = zerolog.InfoLevel
		}
		log.WithLevel(l).AnErr("cause", err).Msg(msg)
	}
}

// clientInfo returns the clientInfo of requests that Dragoman makes on its own behalf.
func clientInfo(cfg *config.Config) []byte {
	version := cfg.Service.Version
	if version == "" {
		version = ReadVersion().Version
	}
	v := wire.AppendText([]byte(`{"name":`), cfg.Service.Name)
	return append(wire.AppendText(append(v, `,"version":`...), version), '}')
}

// profileSettings returns what decides, besides its profile, what clients lose at an upstream.
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
	a.Retiring.Wait() // components of earlier generations
	closeComponents(h.Components)
}

// userError reduces an error of an upstream to its message for people.
func userError(err error) error {
	var e *proxy.Error
	if errors.As(err, &e) {
		return errors.New(e.Message)
	}
	return err
}
