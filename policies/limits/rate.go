// Package limits bounds how much comes and runs: rates, concurrent requests, open listens, and the silence of servers.
package limits

import (
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// RateOptions configures a [Rate]. A rate of 0 is no limit.
type RateOptions struct {
	PerMinute int // of one client: by its principal, or by its address if it is anonymous
	Burst     int // of one client at once (seed 001, rate_limit_burst)
	Total     int // of all clients together, a minute
	// Principals are the rates of principals that have one of their own, in the place of PerMinute, a minute.
	Principals map[string]int
	Address    int // of one address, a minute, with any credential: HTTP requests of all kinds, limited before their body is read
}

// Rate limits requests by token buckets. A bucket holds its burst at most, and gains its rate over a minute.
// Notifications, responses and pings are free.
type Rate struct {
	opt     RateOptions
	began   time.Time          // zero of the buckets' clock
	clients *clients           // nil: no limit
	own     map[string]*bucket // of Principals
	total   *bucket            // nil: no limit
	addrs   *clients           // nil: no limit
	refused *prometheus.CounterVec
}

// rateClients is how many clients are told apart. The least recently seen is forgotten.
const rateClients = 100_000

// NewRate returns the limiter, its metric registered with reg.
func NewRate(opt RateOptions, reg prometheus.Registerer) (*Rate, error) {
	m := policies.NewRegistry(reg)
	r := &Rate{opt: opt, began: time.Now(), refused: m.Counter("dragoman_rate_limited_total",
		"Requests refused by a rate limit, by limit (client, total, tool or address).", "limit"),
		clients: newClients(opt.PerMinute, opt.Burst, rateClients), addrs: newClients(opt.Address, opt.Address, rateClients)}
	for name, n := range opt.Principals {
		if r.own == nil {
			r.own = make(map[string]*bucket, len(opt.Principals))
		}
		r.own[name] = newBucket(n, min(n, max(opt.Burst, 1)))
	}
	if opt.Total > 0 {
		r.total = newBucket(opt.Total, opt.Total)
	}
	return r, m.Err()
}

// Policy returns the policy that refuses requests above the rate of one client, or of all clients together. It is nil
// without such a limit.
func (r *Rate) Policy() proxy.Policy {
	if r.clients == nil && r.total == nil && r.own == nil {
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
	now := r.since(ex.Clock.Now())
	if own := r.own[ex.Caller.Principal]; own != nil {
		wait, left := own.take(now)
		ex.Allowance = 1 + left
		if wait > 0 {
			return r.refuse("client", wait, "this client has sent more than the %d requests in a minute that its key may send; security.api_keys.NAME.rate_limit sets that, and rate_limit_burst how many at once",
				r.opt.Principals[ex.Caller.Principal])
		}
	} else if r.clients != nil {
		wait, left := r.clients.bucket(senderOf(&ex.Caller), now).take(now)
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

// since returns a time on the buckets' clock.
func (r *Rate) since(at time.Time) int64 { return int64(at.Sub(r.began)) }

// Gate returns the gate that refuses requests of an address that sends too many. It runs before all other checks, so
// that floods and guesses at credentials cost little. It is nil without such a limit.
func (r *Rate) Gate() proxy.Gate {
	if r.addrs == nil {
		return nil
	}
	return func(h *proxy.Head) *proxy.Error {
		now := r.since(h.Now())
		if wait, _ := r.addrs.bucket(sender{addr: h.Address}, now).take(now); wait > 0 {
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
					if wait, _ := l.take(r.since(ex.Clock.Now())); wait > 0 {
						return nil, r.refuse("tool", wait, "tool %q is called more often than upstreams.%s.tools lets it be, by all clients together: its rate_limit is of a minute", policies.About(&ex.Msg), server)
					}
				}
			}
			return next(ex)
		}
	}
}

// bucket is a token bucket like that of golang.org/x/time/rate, without the cost of waiting and reservations: every
// request takes from up to three.
type bucket struct {
	burst   float64
	perNano float64 // tokens added per nanosecond

	mu     sync.Mutex
	tokens float64
	last   int64 // time of that count, in nanoseconds of the owner's clock
}

// newBucket returns a full bucket of burst tokens that gains perMinute tokens a minute.
func newBucket(perMinute, burst int) *bucket {
	most := float64(max(1, burst))
	return &bucket{burst: most, perNano: float64(perMinute) / float64(time.Minute), tokens: most}
}

// take takes a token and returns how many are left. If there is none, it returns how long until the next one, at least
// a millisecond. A token that is due within the same nanosecond is there.
func (b *bucket) take(now int64) (wait time.Duration, left int) {
	b.mu.Lock()
	tokens := min(b.burst, b.tokens+float64(max(0, now-b.last))*b.perNano)
	if tokens < 1 {
		if missing := (1 - tokens) / b.perNano; missing >= 1 {
			b.mu.Unlock()
			return max(time.Millisecond, time.Duration(missing)), 0
		}
	}
	b.tokens, b.last = tokens-1, max(now, b.last)
	b.mu.Unlock()
	return 0, max(0, int(tokens-1))
}
