package config

import (
	"fmt"
	"strings"
	"time"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// fallbackKey is the key that names the fallback of an upstream.
const fallbackKey = "fallback"

// healthKeys are the keys of an upstream for checks, circuit breaker, retries and fallback.
func healthKeys() []setting[Upstream] {
	of := func(pick func(*HealthConfig) *time.Duration) func(*Upstream) *time.Duration {
		return func(u *Upstream) *time.Duration { return pick(&u.Health) }
	}
	return []setting[Upstream]{
		{Key: "health_check_url", std: "", doc: "URL that is requested with GET to check the upstream; empty: the check uses the protocol", needs: UrlKey,
			field: func(u *Upstream) field.Field { return field.CheckURL{At: &u.Health.CheckURL} }},
		{Key: "health_check_interval", std: "30s", doc: "time between checks of the upstream; a child is not checked",
			field: span(of(func(h *HealthConfig) *time.Duration { return &h.CheckInterval }), 10*time.Second, day, "never")},
		{Key: "health_check_timeout", std: "5s", doc: "timeout of one check",
			field: span(of(func(h *HealthConfig) *time.Duration { return &h.CheckTimeout }), 100*time.Millisecond, time.Minute, "")},
		{Key: "breaker_failures", std: "20", doc: "failed calls within a minute that, if they are half of all, open the circuit breaker for breaker_pause",
			field: func(u *Upstream) field.Field {
				return field.Int{At: &u.Health.BreakerFailures, Least: 1, Most: 1000, Zero: "no breaker"}
			}},
		{Key: "breaker_pause", std: "30s", doc: "how long the circuit breaker stays open",
			field: span(of(func(h *HealthConfig) *time.Duration { return &h.BreakerPause }), time.Second, time.Hour, "")},
		{Key: "breaker_trials", std: "1", doc: "trial calls after breaker_pause, which must succeed for the circuit breaker to close",
			field: func(u *Upstream) field.Field { return field.Int{At: &u.Health.BreakerTrials, Least: 1, Most: 100} }},
		{Key: "retries", std: "2", doc: "how often a failed request without an effect is retried",
			field: func(u *Upstream) field.Field {
				return field.Int{At: &u.Health.Retries, Least: 1, Most: 10, Zero: "never"}
			}},
		{Key: "retry_backoff", std: "100ms", doc: "longest pause before the first retry, doubled with each",
			field: span(of(func(h *HealthConfig) *time.Duration { return &h.RetryBackoff }), time.Millisecond, 5*time.Second, "")},
		{Key: "retry_budget", std: "20", doc: "most retries, in percent of the requests",
			field: func(u *Upstream) field.Field { return field.Int{At: &u.Health.RetryBudget, Least: 1, Most: 100} }},
		{Key: fallbackKey, std: "", doc: "upstream that gets new requests and sessions while this one is in error",
			field: func(u *Upstream) field.Field {
				return field.Text{At: &u.Health.Fallback, Pattern: UpstreamName, Most: maxName, Empty: true, What: "the NAME of another upstream"}
			}},
	}
}

// checkFallbacks reports fallbacks that do not exist, and cycles of fallbacks.
func (l *loader) checkFallbacks() {
	c := l.cfg
	for _, u := range c.Upstreams {
		key := UpstreamsKey + "." + u.Name + "." + fallbackKey
		way := []string{u.Name}
		for at := u; at != nil && at.Health.Fallback != "" && len(way) <= len(c.Upstreams); {
			next := c.Upstream(at.Health.Fallback)
			way = append(way, at.Health.Fallback)
			if next == nil && at == u {
				l.fail(&value.Problem{What: fmt.Sprintf("%q is no upstream", at.Health.Fallback), Fix: "write the NAME of another one"}, key, c.sources[key], "")
			}
			if next == u {
				l.fail(&value.Problem{What: "leads back to itself: " + strings.Join(way, " -> "), Fix: "let the last one have no fallback"}, key, c.sources[key], "")
				break
			}
			at = next
		}
	}
}
