package target

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/internal/app/component"
	"dragoman/internal/config"
	"dragoman/policies/health"
	"dragoman/policies/resilience"
	"dragoman/proxy"
)

// Settings of the policies for an upstream that may fail, each with the number of the component that it belongs to.
type (
	retrySettings struct {
		most    int
		backoff time.Duration
		budget  int
		of      uint64
	}
	fallbackSettings struct {
		to string
		of uint64
	}
)

// failurePolicies returns the policies for an upstream that may fail, the outermost first: where else its requests may
// go, which are repeated, and which are sent at all. Each learns from the policies inside it.
func (b *Builder) failurePolicies(up *config.Upstream, u *Upstream, monitor *health.Monitor) ([]proxy.Policy, error) {
	c := up.Health
	tries := retrySettings{c.Retries, c.RetryBackoff, c.RetryBudget, b.Components.Number(upstreamComponent(up.Name))}
	retry, err := component.GetPolicy(b.Components, "retry "+up.Name, tries, func() proxy.Policy {
		return resilience.NewRetry(resilience.RetryOptions{Server: up.Name, Most: tries.most, Backoff: tries.backoff, Budget: tries.budget,
			Hints: resilience.NewHints(u.Tools), Metric: b.monitoring.retries}).Policy
	})
	all := []proxy.Policy{retry, monitor.Policy}
	if c.Fallback == "" || err != nil {
		return all, err
	}
	to := c.Fallback
	away, err := component.Get(b.Components, "fallback "+up.Name, fallbackSettings{to, b.Components.Number(monitorComponent(up.Name))}, component.Spec[*resilience.Fallback]{Build: func(reg prometheus.Registerer) (*resilience.Fallback, error) {
		f := resilience.NewFallback(to, monitor.Serves, func() proxy.Handler { return b.Current(to).do }, b.monitoring.fallbacks.WithLabelValues(up.Name, to))
		return f, reg.Register(component.Gauge("dragoman_fallback_sessions", "Sessions of legacy clients that are at the fallback.", up.Name, f.Sessions))
	}})
	return append([]proxy.Policy{away.Policy}, all...), err
}
