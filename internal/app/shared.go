package app

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/era/input"
	"dragoman/adapters/grpc/provider"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/stdio/reaper"
	"dragoman/internal/app/component"
	"dragoman/internal/config"
	"dragoman/policies/idempotency"
	"dragoman/proxy"
	"dragoman/proxy/session"
)

// shared holds the components that last as long as the process. Only their bounds can change.
type shared struct {
	reaper   *reaper.Reaper // starts and ends all child processes
	sessions *session.Store
	pending  *input.Store      // calls that wait for answers to their questions
	asking   *provider.Pending // those of gRPC providers
	arrivals *httpclient.Arrivals
	reloads  *reloadMetrics
}

func buildShared(set *component.Set, cfg *config.Config, ups []*config.Upstream, log zerolog.Logger, rehearsal bool, refused proxy.Handler) (s shared, err error) {
	if s.reaper, err = component.Get(set, "reaper", nil, component.Spec[*reaper.Reaper]{Build: func(prometheus.Registerer) (*reaper.Reaper, error) {
		return reaper.New(reaper.Options{Note: func(err error) { log.Warn().Err(err).Msg("the reaper of child processes") }}), nil
	}, Stage: component.Processes, Close: (*reaper.Reaper).Close}); err != nil {
		return s, err
	}
	if !rehearsal && slices.ContainsFunc(ups, func(up *config.Upstream) bool { return len(up.Command) > 0 }) {
		s.reaper.Prestart() // in parallel with what follows, which takes less time
	}
	if s.sessions, err = buildSessions(set, cfg, refused); err != nil {
		return s, fmt.Errorf("sessions: %w", err)
	}
	q := cfg.Questions
	if s.pending, err = component.Get(set, "questions", nil, component.Spec[*input.Store]{Build: func(prometheus.Registerer) (*input.Store, error) {
		return input.NewStore(input.Options{TTL: q.TTL, Settle: q.Settle, LeaseWait: q.LeaseWait, MaxParked: q.MaxParked,
			MaxPerPrincipal: q.MaxParkedPerPrincipal, Rounds: q.Rounds, Key: []byte(q.StateKey.Reveal())})
	}}); err != nil {
		return s, fmt.Errorf("questions: %w", err)
	}
	if s.asking, err = component.Get(set, "questions of providers", nil, component.Spec[*provider.Pending]{Build: func(prometheus.Registerer) (*provider.Pending, error) {
		of := s.pending.Options()
		return provider.NewPending(provider.Asking{TTL: of.TTL, Settle: of.Settle, Most: of.MaxParked, MostOfPrincipal: of.MaxPerPrincipal, Rounds: of.Rounds}), nil
	}}); err != nil {
		return s, err
	}
	if s.arrivals, err = component.Get(set, "arrivals", nil, component.Spec[*httpclient.Arrivals]{Build: func(prometheus.Registerer) (*httpclient.Arrivals, error) {
		return httpclient.NewArrivals(cfg.Limits.ArrivingBytes), nil
	}}); err != nil {
		return s, fmt.Errorf("limits: %w", err)
	}
	s.reloads, err = component.Get(set, "reloads", nil, component.Spec[*reloadMetrics]{Build: newReloadMetrics})
	return s, err
}

func buildSessions(set *component.Set, cfg *config.Config, refused proxy.Handler) (*session.Store, error) {
	opt := session.Options{IdleTTL: cfg.Sessions.IdleTTL, Max: cfg.Sessions.Max,
		Repeats: cfg.Idempotency.Mode != idempotency.Off, MaxPerPrincipal: cfg.Sessions.MaxPerPrincipal, Refused: refused}
	store, err := component.Get(set, "sessions", nil, component.Spec[*session.Store]{Build: func(prometheus.Registerer) (*session.Store, error) { return session.NewStore(opt) },
		Stage: component.Sessions, Close: (*session.Store).Close})
	if err == nil {
		set.OnActivation(func() { store.Adjust(opt) })
	}
	return store, err
}

// Outcomes of a reload.
const (
	ReloadApplied   = "applied"
	ReloadUnchanged = "unchanged"
	ReloadRefused   = "refused" // invalid or unreadable; the previous configuration stays
)

// reloadMetrics holds the metrics of reloads.
type reloadMetrics struct {
	total *prometheus.CounterVec
	last  prometheus.Gauge // when the current configuration was read
	good  prometheus.Gauge
	held  prometheus.Gauge
}

func newReloadMetrics(reg prometheus.Registerer) (*reloadMetrics, error) {
	r := &reloadMetrics{
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
	return r, component.Register(reg, r.total, r.last, r.good, r.held)
}
