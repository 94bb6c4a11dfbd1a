package component

import "github.com/prometheus/client_golang/prometheus"

// Gauge returns a gauge that is read at each scrape. It has the label server unless that is empty.
func Gauge(name, help, server string, read func() int) prometheus.Collector {
	labels := prometheus.Labels{"server": server}
	if server == "" {
		labels = nil
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return float64(read()) })
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

// Counter returns a counter that is read at each scrape.
func Counter(name, help, server string, read func() uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"server": server}},
		func() float64 { return float64(read()) })
}
