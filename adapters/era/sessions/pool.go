package sessions

import (
	"context"
	"errors"
	"iter"
	"net/netip"
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
// server may ask leases its session, and no second such call runs there (Turn): some servers send questions that do not name their call.
// Calls in which the server may not ask share any session, leased or not. A Pool is safe for concurrent use.
type Pool struct {
	server *transport.Server
	opt    Options
	work   *work.Group
	keeper *probe.Keeper
	quota  *Quota

	mu        sync.Mutex
	sessions  map[[32]byte][]*Session // by identity.key
	count     int
	numbers   uint64                         // assigned to sessions so far
	listeners map[[32]byte][]Listener        // by identity.group
	first     atomic.Pointer[proxy.Identity] // caller, where all share the sessions
	several   atomic.Bool                    // another caller has come
	freed     chan struct{}                  // closed and replaced when a session may have become free while a call waits
	awaited   atomic.Bool                    // a call waits; set under mu
	recent    [16]atomic.Pointer[recent]
	closed    bool
	single    atomic.Bool // of MakeSingle
	claimant  *request    // the call of another client that has waited for long for the single session; guarded by mu
	late      lateAskers
}

// NewPool returns an empty pool.
func NewPool(server *transport.Server, opt Options, group *work.Group, keeper *probe.Keeper, quota *Quota) *Pool {
	return &Pool{server: server, opt: opt, work: group, keeper: keeper, quota: quota,
		sessions: make(map[[32]byte][]*Session), listeners: make(map[[32]byte][]Listener), freed: make(chan struct{})}
}

// asks reports whether the server may ask anything.
func (p *Pool) asks() bool { return p.opt.Isolation.Asks(p.opt.DeclareAll) }

// Acquire returns a session for an exchange and opens one if necessary. At a limit it waits for a session up to LeaseWait; then the error
// is TooManySessions. page is the number of the preferred session; 0: none. The caller must call Release when the call has ended.
func (p *Pool) Acquire(ex *proxy.Exchange, page uint64) (*Session, error) {
	id := p.identify(ex)
	if s := p.preferred(ex, id, page); s != nil {
		if s.wait(ex) == nil {
			return s, nil
		}
		s.Release()
	}
	s, _, err := p.take(ex, &request{id: id})
	return s, err
}

// Turn is Acquire for a call that receives what the server sends outside calls. With lease, no other call that the server may ask about
// runs in the session. The turn is attached to ex, which must be detached when the call has begun, and the caller must call End.
func (p *Pool) Turn(ex *proxy.Exchange, lease bool, page uint64) (*Turn, error) {
	id := p.identify(ex)
	if s := p.preferred(ex, id, page); s != nil {
		if s.wait(ex) == nil {
			return &Turn{s: s}, nil
		}
		s.Release()
	}
	s, t, err := p.take(ex, &request{ex: ex, id: id, lease: lease, from: addressOf(ex), looked: ex.Arrival == nil || ex.Arrival.Departures == nil})
	if t == nil && err == nil {
		t = &Turn{s: s}
	}
	return t, err
}

// preferred returns a session that a request prefers to all others; nil if there is none. The session counts as in use.
func (p *Pool) preferred(ex *proxy.Exchange, id identity, page uint64) *Session {
	switch {
	case ex.Msg.Is("subscriptions/listen"):
		return p.used(id)
	case page != 0:
		return p.numbered(id.group, page)
	}
	return nil
}

// request describes the session that a call needs.
type request struct {
	ex     *proxy.Exchange // of a call that may be asked
	id     identity
	lease  bool
	from   netip.Addr // of an anonymous caller
	looked bool       // which clients have left is known up to now
	hasty  bool       // it does not wait for a session that rests
	about  string     // Turn.about
	alone  bool       // Turn.alone
}

// Reasons for which a call does not begin at once, besides limits.
var (
	errRests   = errors.New("sessions: the session of the client's last call rests")
	errEngaged = errors.New("sessions: the call in the client's session may be that of a client that has left")
)

// take returns an open session, which counts as in use, and the turn of a leased call.
func (p *Pool) take(ex *proxy.Exchange, r *request) (*Session, *Turn, error) {
	var late, urgent, rested <-chan time.Time
	for {
		s, t, freed, err := p.pick(r)
		switch {
		case err == nil:
			if err = begin(ex, s, t); err == nil && p.surplus(s) {
				leave(ex, s, t)
				continue
			}
			return s, t, err
		case freed == nil:
			return nil, nil, err
		case errors.Is(err, errEngaged):
			ex.Arrival.Departures()
			r.looked = true
			continue
		case errors.Is(err, errRests) && rested == nil:
			rested = time.After(restMost)
		case late == nil && !errors.Is(err, errRests):
			late, urgent = time.After(p.opt.LeaseWait), p.urgent()
			defer p.resign(r)
		}
		again, limit := (<-chan time.Time)(nil), late
		if errors.Is(err, errRests) { // which ends soon, in any case
			again, limit = time.After(quietTime), nil
		}
		select {
		case <-freed:
		case <-again:
		case <-rested:
			r.hasty = true
		case <-urgent:
			p.claim(r)
		case <-limit:
			return nil, nil, err
		case <-ex.Done():
			return nil, nil, p.whyEnded(ex, err)
		}
	}
}

// begin waits until the session is open. The turn, if there is one, is aborted as soon as the call is cancelled.
func begin(ex *proxy.Exchange, s *Session, t *Turn) error {
	if t == nil {
		err := s.wait(ex)
		if err != nil {
			s.Release()
		}
		return err
	}
	ex.Attach(t)
	err := s.wait(ex)
	if err != nil {
		ex.Detach(t)
		t.End()
	}
	return err
}

// pick returns a session, which counts as in use and may not be open yet, and the turn of a leased call; or the channel that signals a
// free session.
func (p *Pool) pick(r *request) (*Session, *Turn, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, nil, work.ErrClosing()
	}
	s, err := p.find(r)
	if err != nil && !p.awaited.Swap(true) {
		s, err = p.find(r) // a session may have become free before awaited was set
	}
	if err != nil {
		return nil, nil, p.freed, err
	}
	if r.lease {
		return s, s.turn(r), nil, nil
	}
	s.hold()
	return s, nil, nil, nil
}

