package subscriptions

import (
	"context"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// subscriber is a legacy session in a bridge.
type subscriber struct {
	bridge     *bridge
	own        bool           // the bridge serves this session only
	key        proxy.Identity // of the shared bridge; zero if own
	left       bool           // it has been dropped; guarded by Bridges.mu
	session    *proxy.Session
	client     proxy.Client // as sent in _meta
	caller     proxy.Caller // guarded by bridge.mu
	lists      []string     // tools, prompts, resources: the lists whose changes the server announces
	subscribes bool         // the server supports resources/subscribe

	// Under bridge.mu.
	ready bool     // the handshake is complete, so notices may be sent
	uris  []string // the resources that the session is subscribed to
}

// Options configure subscriptions across the eras.
type Options struct {
	Poll    time.Duration         // interval at which a listen polls a legacy server without a notice stream; 0 disables polling
	Timeout time.Duration         // of an acknowledgement, and of one poll request
	Changed func(m *wire.Message) // called for each notice of a bridge's listen if not nil; m is borrowed
	// Notice reports whether a caller may receive a notice, and may edit it; nil: all may.
	Notice func(who proxy.Caller, m *wire.Message) bool
}

// Server is a server that supports listens.
type Server interface {
	// Listen sends a subscriptions/listen to the server, whatever its era. ctx applies only while a link is found.
	Listen(ctx context.Context, ex *proxy.Exchange) (proxy.Replies, error)
	// Key maps a caller to the key of the processes it uses; sessions with equal keys share them.
	Key(caller proxy.Identity) proxy.Identity
	// Fault converts an error of Listen or of its replies to one for clients.
	Fault(err error) error
}

// Bridges holds the bridges of an upstream's legacy sessions.
type Bridges struct {
	opt     Options
	work    *work.Group
	server  Server
	listens atomic.Uint64 // so far; the source of their ids

	mu        sync.Mutex
	bySession map[*proxy.Session]*subscriber
	shared    map[proxy.Identity]*sharedBridge // bridges of processes, by key
}

// NewBridges returns an empty set of bridges for one server.
func NewBridges(opt Options, group *work.Group, server Server) *Bridges {
	if opt.Notice == nil {
		opt.Notice = func(proxy.Caller, *wire.Message) bool { return true }
	}
	return &Bridges{opt: opt, work: group, server: server, bySession: make(map[*proxy.Session]*subscriber), shared: make(map[proxy.Identity]*sharedBridge)}
}

// sharedBridge is a bridge and the number of its sessions. It ends with the last of them.
type sharedBridge struct {
	*bridge
	sessions int
}

func (x *Bridges) get(s *proxy.Session) *subscriber {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.bySession[s]
}

// all returns the bridges, each once.
func (x *Bridges) all() []*bridge {
	x.mu.Lock()
	defer x.mu.Unlock()
	var list []*bridge
	for _, w := range x.shared {
		list = append(list, w.bridge)
	}
	for _, m := range x.bySession {
		if m.own {
			list = append(list, m.bridge)
		}
	}
	return list
}

// put adds a session to its bridge, which it creates if necessary, and returns the entry that the session had before.
func (x *Bridges) put(m *subscriber, own bool) (before *subscriber) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before = x.bySession[m.session]
	x.bySession[m.session] = m
	if m.own = own; own {
		m.bridge = x.newBridge()
		return before
	}
	m.key = x.server.Key(m.caller.Identity())
	if x.shared[m.key] == nil {
		x.shared[m.key] = &sharedBridge{bridge: x.newBridge()}
	}
	x.shared[m.key].sessions++
	m.bridge = x.shared[m.key].bridge
	return before
}

func (x *Bridges) newBridge() *bridge {
	w := &bridge{x: x, wake: make(chan struct{}, 1)}
	w.ctx, w.cancel = context.WithCancel(x.work.Context())
	return w
}

// drop removes a session; last reports whether its bridge has no other.
func (x *Bridges) drop(m *subscriber) (last bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.bySession[m.session] == m {
		delete(x.bySession, m.session)
	}
	if m.left {
		return false
	}
	m.left = true
	if m.own {
		return true
	}
	w := x.shared[m.key]
	if w.sessions--; w.sessions == 0 {
		delete(x.shared, m.key)
	}
	return w.sessions == 0
}

// Count returns the number of subscriptions/listen open at the server on behalf of legacy sessions: at most one per
// session, and one per process.
func (x *Bridges) Count() (n int) {
	for _, w := range x.all() {
		w.mu.Lock()
		if w.current != nil {
			n++
		}
		w.mu.Unlock()
	}
	return n
}

