package sessions

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// RestTime is how long a session rests after a leased call has been given up: until the server has received the cancellation, its
// questions would be taken for those of the next call.
const RestTime = 250 * time.Millisecond

// restMost bounds how long a call waits for a session that rests, on a machine that is busy.
const restMost = 4 * RestTime

// quietTime is how long a turn has to be suspended before another one runs in its session: a server that asks several questions at once
// has sent the last of them then.
const quietTime = 10 * time.Millisecond

// Turn is the use of a session by one call. A leased turn is that of a call in which the server may ask. While the call's client waits for
// a reply, no other leased turn begins in the session. A turn whose client has been asked is suspended: the client's next call belongs in
// the same session, for what the server remembers of the client. So does the call after one that was given up, once the session has
// rested. A Turn is safe for concurrent use.
type Turn struct {
	s      *Session
	leased bool
	from   netip.Addr // of an anonymous caller
	about  string     // what is called; empty unless the session is the only one
	alone  bool       // no other such call runs beside it
	asked  bool       // the server has asked in it; guarded by s.mu

	state turnState // guarded by s.mu
	stray bool      // a question that comes while it rests may be of its call; guarded by s.mu
	moved time.Time // when the state changed; guarded by s.mu
}

// turnState is the state of a turn.
type turnState uint8

const (
	running   turnState = iota // the client waits for a reply
	suspended                  // the client has been asked
	resting                    // the client has given the call up
	over
)

// Session returns the session of the turn.
func (t *Turn) Session() *Session { return t.s }

// Leased reports whether the server may ask in the turn, and no other such turn runs beside it.
func (t *Turn) Leased() bool { return t.leased }

// Suspend records that the client has been asked. Its next call may use the session.
func (t *Turn) Suspend() { t.move(suspended, running) }

// resumeMost bounds how long a turn that resumes waits for another one.
const resumeMost = time.Second

// Resume records that the client has returned with answers, and waits again. Before, it waits until the turn of another call that has
// begun meanwhile is over, or suspended for quietTime, since two calls that run cannot be told apart by what the server asks; a turn that
// was given up is over once it has rested. Resume waits a second at most, and until ctx is done: the other call's answer may depend on this
// one.
func (t *Turn) Resume(ctx context.Context) {
	late := time.NewTimer(resumeMost)
	defer late.Stop()
	for {
		moved := t.resume(false)
		if moved == nil {
			return
		}
		select {
		case <-moved:
			continue
		case <-time.After(quietTime):
			continue
		case <-late.C:
		case <-ctx.Done():
		}
		t.resume(true)
		return
	}
}

// resume makes a suspended turn run, unless the server may ask in another turn and force is false: then it returns a channel that is closed
// when a turn of the session has changed.
func (t *Turn) resume(force bool) (moved <-chan struct{}) {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.leased || t.state != suspended {
		return nil
	}
	if !force && slices.ContainsFunc(s.turns, func(o *Turn) bool { return o != t && (o.busy() && !s.beside(o) || o.strays()) }) {
		if s.moved == nil {
			s.moved = make(chan struct{})
		}
		return s.moved
	}
	t.set(running)
	return nil
}

// set changes the state of a leased turn, which becomes the last of the session's turns. The caller holds s.mu.
func (t *Turn) set(to turnState) {
	s := t.s
	t.state, t.moved = to, time.Now()
	i := slices.Index(s.turns, t)
	s.turns = append(slices.Delete(s.turns, i, i+1), t)
	s.last = t.moved
	s.tell()
}

// busy reports whether a question that comes now may be of the turn's call: it runs, or was suspended a moment ago. The caller holds s.mu.
func (t *Turn) busy() bool {
	return t.state == running || t.state == suspended && time.Since(t.moved) < quietTime
}

// strays reports whether a question that comes now may be of the turn's call although that was given up. It is not of a call whose client
// had been asked: there the server waits for the answer. The caller holds s.mu.
func (t *Turn) strays() bool { return t.state == resting && t.stray }

