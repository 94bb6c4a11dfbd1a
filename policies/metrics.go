package policies

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Registry makes the metrics of a policy and registers them. Err returns what has failed.
type Registry struct {
	to  prometheus.Registerer
	err error
}

// NewRegistry returns a Registry that registers metrics with to.
func NewRegistry(to prometheus.Registerer) *Registry { return &Registry{to: to} }

// Counter makes a counter with labels. If there is one of the name already, that one is returned: counts go on when a policy
// is built again for a new configuration.
func (r *Registry) Counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	err := r.to.Register(c)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if before, ok := already.ExistingCollector.(*prometheus.CounterVec); ok {
			return before
		}
	}
	r.err = errors.Join(r.err, err)
	return c
}

// Gauge makes a gauge that is read at each scrape.
func (r *Registry) Gauge(name, help string, read func() int) {
	r.Add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read()) }))
}

// Add registers metrics of other kinds.
func (r *Registry) Add(all ...prometheus.Collector) {
	for _, c := range all {
		r.err = errors.Join(r.err, r.to.Register(c))
	}
}

// Err returns the errors of all registrations.
func (r *Registry) Err() error { return r.err }