// Join adds the session to a bridge, or gives it its own, if the server announces any changes. caps are the server
// capabilities.
func (x *Bridges) Join(ex, inner *proxy.Exchange, caps []byte, own bool) {
	all := wire.Whole(caps)
	says := func(path ...string) bool { return string(wire.Path(caps, all, path...).Of(caps)) == "true" }
	m := &subscriber{session: ex.Session, caller: ex.Caller, subscribes: says("resources", "subscribe"),
		client: proxy.Client{Era: proxy.Modern, Version: rules.ModernVersion,
			Info: slices.Clone(inner.Msg.Of(inner.Msg.Info)), Caps: slices.Clone(inner.Msg.Of(inner.Msg.Caps))}}
	for _, list := range rules.NoticeLists {
		if says(list, "listChanged") {
			m.lists = append(m.lists, list)
		}
	}
	if !m.subscribes && len(m.lists) == 0 {
		return
	}
	if before := x.put(m, own); before != nil { // the client repeated its handshake
		before.end()
	}
	m.bridge.change(func() {
		m.bridge.subscribers = append(m.bridge.subscribers, m)
		m.bridge.several = m.bridge.several || m.bridge.subscribers[0].caller.Identity() != m.caller.Identity()
	})
	m.session.OnEnd(m.end)
	m.session.OnOutlet(func() {
		// A stream that was opened before the handshake waits for notifications/initialized.
		m.bridge.change(func() { m.ready = m.ready || m.session.State() == proxy.Initialized })
	})
}

// Dismiss ends the legacy sessions that have a bridge, with cause: their subscriptions are known here only. It is called
// when another upstream replaces this one.
func (x *Bridges) Dismiss(cause *proxy.Error) {
	x.mu.Lock()
	sessions := slices.Collect(maps.Keys(x.bySession))
	x.mu.Unlock()
	for _, s := range sessions {
		s.EndFor(proxy.Closed, cause)
	}
}

// Initialized handles notifications/initialized: from now on the session may receive notices.
func (x *Bridges) Initialized(s *proxy.Session) {
	if m := x.get(s); m != nil {
		m.bridge.change(func() { m.ready = true })
	}
}

// Refresh updates the forwarded headers that the session's next listens carry.
func (x *Bridges) Refresh(ex *proxy.Exchange) {
	if ex.Caller.Forwarded == nil {
		return
	}
	if m := x.get(ex.Session); m != nil {
		m.bridge.mu.Lock()
		m.caller.Forwarded = ex.Caller.Forwarded
		m.bridge.mu.Unlock()
	}
}

// end removes the session from its bridge. It is idempotent.
func (s *subscriber) end() {
	last := s.bridge.x.drop(s)
	if s.own {
		s.bridge.cancel()
	}
	s.bridge.change(func() {
		s.bridge.retired = last
		s.ready, s.uris = false, nil
		s.bridge.subscribers = slices.DeleteFunc(s.bridge.subscribers, func(o *subscriber) bool { return o == s })
		for _, j := range slices.Concat(s.bridge.pending, s.bridge.opening) {
			if j.subscriber == s {
				j.withdrawn = true
				j.settle(errOver)
			}
		}
		if l := s.bridge.unacked; l != nil && len(s.bridge.subscribers) == 0 {
			s.bridge.unacked = nil
			close(l.abandoned)
		}
	})
	s.bridge.cancelIfIdle()
}

// cancelIfIdle ends a bridge without sessions, unless its worker still runs and will do so.
func (b *bridge) cancelIfIdle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.retired && !b.working {
		b.cancel()
	}
}

// Cancelled handles notifications/cancelled from a process, by which it ends a listen (2026-07-28 cancellation).
func (x *Bridges) Cancelled(m *wire.Message) {
	n, err := strconv.ParseUint(string(m.Of(m.RequestID)), 10, 64)
	if err != nil {
		return
	}
	for _, w := range x.all() {
		w.mu.Lock()
		for _, l := range []*listen{w.current, w.unacked} {
			if l != nil {
				l.withdraw(n)
			}
		}
		w.mu.Unlock()
	}
}

// Subscribe answers resources/subscribe once a listen that includes the resource has been acknowledged.
func (x *Bridges) Subscribe(ex *proxy.Exchange) (proxy.Replies, error) {
	m, uri, err := x.target(ex)
	if err != nil {
		return nil, err
	}
	j := &subscribeCall{subscriber: m, ex: ex, uri: uri, at: time.Now(), done: make(chan struct{})}
	m.bridge.change(func() { m.bridge.join(j) })
	return j, nil
}

