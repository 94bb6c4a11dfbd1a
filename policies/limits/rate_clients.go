package limits

import (
	"net/netip"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"dragoman/proxy"
)

// client identifies those whose requests are counted together.
type client struct {
	principal string
	addr      netip.Prefix // of an anonymous client
}

// sender is a client as one request shows it. Without a principal, several addresses may belong to one client.
type sender struct {
	principal string
	addr      netip.Addr
}

func (a sender) client() client {
	if a.principal != "" {
		return client{principal: a.principal}
	}
	return client{addr: network(a.addr)}
}

// clients holds one bucket per client, and forgets the least recently seen. A client seen recently is found without the
// lock that all others take, and without hashing its name.
type clients struct {
	perMinute, burst int
	all              *lru.Cache[client, *bucket]
	recent           [1 << 8]atomic.Pointer[recently]
}

// recently is a client seen recently. Only seen changes.
type recently struct {
	who  sender
	of   *bucket
	seen atomic.Int64 // last look-up in all, by the buckets' clock
}

// recentTime is how long a client is found in recent before its use is noted in the LRU. By that much it may seem to
// have been away for longer. It is in nanoseconds.
const recentTime = int64(time.Second)

// newClients returns the buckets of size clients, or nil if there is no limit.
func newClients(perMinute, burst, size int) *clients {
	if perMinute <= 0 {
		return nil
	}
	all, _ := lru.New[client, *bucket](size) // fails only for a size below 1
	return &clients{perMinute: perMinute, burst: burst, all: all}
}

// bucket returns the bucket of a client that asks at now.
func (c *clients) bucket(who sender, now int64) *bucket {
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

// place is a cheap hash that selects a slot of recent. It need not resist attacks: a client whose slot is taken is only
// found more slowly.
func (a sender) place() uint {
	if n := len(a.principal); n > 0 {
		return uint(n) + 31*uint(a.principal[n-1]) + 7*uint(a.principal[n/2])
	}
	b := a.addr.As16()
	return uint(b[15]) + 31*uint(b[14]) + 7*uint(b[7])
}

// find returns the bucket of a client. If there is none yet, it adds known, or a new bucket if known is nil.
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

// senderOf returns the client whose bucket a request takes from.
func senderOf(c *proxy.Caller) sender {
	if c.Principal != "" && (c.Forwarded == nil || !c.Forwarded.Alone) { // headers that anybody can invent do not get a bucket of their own
		return sender{principal: c.Principal}
	}
	return sender{addr: c.Address}
}

// network returns the range in which one client can choose its addresses: a whole /64 in IPv6.
func network(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, err := a.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{} // all clients of a Unix socket are one
	}
	return p
}
