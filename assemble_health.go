package main

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
	"dragoman/adapters/service"
	"dragoman/policies"
	"dragoman/proxy"
)

// upkeep is what keeps an eye on the upstreams, and does something about those that fail.
type upkeep struct {
	of        map[string]*policies.Health
	ways      map[string]proxy.Handler // to each upstream, with its policies
	metrics   *policies.HealthMetrics
	retries   *policies.RetryMetrics
	fallbacks *prometheus.CounterVec
}

// newUpkeep makes what all upstreams share.
func newUpkeep(reg prometheus.Registerer) (k *upkeep, err error) {
	k = &upkeep{of: make(map[string]*policies.Health), ways: make(map[string]proxy.Handler)}
	var rerr error
	k.metrics, err = policies.NewHealthMetrics(reg)
	k.retries, rerr = policies.NewRetryMetrics(reg)
	k.fallbacks = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dragoman_fallback_requests_total",
		Help: "Requests that went to the fallback of an upstream in error."}, []string{"server", "to"})
	return k, errors.Join(err, rerr, reg.Register(k.fallbacks))
}

// keep makes the policies of an upstream that may fail: where else its requests may go, which are made again, which are made
// at all. What they learn comes from what stands within them.
func (h *house) keep(up *Upstream, u *era.Upstream) []proxy.Policy {
	c := up.Health
	log := h.log.With().Str("upstream", up.Name).Logger()
	health := policies.NewHealth(policies.HealthOptions{Name: up.Name, Check: h.check(up, u), Restored: u.Sift, Interval: c.CheckInterval,
		Timeout: c.CheckTimeout, Starts: h.starts(up.Name), Metrics: h.upkeep.metrics, Changed: tellState(log),
		Breaker: policies.BreakerOptions{Failures: c.BreakerFailures, Pause: c.BreakerPause, Trials: c.BreakerTrials},
		Warned:  func(text string) { log.Warn().Str("why", text).Msg("the upstream is not quite well") }})
	h.upkeep.of[up.Name] = health
	if err := health.Register(h.metrics); err != nil {
		log.Error().Err(err).Msg("metrics of the upstream's health")
	}
	retry := policies.NewRetry(policies.RetryOptions{Server: up.Name, Most: c.Retries, Backoff: c.RetryBackoff, Budget: c.RetryBudget,
		Hints: policies.NewHints(u.Tools), Metrics: h.upkeep.retries})
	all := []proxy.Policy{retry.Policy, health.Policy}
	if to := c.Fallback; to != "" {
		f := policies.NewFallback(to, health.Serves, func() proxy.Handler { return h.upkeep.ways[to] }, h.upkeep.fallbacks.WithLabelValues(up.Name, to))
		h.metrics.MustRegister(gauge("dragoman_fallback_sessions", "Sessions of legacy clients that are at the fallback.", up.Name, f.Sessions))
		all = append([]proxy.Policy{f.Policy}, all...)
	}
	return all
}

// tellState logs each change of an upstream's state. Further attempts to reach one that is known to be down say nothing new.
func tellState(log zerolog.Logger) func(policies.HealthChange) {
	return func(c policies.HealthChange) {
		level := zerolog.InfoLevel
		switch {
		case c.Again:
			level = zerolog.DebugLevel
		case c.To == policies.Errored, c.To == policies.Degraded:
			level = zerolog.WarnLevel
		}
		log.WithLevel(level).Str("from", string(c.From)).Str("to", string(c.To)).Str("reason", c.Reason).Msg("state of the upstream")
	}
}

// starts is how the starts of a child go; nil for any other upstream.
func (h *house) starts(name string) func() policies.Starts {
	d := h.dialers[name]
	if d == nil {
		return nil
	}
	return func() policies.Starts {
		s := d.Health()
		return policies.Starts{Circuit: s.State, Failures: s.Failures, Last: s.Last, RetryAt: s.RetryAt}
	}
}

// check is how an upstream is asked whether it is there. Where something else than the protocol says so, the protocol has yet to be
// found out once.
func (h *house) check(up *Upstream, u *era.Upstream) func(context.Context) error {
	ask := u.Check
	if s := h.services[up.Name]; s != nil {
		ask = func(ctx context.Context) error {
			if err := s.Check(ctx); err != nil {
				return err
			}
			return nil
		}
	}
	if up.Health.CheckURL != "" {
		ask = h.checkURL(up)
	}
	return func(ctx context.Context) error {
		if err := ask(ctx); err != nil || u.Ready() {
			return err
		}
		return u.Check(ctx)
	}
}

// checkURL asks for health_check_url, in the way that the upstream is reached, and with its headers if it is of the same origin.
func (h *house) checkURL(up *Upstream) func(context.Context) error {
	as := *up
	as.URL = up.Health.CheckURL
	if own, err := url.Parse(up.URL); err == nil {
		if other, err := url.Parse(as.URL); err == nil && (own.Scheme != other.Scheme || !strings.EqualFold(own.Host, other.Host)) {
			as.Headers = nil
		}
	}
	host, _, err := h.host(&as)
	return func(ctx context.Context) error {
		if err != nil {
			return fmt.Errorf("health_check_url: %w", err)
		}
		var req fasthttp.Request
		req.Header.SetMethod(fasthttp.MethodGet)
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
			return proxy.Errf(proxy.HTTPStatus, "health_check_url answered %w", &era.StatusError{Status: status})
		}
		return nil
	}
}

// tend begins to check the upstreams.
func (h *house) tend() {
	for _, health := range h.upkeep.of {
		health.Start()
	}
}

// close ends checking.
func (k *upkeep) close() {
	if k == nil {
		return
	}
	for _, health := range k.of {
		health.Close()
	}
}

// tried feeds the state of an upstream with what came of finding out what it is.
func (h *house) tried(name string, began time.Time, err error) {
	if health := h.upkeep.of[name]; health != nil {
		health.Tried(began, err)
	}
}

// state is how an upstream is, in the terms of GET /health.
func (h *house) state(u *era.Upstream) service.Dependency {
	ok, why := h.sound(u.Name())
	d := service.Dependency{Name: u.Name(), Connected: ok && u.Ready(), Error: why, Upstream: true}
	if health := h.upkeep.of[u.Name()]; health != nil {
		r := health.Now()
		d.State, d.Failures, d.Took, d.CheckedAt, d.Warning = string(r.State), r.Failures, r.Took, r.CheckedAt, r.Warning
		switch r.State {
		case policies.Errored, policies.Connecting:
			if r.State == policies.Connecting && h.dialers[u.Name()] != nil { // its circuit is half-open: it is started if somebody wants it
				break
			}
			if d.Connected = false; d.Error == "" {
				d.Error = r.LastError
			}
		case policies.Degraded:
			d.Warning = r.LastError
		}
	}
	if !d.Connected && d.Error == "" {
		d.Error = "not reached yet"
	}
	return d
}