// Unsubscribe answers resources/unsubscribe. The open listen keeps its filter until it is replaced; until then notices
// are filtered here.
func (x *Bridges) Unsubscribe(ex *proxy.Exchange) (proxy.Replies, error) {
	m, uri, err := x.target(ex)
	if err != nil {
		return nil, err
	}
	m.bridge.change(func() {
		m.uris = slices.DeleteFunc(m.uris, func(s string) bool { return s == uri })
		for _, j := range slices.Concat(m.bridge.pending, m.bridge.opening) {
			j.withdrawn = j.withdrawn || j.subscriber == m && j.uri == uri // it is still answered, but does not take effect
		}
	})
	return proxy.Reply(proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), []byte("{}"))), nil
}

// target returns the subscriber and the resource URI of a request.
func (x *Bridges) target(ex *proxy.Exchange) (*subscriber, string, error) {
	m := x.get(ex.Session)
	if m == nil || !m.subscribes {
		return nil, "", proxy.Errf(proxy.MethodNotFound, "the server does not have the capability resources.subscribe")
	}
	uri := string(ex.Msg.Text(ex.Msg.URI))
	if uri == "" {
		return nil, "", proxy.Errf(proxy.InvalidParams, "params.uri must be the URI of a resource")
	}
	return m, uri, nil
}

// join adds a subscription. It succeeds at once if the session has it already or the current listen includes it. The
// caller holds b.mu.
func (b *bridge) join(j *subscribeCall) {
	j.subscriber.ready = true
	switch {
	case b.ctx.Err() != nil:
		j.settle(errOver)
	case slices.Contains(j.subscriber.uris, j.uri):
		j.settle(nil)
	case !b.admit(j):
	case b.current != nil && slices.Contains(b.current.honoured, j.uri):
		j.subscriber.uris = append(j.subscriber.uris, j.uri)
		j.settle(nil)
	default:
		b.pending = append(b.pending, j)
	}
}

// admit reports whether the bounds permit one more subscription, and fails j if they do not. The caller holds b.mu.
func (b *bridge) admit(j *subscribeCall) bool {
	count, size, all := 1, len(j.uri), len(j.uri)
	add := func(m *subscriber, uri string) {
		all += len(uri)
		if m == j.subscriber {
			count, size = count+1, size+len(uri)
		}
	}
	for _, m := range b.subscribers {
		for _, uri := range m.uris {
			add(m, uri)
		}
	}
	for _, o := range slices.Concat(b.pending, b.opening) {
		add(o.subscriber, o.uri)
	}
	switch {
	case count > maxSubscribed, size > subscribedBytes:
		j.settle(proxy.Errf(proxy.InvalidParams, "more than %d subscriptions, or %d bytes of URIs, in one session; unsubscribe from some",
			maxSubscribed, subscribedBytes))
	case all > listenedBytes:
		j.settle(proxy.Errf(proxy.Overloaded, "more than %d bytes of URIs are subscribed to at the upstream server", listenedBytes))
	}
	return !j.settled
}

// subscribeCall is the Replies of one resources/subscribe.
type subscribeCall struct {
	subscriber *subscriber
	ex         *proxy.Exchange
	uri        string
	at         time.Time
	done       chan struct{} // closed by settle

	err       error // guarded by bridge.mu until done is closed
	settled   bool  // guarded by bridge.mu
	withdrawn bool  // guarded by bridge.mu: the client no longer wants it
	answered  bool
}

// settle sets the answer, once; a nil error is success. The caller holds bridge.mu.
func (c *subscribeCall) settle(err error) {
	if c.settled {
		return
	}
	c.settled, c.err = true, err
	close(c.done)
}

// Next implements proxy.Replies.
func (c *subscribeCall) Next(until time.Time) (*wire.Message, error) {
	if c.answered {
		return nil, io.EOF
	}
	select {
	case <-c.done:
	case <-c.ex.Done():
		return nil, c.ex.Err()
	case <-work.After(until):
		return nil, proxy.ErrNotYet
	}
	c.answered = true
	if c.err != nil {
		return nil, c.err
	}
	m := proxy.ResultMessage(c.ex.Msg.Of(c.ex.Msg.ID), []byte("{}"))
	return &m, nil
}

// Close implements proxy.Replies. Closing before the answer withdraws the subscription.
func (c *subscribeCall) Close() error {
	w := c.subscriber.bridge
	w.change(func() {
		c.withdrawn = c.withdrawn || !c.settled
		w.pending = slices.DeleteFunc(w.pending, func(o *subscribeCall) bool { return o == c })
	})
	return nil
}
