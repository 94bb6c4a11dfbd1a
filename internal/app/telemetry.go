package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/internal/app/component"
	"dragoman/internal/config"
	"dragoman/policies/telemetry"
	"dragoman/proxy"
)

// observability holds what records requests.
type observability struct {
	requests *telemetry.Metrics
	tracing  *telemetry.Tracing  // nil: tracing is off
	audit    *telemetry.AuditLog // nil: nothing is audited
	policies []proxy.Policy      // see every request and its outcome, also requests that a listener refuses; the outermost first
}

// buildTelemetry makes what records requests. fast is the fast path of the access log; nil: it has none.
func buildTelemetry(set *component.Set, cfg *config.Config, log zerolog.Logger, fast *telemetry.FastLine) (o observability, err error) {
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
		trail = telemetry.Audit(telemetry.AuditOptions{Log: o.audit, Methods: cfg.Audit.Methods, Arguments: telemetry.NewArguments(telemetry.Arguments{
			What: cfg.Audit.Arguments, Redact: cfg.Audit.Redact, Value: cfg.Audit.ValueBytes, Bytes: cfg.Audit.ArgumentBytes})})
	}
	o.policies = []proxy.Policy{trail, telemetry.AccessLog(log, cfg.Log.Access, fast), count}
	if o.tracing != nil {
		o.policies = append([]proxy.Policy{o.tracing.Serve}, o.policies...)
	}
	return o, nil
}

// auditSettings is what the audit log is made from.
type auditSettings struct {
	file  string
	queue int
	block bool
}

func buildAudit(set *component.Set, c *config.AuditConfig, log zerolog.Logger) (*telemetry.AuditLog, error) {
	from := auditSettings{c.File, c.Queue, c.OnFull == "block"}
	return component.Get(set, "audit", from, component.Spec[*telemetry.AuditLog]{Build: func(reg prometheus.Registerer) (*telemetry.AuditLog, error) {
		return telemetry.OpenAuditLog(telemetry.AuditLogOptions{File: from.file, Bytes: from.queue, Block: from.block, Failed: func(err error, lost uint64) {
			log.Error().Err(err).Uint64("lost", lost).Msg("the audit trail cannot be written; further failures are counted, and told of once a minute")
		}}, reg)
	}, Stage: component.Last, Close: (*telemetry.AuditLog).Close, HandOver: (*telemetry.AuditLog).HandOver})
}
