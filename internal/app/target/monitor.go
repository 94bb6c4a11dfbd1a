package target

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/events"
	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/stdio/supervisor"
	"dragoman/adapters/transport"
	"dragoman/internal/app/component"
	"dragoman/internal/config"
	"dragoman/policies"
	"dragoman/policies/health"
	"dragoman/policies/resilience"
	"dragoman/proxy"
)

// monitoring holds the parts that the health monitors of all upstreams share.
type monitoring struct {
	metrics   *health.Metrics
	retries   *prometheus.CounterVec
	fallbacks *prometheus.CounterVec
}

func buildMonitoring(set *component.Set) (monitoring, error) {
	return component.Get(set, "monitoring", nil, component.Spec[monitoring]{Build: func(reg prometheus.Registerer) (m monitoring, err error) {
		r := policies.NewRegistry(reg)
		m.fallbacks = r.Counter("dragoman_fallback_requests_total", "Requests that went to the fallback of an upstream in error.", "server", "to")
		m.metrics = health.NewMetrics(r)
		m.retries = resilience.NewRetryMetric(r)
		return m, r.Err()
	}})
}

// monitorComponent returns the name of the component of an upstream's health monitor.
func monitorComponent(name string) string { return "health " + name }

// monitor returns the health monitor of an upstream. Checks begin on activation.
func (b *Builder) monitor(up *config.Upstream, u *Upstream, check func(context.Context) error) (*health.Monitor, error) {
	name, c := monitorComponent(up.Name), up.Health
	monitor, err := component.Get(b.Components, name, []any{c, b.Components.Number(upstreamComponent(up.Name))}, component.Spec[*health.Monitor]{Build: func(reg prometheus.Registerer) (*health.Monitor, error) {
		monitor := health.NewMonitor(health.Options{Name: up.Name, Check: check, Restored: u.CheckConnections, Interval: c.CheckInterval,
			Timeout: c.CheckTimeout, Starts: processStarts(u.Dialer), Metrics: b.monitoring.metrics, Changed: tellState(u.log, up.Name, b.Events), Running: u.running,
			Recorded: func(r health.Report) { b.Current(up.Name).recorded(&r); b.Touch() },
			Breaker:  health.BreakerOptions{Failures: c.BreakerFailures, Pause: c.BreakerPause, Trials: c.BreakerTrials},
			Warned:   func(text string) { u.log.Warn().Str("why", text).Msg("the upstream has a warning") }})
		return monitor, monitor.Register(reg)
	}, Stage: component.Callers, Close: (*health.Monitor).Close})
	if err == nil && b.Components.Fresh(name) {
		b.Components.OnActivation(func() {
			switch {
			case up.Disconnected:
				r := monitor.Now()
				b.Current(up.Name).recorded(&r)
				return
			case u.Ready(): // it was probed before
				monitor.Tried(time.Now(), nil)
			}
			monitor.Start()
		})
	}
	return monitor, err
}

// tellState returns a function that logs each change of an upstream's state and makes it an event. Further attempts to reach an upstream that
// is known to be down are logged at debug only.
func tellState(log zerolog.Logger, name string, to *events.Emitter) func(health.Change) {
	return func(c health.Change) {
		reportState(to, name, c)
		level := zerolog.InfoLevel
		switch {
		case c.Again:
			level = zerolog.DebugLevel
		case c.To == health.Errored, c.To == health.Degraded:
			level = zerolog.WarnLevel
		}
		log.WithLevel(level).Str("from", string(c.From)).Str("to", string(c.To)).Str("reason", c.Reason).Msg("state of the upstream")
	}
}

// processStarts returns a function that reports the starts of a child process; nil for any other upstream.
func processStarts(d *supervisor.Dialer) func() health.Starts {
	if d == nil {
		return nil
	}
	return func() health.Starts {
		s := d.Health()
		return health.Starts{Circuit: s.State, Failures: s.Failures, Last: s.Last, RetryAt: s.RetryAt}
	}
}

