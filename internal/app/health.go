package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/era"
	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/service"
	"dragoman/adapters/stdio/supervisor"
	"dragoman/adapters/transport"
	"dragoman/internal/config"
	"dragoman/policies/health"
	"dragoman/policies/resilience"
	"dragoman/proxy"
)

// monitoring holds the health monitors of the upstreams, and what they share.
type monitoring struct {
	Monitors  map[string]*health.Monitor
	handlers  map[string]proxy.Handler // of each upstream, with its policies
	metrics   *health.Metrics
	retries   *resilience.RetryMetrics
	fallbacks *prometheus.CounterVec
}

// buildMonitoring makes what all health monitors share.
func (g *Generation) buildMonitoring() (err error) {
	shared, err := keep(g, "monitoring", nil, spec[monitoring]{build: func(reg prometheus.Registerer) (k monitoring, err error) {
		var rerr error
		k.metrics, err = health.NewMetrics(reg)
		k.retries, rerr = resilience.NewRetryMetrics(reg)
		k.fallbacks = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dragoman_fallback_requests_total",
			Help: "Requests that went to the fallback of an upstream in error."}, []string{"server", "to"})
		return k, errors.Join(err, rerr, reg.Register(k.fallbacks))
	}})
	shared.Monitors, shared.handlers = make(map[string]*health.Monitor), make(map[string]proxy.Handler)
	g.Monitoring = &shared
	return err
}

// resiliencePolicies returns the policies for an upstream that may fail, the outermost first: where else its requests
// may go, which are repeated, and which are sent at all. Each learns from the policies inside it.
func (g *Generation) resiliencePolicies(up *config.Upstream, w *upstream) ([]proxy.Policy, error) {
	c, of := up.Health, g.number("upstream "+up.Name)
	monitor, err := g.monitor(up, w)
	if err != nil {
		return nil, err
	}
	g.Monitoring.Monitors[up.Name] = monitor
	tries := retrySettings{c.Retries, c.RetryBackoff, c.RetryBudget, of}
	retry, err := keepPolicy(g, "retry "+up.Name, tries, func() proxy.Policy {
		return resilience.NewRetry(resilience.RetryOptions{Server: up.Name, Most: tries.most, Backoff: tries.backoff, Budget: tries.budget,
			Hints: resilience.NewHints(w.Tools), Metrics: g.Monitoring.retries}).Policy
	})
	all := []proxy.Policy{retry, monitor.Policy}
	if to := c.Fallback; to != "" && err == nil {
		var away *resilience.Fallback
		away, err = keep(g, "fallback "+up.Name, fallbackSettings{to, g.number("health " + up.Name)}, spec[*resilience.Fallback]{build: func(reg prometheus.Registerer) (*resilience.Fallback, error) {
			now := &g.App.Current
			f := resilience.NewFallback(to, monitor.Serves, func() proxy.Handler { return now.Load().Monitoring.handlers[to] }, g.Monitoring.fallbacks.WithLabelValues(up.Name, to))
			return f, reg.Register(gauge("dragoman_fallback_sessions", "Sessions of legacy clients that are at the fallback.", up.Name, f.Sessions))
		}})
		all = append([]proxy.Policy{away.Policy}, all...)
	}
	return all, err
}

// Settings of the policies around an upstream, each with the number of the component that it belongs to.
type (
	monitorSettings struct {
		config config.HealthConfig
		of     uint64
	}
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
	checkSettings struct {
		url string
		of  uint64
	}
)

