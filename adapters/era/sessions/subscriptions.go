package sessions

import (
	"context"
	"slices"

	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Listener is a listen of a modern client, which holds a session and receives the change notices of all of the client's sessions.
type Listener interface {
	// Notify receives a change notice that arrived in a session of the listener's client. m is borrowed.
	Notify(from *Session, m *wire.Message)
	// SessionEnded is called when a session of the listener's client has ended, which may be the listener's own.
	SessionEnded(s *Session)
	// Names reports whether the listen names a resource, or one that contains it.
	Names(uri string) bool
}

// Subscribe subscribes to a resource for a listener. The first listener of the session that needs the resource subscribes at the
// server; the error is the server's refusal (InvalidParams) or that of the request.
func (s *Session) Subscribe(ctx context.Context, uri string) error {
	return s.subscription(ctx, uri, "resources/subscribe", func(n int) (int, bool) { return n + 1, n == 0 })
}

// unsubscribe takes one Subscribe back. The last one unsubscribes at the server.
func (s *Session) unsubscribe(ctx context.Context, uri string) error {
	return s.subscription(ctx, uri, "resources/unsubscribe", func(n int) (int, bool) { return n - 1, n == 1 })
}

// subscription changes the count of a resource, and sends method if the change is from or to zero. Changes run one at a time, so that
// the server receives the requests in the order of the counts.
func (s *Session) subscription(ctx context.Context, uri, method string, count func(int) (int, bool)) error {
	select {
	case s.subscribing <- struct{}{}:
		defer func() { <-s.subscribing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	n, tell := count(s.subscribed[uri])
	s.mu.Unlock()
	if tell && !s.Gone() {
		msg := append(wire.AppendText([]byte(`{"jsonrpc":"2.0","id":"subscription","method":"`+method+`","params":{"uri":`), uri), "}}"...)
		ctx, cancel := context.WithTimeout(ctx, s.pool.server.Timeout)
		defer cancel()
		m, err := transport.AskLegacy(ctx, s.Link(), msg)
		switch wanted := n > 0; {
		case !wanted: // a failure does not matter: the next listener subscribes again
		case err != nil:
			return err
		case m.Kind == wire.Failure:
			return proxy.NewError(proxy.InvalidParams, string(m.Text(m.ErrorText)))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribed[uri] = n; n <= 0 {
		delete(s.subscribed, uri)
	}
	return nil
}

// AddListener adds a listener, which uses the session until EndListener.
func (s *Session) AddListener(l Listener) {
	s.mu.Lock()
	s.listens++
	s.mu.Unlock()
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.listeners[s.group], l) {
		p.listeners[s.group] = append(p.listeners[s.group], l)
	}
}

// EndListener removes a listener, and releases its subscriptions and the session in the background.
func (s *Session) EndListener(l Listener, uris []string) {
	p := s.pool
	p.DropListener(s.group, l)
	s.mu.Lock()
	s.listens--
	s.mu.Unlock()
	ends := p.work.Spawn(func() {
		for _, uri := range uris {
			_ = s.unsubscribe(p.work.Context(), uri) // a server that is gone has forgotten it anyway
		}
		s.Release()
	})
	if !ends {
		s.Release()
	}
}

// DropListener removes a listener that has no session at the moment.
func (p *Pool) DropListener(client [32]byte, l Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := slices.DeleteFunc(p.listeners[client], func(o Listener) bool { return o == l })
	if p.listeners[client] = left; len(left) == 0 {
		delete(p.listeners, client)
	}
}

// Notice delivers a change notice to the listeners of the session's client; false if m is no change notice.
func (s *Session) Notice(m *wire.Message) bool {
	if rules.NoticeKey(m) == "" {
		return false
	}
	for _, l := range s.pool.listening(s.group) {
		l.Notify(s, m)
	}
	return true
}

// listening returns the listeners of one client.
func (p *Pool) listening(client [32]byte) []Listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.listeners[client])
}

// Listened reports whether any listener of one client names a resource, or one that contains it.
func (p *Pool) Listened(client [32]byte, uri string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.listeners[client], func(l Listener) bool { return l.Names(uri) })
}

// Listens returns the number of listeners.
func (p *Pool) Listens() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, all := range p.listeners {
		n += len(all)
	}
	return n
}
