package health

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts state changes, checks and refusals. All upstreams share one. A nil Metrics counts nothing.
type Metrics struct{ changes, checks, refusals *prometheus.CounterVec }

// NewMetrics returns the counters, registered with reg.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dragoman_upstream_state_changes_total",
			Help: "State changes of an upstream, by new state."}, []string{"server", "to"}),
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dragoman_upstream_checks_total",
			Help: "Health checks of an upstream, by outcome (ok, warning, failure, skipped)."}, []string{"server", "outcome"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dragoman_upstream_refused_total",
			Help: "Requests refused at once because the upstream is in error."}, []string{"server"}),
	}
	var err error
	for _, c := range []prometheus.Collector{m.changes, m.checks, m.refusals} {
		err = errors.Join(err, reg.Register(c))
	}
	return m, err
}

func (m *Metrics) changed(server string, to State) {
	if m != nil {
		m.changes.WithLabelValues(server, string(to)).Inc()
	}
}

func (m *Metrics) checked(server, outcome string) {
	if m != nil {
		m.checks.WithLabelValues(server, outcome).Inc()
	}
}

func (m *Metrics) refused(server string) {
	if m != nil {
		m.refusals.WithLabelValues(server).Inc()
	}
}

// Register registers the gauges that are computed from the upstream's state at each scrape.
func (h *Monitor) Register(reg prometheus.Registerer) (err error) {
	gauge := func(name, help, label, value string, read func(Report) float64) {
		labels := prometheus.Labels{"server": h.opt.Name}
		if label != "" {
			labels[label] = value
		}
		err = errors.Join(err, reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return read(h.Now()) })))
	}
	is := func(yes bool) float64 {
		if yes {
			return 1
		}
		return 0
	}
	for _, s := range States() {
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
	return err
}
