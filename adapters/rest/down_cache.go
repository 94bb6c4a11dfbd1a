package rest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"dragoman/proxy"
)

// Bounds of what is kept of lists, and likewise of the documents made of them. Of either one that takes all the room is kept
// alone.
const (
	cachedLists = 256
	cachedBytes = 64 << 20
	// justNow is how old a list may be that a call is refused by; an older one is fetched anew first.
	justNow = time.Second
)

// shelf keeps what is costly to make again, within a number and within bytes: what was not used for longest goes first. It is not
// safe for concurrent use.
type shelf[K comparable, V interface{ bytes() int }] struct {
	*simplelru.LRU[K, V]
	size int
}

func newShelf[K comparable, V interface{ bytes() int }](most int) (*shelf[K, V], error) {
	s := &shelf[K, V]{}
	var err error
	s.LRU, err = simplelru.NewLRU(most, func(_ K, v V) { s.size -= v.bytes() })
	return s, err
}

// put keeps a value in the place of the one before it, unless it is too large for any.
func (s *shelf[K, V]) put(key K, v V) {
	s.Remove(key)
	if v.bytes() > cachedBytes {
		return
	}
	s.size += v.bytes()
	s.Add(key, v)
	for s.size > cachedBytes {
		s.RemoveOldest()
	}
}

// listCache keeps the lists of tools, by server and caller, and sees to it that each is fetched once at a time.
type listCache struct {
	mu      sync.Mutex
	lists   *shelf[string, *toolList]
	flights map[string]*flight
}

// flight is a fetch under way.
type flight struct {
	at   time.Time
	done chan struct{}
	list *toolList
	err  error
}

func newListCache() (*listCache, error) {
	c := &listCache{flights: map[string]*flight{}}
	var err error
	c.lists, err = newShelf[string, *toolList](cachedLists)
	return c, err
}

// get answers a list that good accepts, from the cache or else from fetch; several that want it at once share one fetch, which
// must have begun at or after since.
func (c *listCache) get(q *inquiry, key string, since time.Time, good func(*toolList) bool) (*toolList, error) {
	for {
		c.mu.Lock()
		if l, ok := c.lists.Get(key); ok && good(l) {
			c.mu.Unlock()
			return l, nil
		}
		f := c.flights[key]
		if f == nil || f.at.Before(since) {
			f = &flight{at: q.d.opt.Now(), done: make(chan struct{})}
			c.flights[key] = f
			c.mu.Unlock()
			c.fly(q, key, f)
			return f.list, f.err
		}
		c.mu.Unlock()
		if err := c.wait(q, f); err != nil {
			return nil, err
		}
		if !errors.Is(f.err, proxy.ErrCancelled) { // else who fetched has left; whoever is first now takes over
			return f.list, f.err
		}
	}
}

// fly fetches a list. Whatever becomes of that, nobody waits for it afterwards.
func (c *listCache) fly(q *inquiry, key string, f *flight) {
	f.err = proxy.Errf(proxy.Internal, "internal error; the log of Dragoman has the cause")
	defer c.land(key, f)
	f.list, f.err = q.fetchTools(f.at)
}

// wait waits for the end of a flight, as long as the caller does.
func (c *listCache) wait(q *inquiry, f *flight) error {
	late := time.NewTimer(time.Until(q.end))
	defer late.Stop()
	select {
	case <-f.done:
		return nil
	case <-q.life.Done():
		return context.Cause(q.life)
	case <-late.C:
		return proxy.Overdue(q.d.opt.Cap)
	}
}

// land ends a flight.
func (c *listCache) land(key string, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights[key] == f {
		delete(c.flights, key)
	}
	close(f.done)
	if f.err != nil || f.list.ttl <= 0 {
		return
	}
	if old, ok := c.lists.Peek(key); !ok || !old.at.After(f.list.at) {
		c.lists.put(key, f.list)
	}
}

// listed answers the tools as they may be shown.
func (q *inquiry) listed() (*toolList, error) {
	now := q.d.opt.Now()
	return q.d.lists.get(q, q.place(), time.Time{}, func(l *toolList) bool { return now.Sub(l.at) < l.shown })
}

// known answers the tools for a call. A list that may be out of date does no harm here: nothing is refused by it.
func (q *inquiry) known() (*toolList, error) {
	now := q.d.opt.Now()
	return q.d.lists.get(q, q.place(), time.Time{}, func(l *toolList) bool { return now.Sub(l.at) < l.ttl })
}

// renewed answers l if it is no older than a second, else a fresh list.
func (q *inquiry) renewed(l *toolList) (*toolList, error) {
	now := q.d.opt.Now()
	if now.Sub(l.at) < justNow {
		return l, nil
	}
	return q.d.lists.get(q, q.place(), now.Add(-justNow), func(l *toolList) bool { return now.Sub(l.at) < justNow })
}

// place is the key of the caller's list: what a caller may see can depend on what it presented.
func (q *inquiry) place() string {
	key := q.server + "\x00" + q.caller.Principal
	if rights := q.caller.Rights; rights != nil {
		key += "\x00" + rights.Kind + "\x00" + rights.Name + "\x00" + strings.Join(rights.Scopes, " ")
	}
	if sum := q.caller.Sum(); sum != [16]byte{} {
		key += "\x00" + string(sum[:])
	}
	return key
}
