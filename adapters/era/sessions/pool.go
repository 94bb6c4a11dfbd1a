package sessions

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/work"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// Pool holds the sessions with a legacy server that modern clients share. A session belongs to one principal, one clientInfo, one set of
// capabilities and one set of forwarded headers, all of which initialize fixed: nothing leaks between principals. A call in which the
// server may ask leases its session, and no second such call runs there: some servers send questions that do not name their call. Calls
// in which the server may not ask share any session, leased or not. A Pool is safe for concurrent use.
type Pool struct {
	server *transport.Server
	opt    Options
	work   *work.Group
	keeper *probe.Keeper
	quota  *Quota

	mu        sync.Mutex
	sessions  map[[32]byte][]*Session // by identity.key
	count     int
	numbers   uint64                  // assigned to sessions so far
	listeners map[[32]byte][]Listener // by identity.group
	freed     chan struct{}           // closed and replaced when a session may have become free while a call waits
	awaited   atomic.Bool             // a call waits; set under mu
	recent    [16]atomic.Pointer[recent]
	closed    bool
}

// NewPool returns an empty pool.
func NewPool(server *transport.Server, opt Options, group *work.Group, keeper *probe.Keeper, quota *Quota) *Pool {
	return &Pool{server: server, opt: opt, work: group, keeper: keeper, quota: quota,
		sessions: make(map[[32]byte][]*Session), listeners: make(map[[32]byte][]Listener), freed: make(chan struct{})}
}

// asks reports whether the server may ask anything.
func (p *Pool) asks() bool { return p.opt.Isolation.Asks(p.opt.DeclareAll) }

// Acquire returns a session for an exchange and opens one if necessary. With lease, no other call has leased the session. At a limit it
// waits for a session up to LeaseWait; then the error is TooManySessions. page is the number of the preferred session; 0: none. The
// caller must call Release when the call has ended.
func (p *Pool) Acquire(ex *proxy.Exchange, lease bool, page uint64) (*Session, error) {
	id := p.identify(ex)
	var wanted *Session
	switch {
	case ex.Msg.Is("subscriptions/listen"):
		wanted = p.used(id)
	case page != 0:
		wanted = p.numbered(id.group, page)
	}
	if wanted != nil && wanted.wait(ex, false) == nil {
		return wanted, nil
	}
	var late <-chan time.Time
	for {
		s, freed, err := p.pick(id, lease)
		if err == nil {
			if err := s.wait(ex, lease); err != nil {
				return nil, err
			}
			return s, nil
		}
		if freed == nil {
			return nil, err
		}
		if late == nil {
			late = time.After(p.opt.LeaseWait)
		}
		select {
		case <-freed:
		case <-late:
			return nil, err
		case <-ex.Done():
			return nil, ex.Err()
		}
	}
}

// pick returns a session in use by the caller, which may not be open yet; or the channel that signals a free session.
func (p *Pool) pick(id identity, lease bool) (*Session, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, work.ErrClosing()
	}
	s, err := p.find(id, lease)
	if err != nil && !p.awaited.Swap(true) {
		s, err = p.find(id, lease) // a session may have become free before awaited was set
	}
	if err != nil {
		return nil, p.freed, err
	}
	s.hold(lease)
	return s, nil, nil
}

// find returns a session of an identity and opens one if none is free. The error names the limit that prevents it. The caller holds
// p.mu.
func (p *Pool) find(id identity, lease bool) (*Session, error) {
	of := p.sessions[id.key]
	if s := p.choose(of, lease); s != nil {
		return s, nil
	}
	switch most := p.opt.Isolation.most(); {
	case most > 0 && len(of) >= most:
		return nil, leased()
	case lease && len(of) > p.opt.Max/2:
		return nil, p.full("half of the sessions with the upstream are this client's, each with a call that may be asked something")
	case opening(of) >= maxOpening:
		return nil, p.full("sessions with the upstream take long to open")
	case !p.makeRoom():
		return nil, p.full("all sessions with the upstream are in use")
	}
	return p.add(&id), nil
}

