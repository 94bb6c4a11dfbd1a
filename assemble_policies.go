package main

import (
	"time"

	"dragoman/adapters/era"
	"dragoman/policies"
	"dragoman/proxy"
)

// before are the policies that judge a request before it is known where it goes; the first is the outermost. Repeats of a request
// wait for its answer in front of them, and take no slot.
func (h *house) before() []proxy.Policy {
	c := h.cfg.Limits
	return []proxy.Policy{h.rate.Policy(), policies.Listens(c.Listens, c.ListensPerPrincipal), h.slots.Policy()}
}

// limits makes what bounds how much comes and runs.
func (h *house) limits() (err error) {
	c := h.cfg
	opt := policies.RateOptions{Total: c.RateLimit.Total, Address: c.RateLimit.Address}
	if c.RateLimited() {
		opt.PerMinute, opt.Burst = c.RateLimit.PerMinute, c.RateLimit.Burst
	}
	if h.rate, err = policies.NewRate(opt, h.metrics); err != nil {
		return err
	}
	if h.granted, err = policies.NewAccessMetric(h.metrics); err != nil {
		return err
	}
	if h.cache, err = policies.NewCache(policies.CacheOptions{Bytes: c.Cache.Bytes, TTL: c.Cache.TTL}, h.metrics); err != nil {
		return err
	}
	h.slots, err = policies.NewSlots(policies.SlotOptions{Requests: c.Limits.InFlight, Queue: c.Limits.Queue, Bytes: c.Limits.InFlightBytes}, h.metrics)
	return err
}

// around are the policies of one upstream, the first the outermost.
func (h *house) around(up *Upstream, u *era.Upstream) []proxy.Policy {
	limits := h.cfg.Timeouts
	timeouts := &policies.Timeouts{Tool: limits.Tool, Resource: limits.Resource, Prompt: limits.Prompt, Server: up.Name,
		Tools: policies.NewRules(ruled(up, func(t *ToolConfig) (time.Duration, bool) { return t.Timeout, t.Timed() }))}
	all := []proxy.Policy{policies.NewAccess(up.access(), h.granted).Policy(), h.rate.Tools(up.Name, ruled(up, func(t *ToolConfig) (int, bool) { return t.RateLimit, t.RateLimit > 0 }))}
	all = append(append(all, h.cache.Policy(up.Name)), h.keep(up, u)...)
	return append(all,
		policies.Turns(up.Concurrency, ruled(up, func(t *ToolConfig) (int, bool) { return t.Concurrency, t.Concurrency > 0 })),
		timeouts.Policy, h.reauthorize(up))
}
