package catalog

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"dragoman/adapters/rest/mcpcall"
	"dragoman/proxy"
)

const (
	maxLists = 256
	// fresh is the maximum age of a list that refuses a call; an older one is fetched again first.
	fresh = time.Second
	// largeList is the size in bytes from which the fetching of a list is limited: see List.rest.
	largeList = 256 << 10
)

// listCache keeps the lists by server and caller. Each is fetched by one goroutine at a time.
type listCache struct {
	mu      sync.Mutex
	lists   *Sized[string, *List]
	flights map[string]*flight
}

// flight is a fetch in progress.
type flight struct {
	at   time.Time
	done chan struct{}
	list *List
	err  error
}

func newListCache() *listCache {
	return &listCache{lists: NewSized[string, *List](maxLists), flights: map[string]*flight{}}
}

// get returns the cached list if good accepts it, or else fetches one. Callers that need the same list share one fetch, which must
// have begun at or after since. While another caller fetches, those that take an outdated list get the cached one.
func (c *Catalog) get(o *mcpcall.Origin, since time.Time, outdated bool, good func(*List) bool) (*List, error) {
	cache, key := c.lists, cacheKey(o)
	for {
		cache.mu.Lock()
		l, ok := cache.lists.Get(key)
		f := cache.flights[key]
		if ok && (good(l) || outdated && f != nil) {
			cache.mu.Unlock()
			return l, nil
		}
		if f == nil || f.at.Before(since) {
			f = &flight{at: c.opt.Now(), done: make(chan struct{})}
			cache.flights[key] = f
			cache.mu.Unlock()
			c.fetchFlight(o, key, f)
			return f.list, f.err
		}
		cache.mu.Unlock()
		if err := o.Wait(f.done); err != nil {
			return nil, err
		}
		if !errors.Is(f.err, proxy.ErrCancelled) { // else the caller that fetched has left, and the next one fetches
			return f.list, f.err
		}
	}
}

// fetchFlight fetches a list. The flight ends even if that panics.
func (c *Catalog) fetchFlight(o *mcpcall.Origin, key string, f *flight) {
	f.err = proxy.Errf(proxy.Internal, "internal error; the log of Dragoman has the cause")
	defer c.lists.endFlight(key, f)
	if f.list, f.err = c.fetch(o, f.at); f.err == nil && f.list.size >= largeList {
		f.list.rest = min(10*c.opt.Now().Sub(f.at), c.opt.TTL)
	}
}

// endFlight ends a flight and keeps its list.
func (c *listCache) endFlight(key string, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights[key] == f {
		delete(c.flights, key)
	}
	close(f.done)
	if f.err != nil || f.list.useFor <= 0 {
		return
	}
	if old, ok := c.lists.Peek(key); !ok || !old.at.After(f.list.at) {
		c.lists.Put(key, f.list)
	}
}

// Listed returns the tools as they may be shown to the caller.
func (c *Catalog) Listed(o *mcpcall.Origin) (*List, error) {
	now := c.opt.Now()
	return c.get(o, time.Time{}, false, func(l *List) bool { return now.Sub(l.at) < max(l.showFor, l.rest) })
}

// known returns the tools by which a call is checked first. An outdated list does no harm: see called.
func (c *Catalog) known(o *mcpcall.Origin) (*List, error) {
	now := c.opt.Now()
	return c.get(o, time.Time{}, true, func(l *List) bool { return now.Sub(l.at) < l.useFor })
}

// renewed returns l if it is no older than fresh, or its rest, else a new list.
func (c *Catalog) renewed(o *mcpcall.Origin, l *List) (*List, error) {
	now := c.opt.Now()
	good := func(l *List) bool { return now.Sub(l.at) < max(fresh, l.rest) }
	if good(l) {
		return l, nil
	}
	return c.get(o, now.Add(-fresh), false, good)
}

// cacheKey identifies the list of a caller. What a server shows can depend on the caller's credentials.
func cacheKey(o *mcpcall.Origin) string {
	key := o.Server + "\x00" + string(o.Caller.Identity().Append(nil))
	if rights := o.Caller.Rights; rights != nil {
		key += "\x00" + rights.Kind + "\x00" + rights.Name + "\x00" + strings.Join(rights.Scopes, " ")
	}
	return key
}

// MaxBytes bounds the values in one Sized. A larger value is not kept.
const MaxBytes = 64 << 20

// Sized is a cache of values that are costly to make, bounded by number and by bytes. It drops the least recently used value first.
// It is not safe for concurrent use.
type Sized[K comparable, V interface{ Bytes() int }] struct {
	*simplelru.LRU[K, V]
	size int
}

// NewSized makes a cache of at most entries values.
func NewSized[K comparable, V interface{ Bytes() int }](entries int) *Sized[K, V] {
	s := &Sized[K, V]{}
	s.LRU, _ = simplelru.NewLRU(entries, func(_ K, v V) { s.size -= v.Bytes() }) // fails only for sizes below 1
	return s
}

// Put stores a value and drops what has no room beside it.
func (s *Sized[K, V]) Put(key K, v V) {
	s.Remove(key)
	if v.Bytes() > MaxBytes {
		return
	}
	s.size += v.Bytes()
	s.Add(key, v)
	for s.size > MaxBytes {
		s.RemoveOldest()
	}
}