// add opens a session. The caller holds p.mu.
func (p *Pool) add(id *identity) *Session {
	p.numbers++
	s := &Session{pool: p, number: p.numbers, key: id.key, group: id.group, principal: id.principal, subscribing: make(chan struct{}, 1), ready: make(chan struct{}),
		last: time.Now(), declared: id.caps, forwarded: id.forwarded, subscribed: make(map[string]int)}
	p.sessions[id.key] = append(p.sessions[id.key], s)
	p.count++
	info, caps := id.info, id.caps
	p.work.Go(func() { s.open(info, caps) })
	return s
}

func (p *Pool) full(what string) *proxy.Error {
	e := proxy.Errf(proxy.TooManySessions, "%s; raise upstreams.%s.max_sessions, now %d", what, p.server.Name, p.opt.Max)
	e.RetryAfter = 5
	return e
}

// leased returns the error of a call when all sessions that the isolation permits are leased.
func leased() *proxy.Error {
	e := proxy.Errf(proxy.TooManySessions, "another call, in which the server may ask, has the session that this caller's clients share; it goes on longer than questions.lease_wait")
	e.RetryAfter = 5
	return e
}

// maxOpening bounds the sessions of one client that are being opened. Beyond it, calls wait for sessions that become free, which is
// cheaper than a process for each of many concurrent calls.
const maxOpening = 4

// opening counts the sessions that are not open yet.
func opening(all []*Session) (n int) {
	for _, s := range all {
		select {
		case <-s.ready:
		default:
			n++
		}
	}
	return n
}

// choose returns one of the sessions of an identity; nil if another should be opened. With isolation Pooled it prefers the last used of
// the idle sessions, so that surplus ones expire, and otherwise the one with the fewest calls.
func (p *Pool) choose(all []*Session, lease bool) *Session {
	if p.opt.Isolation.Sharing != Pooled {
		return best(all, lease)
	}
	var free, least *Session
	var last time.Time
	fewest := 0
	for _, s := range all {
		s.mu.Lock()
		dead, uses, used := s.dead, s.uses, s.last
		s.mu.Unlock()
		switch {
		case dead:
		case uses == 0 && (free == nil || used.After(last)):
			free, last = s, used
		case least == nil || uses < fewest:
			least, fewest = s, uses
		}
	}
	if free != nil || len(all) < p.opt.Isolation.most() && opening(all) < maxOpening {
		return free
	}
	return least
}

// best chooses among the sessions of one identity: one with a listen, since the server announces there what a call changes; otherwise
// the last used, so that consecutive calls of a client stay in one session.
func best(all []*Session, lease bool) (found *Session) {
	var last time.Time
	listening := false
	for _, s := range all {
		s.mu.Lock()
		free, listens, used := !s.dead && !(lease && s.lease), s.listens > 0, s.last
		s.mu.Unlock()
		if !free || found != nil && (listening && !listens || listening == listens && !used.After(last)) {
			continue
		}
		found, last, listening = s, used, listens
	}
	return found
}

// used returns the session of the client's last calls for a listen, which is to receive what they change; nil if there is none. Sessions
// with the capabilities of the listen come first, since another client may have the same name. The session counts as in use.
func (p *Pool) used(id identity) *Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := best(p.sessions[id.key], false)
	if s == nil {
		var all []*Session
		for s := range p.all() {
			if s.group == id.group {
				all = append(all, s)
			}
		}
		s = best(all, false)
	}
	if s != nil {
		s.hold(false)
	}
	return s
}

// numbered returns the client's session of the given number; nil if it has ended. The session counts as in use.
func (p *Pool) numbered(group [32]byte, number uint64) *Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.all() {
		if s.number == number && s.group == group {
			s.hold(false)
			return s
		}
	}
	return nil
}

