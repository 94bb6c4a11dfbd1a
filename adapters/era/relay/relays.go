// Package relay connects legacy clients to a legacy server, each over a link of its own on which messages pass unchanged.
//
// The process of an idle session may be stopped. The next request starts another and repeats the client's handshake (suspend.go).
package relay

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/era/work"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Relays holds the relays of one legacy server, one per client session.
type Relays struct {
	server *transport.Server
	opt    Options
	work   *work.Group
	keeper *probe.Keeper
	quota  *sessions.Quota

	mu     sync.Mutex
	of     map[string]*relay // by session id
	retire atomic.Bool       // of Retire
}

// Options configure Relays.
type Options struct {
	IdleExit time.Duration                                // a process without calls for this long is stopped; 0: never
	Notice   func(who proxy.Caller, m *wire.Message) bool // whether a caller may receive a notification; it may edit it
	Ended    func()                                       // called when a relay has ended, without a lock
}

// New returns an empty set of relays for one server.
func New(server *transport.Server, opt Options, group *work.Group, keeper *probe.Keeper, quota *sessions.Quota) *Relays {
	if !server.Wires.Stdio {
		opt.IdleExit = 0
	}
	return &Relays{server: server, opt: opt, work: group, keeper: keeper, quota: quota, of: make(map[string]*relay)}
}

func (x *Relays) get(session string) *relay {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.of[session]
}

// Len returns the number of relays.
func (x *Relays) Len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.of)
}

// Do sends a client's exchange to the server; ok is false if its session has no relay.
func (x *Relays) Do(ex *proxy.Exchange) (replies proxy.Replies, ok bool, err error) {
	r := x.get(ex.Session.ID)
	if r == nil {
		return nil, false, nil
	}
	replies, err = r.do(ex)
	if errors.Is(err, ErrRetiring) {
		return nil, false, nil
	}
	ex.UpstreamEra.In(proxy.Legacy)
	return replies, true, err
}

// Open opens a relay for the session of an initialize, over a link of dial, and sends it to the server. After an error there is no relay.
func (x *Relays) Open(ex *proxy.Exchange, dial transport.Dial) (proxy.Replies, error) {
	r, err := x.open(ex, dial)
	if err != nil {
		return nil, err
	}
	replies, err := r.do(ex)
	if err != nil {
		r.end()
	}
	return replies, err
}

// ErrRetiring is the error of a request whose relay takes no more (Retire). The request has not been changed.
var ErrRetiring = errors.New("relay: no more requests")

// Retire ends the relays, and every one opened from now on, once their calls have ended. The clients' sessions go on. Meanwhile the
// server's questions and log messages are not passed on: several sessions receive them, and nothing tells for which they are.
func (x *Relays) Retire() {
	x.retire.Store(true)
	for _, r := range x.all() {
		r.retireOne()
	}
}

func (r *relay) retireOne() {
	r.mu.Lock()
	r.retiring.Store(true)
	idle := r.suspension.calls == 0
	r.mu.Unlock()
	if idle {
		r.end()
	}
}

// unclear handles a message of which nothing tells for which session it is: a question is refused, and a log message dropped. It
// reports whether m is one of these.
func (r *relay) unclear(m *wire.Message) bool {
	if m.Kind == wire.Request {
		r.x.work.Refuse(r.link.Get(), m)
	}
	return m.Kind == wire.Request || m.Is("notifications/message")
}

// all returns all relays.
func (x *Relays) all() []*relay {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Values(x.of))
}

// Idle returns the session that has been idle for longest, without an open stream, if it was last used before since; the
// zero time sets no limit. own restricts the search to the principal's sessions. Nil: there is none.
func (x *Relays) Idle(principal string, own bool, since time.Time) (found *proxy.Session) {
	for _, r := range x.all() {
		last, busy := r.session.Idle()
		if busy || r.isSuspended() || r.session.HasOutlet() || r.session.State() != proxy.Initialized || own && r.session.Caller.Principal != principal {
			continue
		}
		if since.IsZero() || last.Before(since) {
			found, since = r.session, last
		}
	}
	return found
}

// Each calls f for each initialized relay with its link and a function that gives the relay up as lost.
func (x *Relays) Each(f func(link transport.Link, lost func(error))) {
	for _, r := range x.all() {
		if r.session.State() == proxy.Initialized {
			f(r.link.Get(), r.Lost)
		}
	}
}

// Take removes all relays and returns their links, which the caller must close. The group must be closed before.
func (x *Relays) Take() (links []transport.Link) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range x.of {
		if link := r.link.Get(); link != nil {
			links = append(links, link)
		}
	}
	x.of = make(map[string]*relay)
	return links
}
