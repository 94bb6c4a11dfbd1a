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
		{Key: "health_check_url", std: "", doc: "asked for with GET to find out whether the upstream is there; empty: it is asked in the protocol's way", needs: UrlKey,
			field: func(u *Upstream) field.Field { return field.CheckURL{At: &u.Health.CheckURL} }},
		{Key: "health_check_interval", std: "30s", doc: "time between checks of the upstream; a child is not checked",
			field: span(of(func(h *HealthConfig) *time.Duration { return &h.CheckInterval }), 10*time.Second, day, "never")},
		{Key: "health_check_timeout", std: "5s", doc: "time for one check",
			field: span(of(func(h *HealthConfig) *time.Duration { return &h.CheckTimeout }), 100*time.Millisecond, time.Minute, "")},
		{Key: "breaker_failures", std: "20", doc: "failed calls within a minute, and half of all, after which the upstream is not called for breaker_pause",
			field: func(u *Upstream) field.Field {
				return field.Int{At: &u.Health.BreakerFailures, Least: 1, Most: 1000, Zero: "no breaker"}
			}},
		{Key: "breaker_pause", std: "30s", doc: "how long the upstream is not called after breaker_failures",
			field: span(of(func(h *HealthConfig) *time.Duration { return &h.BreakerPause }), time.Second, time.Hour, "")},
		{Key: "breaker_trials", std: "1", doc: "calls that show after breaker_pause whether the upstream is well again",
			field: func(u *Upstream) field.Field { return field.Int{At: &u.Health.BreakerTrials, Least: 1, Most: 100} }},
		{Key: "retries", std: "2", doc: "how often a request is made again that has failed without having had an effect",
			field: func(u *Upstream) field.Field {
				return field.Int{At: &u.Health.Retries, Least: 1, Most: 10, Zero: "never"}
			}},
		{Key: "retry_backoff", std: "100ms", doc: "longest pause before the first retry, doubled with each",
			field: span(of(func(h *HealthConfig) *time.Duration { return &h.RetryBackoff }), time.Millisecond, 5*time.Second, "")},
		{Key: "retry_budget", std: "20", doc: "retries at most, in percent of the requests",
			field: func(u *Upstream) field.Field { return field.Int{At: &u.Health.RetryBudget, Least: 1, Most: 100} }},
		{Key: fallbackKey, std: "", doc: "the upstream that new requests and sessions go to while this one is in error",
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