// find returns a session of an identity and opens one if none is free. The error names what prevents it. The caller holds p.mu.
func (p *Pool) find(r *request) (*Session, error) {
	if p.single.Load() {
		return p.findSingle(r)
	}
	of := p.sessions[r.id.key]
	if s, err := p.choose(of, r); s != nil || err != nil {
		return s, err
	}
	switch most := p.opt.Isolation.most(); {
	case most > 0 && len(of) >= most:
		return nil, leased()
	case r.lease && len(of) > p.opt.Max/2:
		return nil, p.full("half of the sessions with the upstream are this client's, each with a call that may be asked something")
	case opening(of) >= maxOpening:
		return nil, p.full("sessions with the upstream take long to open")
	case !p.makeRoom():
		return nil, p.full("all sessions with the upstream are in use")
	}
	return p.add(&r.id), nil
}

// add opens a session. The caller holds p.mu.
func (p *Pool) add(id *identity) *Session {
	p.numbers++
	s := &Session{pool: p, number: p.numbers, key: id.key, group: id.group, caller: id.caller, principal: id.caller.Principal, subscribing: make(chan struct{}, 1), ready: make(chan struct{}),
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

// used returns the session of the client's last calls for a listen, which is to receive what they change; nil if there is none. Sessions
// with the capabilities of the listen come first, since another client may have the same name. The session counts as in use.
func (p *Pool) used(id identity) *Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, _ := best(p.sessions[id.key], &request{looked: true})
	if s == nil {
		var all []*Session
		for s := range p.all() {
			if s.group == id.group {
				all = append(all, s)
			}
		}
		s, _ = best(all, &request{looked: true})
	}
	if s != nil {
		s.hold()
	}
	return s
}

// numbered returns the client's session of the given number; nil if it has ended. The session counts as in use.
func (p *Pool) numbered(group [32]byte, number uint64) *Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.all() {
		if s.number == number && s.group == group {
			s.hold()
			return s
		}
	}
	return nil
}

// Lend returns an open session for a request of Dragoman's own, and the function that releases it. It uses any open session, whose idle
// time goes on, or opens one in Dragoman's own name.
func (p *Pool) Lend(ctx context.Context) (*Session, func(), error) {
	if s, last := p.any(func(*Session) bool { return true }); s != nil {
		return s, func() { s.untouched(last) }, nil
	}
	ex := &proxy.Exchange{Client: proxy.Client{Info: p.server.Self, Caps: []byte("{}")}}
	defer ex.Follow(ctx)()
	s, err := p.Acquire(ex, 0)
	if err != nil {
		return nil, nil, err
	}
	return s, s.Release, nil
}

// any returns an open session that fits and when it was last used; nil if there is none. The session counts as in use.
func (p *Pool) any(fits func(*Session) bool) (*Session, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.all() {
		if !fits(s) {
			continue
		}
		select {
		case <-s.ready:
		default:
			continue
		}
		s.mu.Lock()
		alive, last := s.err == nil && !s.dead, s.last
		s.mu.Unlock()
		if alive {
			s.hold()
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
		unused := s.uses == 0 || p.single.Load() && s.uses == s.listens
		if unused && (!own || s.principal == principal) && (oldest == nil || s.last.Before(oldest.last)) {
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

// signal wakes the calls that wait for a session.
func (p *Pool) signal() {
	if p.awaited.Load() || p.single.Load() {
		p.mu.Lock()
		p.yield()
		p.wake()
		p.mu.Unlock()
	}
}

// wake is signal for a caller that holds p.mu.
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
		if len(s.turns) > 0 {
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
