package subscriptions

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// subscriber is a session with its part in a bridge.
type subscriber struct {
	w          *bridge
	own        bool   // nobody else has part in the bridge
	key        string // of the processes that it listens at, if others do too
	left       bool   // under the bridges' lock
	session    *proxy.Session
	client     proxy.Client // as requests in its name carry it
	caller     proxy.Caller // what it carries, under w.mu
	lists      []string     // tools, prompts, resources: the lists whose changes the server announces
	subscribes bool         // its resources can be subscribed to

	// Under w.mu.
	ready bool     // the handshake is over: the client may be told something
	uris  []string // what the session has subscribed to
}

// Options of Bridges.
type Options struct {
	Timeout time.Duration                 // for an acknowledgement
	Key     func(principal string) string // sessions with one key share the processes of a server
	Changed func(m *wire.Message)         // nil, or called with the notices that listens bring; m is borrowed
}

// Server is a server that can be listened at.
type Server interface {
	// Listen sends a subscriptions/listen to the server, whatever its era. ctx bounds the search for a link only.
	Listen(ctx context.Context, ex *proxy.Exchange) (proxy.Replies, error)
	// Fault makes an error of that, or of its replies, one that a client may see.
	Fault(err error) error
}

// Bridges are the bridges of an upstream's legacy sessions.
type Bridges struct {
	opt    Options
	work   *work.Group
	server Server

	mu        sync.Mutex
	bySession map[*proxy.Session]*subscriber
	shared    map[string]*sharedBridge // of processes, by key
	n         uint64                   // listens so far, for their ids
}

// NewBridges makes the bridges of one server, of which there are none yet.
func NewBridges(opt Options, group *work.Group, server Server) *Bridges {
	return &Bridges{opt: opt, work: group, server: server}
}

// Sessions is how many sessions have part in a bridge.
func (x *Bridges) Sessions() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.bySession)
}

// sharedBridge is a bridge with the number of its sessions; with the last of them it ends.
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
			list = append(list, m.w)
		}
	}
	return list
}

// put gives a session its part in a bridge, and answers the one it had before.
func (x *Bridges) put(m *subscriber, own bool) (before *subscriber) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.bySession == nil {
		x.bySession = make(map[*proxy.Session]*subscriber)
	}
	before = x.bySession[m.session]
	x.bySession[m.session] = m
	if m.own = own; own {
		m.w = x.newBridge()
		return before
	}
	m.key = x.opt.Key(m.caller.Principal)
	if x.shared[m.key] == nil {
		if x.shared == nil {
			x.shared = make(map[string]*sharedBridge)
		}
		x.shared[m.key] = &sharedBridge{bridge: x.newBridge()}
	}
	x.shared[m.key].sessions++
	m.w = x.shared[m.key].bridge
	return before
}

func (x *Bridges) newBridge() *bridge {
	w := &bridge{x: x, wake: make(chan struct{}, 1)}
	w.ctx, w.cancel = context.WithCancel(x.work.Context())
	return w
}

// drop takes a session out; last tells that its bridge has no other.
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

func (x *Bridges) nextID() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.n++
	return x.n
}

// Count is how many subscriptions/listen are open at the server on behalf of legacy sessions: at most one for each
// session, and one in all at a process.
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

// Join gives the session a part in a bridge, or one of its own, if the server announces anything.
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
	if before := x.put(m, own); before != nil { // a handshake that the client began anew
		before.end()
	}
	m.w.change(func() { m.w.subscribers = append(m.w.subscribers, m) })
	m.session.OnEnd(m.end)
	m.session.OnOutlet(func() {
		// A stream that is there before the handshake waits for notifications/initialized.
		m.w.change(func() { m.ready = m.ready || m.session.State() == proxy.Initialized })
	})
}

// Dismiss ends the sessions of legacy clients for which the upstream listens, because of cause: what they have subscribed to is known
// to nobody else. It is for an upstream that another takes the place of.
func (x *Bridges) Dismiss(cause *proxy.Error) {
	x.mu.Lock()
	sessions := slices.Collect(maps.Keys(x.bySession))
	x.mu.Unlock()
	for _, s := range sessions {
		s.EndFor(proxy.Closed, cause)
	}
}

// Initialized takes a session's notifications/initialized: from now on the client may be told something.
func (x *Bridges) Initialized(s *proxy.Session) {
	if m := x.get(s); m != nil {
		m.w.change(func() { m.ready = true })
	}
}

// Refresh has the session's listens, from the next on, carry what its client carries now.
func (x *Bridges) Refresh(ex *proxy.Exchange) {
	if ex.Caller.Forwarded == nil {
		return
	}
	if m := x.get(ex.Session); m != nil {
		m.w.mu.Lock()
		m.caller.Forwarded = ex.Caller.Forwarded
		m.w.mu.Unlock()
	}
}

// end takes the session out of its bridge. It may be called more than once.
func (m *subscriber) end() {
	last := m.w.x.drop(m)
	if m.own {
		m.w.cancel()
	}
	m.w.change(func() {
		m.w.retired = last
		m.ready, m.uris = false, nil
		m.w.subscribers = slices.DeleteFunc(m.w.subscribers, func(o *subscriber) bool { return o == m })
		for _, j := range slices.Concat(m.w.pending, m.w.opening) {
			if j.m == m {
				j.withdrawn = true
				j.settle(errOver)
			}
		}
		if l := m.w.unacked; l != nil && len(m.w.subscribers) == 0 {
			m.w.unacked = nil
			close(l.abandoned)
		}
	})
	m.w.cancelIfIdle()
}

// cancelIfIdle ends a bridge that has no sessions any more, unless the worker, who still has something to end, does.
func (w *bridge) cancelIfIdle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retired && !w.working {
		w.cancel()
	}
}

// Cancelled takes a process's notifications/cancelled, which is how it ends a listen of itself (2026-07-28 cancellation).
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
