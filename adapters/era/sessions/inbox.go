package sessions

import (
	"bytes"
	"slices"
	"time"

	"dragoman/adapters/rules"
	"dragoman/proxy/wire"
)

// Bounds on questions that a server asks before there is a call that they could belong to.
const (
	heldQuestions = 16
	holdTime      = 15 * time.Second // after which they are refused: a server may block until it has an answer
	holdBusy      = time.Second      // the same while a call is in flight that they cannot belong to
)

// Receiver is a call that receives what the server sends outside it: questions, progress and log messages.
type Receiver interface {
	// Accepts reports whether a message may belong to the call.
	Accepts(m *wire.Message) bool
	// Receive receives a message that can belong to no other call.
	Receive(m *wire.Message)
	// Withdraw drops the question that a notifications/cancelled names.
	Withdraw(m *wire.Message)
}

// Yielder is a Receiver that can be given up while its client has been asked, because another client has waited for long.
type Yielder interface{ GiveWay() }

// attached is a call that receives messages, with its turn.
type attached struct {
	Receiver
	turn *Turn
}

// inbox delivers messages of a session that belong to no single call. It holds the calls that may receive such messages, and the
// questions that wait for a call. The session's mutex guards it.
type inbox struct {
	calls         []attached
	early         []wire.Message // questions that arrived before there was a call in which the server may ask
	hadAskingCall bool           // there has been such a call: a question between two calls may be a stray of the first
	refusal       *time.Timer    // of early
	held          []wire.Message // questions of one of several calls that run; see single.go
	giveUp        *time.Timer    // of held
}

// stop stops the refusal of early questions.
func (b *inbox) stop() {
	if b.refusal != nil {
		b.refusal.Stop()
		b.refusal = nil
	}
}

// withdraw removes a question that the server has withdrawn. If it was the last, the time of later ones begins anew.
func (b *inbox) withdraw(m *wire.Message) {
	named := func(q wire.Message) bool { return bytes.Equal(q.Of(q.ID), m.Of(m.RequestID)) }
	if b.early = slices.DeleteFunc(b.early, named); len(b.early) == 0 {
		b.stop()
	}
	if b.held = slices.DeleteFunc(b.held, named); len(b.held) == 0 {
		b.drop()
	}
}

// Join adds a call that receives messages from outside calls. If the server may ask in it, it receives the questions that arrived
// before: many servers ask for the roots right after the handshake, and an empty answer would be false.
func (t *Turn) Join(c Receiver, asks bool) {
	s := t.s
	s.mu.Lock()
	b := &s.inbox
	b.calls = append(b.calls, attached{c, t})
	if !asks {
		s.mu.Unlock()
		return
	}
	early := b.early
	b.early, b.hadAskingCall = nil, true
	b.stop()
	s.mu.Unlock()
	for i := range early {
		c.Receive(&early[i])
	}
}

// Leave removes a call.
func (s *Session) Leave(c Receiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inbox.calls = slices.DeleteFunc(s.inbox.calls, func(o attached) bool { return o.Receiver == c })
}

// only returns the only call that accepts a message; nil if there are none or several. Among leased calls, which are all of one client, it
// is the one that began to run last: a suspended one, which may have been abandoned, does not take the messages of others.
func (s *Session) only(m *wire.Message) (found Receiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	best, leased := -1, true
	for _, c := range s.inbox.calls {
		if !c.Accepts(m) {
			continue
		}
		if leased = leased && c.turn.leased; !leased && found != nil {
			return nil
		}
		if rank := s.rank(c.turn); found == nil || rank > best {
			best, found = rank, c.Receiver
		}
	}
	return found
}

// Message implements transport.Sink: a message outside calls goes to the only call that accepts it, a change notice to the listens.
func (s *Session) Message(m *wire.Message) bool {
	switch {
	case m.Kind == wire.Request && m.Is("ping"):
		s.Refuse(m)
	case m.Kind == wire.Request && s.pool.crowded(): // it may be for another session
		s.Refuse(m)
	case m.Is("notifications/message") && s.pool.crowded():
	case m.Kind == wire.Request:
		s.question(m)
	case s.Notice(m):
	case m.Is("notifications/cancelled"):
		s.mu.Lock()
		s.inbox.withdraw(m)
		all := slices.Clone(s.inbox.calls)
		s.mu.Unlock()
		s.pool.signal()
		for _, c := range all {
			c.Withdraw(m)
		}
	case m.Is("notifications/progress"), m.Is("notifications/message"):
		c := s.only(m)
		if c == nil {
			return false // the call that it belongs to is unknown
		}
		c.Receive(m)
	default:
		return false
	}
	return true
}

// question handles a question that names no call.
func (s *Session) question(m *wire.Message) {
	s.mu.Lock()
	c, asking, rivals := s.asked(m)
	s.mu.Unlock()
	switch {
	case c != nil:
		c.Receive(m)
		return
	case rivals > 1:
		s.holdBack(m, rivals)
		return
	}
	own, err := m.Clone()
	never := rules.Undeclared(s.declared, string(m.Text(m.Method)), m.Raw, m.Params) != "" // in any later call either
	s.mu.Lock()
	b := &s.inbox
	if err != nil || never || asking > 0 || b.hadAskingCall || !s.pool.asks() || s.dead || len(b.early) >= heldQuestions {
		s.mu.Unlock()
		s.Refuse(m)
		return
	}
	b.early = append(b.early, own)
	if b.refusal == nil {
		hold := holdTime
		if s.uses > s.listens { // a call in which the server may not ask is in flight, and may wait for the answer
			hold = holdBusy
		}
		b.refusal = time.AfterFunc(hold, s.refuseEarly)
	}
	s.mu.Unlock()
}

// refuseEarly refuses the questions that no call has taken.
func (s *Session) refuseEarly() {
	s.mu.Lock()
	early := s.inbox.early
	s.inbox.early, s.inbox.refusal = nil, nil
	s.mu.Unlock()
	for i := range early {
		s.Refuse(&early[i])
	}
}

// Refuse answers a question that no client can answer, in the background.
func (s *Session) Refuse(m *wire.Message) { s.pool.work.Refuse(s.Link(), m) }