// monitor returns the health monitor of an upstream. Checks begin on activation.
func (g *Generation) monitor(up *config.Upstream, w *upstream) (*health.Monitor, error) {
	name, c, u := "health "+up.Name, up.Health, w.Upstream
	log := g.Log.With().Str("upstream", up.Name).Logger()
	check, err := g.Check(up, w)
	if err != nil {
		return nil, err
	}
	monitor, err := keep(g, name, monitorSettings{c, g.number("upstream " + up.Name)}, spec[*health.Monitor]{build: func(reg prometheus.Registerer) (*health.Monitor, error) {
		monitor := health.NewMonitor(health.Options{Name: up.Name, Check: check, Restored: u.CheckConnections, Interval: c.CheckInterval,
			Timeout: c.CheckTimeout, Starts: processStarts(w.dialer), Metrics: g.Monitoring.metrics, Changed: logState(log), Running: w.running,
			Breaker: health.BreakerOptions{Failures: c.BreakerFailures, Pause: c.BreakerPause, Trials: c.BreakerTrials},
			Warned:  func(text string) { log.Warn().Str("why", text).Msg("the upstream is not quite well") }})
		return monitor, monitor.Register(reg)
	}, stage: endsFirst, close: (*health.Monitor).Close})
	if err != nil {
		return nil, err
	}
	if g.Components[name] != g.previous[name] {
		g.onActivation = append(g.onActivation, func() {
			if u.Ready() { // it was probed before
				monitor.Tried(time.Now(), nil)
			}
			monitor.Start()
		})
	}
	return monitor, nil
}

// logState returns a function that logs each change of an upstream's state. Further attempts to reach an upstream that
// is known to be down are logged at debug only.
func logState(log zerolog.Logger) func(health.Change) {
	return func(c health.Change) {
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

// Check returns the health check of an upstream. A check that does not use the protocol is followed by a probe until
// the protocol is known.
func (g *Generation) Check(up *config.Upstream, w *upstream) (func(context.Context) error, error) {
	u := w.Upstream
	ask := u.Check
	if s := w.service; s != nil {
		ask = func(ctx context.Context) error {
			if err := s.Check(ctx); err != nil {
				return err
			}
			return nil
		}
	}
	if up.Health.CheckURL != "" {
		var err error
		if ask, err = g.checkURL(up, w); err != nil {
			return nil, fmt.Errorf("health_check_url: %w", err)
		}
	}
	return func(ctx context.Context) error {
		if err := ask(ctx); err != nil || u.Ready() {
			return err
		}
		return u.Check(ctx)
	}, nil
}

// checkURL returns a check that requests health_check_url, in the way that the upstream is reached. If the URL has the
// origin of the upstream, the request has its static headers and its token. It never has forwarded headers of clients.
func (g *Generation) checkURL(up *config.Upstream, w *upstream) (func(context.Context) error, error) {
	as := *up
	var token httpclient.Credentials
	if w.client != nil {
		token = w.client
	}
	as.URL = up.Health.CheckURL
	if own, err := url.Parse(up.URL); err == nil {
		if other, err := url.Parse(as.URL); err == nil && (own.Scheme != other.Scheme || !strings.EqualFold(own.Host, other.Host)) {
			as.Headers, token = nil, nil
		}
	}
	host, err := keep(g, "check of "+up.Name, checkSettings{as.URL, g.number("upstream " + up.Name)}, spec[*httpclient.Host]{build: func(prometheus.Registerer) (*httpclient.Host, error) {
		host, _, err := g.host(&as, token)
		return host, err
	}, stage: endsUpstreams, close: func(host *httpclient.Host) { _ = host.Close() }})
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

// Tried reports the result of probing an upstream to its monitor.
func (g *Generation) Tried(name string, began time.Time, err error) {
	if monitor := g.Monitoring.Monitors[name]; monitor != nil {
		monitor.Tried(began, err)
	}
}

// upstreamState describes an upstream in the terms of GET /health.
func (g *Generation) upstreamState(u *era.Upstream) service.Dependency {
	ok, why := g.available(u.Name())
	d := service.Dependency{Name: u.Name(), Connected: ok && u.Ready(), Error: why, Upstream: true}
	if monitor := g.Monitoring.Monitors[u.Name()]; monitor != nil {
		r := monitor.Now()
		d.State, d.Failures, d.Took, d.CheckedAt, d.Warning = string(r.State), r.Failures, r.Took, r.CheckedAt, r.Warning
		switch r.State {
		case health.Errored, health.Connecting:
			if r.State == health.Connecting && g.Dialers[u.Name()] != nil { // its circuit is half-open: the next call starts it
				break
			}
			if d.Connected = false; d.Error == "" {
				d.Error = r.LastError
			}
		case health.Degraded:
			d.Warning = r.LastError
		}
	}
	if !d.Connected && d.Error == "" {
		d.Error = "not reached yet"
	}
	return d
}