// check returns the health check of an upstream. A check that does not use the protocol is followed by a probe until
// the protocol is known.
func (b *Builder) check(up *config.Upstream, u *Upstream) (func(context.Context) error, error) {
	ask := u.Check
	if s := u.Service; s != nil {
		ask = func(ctx context.Context) error {
			if err := s.Check(ctx); err != nil {
				return err
			}
			return nil
		}
	}
	if up.Health.CheckURL != "" {
		var err error
		if ask, err = b.checkURL(up, u); err != nil {
			return nil, fmt.Errorf("health_check_url: %w", err)
		}
	}
	return func(ctx context.Context) error {
		if err := ask(ctx); err != nil || u.Ready() {
			return u.Hide.Error(ctx, err)
		}
		return u.Hide.Error(ctx, u.Check(ctx))
	}, nil
}

// checkURL returns a check that requests health_check_url, in the way that the upstream is reached. If the URL has the
// origin of the upstream, the request has its static headers and its token. It never has forwarded headers of clients.
func (b *Builder) checkURL(up *config.Upstream, u *Upstream) (func(context.Context) error, error) {
	as, token := *up, u.credentials()
	as.URL = up.Health.CheckURL
	if own, err := url.Parse(up.URL); err == nil {
		if other, err := url.Parse(as.URL); err == nil && (own.Scheme != other.Scheme || !strings.EqualFold(own.Host, other.Host)) {
			as.Headers, token = nil, nil
		}
	}
	host, err := component.Get(b.Components, "check of "+up.Name, []any{as.URL, b.Components.Number(upstreamComponent(up.Name))}, component.Spec[*httpclient.Host]{Build: func(prometheus.Registerer) (*httpclient.Host, error) {
		host, _, err := b.newHost(&as, token)
		return host, err
	}, Stage: component.Upstreams, Close: func(host *httpclient.Host) { _ = host.Close() }})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		var req http1.Request
		ans, err := host.Send(ctx, &req)
		if err != nil {
			return proxy.Errf(proxy.Unreachable, "health_check_url cannot be reached: %w", err)
		}
		defer ans.Close()
		defer context.AfterFunc(ctx, ans.Abort)()
		status, _, err := ans.Head(time.Time{})
		switch {
		case err != nil:
			return proxy.Errf(proxy.Lost, "health_check_url did not answer: %w", err)
		case status >= fasthttp.StatusMultipleChoices:
			return proxy.Errf(proxy.HTTPStatus, "health_check_url answered %w", &transport.StatusError{Status: status})
		}
		return nil
	}, nil
}

// failurePolicies returns the policies for an upstream that may fail, the outermost first: where else its requests may
// go, which are repeated, and which are sent at all. Each learns from the policies inside it.
func (b *Builder) failurePolicies(up *config.Upstream, u *Upstream, monitor *health.Monitor) ([]proxy.Policy, error) {
	c := up.Health
	tries := []any{c.Retries, c.RetryBackoff, c.RetryBudget, b.Components.Number(upstreamComponent(up.Name))}
	retry, err := component.GetPolicy(b.Components, "retry "+up.Name, tries, func() proxy.Policy {
		return resilience.NewRetry(resilience.RetryOptions{Server: up.Name, Most: c.Retries, Backoff: c.RetryBackoff, Budget: c.RetryBudget,
			Hints: resilience.NewHints(u.Tools), Metric: b.monitoring.retries}).Policy
	})
	all := []proxy.Policy{retry, monitor.Policy}
	if c.Fallback == "" || err != nil {
		return all, err
	}
	to := c.Fallback
	away, err := component.Get(b.Components, "fallback "+up.Name, []any{to, b.Components.Number(monitorComponent(up.Name))}, component.Spec[*resilience.Fallback]{Build: func(reg prometheus.Registerer) (*resilience.Fallback, error) {
		f := resilience.NewFallback(to, monitor.Serves, func() proxy.Handler { return b.Current(to).do }, b.monitoring.fallbacks.WithLabelValues(up.Name, to))
		return f, reg.Register(component.Gauge("dragoman_fallback_sessions", "Sessions of legacy clients that are at the fallback.", up.Name, f.Sessions))
	}})
	return append([]proxy.Policy{away.Policy}, all...), err
}
