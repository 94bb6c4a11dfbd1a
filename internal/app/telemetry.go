package app

import (
	"cmp"
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/otlp"
	"dragoman/internal/app/component"
	"dragoman/internal/config"
	"dragoman/policies"
	"dragoman/policies/telemetry"
	"dragoman/proxy"
)

// observability holds what records requests.
type observability struct {
	requests *telemetry.Metrics
	tracing  *telemetry.Tracing  // nil: tracing is off
	audit    *telemetry.AuditLog // nil: nothing is audited
	refused  *telemetry.Refusals // HTTP requests that never become exchanges
	policies []proxy.Policy      // see every request and its outcome, also requests that a listener refuses; the outermost first
}

// buildTelemetry makes what records requests. fast is the fast path of the access log; nil: it has none. reported makes requests events; nil: there are
// none.
func buildTelemetry(set *component.Set, cfg *config.Config, log zerolog.Logger, fast *telemetry.FastLine, reported proxy.Policy) (o observability, err error) {
	if o.tracing, err = buildTracing(set, cfg, log); err != nil {
		return o, fmt.Errorf("tracing: %w", err)
	}
	if o.requests, err = component.Get(set, "requests", nil, component.Spec[*telemetry.Metrics]{Build: telemetry.NewMetrics}); err != nil {
		return o, err
	}
	count := o.requests.Policy
	if cfg.Monitoring.ToolLabel && cfg.Monitoring.MetricsEnabled {
		count = o.requests.ByTool
	}
	var trail proxy.Policy
	if cfg.Audit.Enabled {
		if o.audit, err = buildAudit(set, &cfg.Audit, log); err != nil {
			return o, err
		}
		trail = telemetry.Audit(telemetry.AuditOptions{Log: o.audit, Methods: cfg.Audit.Methods, Arguments: policies.NewArguments(policies.Arguments{
			What: cfg.Audit.Arguments, Redact: cfg.Audit.Redact, Value: cfg.Audit.ValueBytes, Bytes: cfg.Audit.ArgumentBytes})})
	}
	if o.refused, err = component.Get(set, "refusals", set.Number("audit"), component.Spec[*telemetry.Refusals]{Build: func(reg prometheus.Registerer) (*telemetry.Refusals, error) {
		return telemetry.NewRefusals(o.audit, reg)
	}}); err != nil {
		return o, err
	}
	o.policies = []proxy.Policy{reported, trail, telemetry.AccessLog(log, cfg.Log.Access, fast), count}
	if o.tracing != nil {
		o.policies = append([]proxy.Policy{o.tracing.Serve}, o.policies...)
	}
	return o, nil
}

func buildAudit(set *component.Set, c *config.AuditConfig, log zerolog.Logger) (*telemetry.AuditLog, error) {
	opt := telemetry.AuditLogOptions{File: c.File, Bytes: c.Queue, Block: c.OnFull == "block"}
	return component.Get(set, "audit", opt, component.Spec[*telemetry.AuditLog]{Build: func(reg prometheus.Registerer) (*telemetry.AuditLog, error) {
		opt.Failed = func(err error, lost uint64) {
			log.Error().Err(err).Uint64("lost", lost).Msg("the audit trail cannot be written; further failures are counted, and logged once a minute")
		}
		return telemetry.OpenAuditLog(opt, reg)
	}, Stage: component.Last, Close: (*telemetry.AuditLog).Close, HandOver: (*telemetry.AuditLog).HandOver})
}

// buildTracing makes the policies that trace requests, and their exporter. It returns nil if tracing is off.
func buildTracing(set *component.Set, cfg *config.Config, log zerolog.Logger) (*telemetry.Tracing, error) {
	c := cfg.Tracing
	if c.Endpoint == "" {
		return nil, nil //nolint:nilnil // it is off
	}
	name, version := cfg.Service.Name, cmp.Or(cfg.Service.Version, ReadVersion().Version)
	roots, _ := os.ReadFile(c.CAFile) // it was readable when it was checked
	exporter, err := component.Get(set, "tracing", []any{c, name, version, string(roots)}, component.Spec[*otlp.Exporter]{Build: func(reg prometheus.Registerer) (*otlp.Exporter, error) {
		headers := make(map[string]string, len(c.Headers))
		for _, x := range c.Headers {
			headers[x.Name] = x.Value.Reveal()
		}
		e, err := otlp.New(otlp.Options{URL: c.Traces(), Headers: headers, CAFile: c.CAFile, Timeout: c.Timeout, Ratio: c.SampleRatio, Queue: c.Queue,
			Batch: min(c.Batch, c.Queue), Wait: c.Wait, Service: name, Version: version, Instance: proxy.NewRequestID(),
			Failed: func(err error, lost uint64) {
				log.Warn().Err(err).Uint64("lost", lost).Msg("spans cannot be sent to tracing.endpoint; further failures are counted, and logged once a minute")
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
func traceMetrics(e *otlp.Exporter, reg prometheus.Registerer) error {
	spans := func(outcome string, read func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "dragoman_trace_spans_total",
			Help:        "Spans that were exported, were dropped because tracing.queue was full, or were given up because the collector did not take them.",
			ConstLabels: prometheus.Labels{"outcome": outcome}}, func() float64 { return float64(read()) })
	}
	return component.Register(reg,
		spans("exported", func() uint64 { n, _, _, _ := e.Stats(); return n }),
		spans("dropped", func() uint64 { _, n, _, _ := e.Stats(); return n }),
		spans("failed", func() uint64 { _, _, n, _ := e.Stats(); return n }),
		component.Gauge("dragoman_trace_spans_waiting", "Spans that wait to be sent to the collector.", "", func() int { _, _, _, n := e.Stats(); return n }))
}
