// Package relay lets legacy clients speak to a legacy server in conversations of their own, in which everything passes as it came.
//
// The process behind a session that nobody uses may be stopped; the next request starts another, in the client's own words
// (suspend.go).
package relay

import (
	"sync"
	"time"

	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/era/work"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// Options of Relays.
type Options struct {
	Legacy   transport.Dial
	SSE      transport.Dial
	Patience time.Duration // for the handshake of a process that is started again
	IdleExit time.Duration // a process without calls for so long is stopped; 0: never, or links are no processes
}

// Relays are the conversations of legacy clients with one legacy server, one for each session.
type Relays struct {
	opt    Options
	work   *work.Group
	keeper *probe.Keeper
	quota  *sessions.Quota

	mu sync.Mutex
	of map[string]*relay // by session id
}

// New makes the relays of one server, of which there are none yet.
func New(opt Options, group *work.Group, keeper *probe.Keeper, quota *sessions.Quota) *Relays {
	return &Relays{opt: opt, work: group, keeper: keeper, quota: quota, of: make(map[string]*relay)}
}

// Has reports whether a session has a relay.
func (x *Relays) Has(session string) bool { return x.get(session) != nil }

func (x *Relays) get(session string) *relay {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.of[session]
}

// Len is how many relays there are.
func (x *Relays) Len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.of)
}

// Do takes a client's exchange to the server; ok is false if its session has no relay.
func (x *Relays) Do(ex *proxy.Exchange) (replies proxy.Replies, ok bool, err error) {
	r := x.get(ex.Session.ID)
	if r == nil {
		return nil, false, nil
	}
	ex.UpstreamEra.In(proxy.Legacy)
	replies, err = r.do(ex)
	return replies, true, err
}

// Open opens a relay for the session of an initialize, which it takes to the server, over HTTP+SSE if sse says so.
func (x *Relays) Open(ex *proxy.Exchange, sse bool) (proxy.Replies, error) {
	r, err := x.open(ex, sse)
	if err != nil {
		return nil, err
	}
	return r.do(ex)
}

// all returns the relays that there are.
func (x *Relays) all() []*relay {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := make([]*relay, 0, len(x.of))
	for _, r := range x.of {
		all = append(all, r)
	}
	return all
}

// Idle finds the session that has been without a request the longest, and without an open stream, if that is longer than since;
// the zero time: whatever it is. own says that it must be the principal's. nil: there is none.
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

// Each calls f with the link of each conversation that is under way, and with what it takes to give the conversation up as lost.
func (x *Relays) Each(f func(link transport.Link, lost func(error))) {
	for _, r := range x.all() {
		if r.session.State() == proxy.Initialized {
			f(r.link.Get(), r.Lost)
		}
	}
}

// Take empties the table, and returns the links of the conversations, which are the caller's to close. The group must be closed.
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
