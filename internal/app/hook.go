package app

import (
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/decision"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/internal/app/component"
	"dragoman/internal/config"
	"dragoman/policies"
	"dragoman/policies/hook"
	"dragoman/policies/telemetry"
)

// buildHook makes the policy hook; nil if there is none. It has no end: a call that began under one configuration asks the hook of that about
// its result. tracing is nil if tracing is off.
func buildHook(set *component.Set, c *config.Config, tracing *telemetry.Tracing, log zerolog.Logger) (*hook.Hook, error) {
	h := &c.PolicyHook
	if h.URL == "" {
		return nil, nil //nolint:nilnil // it is off
	}
	metrics, err := component.Get(set, "policy hook metrics", nil, component.Spec[*hook.Metrics]{Build: hook.NewMetrics})
	if err != nil {
		return nil, err
	}
	roots, _ := os.ReadFile(h.CAFile) // it was readable when it was checked
	settings := []any{*h, c.Audit.Redact, string(roots), set.Number("tracing")}
	return component.Get(set, "policy hook", settings, component.Spec[*hook.Hook]{Build: func(prometheus.Registerer) (*hook.Hook, error) {
		headers := make([]httpclient.Header, 0, len(h.Headers))
		for _, x := range h.Headers {
			headers = append(headers, httpclient.Header{Name: x.Name, Value: x.Value.Reveal()})
		}
		client, err := decision.New(decision.Options{URL: h.URL, Headers: headers, CAFile: h.CAFile, Timeout: h.Timeout})
		if err != nil {
			return nil, fmt.Errorf("policy_hook: %w", err)
		}
		opt := hook.Options{Ask: client.Ask, Methods: h.Methods, Results: h.Results, Timeout: h.Timeout, FailOpen: h.OnError == config.HookAllows, Cache: h.Cache, Metrics: metrics,
			Arguments: policies.NewArguments(policies.Arguments{What: h.Arguments, Redact: c.Audit.Redact}),
			Failing: func(err error) {
				if err == nil {
					log.Info().Msg("the policy hook answers again")
					return
				}
				log.Warn().Err(err).Str("on_error", h.OnError).Msg("the policy hook cannot be asked; further failures are counted")
			}}
		if tracing != nil {
			opt.Span = tracing.Decide
		}
		return hook.New(opt), nil
	}})
}
