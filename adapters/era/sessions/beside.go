package sessions

import (
	"slices"
	"sync"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A client whose server has one session (single.go) has its calls in that one, those in which the server may ask too: a slow call must
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
	stuck := len(b.held) >= rivals
	switch {
	case b.giveUp == nil && stuck:
		b.giveUp = time.AfterFunc(min(stuckTime, s.pool.opt.LeaseWait), s.refuseHeld)
	case b.giveUp == nil:
		b.giveUp = time.AfterFunc(s.pool.opt.LeaseWait, s.refuseHeld)
	case stuck:
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
			c.Receive(&m, false)
		}
		s.pool.signal()
	}
}

// refuseHeld refuses the questions that were held back for too long. What runs now will run alone the next time.
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

// about returns what a call that may be asked calls: its method, and the tool, prompt or resource.
func about(ex *proxy.Exchange) string {
	m := &ex.Msg
	name := m.Name
	if !name.Present() {
		name = m.URI
	}
	return string(append(append(slices.Clone(m.Text(m.Method)), ' '), m.Text(name)...))
}

// lateAskers holds what was seen to ask later than headStart (true), or is suspected to (false), by Turn.about. It is safe for concurrent use.
type lateAskers struct {
	mu  sync.Mutex
	all map[string]bool
}

// lateMost bounds the entries of lateAskers, and lateName the bytes of each.
const (
	lateMost = 1024
	lateName = 256
)

func (l *lateAskers) add(about string, certain bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if about == "" || len(about) > lateName || len(l.all) >= lateMost {
		return
	}
	if l.all == nil {
		l.all = make(map[string]bool)
	}
	l.all[about] = certain || l.all[about]
}

func (l *lateAskers) has(about string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.all[about]
	return ok
}

func (l *lateAskers) acquit(about string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if certain, ok := l.all[about]; ok && !certain {
		delete(l.all, about)
	}
}
