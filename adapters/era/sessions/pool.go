package sessions

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/work"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// Pool holds the sessions with a legacy server that modern clients share. A session belongs to one principal, one
// clientInfo, one set of capabilities and one set of carried headers: all that initialize fixed (strategy S1: nothing leaks between
// principals). A call in which the server may ask has a lease of its session, which no other such call has meanwhile: some servers
// send questions where nothing says to which call they belong. Calls in which the server may not ask share any session, leased or not.
type Pool struct {
	server *transport.Server
	opt    Options
	work   *work.Group
	keeper *probe.Keeper
	quota  *Quota

	mu        sync.Mutex
	sessions  map[[32]byte][]*Session // by identity.key
	count     int
	numbers   uint64                  // given to sessions so far
	listeners map[[32]byte][]Listener // by identity.group
	freed     chan struct{}           // closed, and made anew, when a session may have become free and a call waits
	awaited   atomic.Bool             // a call waits; set under mu
	recent    [16]atomic.Pointer[recent]
	closed    bool
}

// NewPool makes a pool without sessions.
func NewPool(server *transport.Server, opt Options, group *work.Group, keeper *probe.Keeper, quota *Quota) *Pool {
	return &Pool{server: server, opt: opt, work: group, keeper: keeper, quota: quota,
		sessions: make(map[[32]byte][]*Session), listeners: make(map[[32]byte][]Listener), freed: make(chan struct{})}
}

// asks reports whether the server may ask anything.
func (p *Pool) asks() bool { return p.opt.Isolation.Asks(p.opt.DeclareAll) }

// Acquire returns a session for an exchange, and opens one if need be; with a lease, a session that no other call has leased. It
// waits if there can be no more sessions. page is the number of the session that is preferred; 0: none. Release the session when the
// call has ended.
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
		var full *proxy.Error
		if freed == nil || !errors.As(err, &full) {
			return nil, err
		}
		if late == nil {
			timer := time.NewTimer(p.opt.LeaseWait)
			defer timer.Stop()
			late = timer.C
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

// pick returns a session, held for the caller, perhaps not open yet; or what to wait for.
func (p *Pool) pick(id identity, lease bool) (*Session, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, work.ErrClosing()
	}
	s, err := p.find(id, lease)
	if err != nil && !p.awaited.Swap(true) {
		s, err = p.find(id, lease) // one that became free before it was known that a call waits
	}
	if err != nil {
		return nil, p.freed, err
	}
	s.hold(lease)
	return s, nil, nil
}

// find returns a session of an identity, opening one if none can be had; the error says why there can be none now. The
// caller holds p.mu.
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
	s := &Session{pool: p, number: p.numbers, key: id.key, group: id.group, principal: id.principal, turn: make(chan struct{}, 1), ready: make(chan struct{}),
		last: time.Now(), declared: id.caps, carried: id.carried, subscribed: make(map[string]int)}
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

// leased makes the error of a call when all sessions that the isolation permits are leased.
func leased() *proxy.Error {
	e := proxy.Errf(proxy.TooManySessions, "another call, in which the server may ask, has the session that this caller's clients share; it goes on longer than questions.lease_wait")
	e.RetryAfter = 5
	return e
}

// maxOpening is how many sessions of one client are opened at a time. Many calls at once are better served by the sessions of those that
// end first than by a process for each of them.
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

// choose returns one of the sessions of an identity, nil if another should be opened. In a pool that is one without calls,
// the last used of these, so that sessions that are not needed stay idle and end; else the one with the fewest.
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

// best chooses among sessions of one identity: the one that carries a listen, since the server announces there what a call
// changes; else the last used, so that a client's calls, one after the other, stay in one session.
func best(all []*Session, lease bool) (found *Session) {
	var last time.Time
	listening := false
	for _, s := range all {
		s.mu.Lock()
		free, heard, used := !s.dead && !(lease && s.lease), s.listens > 0, s.last
		s.mu.Unlock()
		if !free || found != nil && (listening && !heard || listening == heard && !used.After(last)) {
			continue
		}
		found, last, listening = s, used, heard
	}
	return found
}

