package component

import (
	"errors"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Registry holds the metrics of all sets of components.
type Registry struct {
	metrics *prometheus.Registry

	mu     sync.Mutex
	number uint64     // of the last component
	series []labelled // metrics with series by server
}

// NewRegistry returns a registry of components whose metrics are registered in metrics.
func NewRegistry(metrics *prometheus.Registry) *Registry { return &Registry{metrics: metrics} }

// Registerer registers the counters and histograms of parts that are made anew with each configuration and are no
// components. They go on where the previous ones ended.
func (s *Set) Registerer() prometheus.Registerer { return &registerer{registry: s.registry} }

// Forget drops the series of a server that has been removed.
func (r *Registry) Forget(server string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.series {
		s.DeletePartialMatch(prometheus.Labels{"server": server})
	}
}

// Collectors returns the metrics of a set that are read from components, and those with labels, also without series.
func (s *Set) Collectors() (all []prometheus.Collector) {
	s.registry.mu.Lock()
	for _, c := range s.registry.series {
		all = append(all, c.(prometheus.Collector))
	}
	s.registry.mu.Unlock()
	for _, c := range s.all {
		all = append(all, c.readings...)
	}
	return all
}

func (r *Registry) nextNumber() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	return r.number
}

// labelled is a metric with labels, whose series for one server can be dropped.
type labelled interface {
	DeletePartialMatch(prometheus.Labels) int
}

// registerer registers the metrics of a component. Counters and histograms are shared with the previous component of
// the name, and go on. Metrics that are read from the component itself are registered on activation.
type registerer struct {
	registry *Registry
	readings []prometheus.Collector
}

// Register implements prometheus.Registerer.
func (l *registerer) Register(c prometheus.Collector) error {
	switch c := c.(type) {
	case labelled:
		err := l.registry.metrics.Register(c.(prometheus.Collector))
		if err == nil {
			l.registry.mu.Lock()
			l.registry.series = append(l.registry.series, c)
			l.registry.mu.Unlock()
		}
		return err
	case interface{ Inc() }, prometheus.Histogram:
		return l.registry.metrics.Register(c)
	}
	l.readings = append(l.readings, c)
	return nil
}

// MustRegister implements prometheus.Registerer.
func (l *registerer) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := l.Register(c); err != nil {
			panic(err) //nolint:forbidigo // as the interface demands; a test registers all metrics
		}
	}
}

// Unregister implements prometheus.Registerer.
func (l *registerer) Unregister(c prometheus.Collector) bool {
	before := len(l.readings)
	l.readings = slices.DeleteFunc(l.readings, func(other prometheus.Collector) bool { return other == c })
	return len(l.readings) < before
}

// Gauge returns a gauge that is read at each scrape. It has the label server unless that is empty.
func Gauge(name, help, server string, read func() int) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: serverLabel(server)}, func() float64 { return float64(read()) })
}

// Counter returns a counter that is read at each scrape. It has the label server unless that is empty.
func Counter(name, help, server string, read func() uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: serverLabel(server)}, func() float64 { return float64(read()) })
}

func serverLabel(server string) prometheus.Labels {
	if server == "" {
		return nil
	}
	return prometheus.Labels{"server": server}
}

// Register registers metrics. Its error names all that could not be registered.
func Register(reg prometheus.Registerer, all ...prometheus.Collector) (err error) {
	for _, c := range all {
		err = errors.Join(err, reg.Register(c))
	}
	return err
}

// Bool returns the value of a gauge that is 1 if b, else 0.
func Bool(b bool) int {
	if b {
		return 1
	}
	return 0
}

// MultiGauge is a gauge of several series that are read together at each scrape.
type MultiGauge struct {
	desc *prometheus.Desc
	read func(tell func(value float64, labels ...string))
}

// NewMultiGauge returns a gauge with the given labels. read calls tell once for each series.
func NewMultiGauge(name, help string, read func(tell func(value float64, labels ...string)), labels ...string) MultiGauge {
	return MultiGauge{prometheus.NewDesc(name, help, labels, nil), read}
}

// Describe implements prometheus.Collector.
func (r MultiGauge) Describe(to chan<- *prometheus.Desc) { to <- r.desc }

// Collect implements prometheus.Collector.
func (r MultiGauge) Collect(to chan<- prometheus.Metric) {
	r.read(func(value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(r.desc, prometheus.GaugeValue, value, labels...)
	})
}
