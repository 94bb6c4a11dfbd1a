// Package cache answers requests from results that servers declare reusable.
package cache

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Options configures a [Cache].
type Options struct {
	Bytes int           // limit on everything that is kept; 0: there is no cache
	TTL   time.Duration // longest time that a result is kept, whatever the server says; 0: a day
}

// Cache keeps results for as long as servers allow (2026-07-28 caching): public ones for all callers, private ones for
// their principal. A server's change notification drops the results that it concerns. Only requests of modern clients
// are served: results for legacy clients have another form, without cache members.
type Cache struct {
	opt   Options
	looks *prometheus.CounterVec

	mu    sync.Mutex
	lru   *simplelru.LRU[resultKey, *keptResult]
	bytes int
	// changes counts the change notifications of each server. A result whose request was under way when one arrived may
	// be out of date.
	changes map[string]uint64
}

// resultKey is the key of a result.
type resultKey struct {
	server, method string
	who            proxy.Identity // of a private result; zero for a public one
	public         bool
	rest           string // the other parts of the request that the result depends on
}

type keptResult struct {
	raw   []byte // the response, with its request's id
	uri   string // of resources/read
	until time.Time
}

const (
	maxKept     = 4 << 20 // largest result, in bytes
	maxKeptName = 4 << 10 // largest params of a request, in bytes, since they are part of the key
	keptCost    = 256     // approximate overhead of a result, in bytes
)

// invalidatedBy maps each method whose result may be cached to the notification that makes it out of date.
var invalidatedBy = map[string]string{
	"server/discover": "", "tools/list": "notifications/tools/list_changed", "prompts/list": "notifications/prompts/list_changed",
	"resources/list": "notifications/resources/list_changed", "resources/templates/list": "notifications/resources/list_changed",
	"resources/read": "notifications/resources/updated",
}

// New returns a cache whose metrics are registered with reg, or nil if opt.Bytes is 0.
func New(opt Options, reg prometheus.Registerer) (*Cache, error) {
	if opt.Bytes <= 0 {
		return nil, nil //nolint:nilnil // it is off
	}
	if opt.TTL <= 0 {
		opt.TTL = 24 * time.Hour
	}
	m := policies.NewRegistry(reg)
	c := &Cache{opt: opt, changes: make(map[string]uint64), looks: m.Counter("dragoman_cache_total",
		"Requests that could be answered from the cache: hit or miss; results kept; results dropped because the server reported a change.", "server", "what")}
	m.Gauge("dragoman_cache_bytes", "Size of the cached results in bytes.", func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.bytes
	})
	c.lru, _ = simplelru.NewLRU(opt.Bytes/keptCost+1, func(k resultKey, r *keptResult) { c.bytes -= size(k, r) }) // fails only for a size below 1
	return c, m.Err()
}

func size(k resultKey, r *keptResult) int {
	return keptCost + len(k.rest) + len(k.who.Principal) + len(r.raw) + len(r.uri)
}

// Policy returns the policy that answers requests to one server from the cache. It runs inside everything that decides
// who may see what. It is nil for a nil Cache.
func (c *Cache) Policy(server string) proxy.Policy {
	if c == nil {
		return nil
	}
	hit, miss, keeps := c.looks.WithLabelValues(server, "hit"), c.looks.WithLabelValues(server, "miss"), c.looks.WithLabelValues(server, "kept")
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			m := &ex.Msg
			if m.Kind == wire.Request && m.Is("subscriptions/listen") {
				replies, err := next(ex)
				if err == nil {
					replies = &listenReplies{replies, c, server}
				}
				return replies, err
			}
			k, ok := keyOf(ex, server)
			if !ok {
				return next(ex)
			}
			if replies := c.find(ex, k); replies != nil {
				hit.Inc()
				return replies, nil
			}
			miss.Inc()
			changes := c.changesOf(server)
			replies, err := next(ex)
			if err == nil {
				replies = &keepingReplies{Replies: replies, c: c, ex: ex, k: k, uri: string(m.Text(m.URI)), changes: changes, keeps: keeps}
			}
			return replies, err
		}
	}
}

// keyOf returns the key of a request's result. ok is false if the result must not be kept, as that of a retry with
// input responses (2026-07-28 caching, Cache Key).
func keyOf(ex *proxy.Exchange, server string) (k resultKey, ok bool) {
	m := &ex.Msg
	if m.Kind != wire.Request || ex.Client.Era != proxy.Modern || m.InputResponses.Present() || m.ReqState.Present() || len(m.Edits) > 0 {
		return k, false
	}
	method := string(m.Text(m.Method))
	if _, ok = invalidatedBy[method]; !ok || m.Params.To-m.Params.From > maxKeptName {
		return k, false
	}
	var rest strings.Builder
	rest.WriteString(ex.Client.Version)
	for key, value := range wire.Members(m.Raw, m.Params) {
		if value == m.Meta {
			continue
		}
		rest.WriteByte(0)
		rest.Write(m.Raw[key.From:value.To])
	}
	for key, value := range wire.Members(m.Raw, m.Meta) {
		if policies.VariesByAttempt(m.Raw, key) || value == m.Info || value == m.LogLevel || value == m.Version {
			continue
		}
		rest.WriteByte(1)
		rest.Write(m.Raw[key.From:value.To])
	}
	return resultKey{server: server, method: method, who: ex.Caller.Identity(), rest: rest.String()}, true
}