// tell wakes the turns that wait for another one. The caller holds s.mu.
func (s *Session) tell() {
	if s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
}

// Abort implements proxy.Aborter: the client has given the call up.
func (t *Turn) Abort() { t.move(resting, running, suspended) }

// move changes the state if it is one of from.
func (t *Turn) move(to turnState, from ...turnState) {
	if !t.leased {
		return
	}
	s := t.s
	s.mu.Lock()
	moves := slices.Contains(from, t.state)
	if moves {
		t.stray = t.busy()
		t.set(to)
	}
	s.mu.Unlock()
	if moves {
		if to == suspended && s.pool.single.Load() {
			time.AfterFunc(quietTime, s.settle) // a question that is held back cannot be of this call then
		}
		s.settle()
		s.pool.signal()
	}
}

// End ends the turn and releases the session. Only the first call counts.
func (t *Turn) End() {
	s := t.s
	s.mu.Lock()
	ended := t.state == over
	if t.state = over; !ended {
		s.turns = slices.DeleteFunc(s.turns, func(o *Turn) bool { return o == t })
		s.tell()
	}
	s.mu.Unlock()
	if !ended {
		t.learn()
		s.settle()
		s.release(t.leased)
	}
}

// addressOf returns what tells callers without an identity apart, as far as anything does.
func addressOf(ex *proxy.Exchange) (from netip.Addr) {
	if ex.Caller.Principal == "" && ex.Arrival != nil {
		from = ex.Arrival.Address
	}
	return from
}

// availability says whether a call may begin in a session.
type availability uint8

const (
	free    availability = iota
	rests                // it is free in a moment
	engaged              // another call runs in which the server may ask
)

// available reports whether a turn for a request may begin. The caller holds s.mu.
func (s *Session) available(r *request) availability {
	if !r.lease {
		return free
	}
	if len(s.inbox.held) > 0 {
		return engaged
	}
	a := free
	for _, t := range s.turns {
		switch {
		case t.from != r.from: // a question that comes late must not reach another person
			return engaged
		case t.state == running && (r.alone || !s.beside(t)):
			return engaged
		case t.state == resting, t.state != running && t.busy():
			a = rests
		}
	}
	return a
}

// rank orders turns by when they began to run, those that do not run first; it is -1 for one that is not leased. The caller holds s.mu.
func (s *Session) rank(t *Turn) int {
	rank := slices.Index(s.turns, t)
	if rank >= 0 && t.state == running {
		rank += len(s.turns)
	}
	return rank
}

// asked returns the call that a question belongs to which names none, and the number of calls that accept it. Among leased calls, all of
// one client, it is the one that began to run last, and a suspended one only if none runs: its server waits for answers. Otherwise it is
// the only one that accepts the question. While a turn rests there is none, since the question may be of the call that was given up; but
// if that call's client had been asked, there is the one that runs. The caller holds s.mu.
//
// In the only session with a server several leased calls may run. The question of one of those belongs to none as long as they do, and
// rivals is their number.
func (s *Session) asked(m *wire.Message) (found Receiver, count, rivals int) {
	best := -1
	var turn *Turn // of found
	single := s.pool.single.Load()
	for _, c := range s.inbox.calls {
		if !c.Accepts(m) {
			continue
		}
		if single && c.turn.leased && c.turn.busy() {
			rivals++
		}
		if count++; count == 1 {
			found, turn = c.Receiver, c.turn
		}
		if rank := s.rank(c.turn); rank > best {
			best, found, turn = rank, c.Receiver, c.turn
		}
	}
	runs := turn != nil && turn.state == running
	rests := slices.ContainsFunc(s.turns, func(t *Turn) bool { return t.strays() || t.state == resting && !runs })
	switch {
	case rests:
		return nil, count, 0
	case rivals > 1, count > 1 && best < 0:
		return nil, count, rivals
	case turn != nil:
		turn.asks()
	}
	return found, count, rivals
}
