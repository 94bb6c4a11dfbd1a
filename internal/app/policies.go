package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/internal/config"
	"dragoman/policies"
	"dragoman/policies/access"
	"dragoman/policies/cache"
	"dragoman/policies/idempotency"
	"dragoman/policies/limits"
	"dragoman/proxy"
)

// admissionPolicies returns the policies that judge a request before it is routed, the outermost first. A repeat waits
// for the response to its original outside them, and takes no slot.
func (g *Generation) admissionPolicies() []proxy.Policy {
	return []proxy.Policy{g.rate.Policy(), g.listens, g.slots.Policy()}
}

// buildLimits makes the limits on rates and concurrency, and the cache.
func (g *Generation) buildLimits() (err error) {
	c := g.Cfg
	opt := limits.RateOptions{Total: c.RateLimit.Total, Address: c.RateLimit.Address}
	if c.RateLimited() {
		opt.PerMinute, opt.Burst = c.RateLimit.PerMinute, c.RateLimit.Burst
	}
	if g.rate, err = keep(g, "rates", opt, spec[*limits.Rate]{build: func(reg prometheus.Registerer) (*limits.Rate, error) {
		return limits.NewRate(opt, reg)
	}}); err != nil {
		return err
	}
	if g.filterMetrics, err = keep(g, "access", nil, spec[*prometheus.CounterVec]{build: access.NewFilterMetric}); err != nil {
		return err
	}
	kept := cache.Options{Bytes: c.Cache.Bytes, TTL: c.Cache.TTL}
	if g.cache, err = keep(g, "cache", kept, spec[*cache.Cache]{build: func(reg prometheus.Registerer) (*cache.Cache, error) {
		return cache.New(kept, reg)
	}}); err != nil {
		return err
	}
	most := limits.SlotOptions{Requests: c.Limits.InFlight, Queue: c.Limits.Queue, Bytes: c.Limits.InFlightBytes}
	if g.slots, err = keep(g, "slots", most, spec[*limits.Slots]{build: func(reg prometheus.Registerer) (*limits.Slots, error) {
		return limits.NewSlots(most, reg)
	}}); err != nil {
		return err
	}
	listens := [...]int{c.Limits.Listens, c.Limits.ListensPerPrincipal}
	g.listens, err = keepPolicy(g, "listens", listens, func() proxy.Policy { return limits.Listens(listens[0], listens[1]) })
	return err
}

// keepPolicy is [keep] for a policy with state.
func keepPolicy(g *Generation, name string, settings any, build func() proxy.Policy) (proxy.Policy, error) {
	return keep(g, name, settings, spec[proxy.Policy]{build: func(prometheus.Registerer) (proxy.Policy, error) { return build(), nil }})
}

// toolSettings holds the limits of single tools, and the number of the component that they belong to.
type toolSettings struct {
	all   int
	tools map[string]int
	of    uint64
}

// upstreamPolicies returns the policies of one upstream, the outermost first.
func (g *Generation) upstreamPolicies(up *config.Upstream, w *upstream) ([]proxy.Policy, error) {
	c := g.Cfg.Timeouts
	timeouts := &limits.Timeouts{Tool: c.Tool, Resource: c.Resource, Prompt: c.Prompt, Server: up.Name,
		Tools: policies.NewPatterns(config.Ruled(up, func(t *config.ToolConfig) (time.Duration, bool) { return t.Timeout, t.Timed() }))}
	rated := toolSettings{0, config.Ruled(up, func(t *config.ToolConfig) (int, bool) { return t.RateLimit, t.RateLimit > 0 }), g.number("rates")}
	rates, err := keepPolicy(g, "rates "+up.Name, rated, func() proxy.Policy { return g.rate.Tools(up.Name, rated.tools) })
	if err != nil {
		return nil, err
	}
	one := toolSettings{up.Concurrency, config.Ruled(up, func(t *config.ToolConfig) (int, bool) { return t.Concurrency, t.Concurrency > 0 }), g.number("upstream " + up.Name)}
	turns, err := keepPolicy(g, "turns "+up.Name, one, func() proxy.Policy { return limits.Turns(one.all, one.tools) })
	if err != nil {
		return nil, err
	}
	upkept, err := g.resiliencePolicies(up, w)
	if err != nil {
		return nil, err
	}
	all := append([]proxy.Policy{access.NewFilter(up.AccessOptions(), g.filterMetrics).Policy(), rates, g.cache.Policy(up.Name)}, upkept...)
	return append(all, turns, timeouts.Policy, reauthorize(w), g.clientSpan(up, w)), nil
}

// buildIdempotency makes the policy for repeated requests. It runs inside audit and metrics, which see repeats too, and
// outside everything that counts, limits or judges: a repeat that waits for the response to its original takes no slot.
func (g *Generation) buildIdempotency() (err error) {
	c := g.Cfg.Idempotency
	opt := idempotency.Options{Mode: c.Mode, Window: c.Window, Max: c.Max, Bytes: c.Bytes}
	g.Duplicates, err = keep(g, "repeats", opt, spec[*idempotency.Policy]{build: func(reg prometheus.Registerer) (*idempotency.Policy, error) {
		return idempotency.New(opt, reg)
	}, stage: endsRepeats, close: (*idempotency.Policy).Close})
	return err
}
