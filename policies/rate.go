package policies

import (
	"math"
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// RateOptions say how many requests may come. A rate of 0 is no limit.
type RateOptions struct {
	PerMinute int              // of one client: of its principal, or its address where nobody knows who it is
	Burst     int              // of these at once (seed 001, rate_limit_burst)
	Total     int              // of all clients, a minute
	Address   int              // of one address, a minute, whoever asks: HTTP requests of all kinds, judged by their head
	Clients   int              // told apart at a time, the least recently seen is forgotten; 0: 100 000
	Now       func() time.Time // nil: time.Now
}

// Rate limits requests by token buckets: each holds its burst at most, and gets its rate back over a minute. Notifications,
// answers and pings are free.
type Rate struct {
	opt     RateOptions
	clients *lru.Cache[client, *rate.Limiter] // nil: no limit
	total   *rate.Limiter                     // nil: no limit
	addrs   *lru.Cache[client, *rate.Limiter] // nil: no limit
	refused *prometheus.CounterVec
}

// client is one whose requests are counted together.
type client struct {
	principal string
	addr      netip.Prefix // of the anonymous
}

const rateClients = 100_000

// NewRate registers its metric with reg.
func NewRate(opt RateOptions, reg prometheus.Registerer) (*Rate, error) {
	if opt.Clients == 0 {
		opt.Clients = rateClients
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	r := &Rate{opt: opt, refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dragoman_rate_limited_total",
		Help: "Requests refused by a rate limit: client, total, tool or address."}, []string{"limit"})}
	var err error
	if r.clients, err = cacheIf(opt.PerMinute > 0, opt.Clients); err != nil {
		return nil, err
	}
	if r.addrs, err = cacheIf(opt.Address > 0, opt.Clients); err != nil {
		return nil, err
	}
	if opt.Total > 0 {
		r.total = bucket(opt.Total, opt.Total)
	}
	r.refused, err = registered(reg, r.refused)
	return r, err
}

func cacheIf(on bool, size int) (*lru.Cache[client, *rate.Limiter], error) {
	if !on {
		return nil, nil //nolint:nilnil // it is off
	}
	return lru.New[client, *rate.Limiter](size)
}

// bucket is a limiter of so many a minute.
func bucket(perMinute, burst int) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(float64(perMinute)/60), max(1, burst))
}

// Policy refuses what one client sends too fast, or all together do. It is nil without such a limit.
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
	now := r.opt.Now()
	if r.clients != nil {
		own := of(r.clients, clientOf(ex.Caller), r.opt.PerMinute, r.opt.Burst)
		ex.Allowance = 1
		if wait := take(own, now); wait > 0 {
			return r.refuse("client", wait, "this client has sent more than %d requests in a minute, or %d at once; security.rate_limit and rate_limit_burst set that", r.opt.PerMinute, r.opt.Burst)
		}
		ex.Allowance = 1 + max(0, int(own.TokensAt(now)))
	}
	if r.total != nil {
		if wait := take(r.total, now); wait > 0 {
			return r.refuse("total", wait, "all clients together have sent more than %d requests in a minute; limits.rate sets that", r.opt.Total)
		}
	}
	return nil
}

// Gate refuses requests of an address that sends too many, before anything else is asked of them: who floods, or guesses
// credentials. It is nil without such a limit.
func (r *Rate) Gate() proxy.Gate {
	if r.addrs == nil {
		return nil
	}
	return func(h *proxy.Head) *proxy.Error {
		own := of(r.addrs, client{addr: network(h.Address)}, r.opt.Address, r.opt.Address)
		if wait := take(own, r.opt.Now()); wait > 0 {
			err := r.refuse("address", wait, "this address has sent more than %d requests in a minute; security.address_rate_limit sets that", r.opt.Address)
			err.Status = 429
			return err
		}
		return nil
	}
}

// Where has callers carry their address, for limits of those who are nobody in particular. It is nil if nobody asks for it.
func (r *Rate) Where() proxy.Gate {
	if r.clients == nil {
		return nil
	}
	return func(h *proxy.Head) *proxy.Error {
		h.Caller.Address = h.Address
		return nil
	}
}

func clientOf(c proxy.Caller) client {
	if c.Principal != "" && (c.Carried == nil || !c.Carried.Alone) { // what anybody can make up gives nobody another bucket
		return client{principal: c.Principal}
	}
	return client{addr: network(c.Address)}
}

// of is a client's bucket, made if there is none.
func of(in *lru.Cache[client, *rate.Limiter], k client, perMinute, burst int) *rate.Limiter {
	if l, ok := in.Get(k); ok {
		return l
	}
	l := bucket(perMinute, burst)
	if was, ok, _ := in.PeekOrAdd(k, l); ok {
		return was
	}
	return l
}

// network is what one client can take addresses from as it likes: all of a /64 in IPv6.
func network(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, err := a.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{} // a Unix socket's clients are one
	}
	return p
}

// take takes a token, or answers how long it is until there is one.
func take(l *rate.Limiter, now time.Time) time.Duration {
	if l.AllowN(now, 1) {
		return 0
	}
	missing := 1 - l.TokensAt(now)
	return max(time.Millisecond, time.Duration(missing/float64(l.Limit())*float64(time.Second)))
}

// refuse is the error of a request that came too soon.
func (r *Rate) refuse(limit string, wait time.Duration, format string, args ...any) *proxy.Error {
	r.refused.WithLabelValues(limit).Inc()
	err := proxy.Errf(proxy.TooFast, format, args...)
	err.RetryAfter = int(math.Ceil(wait.Seconds()))
	return err
}

// Tools limits the calls of an upstream's tools, of all clients together, a minute. A pattern has one bucket for all that it stands
// for: nobody can make more of them by inventing names. It is nil without rules.
func (r *Rate) Tools(server string, perMinute map[string]int) proxy.Policy {
	if len(perMinute) == 0 {
		return nil
	}
	buckets := make(map[string]*rate.Limiter, len(perMinute))
	for name, n := range perMinute {
		buckets[name] = bucket(n, n)
	}
	rules := NewRules(buckets)
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Msg.Kind == wire.Request && ex.Msg.Is("tools/call") {
				if l, ok := rules.Find(ex.Msg.Text(ex.Msg.Name)); ok {
					if wait := take(l, r.opt.Now()); wait > 0 {
						return nil, r.refuse("tool", wait, "tool %q is called more often than upstreams.%s.tools lets it be, by all clients together: its rate_limit is of a minute", about(&ex.Msg), server)
					}
				}
			}
			return next(ex)
		}
	}
}
