package app

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/otlp"
	"dragoman/internal/app/component"
	"dragoman/internal/config"
	"dragoman/policies/telemetry"
	"dragoman/proxy"
)

// buildTracing makes the policies that trace requests, and their exporter. It returns nil if tracing is off.
func buildTracing(set *component.Set, cfg *config.Config, log zerolog.Logger) (*telemetry.Tracing, error) {
	c := cfg.Tracing
	if c.Endpoint == "" {
		return nil, nil //nolint:nilnil // it is off
	}
	service := [...]string{cfg.Service.Name, cfg.Service.Version}
	if service[1] == "" {
		service[1] = ReadVersion().Version
	}
	exporter, err := component.Get(set, "tracing", []any{c, service}, component.Spec[*otlp.Exporter]{Build: func(reg prometheus.Registerer) (*otlp.Exporter, error) {
		headers := make(map[string]string, len(c.Headers))
		for _, x := range c.Headers {
			headers[x.Name] = x.Value.Reveal()
		}
		e, err := otlp.New(otlp.Options{URL: c.Traces(), Headers: headers, CAFile: c.CAFile, Timeout: c.Timeout, Ratio: c.SampleRatio, Queue: c.Queue,
			Batch: min(c.Batch, c.Queue), Wait: c.Wait, Service: service[0], Version: service[1], Instance: proxy.NewRequestID(),
			Failed: func(err error, lost uint64) {
				log.Warn().Err(err).Uint64("lost", lost).Msg("spans cannot be sent to tracing.endpoint; further failures are counted, and told of once a minute")
			}})
		if err == nil {
			err = traceMetrics(e, reg)
		}
		return e, err
	}, Stage: component.Last, Close: (*otlp.Exporter).Close, HandOver: (*otlp.Exporter).HandOver})
	if err != nil {
		return nil, err
	}
	return telemetry.NewTracing(exporter.Tracer()), nil
}

// traceMetrics registers the metrics of exported spans.
func traceMetrics(e *otlp.Exporter, reg prometheus.Registerer) (err error) {
	spans := func(outcome string, read func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "dragoman_trace_spans_total",
			Help:        "Spans that were exported, were dropped because tracing.queue was full, or were given up because the collector did not take them.",
			ConstLabels: prometheus.Labels{"outcome": outcome}}, func() float64 { return float64(read()) })
	}
	for _, c := range []prometheus.Collector{
		spans("exported", func() uint64 { n, _, _, _ := e.Stats(); return n }),
		spans("dropped", func() uint64 { _, n, _, _ := e.Stats(); return n }),
		spans("failed", func() uint64 { _, _, n, _ := e.Stats(); return n }),
		component.Gauge("dragoman_trace_spans_waiting", "Spans that wait to be sent to the collector.", "", func() int { _, _, _, n := e.Stats(); return n })} {
		err = errors.Join(err, reg.Register(c))
	}
	return err
}