// Lend returns an open session for a request of Dragoman's own, and the function that releases it. It uses any open session, whose idle
// time goes on, or opens one in Dragoman's own name.
func (p *Pool) Lend(ctx context.Context) (*Session, func(), error) {
	if s, last := p.any(); s != nil {
		return s, func() { s.untouched(last) }, nil
	}
	ex := &proxy.Exchange{Client: proxy.Client{Info: p.server.Self, Caps: []byte("{}")}}
	defer ex.Follow(ctx)()
	s, err := p.Acquire(ex, false, 0)
	if err != nil {
		return nil, nil, err
	}
	return s, func() { s.Release(false) }, nil
}

// any returns an open session of any client and when it was last used; nil if there is none. The session counts as in use.
func (p *Pool) any() (*Session, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.all() {
		select {
		case <-s.ready:
		default:
			continue
		}
		s.mu.Lock()
		alive, last := s.err == nil && !s.dead, s.last
		s.mu.Unlock()
		if alive {
			s.hold(false)
			return s, last
		}
	}
	return nil, time.Time{}
}

// makeRoom closes the session that has been idle for longest if the pool is full; false if all are in use. The caller holds p.mu.
func (p *Pool) makeRoom() bool {
	if p.count < p.opt.Max {
		return true
	}
	oldest := p.longestUnused("", false)
	if oldest == nil {
		return false
	}
	p.drop(oldest)
	return true
}

// longestUnused returns the session that has been idle for longest, of the principal if own is set. The caller holds p.mu.
func (p *Pool) longestUnused(principal string, own bool) (oldest *Session) {
	for s := range p.all() {
		s.mu.Lock()
		if s.uses == 0 && (!own || s.principal == principal) && (oldest == nil || s.last.Before(oldest.last)) {
			oldest = s
		}
		s.mu.Unlock()
	}
	return oldest
}

// Unused returns the session that has been idle for longest, of the principal if own is set, and since when; nil and the zero time if
// all are in use.
func (p *Pool) Unused(principal string, own bool) (*Session, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.longestUnused(principal, own)
	if s == nil {
		return nil, time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s, s.last
}

// wake wakes the calls that wait for a session. The caller holds p.mu.
func (p *Pool) wake() {
	if p.awaited.Swap(false) {
		close(p.freed)
		p.freed = make(chan struct{})
	}
}

// drop removes a session and closes it. The caller holds p.mu.
func (p *Pool) drop(s *Session) {
	if i := slices.Index(p.sessions[s.key], s); i >= 0 {
		p.count--
		if p.sessions[s.key] = slices.Delete(p.sessions[s.key], i, i+1); len(p.sessions[s.key]) == 0 {
			delete(p.sessions, s.key)
		}
		p.work.Go(s.end) // a session that is not in the table has been ended when it was removed
	}
	p.wake()
}

// Discard closes a session that is found to be lost.
func (p *Pool) Discard(s *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(s)
}

// Size returns the number of sessions, and of those that are leased.
func (p *Pool) Size() (all, leased int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.all() {
		s.mu.Lock()
		if s.lease {
			leased++
		}
		s.mu.Unlock()
	}
	return p.count, leased
}

// all iterates over the sessions, those that are being opened included. The caller holds p.mu.
func (p *Pool) all() iter.Seq[*Session] {
	return func(yield func(*Session) bool) {
		for _, of := range p.sessions {
			for _, s := range of {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// Sessions returns the sessions, those that are being opened included.
func (p *Pool) Sessions() []*Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(p.all())
}

// settleTime bounds how long Settle waits.
const settleTime = time.Second

// Settle waits up to settleTime for the cancellations of ended calls to be sent: some servers end a session only after its calls.
func (p *Pool) Settle() {
	ctx, cancel := context.WithTimeout(p.work.Context(), settleTime)
	defer cancel()
	for _, s := range p.Sessions() {
		if link, ok := transport.As[transport.Settler](s.Link()); ok {
			link.Settle(ctx)
		}
	}
}

// Close ends all sessions. Acquire then fails.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	var ends []func() error
	for s := range p.all() {
		ends = append(ends, func() error { s.end(); return nil })
	}
	clear(p.sessions)
	p.count = 0
	p.wake()
	p.mu.Unlock()
	return work.CloseAll(ends)
}
