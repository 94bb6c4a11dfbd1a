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
	"dragoman/adapters/stdio"
	"dragoman/adapters/stdio/reaper"
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

// House is everything that one configuration makes. It is put together here and nowhere else. What lasts longer is the affair of
// its assets, see keep.
type House struct {
	*Estate
	Cfg       *config.Config
	Assets    map[string]*asset
	former    map[string]*asset // of the house before, while this one is built
	settled   []func()          // what begins when it is lived in
	Store     *session.Store
	Upstreams []*era.Upstream
	Fresh     []*wired                          // of these, those that are new
	Dialers   map[string]*stdio.Dialer          // of the upstreams that are children
	Services  map[string]*restupstream.Upstream // of the upstreams that speak the REST envelope
	reaper    *reaper.Reaper                    // starts and ends all children
	Service   *service.Service                  // the state that we are in
	Depends   *service.Checks                   // of what the service depends on besides; nil: nothing
	router    *proxy.Router
	table     *proxy.Table
	Handle    proxy.Handler
	watching  []proxy.Policy // see every request and what becomes of it, also those that a face refuses
	plain     proxy.Handler  // for callers that speak no revision; what watches stands around it elsewhere
	Pending   *input.Store   // where calls wait for answers to their questions
	kept      *session.Usage // what is kept for clients that lose a stream
	Repeats   *idempotency.Policy
	rate      *limits.Rate           // how much may come
	slots     *limits.Slots          // how much runs at a time
	listens   proxy.Policy           // how much is listened for
	cache     *cache.Cache           // what servers let be kept; nil: nothing is
	granted   *prometheus.CounterVec // what clients may not use
	Upkeep    *upkeep                // how the upstreams are
	meters    *telemetry.Metrics
	tracing   *telemetry.Tracing  // nil: nobody traces
	trail     *telemetry.AuditLog // nil: nothing is audited
	reloads   *reloads
	who       identity
	draining  context.Context // ends when the proxy is about to end
	Drain     context.CancelFunc
}

// Assemble makes the proxy for the given upstreams; nothing is said to them yet.
func Assemble(cfg *config.Config, ups []*config.Upstream, log zerolog.Logger) (*House, error) {
	return newEstate(log, nil).open(cfg, ups)
}

// open makes the first house of an estate.
func (e *Estate) open(cfg *config.Config, ups []*config.Upstream) (*House, error) {
	h, err := e.build(cfg, ups)
	if err != nil {
		return nil, err
	}
	if _, err := h.moveIn(); err != nil {
		h.Close()
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return h, nil
}

// build makes the house of a configuration. It is lived in with moveIn; until then nothing has changed.
func (e *Estate) build(cfg *config.Config, ups []*config.Upstream) (*House, error) {
	h := &House{Estate: e, Cfg: cfg, Assets: make(map[string]*asset), Dialers: make(map[string]*stdio.Dialer), Services: make(map[string]*restupstream.Upstream)}
	if now := e.Now.Load(); now != nil {
		h.former = now.Assets
	} else {
		e.Now.Store(h)
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"", func() error { return h.foundations(ups) }}, {"limits", h.limits}, {"metrics", h.keepers}, {"authentication", h.identify},
		{"", func() error { return h.servers(ups) }}, {"", h.serviceState}, {"idempotency", h.idempotency}, {"", h.chain},
	} {
		if err := step.do(); err != nil {
			h.abandon()
			if step.what != "" {
				err = fmt.Errorf("%s: %w", step.what, err)
			}
			return nil, err
		}
	}
	return h, nil
}

