// Package fakeserver is a server for tests, which answers without a transport, and what else the tests of package era and of the packages
// below it share.
package fakeserver

import (
	"context"
	"strconv"
	"sync"

	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// Server is a server behind links of its own, which it counts. Its mutex guards its fields.
type Server struct {
	sync.Mutex
	Links   []*Link
	Refuse  bool          // initialize is answered with an error
	Modern  bool          // it is a modern server
	Held    chan struct{} // nil, or closed when links may be opened
	Version string        // on which a handshake settles; empty: the newest legacy one
}

// Link is one conversation with a Server. Its mutex guards Said and Forgotten.
type Link struct {
	Sink transport.Sink

	sync.Mutex
	Said      []string // what it was sent
	Forgotten bool     // the server does not know the session any more

	s      *Server
	n      int
	closed bool
}

// Dial implements transport.Dial.
func (s *Server) Dial(_ context.Context, sink transport.Sink) (transport.Link, error) {
	s.Lock()
	held := s.Held
	s.Unlock()
	if held != nil {
		<-held
	}
	s.Lock()
	defer s.Unlock()
	l := &Link{s: s, n: len(s.Links), Sink: sink}
	s.Links = append(s.Links, l)
	return l, nil
}

// Open is how many links are not closed.
func (s *Server) Open() (n int) {
	s.Lock()
	defer s.Unlock()
	for _, l := range s.Links {
		l.Lock()
		if !l.closed {
			n++
		}
		l.Unlock()
	}
	return n
}

// Call implements transport.Link. The result of any other request than those of a handshake has the number of the link.
func (l *Link) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	l.Lock()
	l.Said = append(l.Said, string(m.Append(nil)))
	forgotten := l.Forgotten
	l.Unlock()
	l.s.Lock()
	refuse, modern, version := l.s.Refuse, l.s.Modern, l.s.Version
	l.s.Unlock()
	if version == "" {
		version = rules.LegacyVersion
	}
	id := m.Of(m.ID)
	switch {
	case forgotten:
		return nil, proxy.Errf(proxy.SessionLost, "forgotten")
	case m.Is("server/discover") && modern:
		return proxy.Reply(proxy.ResultMessage(id, []byte(`{"resultType":"complete","supportedVersions":["`+rules.ModernVersion+`"],"capabilities":{}}`))), nil
	case m.Is("initialize") && (refuse || modern):
		return proxy.Reply(proxy.ErrorMessage(id, proxy.Errf(proxy.InvalidParams, "no"))), nil
	case m.Is("initialize"):
		return proxy.Reply(proxy.ResultMessage(id, []byte(`{"protocolVersion":"`+version+`","capabilities":{"logging":{}},"serverInfo":{"name":"f","version":"1"}}`))), nil
	}
	return proxy.Reply(proxy.ResultMessage(id, []byte(`{"link":`+strconv.Itoa(l.n)+`}`))), nil
}

// Send implements transport.Link.
func (l *Link) Send(_ context.Context, msg []byte) error {
	l.Lock()
	defer l.Unlock()
	l.Said = append(l.Said, string(msg))
	return nil
}

// Close implements transport.Link.
func (l *Link) Close() error {
	l.Lock()
	defer l.Unlock()
	l.closed = true
	return nil
}
