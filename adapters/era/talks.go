package era

import (
	"bytes"
	"slices"
	"time"

	"dragoman/adapters/rules"
	"dragoman/proxy/wire"
)

// Bounds on questions that a server asks before any call is there that they could belong to.
const (
	heldQuestions = 16
	holdTime      = 15 * time.Second // then they are refused: a server may answer nothing before it has its answer
	holdBusy      = time.Second      // while a call is under way that they cannot belong to
)

// talks are what goes on in a pooled session beside single calls: the dialogues in it, and questions that wait for one.
// The session's mutex guards them.
type talks struct {
	with    []*dialogue
	early   []wire.Message // asked before there was any call that may be asked
	talked  bool           // there has been one: what is asked between two calls may be a stray of the first
	refusal *time.Timer    // of these
	listens int
	subs    map[string]int // how many listens want a URI that the server tells of
}

// listening tells whether the session carries a listen. The caller holds s.mu.
func (s *pooled) listening() bool { return s.listens > 0 }

// join enters a dialogue, which inherits what the server asked too early: many ask for the roots right after the
// handshake, and an empty answer would be a false one.
func (s *pooled) join(d *dialogue) {
	s.mu.Lock()
	s.with = append(s.with, d)
	if !d.asks {
		s.mu.Unlock()
		return
	}
	early := s.early
	s.early, s.talked = nil, true
	if s.refusal != nil {
		s.refusal.Stop()
		s.refusal = nil
	}
	s.mu.Unlock()
	for i := range early {
		d.ask(&early[i], true)
	}
}

func (s *pooled) leave(d *dialogue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.with = slices.DeleteFunc(s.with, func(o *dialogue) bool { return o == d })
}

// only answers the one dialogue of the session that is meant, nil if there are none or several, and how many there are.
func (s *pooled) only(meant func(d *dialogue) bool) (found *dialogue, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.with {
		if meant(d) {
			found = d
			count++
		}
	}
	if count > 1 {
		found = nil
	}
	return found, count
}

// Message implements Sink: what comes outside any call belongs to the call that has the session leased, if any. Change
// notices are for the listens.
func (s *pooled) Message(m *wire.Message) bool {
	switch {
	case m.Kind == wire.Request && m.Is("ping"):
		refuse(s.u, s.link.Get(), m)
	case m.Kind == wire.Request:
		s.question(m)
	case s.notice(m):
	case m.Is("notifications/cancelled"):
		s.mu.Lock()
		s.early = slices.DeleteFunc(s.early, func(q wire.Message) bool { return bytes.Equal(q.Of(q.ID), m.Of(m.RequestID)) })
		all := slices.Clone(s.with)
		s.mu.Unlock()
		for _, d := range all {
			d.withdrawn(m)
		}
	case m.Is("notifications/progress"):
		token := m.AppendPart(nil, m.ProgressToken)
		d, _ := s.only(func(d *dialogue) bool { return bytes.Equal(d.inner.Msg.Of(d.inner.Msg.Token), token) })
		if d == nil {
			return false
		}
		d.put(m)
	case m.Is("notifications/message"):
		d, _ := s.only(func(d *dialogue) bool { return d.inner.Client.LogLevel != "" })
		if d == nil {
			return false // it names no call, and nothing tells whose it is
		}
		d.put(m)
	default:
		return false
	}
	return true
}

func (s *pooled) question(m *wire.Message) {
	d, asking := s.only(func(d *dialogue) bool { return d.asks })
	if d != nil {
		d.ask(m, false)
		return
	}
	kept, err := m.Clone()
	never := rules.Undeclared(s.declared, string(m.Text(m.Method)), m.Raw, m.Params) != "" // no call to come may be asked it
	s.mu.Lock()
	if err != nil || never || asking > 0 || s.talked || !s.u.opt.asks() || s.dead || len(s.early) >= heldQuestions {
		s.mu.Unlock()
		refuse(s.u, s.link.Get(), m)
		return
	}
	s.early = append(s.early, kept)
	if s.refusal == nil {
		hold := holdTime
		if s.uses > s.listens { // a call that may not be asked is under way, and may wait for this
			hold = holdBusy
		}
		s.refusal = time.AfterFunc(hold, s.refuseEarly)
	}
	s.mu.Unlock()
}

// refuseEarly refuses what waited for a call in vain.
func (s *pooled) refuseEarly() {
	s.mu.Lock()
	early := s.early
	s.early, s.refusal = nil, nil
	s.mu.Unlock()
	for i := range early {
		refuse(s.u, s.link.Get(), &early[i])
	}
}
