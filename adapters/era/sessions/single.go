package sessions

import (
	"cmp"
	"context"
	"errors"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Some servers send what is for one session to all: a bridge that has one child behind many event streams, for example. Their answers
// find no call in a session that they are not for, since ids are unique. But nothing tells for which session a question, a log message or a
// change notice is. Once a server was seen to do so, one session is open at a time, and what it receives is its own. The calls of its
// client share it; those of other clients take turns.

// MakeSingle makes the pool have one session at a time from now on. Surplus ones are closed when their calls have ended.
func (p *Pool) MakeSingle() {
	p.single.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.yield()
	time.AfterFunc(headStart, p.signal)
}

// Single reports whether the pool has one session at a time.
func (p *Pool) Single() bool { return p.single.Load() }

// Wake makes calls that wait look again whether a session is free.
func (p *Pool) Wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wake()
}

// Described returns a session whose InitializeResult describes the server to the client of an exchange, for server/discover. With one
// session at a time that is any of the same caller, so that a client can connect while another's call runs. The caller must call Release.
func (p *Pool) Described(ex *proxy.Exchange) (*Session, error) {
	if p.single.Load() {
		if s, _ := p.any(func(s *Session) bool { return s.caller == ex.Caller.Identity() }); s != nil {
			return s, nil
		}
	}
	return p.Acquire(ex, 0)
}

// findSingle is find while one session is open at a time. The caller holds p.mu.
func (p *Pool) findSingle(r *request) (*Session, error) {
	if c := p.claimant; c != nil && c.id.key != r.id.key {
		return nil, p.taken()
	}
	if r.lease {
		r.about = about(r.ex)
		r.alone = p.late.has(r.about)
	}
	own := p.sessions[r.id.key]
	if p.count > 1 { // others end sooner if no call begins in them
		first := p.oldest()
		if own = nil; first.key == r.id.key {
			own = []*Session{first}
		}
	}
	if s, err := p.choose(own, r); s != nil || err != nil {
		return s, err
	}
	if len(own) > 0 {
		return nil, leased()
	}
	return p.onlySession(&r.id)
}

// oldest returns the session that was opened first. There must be one. The caller holds p.mu.
func (p *Pool) oldest() (first *Session) {
	for s := range p.all() {
		if first == nil || s.number < first.number {
			first = s
		}
	}
	return first
}

// surplus reports whether a session in which no call has begun yet is to close, because another one is open.
func (p *Pool) surplus(s *Session) bool {
	if !p.single.Load() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count > 1 && p.oldest() != s
}

// leave gives a session back that take has taken.
func leave(ex *proxy.Exchange, s *Session, t *Turn) {
	if t == nil {
		s.Release()
		return
	}
	ex.Detach(t)
	t.End()
}

// onlySession opens a session for an identity, in place of one that is not in use. The error says that another client's is in use. The
// caller holds p.mu.
func (p *Pool) onlySession(id *identity) (*Session, error) {
	if p.others() == 0 && p.count == 1 {
		if s := p.longestUnused("", false); s != nil {
			p.drop(s)
		}
	}
	if p.others() > 0 || p.count > 0 {
		return nil, p.taken()
	}
	return p.add(id), nil
}

func (p *Pool) others() int {
	if p.opt.Others == nil {
		return 0
	}
	return p.opt.Others()
}

// taken returns the error of a call that has waited in vain.
func (p *Pool) taken() *proxy.Error {
	e := proxy.Errf(proxy.TooManySessions, "the upstream server sends what is for one session to all, so it gets one session at a time, and calls in another "+
		"go on longer than questions.lease_wait; run its command under Dragoman instead, or set upstreams.%s.isolation to shared", p.server.Name)
	e.RetryAfter = 5
	return e
}

// whyEnded returns the error of a call that has ended while it waited because of why. One whose time is over says what it waited for.
func (p *Pool) whyEnded(ex *proxy.Exchange, why error) error {
	var told *proxy.Error
	if p.single.Load() && errors.As(why, &told) && errors.Is(ex.Err(), context.DeadlineExceeded) && !errors.As(ex.Err(), new(*proxy.Error)) {
		return told
	}
	return ex.Err()
}

// urgent returns a channel that says when a call has waited for half of its time; nil if sessions do not take turns.
func (p *Pool) urgent() <-chan time.Time {
	if !p.single.Load() {
		return nil
	}
	return time.After(p.opt.LeaseWait / 2)
}

// claim makes the session wait for a call that has waited for half of its time: no call of another client begins, and calls give way
// whose clients were asked long ago and have not answered.
func (p *Pool) claim(r *request) {
	p.mu.Lock()
	p.claimant = cmp.Or(p.claimant, r)
	var idle []Yielder
	for s := range p.all() {
		if s.key != r.id.key {
			idle = append(idle, s.unanswered(p.opt.LeaseWait/2)...)
		}
	}
	p.mu.Unlock()
	for _, c := range idle {
		c.GiveWay()
	}
}

