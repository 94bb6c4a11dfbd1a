package app

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/otlp"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
	"dragoman/policies/telemetry"
	"dragoman/proxy"
)

// buildTracing makes the policies that trace requests, and their exporter. It returns nil if tracing is off.
func (g *Generation) buildTracing() (*telemetry.Tracing, error) {
	c := g.Cfg.Tracing
	if c.Endpoint == "" {
		return nil, nil //nolint:nilnil // it is off
	}
	service := [...]string{g.Cfg.Service.Name, g.Cfg.Service.Version}
	if service[1] == "" {
		service[1] = ReadVersion().Version
	}
	exporter, err := keep(g, "tracing", []any{c, service}, spec[*otlp.Exporter]{build: func(reg prometheus.Registerer) (*otlp.Exporter, error) {
		headers := make(map[string]string, len(c.Headers))
		for _, x := range c.Headers {
			headers[x.Name] = x.Value.Reveal()
		}
		e, err := otlp.New(otlp.Options{URL: c.Traces(), Headers: headers, CAFile: c.CAFile, Timeout: c.Timeout, Ratio: c.SampleRatio, Queue: c.Queue,
			Batch: min(c.Batch, c.Queue), Wait: c.Wait, Service: service[0], Version: service[1], Instance: proxy.NewRequestID(),
			Failed: func(err error, lost uint64) {
				g.Log.Warn().Err(err).Uint64("lost", lost).Msg("spans cannot be sent to tracing.endpoint; further failures are counted, and told of once a minute")
			}})
		if err == nil {
			err = traceMetrics(e, reg)
		}
		return e, err
	}, stage: endsLast, close: (*otlp.Exporter).Close, handOver: (*otlp.Exporter).HandOver})
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
		gauge("dragoman_trace_spans_waiting", "Spans that wait to be sent to the collector.", "", func() int { _, _, _, n := e.Stats(); return n })} {
		err = errors.Join(err, reg.Register(c))
	}
	return err
}

// withServerSpan puts the policy of the server span outside the policies that watch requests, if tracing is on.
func (g *Generation) withServerSpan(watching ...proxy.Policy) []proxy.Policy {
	if g.tracing == nil {
		return watching
	}
	return append([]proxy.Policy{g.tracing.Serve}, watching...)
}

// clientSpan returns the policy of an upstream's client span, or nil if tracing is off.
func (g *Generation) clientSpan(up *config.Upstream, w *upstream) proxy.Policy {
	if g.tracing == nil {
		return nil
	}
	at := peer(up)
	at.Revision = w.Revision
	return g.tracing.Ask(at)
}

// peer describes an upstream for its spans.
func peer(up *config.Upstream) telemetry.Peer {
	at := telemetry.Peer{Name: up.Name, Transport: "pipe"}
	if len(up.Command) > 0 {
		return at
	}
	if path, ok := strings.CutPrefix(up.URL, value.UnixScheme); ok {
		at.Transport, at.Address = "unix", path
		return at
	}
	u, err := url.Parse(up.URL)
	if err != nil {
		return at
	}
	at.Transport, at.Address = "tcp", u.Hostname()
	at.Port, _ = strconv.Atoi(u.Port())
	switch u.Scheme {
	case "http", "https":
		if at.Protocol = "http"; at.Port == 0 {
			at.Port = map[string]int{"http": 80, "https": 443}[u.Scheme]
		}
	}
	return at
}
