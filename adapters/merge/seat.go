package merge

import (
	"dragoman/adapters/merge/view"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// public makes a message of the member one for the client; false if it is not for the client.
func (s *seat) public(v *view.View, m *wire.Message) bool {
	switch m.Kind {
	case wire.Request:
		return s.question(m)
	case wire.Result:
		v.ResultURIs(m, s.member.Name)
	case wire.Notification:
		switch {
		case m.Is("notifications/message"):
			nameLogger(m, s.member.Name)
		case m.Is(rules.ResourceUpdated):
			uri := string(m.Text(m.URI))
			if public := v.PublicURI(s.member.Name, uri); public != uri {
				m.Replace(m.URI, wire.AppendText(nil, public))
			}
		case m.Is("notifications/cancelled"):
			return s.withdrawn(m)
		default:
			s.heard(m)
		}
	}
	return true
}

// question gives a member's question an id of its own in the client's session: members choose theirs alike. False: the client has too
// many open, and the member was told so.
func (s *seat) question(m *wire.Message) bool {
	own := string(m.Of(m.ID))
	s.mu.Lock()
	id, err := s.c.session.Expect(func(answer *wire.Message) {
		s.mu.Lock()
		delete(s.questions, own)
		s.mu.Unlock()
		back := *answer
		back.Edits = nil
		back.Replace(answer.ID, []byte(own))
		if back, err := back.Clone(); err == nil {
			s.deliver(back)
		}
	})
	if err == nil && s.questions != nil {
		s.questions[own] = id
	}
	s.mu.Unlock()
	if err != nil {
		s.deliver(proxy.ErrorMessage([]byte(own), proxy.Errf(proxy.Question, "the client has too many open questions")))
		return false
	}
	m.Replace(m.ID, id)
	if m.Token.Present() { // of progress that the client reports
		m.Replace(m.Token, wire.AppendText(nil, s.member.Name+"/"+string(m.Of(m.Token))))
	}
	return true
}

// withdrawn makes the withdrawal of a question one for the client; false if the client does not have it.
func (s *seat) withdrawn(m *wire.Message) bool {
	own := string(m.Of(m.RequestID))
	s.mu.Lock()
	id, open := s.questions[own]
	delete(s.questions, own)
	s.mu.Unlock()
	if !open || !s.c.session.Withdraw(id) {
		return false
	}
	m.Replace(m.RequestID, id)
	return true
}

// outlet takes what a member sends outside of calls to the client's stream.
type outlet struct{ s *seat }

// Push implements proxy.Outlet.
func (o *outlet) Push(msg []byte) error {
	if !o.s.c.session.HasOutlet() {
		return proxy.ErrNoOutlet
	}
	m, err := wire.Scan(msg)
	if err != nil {
		return nil //nolint:nilerr // it is none for a client
	}
	if !o.s.public(o.s.c.view(o.s.c.session.Reader()), &m) {
		return nil
	}
	return o.s.c.session.Push(m.Append(nil))
}

// End implements proxy.Outlet.
func (o *outlet) End() {}
