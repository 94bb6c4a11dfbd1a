package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/internal/app/component"
	"dragoman/internal/config"
	"dragoman/policies/access"
	"dragoman/policies/cache"
	"dragoman/policies/idempotency"
	"dragoman/policies/limits"
	"dragoman/proxy"
)

// limiters holds the policies that all upstreams share.
type limiters struct {
	rate       *limits.Rate           // rate limits
	slots      *limits.Slots          // limits on running requests
	listens    proxy.Policy           // limits on listens
	cache      *cache.Cache           // nil: nothing is cached
	filtered   *prometheus.CounterVec // counts refused requests and hidden entries
	duplicates *idempotency.Policy
}

func buildLimiters(set *component.Set, c *config.Config) (l limiters, err error) {
	rates := limits.RateOptions{Total: c.RateLimit.Total, Address: c.RateLimit.Address, Burst: c.RateLimit.Burst, Principals: c.KeyRates()}
	if c.RateLimited() {
		rates.PerMinute = c.RateLimit.PerMinute
	}
	if l.rate, err = component.Get(set, "rates", rates, component.Spec[*limits.Rate]{Build: func(reg prometheus.Registerer) (*limits.Rate, error) {
		return limits.NewRate(rates, reg)
	}}); err != nil {
		return l, err
	}
	if l.filtered, err = component.Get(set, "access", nil, component.Spec[*prometheus.CounterVec]{Build: access.NewFilterMetric}); err != nil {
		return l, err
	}
	stored := cache.Options{Bytes: c.Cache.Bytes, TTL: c.Cache.TTL}
	if l.cache, err = component.Get(set, "cache", stored, component.Spec[*cache.Cache]{Build: func(reg prometheus.Registerer) (*cache.Cache, error) {
		return cache.New(stored, reg)
	}}); err != nil {
		return l, err
	}
	slots := limits.SlotOptions{Requests: c.Limits.InFlight, Each: c.Limits.InFlightPerPrincipal, Queue: c.Limits.Queue, Bytes: c.Limits.InFlightBytes}
	if l.slots, err = component.Get(set, "slots", slots, component.Spec[*limits.Slots]{Build: func(reg prometheus.Registerer) (*limits.Slots, error) {
		return limits.NewSlots(slots, reg)
	}}); err != nil {
		return l, err
	}
	all, each := c.Limits.Listens, c.Limits.ListensPerPrincipal
	if l.listens, err = component.GetPolicy(set, "listens", []any{all, each}, func() proxy.Policy { return limits.Listens(all, each) }); err != nil {
		return l, err
	}
	repeats := idempotency.Options{Mode: c.Idempotency.Mode, Window: c.Idempotency.Window, Max: c.Idempotency.Max, Bytes: c.Idempotency.Bytes}
	if l.duplicates, err = component.Get(set, "repeats", repeats, component.Spec[*idempotency.Policy]{Build: func(reg prometheus.Registerer) (*idempotency.Policy, error) {
		return idempotency.New(repeats, reg)
	}, Stage: component.Repeats, Close: (*idempotency.Policy).Close}); err != nil {
		err = fmt.Errorf("idempotency: %w", err)
	}
	return l, err
}

// policies returns the policies that judge a request before it is routed, the outermost first. Repeated requests come
// first: a repeat that waits for the response to its original takes no slot.
func (l *limiters) policies() []proxy.Policy {
	return []proxy.Policy{l.duplicates.Wrap, l.rate.Policy(), l.listens, l.slots.Policy()}
}
