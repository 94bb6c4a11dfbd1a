package limits

import (
	"net/netip"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"dragoman/proxy"
)

// client is one whose requests are counted together.
type client struct {
	principal string
	addr      netip.Prefix // of the anonymous
}

// asking is a client as a request shows it: one of several addresses of a client's, if the principal is empty.
type asking struct {
	principal string
	addr      netip.Addr
}

func (a asking) client() client {
	if a.principal != "" {
		return client{principal: a.principal}
	}
	return client{addr: network(a.addr)}
}

// clients are the buckets of those who ask; the least recently seen are forgotten. Who has asked lately is found without the lock that all
// others come for, and without a sum over who he is.
type clients struct {
	perMinute, burst int
	all              *lru.Cache[client, *bucket]
	recent           [1 << 8]atomic.Pointer[recently]
}

// recently is one who has asked lately. Only seen changes.
type recently struct {
	who  asking
	of   *bucket
	seen atomic.Int64 // when he was looked up among all, by the buckets' clock
}

// recentTime is how long nobody else is told that one asks again: by so much he may seem to have been away for longer.
const recentTime = int64(time.Second)

func newClients(perMinute, burst, size int) (*clients, error) {
	if perMinute <= 0 {
		return nil, nil //nolint:nilnil // it is off
	}
	all, err := lru.New[client, *bucket](size)
	return &clients{perMinute: perMinute, burst: burst, all: all}, err
}

// bucket is that of one who asks now.
func (c *clients) bucket(who asking, now int64) *bucket {
	place := &c.recent[who.place()%uint(len(c.recent))]
	r := place.Load()
	fresh := r != nil && now-r.seen.Load() < recentTime
	switch {
	case r != nil && r.who == who && fresh:
		return r.of
	case r != nil && r.who == who:
		r.seen.Store(now)
		if of := c.find(who.client(), r.of); of == r.of {
			return of
		}
	case fresh:
		return c.find(who.client(), nil)
	}
	r = &recently{who: who, of: c.find(who.client(), nil)}
	r.seen.Store(now)
	place.Store(r)
	return r.of
}

// place is a number that others most likely do not have. It need not be one that nobody can aim at: of two with the same one, one is only
// found as it would be without.
func (a asking) place() uint {
	if n := len(a.principal); n > 0 {
		return uint(n) + 31*uint(a.principal[n-1]) + 7*uint(a.principal[n/2]) //nolint:gosec // a length
	}
	b := a.addr.As16()
	return uint(b[15]) + 31*uint(b[14]) + 7*uint(b[7])
}

// find gives a client's bucket. If there is none, it is the one that is known, or made.
func (c *clients) find(k client, known *bucket) *bucket {
	if l, ok := c.all.Get(k); ok {
		return l
	}
	if known == nil {
		known = newBucket(c.perMinute, c.burst)
	}
	if was, ok, _ := c.all.PeekOrAdd(k, known); ok {
		return was
	}
	return known
}

// whoAsks is whose bucket a request takes from.
func whoAsks(c *proxy.Caller) asking {
	if c.Principal != "" && (c.Forwarded == nil || !c.Forwarded.Alone) { // what anybody can make up gives nobody another bucket
		return asking{principal: c.Principal}
	}
	return asking{addr: c.Address}
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
