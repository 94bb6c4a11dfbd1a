package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/proxy"
)

// Outcomes of a reload.
const (
	ReloadApplied   = "applied"
	ReloadUnchanged = "unchanged"
	ReloadRefused   = "refused" // invalid or unreadable; the previous configuration stays
)

// reloads holds the metrics of reloads.
type reloads struct {
	total *prometheus.CounterVec
	last  prometheus.Gauge // when the current configuration was read
	good  prometheus.Gauge
	held  prometheus.Gauge
}

func newReloads(reg prometheus.Registerer) (*reloads, error) {
	r := &reloads{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dragoman_config_reloads_total",
			Help: "Times that the configuration was read again, by outcome (applied, unchanged, refused)."}, []string{"outcome"}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dragoman_config_last_load_timestamp_seconds", Help: "When the configuration that holds was read."}),
		good: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dragoman_config_last_reload_successful", Help: "0 if the configuration, when it was read last, was refused."}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dragoman_config_restart_needed", Help: "Keys of the configuration that have changed and will count after a restart."}),
	}
	for _, outcome := range []string{ReloadApplied, ReloadUnchanged, ReloadRefused} {
		r.total.WithLabelValues(outcome)
	}
	r.last.SetToCurrentTime()
	r.good.Set(1)
	return r, errors.Join(reg.Register(r.total), reg.Register(r.last), reg.Register(r.good), reg.Register(r.held))
}

// Reload reads the configuration again and activates it, or leaves everything as it was. It returns one of the outcomes
// above. why is the reason that the log gives. Probes of new upstreams end with ctx. Reload must not be called
// concurrently.
func (a *App) Reload(ctx context.Context, srv *httpserver.Server, why string) (outcome string) {
	began, before := time.Now(), a.Current.Load()
	log := a.Log.With().Str("reason", why).Logger()
	a.reopenFiles()
	held, err := a.replace(ctx, srv, before)
	switch {
	case errors.Is(err, errUnchanged):
		outcome = ReloadUnchanged
		log.Info().Msg("the configuration was read again; nothing has changed")
	case err != nil:
		outcome = ReloadRefused
		log.Error().Err(err).Msg("the new configuration is refused; the one before holds")
	default:
		outcome = ReloadApplied
		log.Info().Dur("took", time.Since(began)).Msg("the new configuration holds")
		before.reloads.last.SetToCurrentTime()
	}
	if len(held) > 0 {
		log.Warn().Strs("keys", held).Msg("these have changed and count after a restart; their old values hold")
	}
	before.reloads.total.WithLabelValues(outcome).Inc()
	before.reloads.held.Set(float64(len(held)))
	before.reloads.good.Set(1)
	if outcome == ReloadRefused {
		before.reloads.good.Set(0)
	}
	return outcome
}

var errUnchanged = errors.New("nothing has changed")

// replace builds and activates the generation of the configuration as it is now. held names the changed keys that need
// a restart.
func (a *App) replace(ctx context.Context, srv *httpserver.Server, before *Generation) (held []string, err error) {
	cfg, err := before.Cfg.Again()
	if err != nil {
		return nil, err
	}
	held = cfg.Hold(before.Cfg)
	if cfg.Same(before.Cfg) {
		return held, errUnchanged
	}
	g, err := a.build(cfg, cfg.Upstreams)
	if err != nil {
		return nil, err
	}
	handler, err := g.clientHandler()
	if err != nil {
		g.discard()
		return nil, err
	}
	left, err := g.activate()
	if err != nil { // a bug, which is no reason to stop serving
		a.Log.Error().Err(err).Msg("metrics of the new configuration are missing")
	}
	srv.SetHandler(handler)
	warn(cfg, a.Log)
	g.Probe(ctx, make(chan error, len(g.Added)))
	a.Retiring.Go(func() { a.retire(g, left) })
	return held, nil
}

// retire closes the components that a new generation does not use. It waits for the requests that run at replaced
// upstreams until the drain timeout, or until the proxy drains.
func (e *App) retire(g *Generation, left map[string]*component) {
	ctx, cancel := context.WithTimeout(g.draining, g.Cfg.DrainTimeout)
	defer cancel()
	var waits sync.WaitGroup
	for _, a := range left {
		w, ok := a.value.(*upstream)
		if !ok {
			continue
		}
		waits.Go(func() {
			if err := w.running.Retire(ctx); err != nil {
				e.Log.Warn().Str("upstream", w.Name()).Msg("not everything that ran there ended in time")
			}
		})
	}
	waits.Wait()
	for _, a := range left {
		if w, ok := a.value.(*upstream); ok {
			w.Dismiss(proxy.Errf(proxy.SessionLost, "the configuration of this server has changed; send initialize to open a new session"))
		}
	}
	closeComponents(left)
	now := e.Current.Load()
	for _, a := range left {
		w, ok := a.value.(*upstream)
		if !ok {
			continue
		}
		now.cache.Forget(w.Name()) // stored by its last responses
		if now.Cfg.Upstream(w.Name()) == nil {
			e.forget(w.Name())
			now.meters.Forget(w.Name())
		}
	}
}