// find returns the cached result as the reply to a request, or nil.
func (c *Cache) find(ex *proxy.Exchange, k resultKey) proxy.Replies {
	now := time.Now()
	c.mu.Lock()
	r, ok := c.lru.Get(k)
	if !ok {
		shared := k
		shared.public, shared.who = true, proxy.Identity{}
		r, ok = c.lru.Get(shared)
		k = shared
	}
	if ok && !now.Before(r.until) {
		c.lru.Remove(k)
		ok = false
	}
	c.mu.Unlock()
	if !ok {
		return nil
	}
	m, err := wire.Scan(r.raw)
	if err != nil {
		return nil // cannot happen: it was scanned when it was kept
	}
	m.Replace(m.ID, ex.Msg.Of(ex.Msg.ID))
	left := strconv.FormatInt(r.until.Sub(now).Milliseconds(), 10)
	m.Replace(wire.Get(m.Raw, m.Result, "ttlMs"), []byte(left)) // the rest of the time that the server allowed
	return proxy.Reply(m)
}

func (c *Cache) changesOf(server string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes[server]
}

// keep stores a result and reports whether it did. It does not if a change was announced while the request was under
// way.
func (c *Cache) keep(k resultKey, r *keptResult, changes uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes[k.server] != changes {
		return false
	}
	c.lru.Remove(k)
	c.lru.Add(k, r)
	c.bytes += size(k, r)
	for c.bytes > c.opt.Bytes {
		c.lru.RemoveOldest()
	}
	return c.lru.Contains(k)
}

// Changed drops the results that a server's change notification concerns. It ignores other messages.
func (c *Cache) Changed(server string, m *wire.Message) {
	if c == nil || m.Kind != wire.Notification {
		return
	}
	notice := string(m.Text(m.Method))
	uri := string(m.Text(m.URI))
	if notice == "" || !slices.Contains(slices.Collect(maps.Values(invalidatedBy)), notice) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes[server]++
	for _, k := range c.lru.Keys() {
		if k.server != server || invalidatedBy[k.method] != notice {
			continue
		}
		// The notification may be about a whole of which the resource is a part (2026-07-28 resources, Subscriptions).
		if r, ok := c.lru.Peek(k); ok && (k.method != "resources/read" || strings.HasPrefix(r.uri, uri)) {
			c.lru.Remove(k)
			c.looks.WithLabelValues(server, "changed").Inc()
		}
	}
}

// Forget drops all results of a server that has been replaced or removed. Results that are under way are not kept.
func (c *Cache) Forget(server string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes[server]++
	for _, k := range c.lru.Keys() {
		if k.server == server {
			c.lru.Remove(k)
		}
	}
}

// keepingReplies wraps replies and keeps their result.
type keepingReplies struct {
	proxy.Replies
	c       *Cache
	ex      *proxy.Exchange
	k       resultKey
	uri     string
	changes uint64
	keeps   prometheus.Counter
}

// Next implements proxy.Replies.
func (r *keepingReplies) Next(until time.Time) (*wire.Message, error) {
	m, err := r.Replies.Next(until)
	if err == nil && m.Kind == wire.Result && m.Size() <= maxKept && (r.ex.Target == "" || r.ex.Target == r.k.server) { // not the result of a fallback
		r.keep(m)
	}
	return m, err
}

func (r *keepingReplies) keep(m *wire.Message) {
	raw := m.Append(nil)
	own, err := wire.Scan(raw)
	if err != nil || !own.ResultType.Is(raw, "complete") && own.ResultType.Present() {
		return
	}
	ttl, err := strconv.ParseInt(string(wire.Get(raw, own.Result, "ttlMs").Of(raw)), 10, 64)
	if err != nil || ttl <= 0 {
		return
	}
	k := r.k
	if k.public = wire.Get(raw, own.Result, "cacheScope").Is(raw, "public"); k.public {
		k.who = proxy.Identity{}
	}
	longest := min(time.Duration(min(ttl, r.c.opt.TTL.Milliseconds()))*time.Millisecond, r.c.opt.TTL)
	if r.c.keep(k, &keptResult{raw: raw, uri: r.uri, until: time.Now().Add(longest)}, r.changes) {
		r.keeps.Inc()
	}
}

// listenReplies wraps the replies to a listen and acts on the change notifications among them.
type listenReplies struct {
	proxy.Replies
	c      *Cache
	server string
}

// Next implements proxy.Replies.
func (h *listenReplies) Next(until time.Time) (*wire.Message, error) {
	m, err := h.Replies.Next(until)
	if err == nil {
		h.c.Changed(h.server, m)
	}
	return m, err
}