// ending is how the proxy is told that it is about to end.
type ending struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// foundations are what lasts as long as the process, but for its bounds.
func (h *House) foundations(ups []*config.Upstream) (err error) {
	end, err := keep(h, "ending", nil, made[ending]{build: func(prometheus.Registerer) (e ending, err error) {
		e.ctx, e.cancel = context.WithCancel(context.Background())
		return e, nil
	}, stage: endsFirst, end: func(e ending) { e.cancel() }})
	if err != nil {
		return err
	}
	h.draining, h.Drain = end.ctx, end.cancel
	if h.reaper, err = keep(h, "reaper", nil, made[*reaper.Reaper]{build: func(prometheus.Registerer) (*reaper.Reaper, error) {
		return reaper.New(reaper.Options{Note: func(err error) { h.Log.Warn().Err(err).Msg("the reaper of child processes") }}), nil
	}, stage: endsReaper, end: (*reaper.Reaper).Close}); err != nil {
		return err
	}
	if slices.ContainsFunc(ups, func(up *config.Upstream) bool { return len(up.Command) > 0 }) {
		h.reaper.Prestart() // beside all that is still to be made: it takes longer than that
	}
	opt := session.Options{IdleTTL: h.Cfg.Sessions.IdleTTL, Max: h.Cfg.Sessions.Max,
		Repeats: h.Cfg.Idempotency.Mode != idempotency.Off, MaxPerPrincipal: h.Cfg.Sessions.MaxPerPrincipal}
	if h.Store, err = keep(h, "sessions", nil, made[*session.Store]{build: func(prometheus.Registerer) (*session.Store, error) { return session.NewStore(opt) },
		stage: endsSessions, end: (*session.Store).Close}); err != nil {
		return fmt.Errorf("sessions: %w", err)
	}
	h.settled = append(h.settled, func() { h.Store.Adjust(opt) })
	if h.kept, err = keep(h, "streams", nil, made[*session.Usage]{build: func(prometheus.Registerer) (*session.Usage, error) { return new(session.Usage), nil }}); err != nil {
		return err
	}
	q := h.Cfg.Questions
	if h.Pending, err = keep(h, "questions", nil, made[*input.Store]{build: func(prometheus.Registerer) (*input.Store, error) {
		return input.NewStore(input.Options{TTL: q.TTL, Settle: q.Settle, LeaseWait: q.LeaseWait, MaxParked: q.MaxParked,
			MaxPerPrincipal: q.MaxParkedPerPrincipal, Rounds: q.Rounds, Key: []byte(q.StateKey.Reveal())})
	}}); err != nil {
		return fmt.Errorf("questions: %w", err)
	}
	if h.reloads, err = keep(h, "reloads", nil, made[*reloads]{build: newReloads}); err != nil {
		return err
	}
	if h.tracing, err = h.traces(); err != nil {
		return fmt.Errorf("tracing: %w", err)
	}
	_, err = keep(h, "gauges", nil, made[struct{}]{build: h.gauges})
	return err
}

// chain puts the policies around the way to the upstreams.
func (h *House) chain() (err error) {
	if h.meters, err = keep(h, "requests", nil, made[*telemetry.Metrics]{build: telemetry.NewMetrics}); err != nil {
		return err
	}
	if h.router, err = keep(h, "router", nil, made[*proxy.Router]{build: func(prometheus.Registerer) (*proxy.Router, error) {
		return proxy.NewRouter(h.table), nil
	}}); err != nil {
		return err
	}
	around := append([]proxy.Policy{h.who.scopes, h.Repeats.Wrap}, h.before()...)
	if h.watching, err = h.watchers(); err != nil {
		return err
	}
	h.plain = proxy.Chain(h.router.Do, around...)
	h.Handle = proxy.Chain(proxy.Chain(h.router.Do, append(around, access.Eras(h.Cfg.Served()))...), h.watching...)
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

// note writes what an upstream reports of itself.
func note(log zerolog.Logger) func(level, msg string, err error) {
	return func(level, msg string, err error) {
		l, perr := zerolog.ParseLevel(level)
		if perr != nil {
			l = zerolog.InfoLevel
		}
		log.WithLevel(l).AnErr("cause", err).Msg(msg)
	}
}

// self is the clientInfo with which Dragoman asks on its own behalf.
func self(cfg *config.Config) []byte {
	version := cfg.Service.Version
	if version == "" {
		version = ReadVersion().Version
	}
	v := wire.AppendText([]byte(`{"name":`), cfg.Service.Name)
	return append(wire.AppendText(append(v, `,"version":`...), version), '}')
}

// setting is what decides, besides its verdict, what clients lose at an upstream.
func (h *House) setting(name string) era.Setting {
	up := h.Cfg.Upstream(name)
	return era.Setting{Stdio: inLines(up), Isolation: isolation(up), DeclareAll: up.Declare == "all", DriveTasks: up.Tasks == "drive",
		AsksOnCall: up.PushesOnCall, Clients: h.Cfg.Served()}
}

// Close ends the house that is lived in: sessions first, then the conversations with the servers.
func (e *Estate) Close() {
	h := e.Now.Load()
	h.Drain()
	e.level.Close()
	e.Leaving.Wait() // what another house has left behind
	endAssets(h.Assets)
}

// exitCause is what a person is told of an error of an upstream.
func exitCause(err error) error {
	var e *proxy.Error
	if errors.As(err, &e) {
		return errors.New(e.Message)
	}
	return err
}
