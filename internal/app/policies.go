package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/internal/config"
	"dragoman/policies"
	"dragoman/policies/access"
	"dragoman/policies/cache"
	"dragoman/policies/limits"
	"dragoman/proxy"
)

// before are the policies that judge a request before it is known where it goes; the first is the outermost. Repeats of a request
// wait for its answer in front of them, and take no slot.
func (h *House) before() []proxy.Policy {
	return []proxy.Policy{h.rate.Policy(), h.listens, h.slots.Policy()}
}

// limits makes what bounds how much comes and runs.
func (h *House) limits() (err error) {
	c := h.Cfg
	opt := limits.RateOptions{Total: c.RateLimit.Total, Address: c.RateLimit.Address}
	if c.RateLimited() {
		opt.PerMinute, opt.Burst = c.RateLimit.PerMinute, c.RateLimit.Burst
	}
	if h.rate, err = keep(h, "rates", opt, made[*limits.Rate]{build: func(reg prometheus.Registerer) (*limits.Rate, error) {
		return limits.NewRate(opt, reg)
	}}); err != nil {
		return err
	}
	if h.granted, err = keep(h, "access", nil, made[*prometheus.CounterVec]{build: access.NewFilterMetric}); err != nil {
		return err
	}
	kept := cache.Options{Bytes: c.Cache.Bytes, TTL: c.Cache.TTL}
	if h.cache, err = keep(h, "cache", kept, made[*cache.Cache]{build: func(reg prometheus.Registerer) (*cache.Cache, error) {
		return cache.New(kept, reg)
	}}); err != nil {
		return err
	}
	most := limits.SlotOptions{Requests: c.Limits.InFlight, Queue: c.Limits.Queue, Bytes: c.Limits.InFlightBytes}
	if h.slots, err = keep(h, "slots", most, made[*limits.Slots]{build: func(reg prometheus.Registerer) (*limits.Slots, error) {
		return limits.NewSlots(most, reg)
	}}); err != nil {
		return err
	}
	listens := [...]int{c.Limits.Listens, c.Limits.ListensPerPrincipal}
	h.listens, err = keepPolicy(h, "listens", listens, func() proxy.Policy { return limits.Listens(listens[0], listens[1]) })
	return err
}

// keepPolicy keeps a policy that has books of its own.
func keepPolicy(h *House, name string, settings any, build func() proxy.Policy) (proxy.Policy, error) {
	return keep(h, name, settings, made[proxy.Policy]{build: func(prometheus.Registerer) (proxy.Policy, error) { return build(), nil }})
}

// perTool is the numbers that are set for single tools, and whose books they are for.
type perTool struct {
	all   int
	tools map[string]int
	of    uint64
}

// around are the policies of one upstream, the first the outermost.
func (h *House) around(up *config.Upstream, w *wired) ([]proxy.Policy, error) {
	c := h.Cfg.Timeouts
	timeouts := &limits.Timeouts{Tool: c.Tool, Resource: c.Resource, Prompt: c.Prompt, Server: up.Name,
		Tools: policies.NewPatterns(config.Ruled(up, func(t *config.ToolConfig) (time.Duration, bool) { return t.Timeout, t.Timed() }))}
	rated := perTool{0, config.Ruled(up, func(t *config.ToolConfig) (int, bool) { return t.RateLimit, t.RateLimit > 0 }), h.number("rates")}
	rates, err := keepPolicy(h, "rates "+up.Name, rated, func() proxy.Policy { return h.rate.Tools(up.Name, rated.tools) })
	if err != nil {
		return nil, err
	}
	one := perTool{up.Concurrency, config.Ruled(up, func(t *config.ToolConfig) (int, bool) { return t.Concurrency, t.Concurrency > 0 }), h.number("upstream " + up.Name)}
	turns, err := keepPolicy(h, "turns "+up.Name, one, func() proxy.Policy { return limits.Turns(one.all, one.tools) })
	if err != nil {
		return nil, err
	}
	upkept, err := h.keepWell(up, w)
	if err != nil {
		return nil, err
	}
	all := append([]proxy.Policy{access.NewFilter(up.AccessOptions(), h.granted).Policy(), rates, h.cache.Policy(up.Name)}, upkept...)
	return append(all, turns, timeouts.Policy, reauthorize(w), h.asked(up, w)), nil
}
