// Package limits bounds how much comes and runs: rates, concurrent requests, open listens, and the silence of servers.
package limits

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// RateOptions configures a [Rate]. A rate of 0 is no limit.
type RateOptions struct {
	PerMinute int              // of one client: by its principal, or by its address if it is anonymous
	Burst     int              // of one client at once (seed 001, rate_limit_burst)
	Total     int              // of all clients together, a minute
	Address   int              // of one address, a minute, with any credential: HTTP requests of all kinds, limited before their body is read
	Clients   int              // clients told apart; the least recently seen is forgotten; 0: 100 000
	Now       func() time.Time // nil: time.Now
}

// Rate limits requests by token buckets. A bucket holds its burst at most, and gains its rate over a minute.
// Notifications, responses and pings are free.
type Rate struct {
	opt     RateOptions
	given   bool      // opt.Now was set, and replaces the clocks of exchanges and heads
	began   time.Time // zero of the buckets' clock
	clients *clients  // nil: no limit
	total   *bucket   // nil: no limit
	addrs   *clients  // nil: no limit
	refused *prometheus.CounterVec
}

const rateClients = 100_000

// NewRate returns the limiter, its metric registered with reg.
func NewRate(opt RateOptions, reg prometheus.Registerer) (*Rate, error) {
	if opt.Clients == 0 {
		opt.Clients = rateClients
	}
	given := opt.Now != nil
	if !given {
		opt.Now = time.Now
	}
	r := &Rate{opt: opt, given: given, began: opt.Now(), refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dragoman_rate_limited_total",
		Help: "Requests refused by a rate limit, by limit (client, total, tool or address)."}, []string{"limit"})}
	var err error
	if r.clients, err = newClients(opt.PerMinute, opt.Burst, opt.Clients); err != nil {
		return nil, err
	}
	if r.addrs, err = newClients(opt.Address, opt.Address, opt.Clients); err != nil {
		return nil, err
	}
	if opt.Total > 0 {
		r.total = newBucket(opt.Total, opt.Total)
	}
	r.refused, err = policies.Register(reg, r.refused)
	return r, err
}

// Policy returns the policy that refuses requests above the rate of one client, or of all clients together. It is nil
// without such a limit.
func (r *Rate) Policy() proxy.Policy {
	if r.clients == nil && r.total == nil {
		return nil
	}
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Msg.Kind == wire.Request && !ex.Own && !ex.Msg.Is("ping") {
				if err := r.admit(ex); err != nil {
					return nil, err
				}
			}
			return next(ex)
		}
	}
}

func (r *Rate) admit(ex *proxy.Exchange) error {
	now := r.now(ex)
	if r.clients != nil {
		wait, left := r.clients.bucket(whoAsks(&ex.Caller), now).take(now)
		ex.Allowance = 1 + left
		if wait > 0 {
			return r.refuse("client", wait, "this client has sent more than %d requests in a minute, or %d at once; security.rate_limit and rate_limit_burst set that", r.opt.PerMinute, r.opt.Burst)
		}
	}
	if r.total != nil {
		if wait, _ := r.total.take(now); wait > 0 {
			return r.refuse("total", wait, "all clients together have sent more than %d requests in a minute; limits.rate sets that", r.opt.Total)
		}
	}
	return nil
}

// now returns the time of an exchange on the buckets' clock.
func (r *Rate) now(ex *proxy.Exchange) int64 {
	if r.given {
		return r.since(r.opt.Now())
	}
	return r.since(ex.Clock.Now())
}

// gate returns the time of a request at a gate on the buckets' clock.
func (r *Rate) gate(h *proxy.Head) int64 {
	if r.given {
		return r.since(r.opt.Now())
	}
	return r.since(h.Now())
}

func (r *Rate) since(at time.Time) int64 { return int64(at.Sub(r.began)) }

// Gate returns the gate that refuses requests of an address that sends too many. It runs before all other checks, so
// that floods and guesses at credentials cost little. It is nil without such a limit.
func (r *Rate) Gate() proxy.Gate {
	if r.addrs == nil {
		return nil
	}
	return func(h *proxy.Head) *proxy.Error {
		now := r.gate(h)
		if wait, _ := r.addrs.bucket(asking{addr: h.Address}, now).take(now); wait > 0 {
			err := r.refuse("address", wait, "this address has sent more than %d requests in a minute; security.address_rate_limit sets that", r.opt.Address)
			err.Status = 429
			return err
		}
		return nil
	}
}

// Where returns the gate that records the address of each caller, by which anonymous clients are limited. It is nil
// without a limit per client.
func (r *Rate) Where() proxy.Gate {
	if r.clients == nil {
		return nil
	}
	return func(h *proxy.Head) *proxy.Error {
		h.Caller.Address = h.Address
		return nil
	}
}

// refuse counts a request above a limit, and returns its error. wait is how long until the next token.
func (r *Rate) refuse(limit string, wait time.Duration, format string, args ...any) *proxy.Error {
	r.refused.WithLabelValues(limit).Inc()
	err := proxy.Errf(proxy.TooFast, format, args...)
	err.RetryAfter = int(math.Ceil(wait.Seconds()))
	return err
}

// Tools returns the policy that limits the calls of an upstream's tools per minute, by all clients together. The tools
// that match a pattern share one bucket, so that inventing names gains nothing. It is nil without rules.
func (r *Rate) Tools(server string, perMinute map[string]int) proxy.Policy {
	if len(perMinute) == 0 {
		return nil
	}
	buckets := make(map[string]*bucket, len(perMinute))
	for name, n := range perMinute {
		buckets[name] = newBucket(n, n)
	}
	rules := policies.NewPatterns(buckets)
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Msg.Kind == wire.Request && ex.Msg.Is("tools/call") {
				if l, ok := rules.Find(ex.Msg.Text(ex.Msg.Name)); ok {
					if wait, _ := l.take(r.now(ex)); wait > 0 {
						return nil, r.refuse("tool", wait, "tool %q is called more often than upstreams.%s.tools lets it be, by all clients together: its rate_limit is of a minute", policies.About(&ex.Msg), server)
					}
				}
			}
			return next(ex)
		}
	}
}