// used returns the session, held, that a client's calls were last in, for a listen that is to receive what they change. Sessions of the
// capabilities that the listen declares come before those of others: another client may have the same name. nil if there is none.
func (p *Pool) used(id identity) *Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := best(p.sessions[id.key], false)
	if s == nil {
		var all []*Session
		for _, of := range p.sessions {
			for _, s := range of {
				if s.group == id.group {
					all = append(all, s)
				}
			}
		}
		s = best(all, false)
	}
	if s != nil {
		s.hold(false)
	}
	return s
}

// numbered returns the session, held, with the given number, if it is one of this client's and still open.
func (p *Pool) numbered(group [32]byte, number uint64) *Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range p.sessions {
		for _, s := range of {
			if s.number == number && s.group == group {
				s.hold(false)
				return s
			}
		}
	}
	return nil
}

// Lend returns an open session for a request of Dragoman's own, and the function that gives it back: any that is there, without
// prolonging its life; else one in Dragoman's own name.
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

// any returns an open session of any client, held, and when it was last used; nil if there is none.
func (p *Pool) any() (*Session, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range p.sessions {
		for _, s := range of {
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
	}
	return nil, time.Time{}
}

// makeRoom closes the longest unused session if there are as many as may be; false if all are in use. The caller holds
// p.mu.
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

// longestUnused finds the session that has been without calls the longest, of the principal if own says so. The caller
// holds p.mu.
func (p *Pool) longestUnused(principal string, own bool) (oldest *Session) {
	for _, all := range p.sessions {
		for _, s := range all {
			s.mu.Lock()
			if s.uses == 0 && (!own || s.principal == principal) && (oldest == nil || s.last.Before(oldest.last)) {
				oldest = s
			}
			s.mu.Unlock()
		}
	}
	return oldest
}

// Unused finds the session that has been without calls the longest, of the principal if own says so, and since when; nil and the zero
// time if all are in use.
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

// wake lets calls look again that wait for a session. The caller holds p.mu.
func (p *Pool) wake() {
	if p.awaited.Swap(false) {
		close(p.freed)
		p.freed = make(chan struct{})
	}
}

// drop takes a session out and closes it. The caller holds p.mu.
func (p *Pool) drop(s *Session) {
	if i := slices.Index(p.sessions[s.key], s); i >= 0 {
		p.count--
		if p.sessions[s.key] = slices.Delete(p.sessions[s.key], i, i+1); len(p.sessions[s.key]) == 0 {
			delete(p.sessions, s.key)
		}
		p.work.Go(s.end) // a session that is not in the table has been ended by whoever took it out
	}
	p.wake()
}

// Discard drops a session that has proved dead.
func (p *Pool) Discard(s *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(s)
}

// Size is how many sessions there are, and how many of them are leased.
func (p *Pool) Size() (all, leased int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range p.sessions {
		for _, s := range of {
			s.mu.Lock()
			if s.lease {
				leased++
			}
			s.mu.Unlock()
		}
	}
	return p.count, leased
}

// Sessions are the sessions that there are.
func (p *Pool) Sessions() (all []*Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range p.sessions {
		all = append(all, of...)
	}
	return all
}

// settleTime bounds how long Settle waits.
const settleTime = time.Second

// Settle waits until the servers have received the cancellations of calls that were given up: some end a session only after its
// calls.
func (p *Pool) Settle() {
	ctx, cancel := context.WithTimeout(p.work.Context(), settleTime)
	defer cancel()
	for _, s := range p.Sessions() {
		if link, ok := transport.As[transport.Settler](s.Link()); ok {
			link.Settle(ctx)
		}
	}
}

// Close ends all sessions, and lets none be opened any more.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	all := p.sessions
	p.sessions, p.count = map[[32]byte][]*Session{}, 0
	p.wake()
	p.mu.Unlock()
	var ends work.Closing
	for _, of := range all {
		for _, s := range of {
			ends.Close(func() error { s.end(); return nil })
		}
	}
	return ends.Wait()
}