// resign ends the claim of a call.
func (p *Pool) resign(r *request) {
	if !p.single.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.claimant == r {
		p.claimant = nil
		p.wake()
	}
}

// unanswered returns the calls of a session whose clients have been asked that long ago, if no other call is under way.
func (s *Session) unanswered(since time.Duration) (calls []Yielder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uses-s.listens != len(s.turns) {
		return nil
	}
	for _, c := range s.inbox.calls {
		if c.turn.state != suspended || time.Since(c.turn.moved) < since {
			return nil
		}
		if y, ok := c.Receiver.(Yielder); ok {
			calls = append(calls, y)
		}
	}
	return calls
}

// yield closes unused sessions until one is left, if the pool has one at a time. The caller holds p.mu.
func (p *Pool) yield() {
	for p.single.Load() && p.count > 1 {
		s := p.longestUnused("", false)
		if s == nil {
			return
		}
		p.drop(s)
	}
}

// crowded reports whether sessions from before MakeSingle are still open beside the single one. A message that names no call cannot be
// assigned to any of them then.
func (p *Pool) crowded() bool {
	if !p.single.Load() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count+p.others() > 1
}

// A client whose server has one session has its calls in that one, those in which the server may ask too: a slow call must
// not hold up a quick one. Questions name no call, so that
//   - a call begins, or goes on after an answer, once those that run have had a head start: most servers ask at once, and calls that are
//     suspended are not in the way;
//   - a question that comes while several run waits until one of them is left;
//   - what was seen to ask later than that runs alone the next time.

// headStart is how long a call runs before another one may run beside it.
const headStart = 200 * time.Millisecond

// stuckTime is how long questions wait if there are as many as calls that run: each of these seems to wait for an answer.
const stuckTime = time.Second

// beside reports whether another turn may run beside one of the session. The caller holds s.mu.
func (s *Session) beside(t *Turn) bool {
	return s.pool.single.Load() && !t.alone && t.state == running && time.Since(t.moved) >= headStart
}

// holdBack keeps a question that may be of several calls, of which rivals run.
func (s *Session) holdBack(m *wire.Message, rivals int) {
	own, err := m.Clone()
	s.mu.Lock()
	b := &s.inbox
	if err != nil || s.dead || len(b.held) >= heldQuestions {
		s.mu.Unlock()
		s.Refuse(m)
		return
	}
	b.held = append(b.held, own)
	switch {
	case b.giveUp == nil: // it is the first
		b.giveUp = time.AfterFunc(s.pool.opt.LeaseWait, s.refuseHeld)
	case len(b.held) >= rivals:
		b.giveUp.Reset(min(stuckTime, s.pool.opt.LeaseWait))
	}
	s.mu.Unlock()
	time.AfterFunc(quietTime, s.settle) // a call that is suspended is out of the question then
}

// settle hands the questions that were held back to the only call that they can belong to by now, and refuses those that belong to none.
func (s *Session) settle() {
	for {
		s.mu.Lock()
		b := &s.inbox
		if len(b.held) == 0 {
			s.mu.Unlock()
			return
		}
		c, _, rivals := s.asked(&b.held[0])
		if rivals > 1 {
			s.mu.Unlock()
			return
		}
		m := b.held[0]
		if b.held = b.held[1:]; len(b.held) == 0 {
			b.drop()
		}
		s.mu.Unlock()
		if c == nil {
			s.Refuse(&m)
		} else {
			c.Receive(&m)
		}
		s.pool.signal()
	}
}

// refuseHeld refuses the questions that were held back for too long. The calls that run now run alone the next time.
func (s *Session) refuseHeld() {
	s.mu.Lock()
	held := s.inbox.held
	s.inbox.drop()
	for _, c := range s.inbox.calls {
		if len(held) > 0 && c.turn.leased && c.turn.state == running {
			s.pool.late.add(c.turn.about, false)
		}
	}
	s.mu.Unlock()
	for i := range held {
		s.pool.work.Decline(s.Link(), &held[i], proxy.Errf(proxy.Unanswered, "the server has one session for several calls under way, and nothing tells in which of them it asks this; make the calls one after the other"))
	}
	s.pool.signal()
}

// drop forgets the questions that were held back.
func (b *inbox) drop() {
	b.held = nil
	if b.giveUp != nil {
		b.giveUp.Stop()
		b.giveUp = nil
	}
}

// asks records that the server has asked in the turn's call. The caller holds s.mu.
func (t *Turn) asks() {
	t.asked = true
	if t.leased && t.state == running && time.Since(t.moved) >= headStart {
		t.s.pool.late.add(t.about, true)
	}
}

// learn forgets that a turn's call was suspected to ask late, if the server has not asked in it. The turn is over.
func (t *Turn) learn() {
	if t.alone && !t.asked {
		t.s.pool.late.acquit(t.about)
	}
}
