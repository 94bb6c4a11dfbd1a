package health

import (
	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
)

// Metrics counts state changes, checks and refusals. All upstreams share one.
type Metrics struct{ changes, checks, refusals *prometheus.CounterVec }

// NewMetrics returns the counters.
func NewMetrics(reg *policies.Registry) *Metrics {
	return &Metrics{
		changes:  reg.Counter("dragoman_upstream_state_changes_total", "State changes of an upstream, by new state.", "server", "to"),
		checks:   reg.Counter("dragoman_upstream_checks_total", "Health checks of an upstream, by outcome (ok, warning, failure, skipped).", "server", "outcome"),
		refusals: reg.Counter("dragoman_upstream_refused_total", "Requests refused at once because the upstream is in error.", "server"),
	}
}

// Register registers the gauges that are computed from the upstream's state at each scrape.
func (h *Monitor) Register(reg prometheus.Registerer) error {
	r := policies.NewRegistry(reg)
	gauge := func(name, help, label, value string, read func(Report) float64) {
		labels := prometheus.Labels{"server": h.opt.Name}
		if label != "" {
			labels[label] = value
		}
		r.Add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return read(h.Now()) }))
	}
	is := func(yes bool) float64 {
		if yes {
			return 1
		}
		return 0
	}
	for _, s := range []State{Disconnected, Connecting, Connected, Degraded, Errored} {
		gauge("dragoman_upstream_state", "1 for the state that the upstream is in.", "state", string(s), func(r Report) float64 { return is(r.State == s) })
	}
	if h.breaker != nil {
		for _, s := range []string{circuitClosed, circuitOpen, circuitHalfOpen} {
			gauge("dragoman_upstream_breaker", "1 for the state of the circuit breaker around the upstream.", "state", s, func(r Report) float64 { return is(r.Breaker == s) })
		}
	}
	gauge("dragoman_upstream_consecutive_failures", "Failures of the upstream since it last answered.", "", "", func(r Report) float64 { return float64(r.Failures) })
	if h.checks() {
		gauge("dragoman_upstream_check_seconds", "Time that the last health check took.", "", "", func(r Report) float64 { return r.Took.Seconds() })
		gauge("dragoman_upstream_last_check_timestamp_seconds", "When the last health check was made; 0: never.", "", "", func(r Report) float64 {
			if r.CheckedAt.IsZero() {
				return 0
			}
			return float64(r.CheckedAt.Unix())
		})
	}
	return r.Err()
}
