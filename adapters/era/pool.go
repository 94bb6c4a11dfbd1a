package era

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/era/work"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// pool holds the sessions with a legacy server that modern clients share. A session belongs to one principal, one
// clientInfo and one set of capabilities: all that initialize fixed (strategy S1: nothing leaks between principals). A
// call in which the server may ask has a session to itself as far as questions go, a lease: some servers put questions
// where nothing tells whose they are. Calls in which it may not ask share any session, leased or not.
type pool struct {
	u *Upstream

	mu       sync.Mutex
	sessions map[[32]byte][]*pooled
	count    int
	numbers  uint64                  // given to sessions so far
	hearings map[[32]byte][]*hearing // by the client, whatever its capabilities
	freed    chan struct{}           // closed, and made anew, when a session may have become free and somebody waits
	awaited  atomic.Bool             // somebody does; set under mu
	recent   [16]atomic.Pointer[recent]
	closed   bool
}

func (p *pool) init(u *Upstream) {
	p.u, p.sessions, p.hearings, p.freed = u, make(map[[32]byte][]*pooled), make(map[[32]byte][]*hearing), make(chan struct{})
}

// acquire answers a session for an exchange, opening one if need be; with a lease, one that no other call has leased, for
// which it waits if there can be no more sessions. page is the number of the session that is wanted above all; 0: none.
// Release the session when the call has ended.
func (p *pool) acquire(ex *proxy.Exchange, lease bool, page uint64) (*pooled, error) {
	id := p.identify(ex)
	var wanted *pooled
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
			timer := time.NewTimer(p.u.lot.opt.LeaseWait)
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

// pick answers a session, held for the caller, perhaps not open yet; or what to wait for.
func (p *pool) pick(id identity, lease bool) (*pooled, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, work.ErrClosing()
	}
	s, err := p.find(id, lease)
	if err != nil && !p.awaited.Swap(true) {
		s, err = p.find(id, lease) // one that became free before it was known that somebody waits
	}
	if err != nil {
		return nil, p.freed, err
	}
	s.hold(lease)
	return s, nil, nil
}

// find answers a session of an identity, one that opens if there is none to be had, or says why there can be none now. The
// caller holds p.mu.
func (p *pool) find(id identity, lease bool) (*pooled, error) {
	s := p.choose(p.sessions[id.key], lease)
	if s == nil {
		if most := p.u.opt.Isolation.most(); most > 0 && len(p.sessions[id.key]) >= most {
			return nil, taken()
		}
		if lease && len(p.sessions[id.key]) > p.u.opt.MaxSessions/2 {
			return nil, p.full("half of the sessions with the upstream are this client's, each with a call that may be asked something")
		}
		if opening(p.sessions[id.key]) >= maxOpening {
			return nil, p.full("sessions with the upstream take long to open")
		}
		if !p.makeRoom() {
			return nil, p.full("all sessions with the upstream are in use")
		}
		s = p.add(&id)
	}
	return s, nil
}

// add opens a session. The caller holds p.mu.
func (p *pool) add(id *identity) *pooled {
	p.numbers++
	s := &pooled{u: p.u, number: p.numbers, key: id.key, group: id.group, principal: id.principal, turn: make(chan struct{}, 1), ready: make(chan struct{}), last: time.Now(),
		declared: id.caps, carried: id.carried, talks: talks{subs: make(map[string]int)}}
	p.sessions[id.key] = append(p.sessions[id.key], s)
	p.count++
	info, caps := id.info, id.caps
	p.u.work.Go(func() { s.open(info, caps) })
	return s
}

func (p *pool) full(what string) *proxy.Error {
	e := proxy.Errf(proxy.TooManySessions, "%s; raise upstreams.%s.max_sessions, now %d", what, p.u.opt.Name, p.u.opt.MaxSessions)
	e.RetryAfter = 5
	return e
}

// maxOpening is how many sessions of one client are opened at a time. Many calls at once are better served by those that
// are done first than by a process for each of them.
const maxOpening = 4

// opening counts the sessions that are not open yet.
func opening(all []*pooled) (n int) {
	for _, s := range all {
		select {
		case <-s.ready:
		default:
			n++
		}
	}
	return n
}

// best chooses among sessions of one identity: the one that carries a listen, since what a call changes is then told
// there; else the last used, which a client's calls thus stay in, one after the other.
func best(all []*pooled, lease bool) (found *pooled) {
	var last time.Time
	listening := false
	for _, s := range all {
		s.mu.Lock()
		free, heard, used := !s.dead && !(lease && s.lease), s.listening(), s.last
		s.mu.Unlock()
		if !free || found != nil && (listening && !heard || listening == heard && !used.After(last)) {
			continue
		}
		found, last, listening = s, used, heard
	}
	return found
}

// used answers the session, held, that a client's calls were last in: a listen is there to hear of what they do. Sessions of the
// capabilities that the listen declares come before those of others: behind the same name may be another client. nil if there is none.
func (p *pool) used(id identity) *pooled {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := best(p.sessions[id.key], false)
	if s == nil {
		var all []*pooled
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

// makeRoom closes the longest unused session if there are as many as may be; false if all are in use. The caller holds
// p.mu.
func (p *pool) makeRoom() bool {
	if p.count < p.u.opt.MaxSessions {
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
func (p *pool) longestUnused(principal string, own bool) (oldest *pooled) {
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

// unused is longestUnused, with the time since when it is; nil and the zero time if all are in use.
func (p *pool) unused(principal string, own bool) (*pooled, time.Time) {
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

// wake lets those look again that wait for a session. The caller holds p.mu.
func (p *pool) wake() {
	if p.awaited.Swap(false) {
		close(p.freed)
		p.freed = make(chan struct{})
	}
}

// drop takes a session out and closes it. The caller holds p.mu.
func (p *pool) drop(s *pooled) {
	if i := slices.Index(p.sessions[s.key], s); i >= 0 {
		p.count--
		if p.sessions[s.key] = slices.Delete(p.sessions[s.key], i, i+1); len(p.sessions[s.key]) == 0 {
			delete(p.sessions, s.key)
		}
		p.u.work.Go(s.end) // who found it before has ended it
	}
	p.wake()
}

// discard drops a session that has proved dead.
func (p *pool) discard(s *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(s)
}

// size tells how many sessions there are, and how many of them are leased.
func (p *pool) size() (all, leased int) {
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

// settleTime bounds how long the end waits for servers to hear that calls are given up: some end a session only after its
// calls.
const settleTime = time.Second

// settle waits until the servers have been told of the calls that are given up.
func (p *pool) settle() {
	ctx, cancel := context.WithTimeout(p.u.work.Context(), settleTime)
	defer cancel()
	p.mu.Lock()
	var all []transport.Settler
	for _, of := range p.sessions {
		for _, s := range of {
			if link, ok := transport.As[transport.Settler](s.link.Get()); ok {
				all = append(all, link)
			}
		}
	}
	p.mu.Unlock()
	for _, link := range all {
		link.Settle(ctx)
	}
}

func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	all := p.sessions
	p.sessions, p.count = map[[32]byte][]*pooled{}, 0
	p.wake()
	p.mu.Unlock()
	var ends closing
	for _, of := range all {
		for _, s := range of {
			ends.close(func() error { s.end(); return nil })
		}
	}
	return ends.wait()
}
