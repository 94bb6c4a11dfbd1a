package era

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	"dragoman/adapters/era/translate"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// watcher is a session with its part in a watch.
type watcher struct {
	w          *watch
	own        bool   // nobody else has part in the watch
	key        string // of the processes that it listens at, if others do too
	left       bool   // under the watches' lock
	session    *proxy.Session
	client     proxy.Client // as requests in its name carry it
	caller     proxy.Caller // what it carries, under w.mu
	lists      []string     // tools, prompts, resources: the lists whose changes the server announces
	subscribes bool         // its resources can be subscribed to

	// Under w.mu.
	ready bool     // the handshake is over: the client may be told something
	uris  []string // what the session has subscribed to
}

// watches are the watches of an upstream's sessions.
type watches struct {
	mu     sync.Mutex
	of     map[*proxy.Session]*watcher
	shared map[string]*sharedWatch // of processes, by linkKey
	n      uint64                  // listens so far, for their ids
}

// sharedWatch is a watch with the number of its sessions; with the last of them it ends.
type sharedWatch struct {
	*watch
	sessions int
}

func (x *watches) get(s *proxy.Session) *watcher {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.of[s]
}

// all answers the watches, each once.
func (x *watches) all() []*watch {
	x.mu.Lock()
	defer x.mu.Unlock()
	var list []*watch
	for _, w := range x.shared {
		list = append(list, w.watch)
	}
	for _, m := range x.of {
		if m.own {
			list = append(list, m.w)
		}
	}
	return list
}

// put gives a session its part in a watch, and answers the one it had before.
func (x *watches) put(u *Upstream, m *watcher, own bool) (before *watcher) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of == nil {
		x.of = make(map[*proxy.Session]*watcher)
	}
	before = x.of[m.session]
	x.of[m.session] = m
	if m.own = own; own {
		m.w = newWatch(u)
		return before
	}
	m.key = u.links.Key(m.caller.Principal)
	if x.shared[m.key] == nil {
		if x.shared == nil {
			x.shared = make(map[string]*sharedWatch)
		}
		x.shared[m.key] = &sharedWatch{watch: newWatch(u)}
	}
	x.shared[m.key].sessions++
	m.w = x.shared[m.key].watch
	return before
}

func newWatch(u *Upstream) *watch {
	w := &watch{u: u, wake: make(chan struct{}, 1)}
	w.ctx, w.cancel = context.WithCancel(u.work.Context())
	return w
}

// drop takes a session out; last tells that its watch has no other.
func (x *watches) drop(m *watcher) (last bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of[m.session] == m {
		delete(x.of, m.session)
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

func (x *watches) number() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.n++
	return x.n
}

// Watches tells how many subscriptions/listen are open at the server on behalf of legacy sessions: at most one for each
// session, and one in all at a process.
func (u *Upstream) Watches() (n int) {
	for _, w := range u.watches.all() {
		w.mu.Lock()
		if w.now != nil {
			n++
		}
		w.mu.Unlock()
	}
	return n
}

// offer answers the capabilities that a legacy client is told of a server: with listChanged and subscribe, since a watch,
// which begins here, brings it the notices. inner is the server/discover that asked for them.
func (u *Upstream) offer(ex, inner *proxy.Exchange, caps []byte) []byte {
	v, err := u.Profile(ex)
	if err != nil {
		return translate.ServerCaps(caps, false)
	}
	caps = translate.ServerCaps(caps, true) // of a legacy server, downgrade has told what it can deliver
	u.watch(ex, inner, caps, !(v.Modern && u.opt.Wires.Stdio))
	return caps
}

// watch gives the session a part in a watch, or one of its own, if the server announces anything.
func (u *Upstream) watch(ex, inner *proxy.Exchange, caps []byte, own bool) {
	all := wire.Whole(caps)
	says := func(path ...string) bool { return string(wire.Path(caps, all, path...).Of(caps)) == "true" }
	m := &watcher{session: ex.Session, caller: ex.Caller, subscribes: says("resources", "subscribe"),
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
	if before := u.watches.put(u, m, own); before != nil { // a handshake that the client began anew
		before.end()
	}
	m.w.change(func() { m.w.members = append(m.w.members, m) })
	m.session.OnEnd(m.end)
	m.session.OnOutlet(func() {
		// A stream that is there before the handshake waits for notifications/initialized.
		m.w.change(func() { m.ready = m.ready || m.session.State() == proxy.Initialized })
	})
}

// Dismiss ends the sessions of legacy clients for which the upstream listens, because of cause: what they have subscribed to is known
// to nobody else. It is for an upstream that another takes the place of.
func (u *Upstream) Dismiss(cause *proxy.Error) {
	u.watches.mu.Lock()
	sessions := slices.Collect(maps.Keys(u.watches.of))
	u.watches.mu.Unlock()
	for _, s := range sessions {
		s.EndFor(proxy.Closed, cause)
	}
}

// greeted takes a session's notifications/initialized: from now on the client may be told something.
func (u *Upstream) greeted(s *proxy.Session) {
	if m := u.watches.get(s); m != nil {
		m.w.change(func() { m.ready = true })
	}
}

// refresh has the session's listens, from the next on, carry what its client carries now.
func (x *watches) refresh(ex *proxy.Exchange) {
	if ex.Caller.Forwarded == nil {
		return
	}
	if m := x.get(ex.Session); m != nil {
		m.w.mu.Lock()
		m.caller.Forwarded = ex.Caller.Forwarded
		m.w.mu.Unlock()
	}
}

// end takes the session out of its watch. It may be called more than once.
func (m *watcher) end() {
	last := m.w.u.watches.drop(m)
	if m.own {
		m.w.cancel()
	}
	m.w.change(func() {
		m.w.retired = last
		m.ready, m.uris = false, nil
		m.w.members = slices.DeleteFunc(m.w.members, func(o *watcher) bool { return o == m })
		for _, j := range slices.Concat(m.w.joins, m.w.opening) {
			if j.m == m {
				j.gone = true
				j.settle(errOver)
			}
		}
		if l := m.w.coming; l != nil && len(m.w.members) == 0 {
			m.w.coming = nil
			close(l.void)
		}
	})
	m.w.rest()
}

// rest ends a watch that has no sessions any more, unless the worker, who still has something to end, does.
func (w *watch) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retired && !w.working {
		w.cancel()
	}
}

// withdrawn takes a process's notifications/cancelled, which is how it ends a listen of itself (2026-07-28 cancellation).
func (x *watches) withdrawn(m *wire.Message) {
	n, err := strconv.ParseUint(string(m.Of(m.RequestID)), 10, 64)
	if err != nil {
		return
	}
	for _, w := range x.all() {
		w.mu.Lock()
		for _, l := range []*listen{w.now, w.coming} {
			if l != nil {
				l.withdraw(n)
			}
		}
		w.mu.Unlock()
	}
}
