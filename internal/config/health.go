package config

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// HealthConfig is what becomes of an upstream that fails: how that is noticed, and what is done then.
type HealthConfig struct {
	// CheckURL is asked for with GET to find out whether the upstream is there, http or https; "" (default) asks in the
	// protocol's way, which needs no key.
	CheckURL string
	// CheckInterval is the time between checks, 10 s to 24 h, default 30 s; 0 is never. A child is not checked.
	CheckInterval time.Duration
	// CheckTimeout bounds one check. 100 ms to 60 s, default 5 s.
	CheckTimeout time.Duration
	// BreakerFailures is how many calls within a minute have to fail, and half of all, for the upstream not to be called for
	// BreakerPause, 1 s to 1 h, default 30 s; then BreakerTrials calls, 1 to 100, default 1, show whether it does again. 1 to
	// 1000, default 20; 0 is no breaker.
	BreakerFailures, BreakerTrials int
	BreakerPause                   time.Duration
	// Retries is how often a request is made again that has failed without having had an effect. 0 (none) to 10, default 2.
	Retries int
	// RetryBackoff is the longest pause before the first retry, doubled with each. 1 ms to 5 s, default 100 ms.
	RetryBackoff time.Duration
	// RetryBudget is how many retries there may be, in percent of the requests. 1 to 100, default 20.
	RetryBudget int
	// Fallback names the upstream that new requests and sessions go to while this one is in error; "" (default): none.
	Fallback string
}

// fallbackKey names the upstream to go to.
const fallbackKey = "fallback"

// healthKeys are those of an upstream that may fail.
func healthKeys() []setting[Upstream] {
	of := func(pick func(*HealthConfig) *time.Duration) func(*Upstream) *time.Duration {
		return func(u *Upstream) *time.Duration { return pick(&u.Health) }
	}
	return []setting[Upstream]{
		{Key: "health_check_url", std: "", doc: "asked for with GET to find out whether the upstream is there; empty: it is asked in the protocol's way", needs: UrlKey,
			field: func(u *Upstream) field { return checkURLField{at: &u.Health.CheckURL} }},
		{Key: "health_check_interval", std: "30s", doc: "time between checks of the upstream; a child is not checked",
			field: span(of(func(h *HealthConfig) *time.Duration { return &h.CheckInterval }), 10*time.Second, day, "never")},
		{Key: "health_check_timeout", std: "5s", doc: "time for one check",
			field: span(of(func(h *HealthConfig) *time.Duration { return &h.CheckTimeout }), 100*time.Millisecond, time.Minute, "")},
		{Key: "breaker_failures", std: "20", doc: "failed calls within a minute, and half of all, after which the upstream is not called for breaker_pause",
			field: func(u *Upstream) field {
				return intField{at: &u.Health.BreakerFailures, least: 1, most: 1000, zero: "no breaker"}
			}},
		{Key: "breaker_pause", std: "30s", doc: "how long the upstream is not called after breaker_failures",
			field: span(of(func(h *HealthConfig) *time.Duration { return &h.BreakerPause }), time.Second, time.Hour, "")},
		{Key: "breaker_trials", std: "1", doc: "calls that show after breaker_pause whether the upstream is well again",
			field: func(u *Upstream) field { return intField{at: &u.Health.BreakerTrials, least: 1, most: 100} }},
		{Key: "retries", std: "2", doc: "how often a request is made again that has failed without having had an effect",
			field: func(u *Upstream) field {
				return intField{at: &u.Health.Retries, least: 1, most: 10, zero: "never"}
			}},
		{Key: "retry_backoff", std: "100ms", doc: "longest pause before the first retry, doubled with each",
			field: span(of(func(h *HealthConfig) *time.Duration { return &h.RetryBackoff }), time.Millisecond, 5*time.Second, "")},
		{Key: "retry_budget", std: "20", doc: "retries at most, in percent of the requests",
			field: func(u *Upstream) field { return intField{at: &u.Health.RetryBudget, least: 1, most: 100} }},
		{Key: fallbackKey, std: "", doc: "the upstream that new requests and sessions go to while this one is in error",
			field: func(u *Upstream) field {
				return textField{at: &u.Health.Fallback, pattern: upstreamName, most: maxName, empty: true, what: "the NAME of another upstream"}
			}},
	}
}

// checkURLField is an address to be asked for.
type checkURLField struct{ at *string }

func (f checkURLField) Set(v Literal) error {
	text, ok := v.plainText()
	if !ok {
		return problemf("must be text, not %s", v.Kind)
	}
	if text == "" {
		*f.at = ""
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || HasControl(text) {
		return &problem{what: "is not an http or https URL", fix: `write one such as "https://example.com/health"`}
	}
	if u.User != nil || u.Fragment != "" {
		return &problem{what: "has user information or a fragment", fix: "remove them; headers of the upstream go to its own address only"}
	}
	*f.at = text
	return nil
}

func (f checkURLField) text() string    { return Quote(RedactURL(*f.at)) }
func (f checkURLField) Allowed() string { return "an http or https URL" }

// checkFallbacks finds upstreams that fall back on none there is, or on themselves.
func (l *loader) checkFallbacks() {
	c := l.cfg
	for _, u := range c.Upstreams {
		key := upstreamsKey + "." + u.Name + "." + fallbackKey
		way := []string{u.Name}
		for at := u; at != nil && at.Health.Fallback != "" && len(way) <= len(c.Upstreams); {
			next := c.Upstream(at.Health.Fallback)
			way = append(way, at.Health.Fallback)
			if next == nil && at == u {
				l.fail(&problem{what: fmt.Sprintf("%q is no upstream", at.Health.Fallback), fix: "write the NAME of another one"}, key, c.sources[key], "")
			}
			if next == u {
				l.fail(&problem{what: "leads back to itself: " + strings.Join(way, " -> "), fix: "let the last one have no fallback"}, key, c.sources[key], "")
				break
			}
			at = next
		}
	}
}
