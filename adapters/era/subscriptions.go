package era

import (
	"context"
	"slices"

	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// can tells whether the server has a flag of a capability.
func (h *hello) can(capability, flag string) bool {
	all := wire.Whole(h.caps)
	return len(h.caps) > 0 && string(wire.Path(h.caps, all, capability, flag).Of(h.caps)) == "true"
}

// runsTasks tells whether the server runs calls as tasks (2025-11-25 tasks, Capabilities).
func (h *hello) runsTasks() bool {
	all := wire.Whole(h.caps)
	return len(h.caps) > 0 && wire.Path(h.caps, all, "tasks", "requests", "tools", "call").Present()
}

// pushes tells whether the server can say something outside a call: only then is a notice sure to be heard.
func (s *pooled) pushes() bool {
	link, ok := transport.As[transport.Pusher](s.link.Get())
	return !ok || link.Pushes()
}

// subscribe makes the server tell of a resource in this session; the first who wants it asks the server.
func (s *pooled) subscribe(ctx context.Context, uri string) error {
	return s.subscription(ctx, uri, "resources/subscribe", func(n int) (int, bool) { return n + 1, n == 0 })
}

// unsubscribe takes that back; the last who wanted it tells the server.
func (s *pooled) unsubscribe(ctx context.Context, uri string) error {
	return s.subscription(ctx, uri, "resources/unsubscribe", func(n int) (int, bool) { return n - 1, n == 1 })
}

// subscription counts, and asks the server where the count comes from or goes to nought. One at a time: what the server
// hears is in the order of what is counted.
func (s *pooled) subscription(ctx context.Context, uri, method string, count func(int) (int, bool)) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	n, tell := count(s.subs[uri])
	s.mu.Unlock()
	if tell && !s.gone() {
		msg := append(wire.AppendText([]byte(`{"jsonrpc":"2.0","id":"subscription","method":"`+method+`","params":{"uri":`), uri), "}}"...)
		ex, err := transport.NewExchange(proxy.Legacy, msg)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, s.u.opt.ProbeTimeout)
		defer cancel()
		m, err := transport.Ask(ctx, s.link.Get(), ex)
		switch wanted := n > 0; {
		case !wanted: // nobody wants it any more, whatever came of it: the next who does asks again
		case err != nil:
			return err
		case m.Kind == wire.Failure:
			return proxy.Errf(proxy.InvalidParams, "%s", m.Text(m.ErrorText))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subs[uri] = n; n <= 0 {
		delete(s.subs, uri)
	}
	return nil
}

func (s *pooled) gone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// addListen enters a listen; the session is the caller's to release by endListen.
func (s *pooled) addListen(h *hearing) {
	s.mu.Lock()
	s.listens++
	s.mu.Unlock()
	s.u.pool.mu.Lock()
	defer s.u.pool.mu.Unlock()
	if !slices.Contains(s.u.pool.hearings[s.group], h) {
		s.u.pool.hearings[s.group] = append(s.u.pool.hearings[s.group], h)
	}
}

// dropListen takes a listen out of those that hear what comes.
func (p *pool) dropListen(h *hearing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := slices.DeleteFunc(p.hearings[h.group], func(o *hearing) bool { return o == h })
	if p.hearings[h.group] = left; len(left) == 0 {
		delete(p.hearings, h.group)
	}
}

// endListen takes a listen out, and its subscriptions back, which nobody waits for.
func (s *pooled) endListen(h *hearing, uris []string) {
	s.u.pool.dropListen(h)
	s.mu.Lock()
	s.listens--
	s.mu.Unlock()
	ends := s.u.work.Spawn(func() {
		for _, uri := range uris {
			_ = s.unsubscribe(s.u.work.Context(), uri) // a server that is gone has forgotten it anyway
		}
		s.release(false)
	})
	if !ends {
		s.release(false)
	}
}

// notice takes a change notice to the listens of the session's client; false if m is none.
func (s *pooled) notice(m *wire.Message) bool {
	if rules.NoticeKey(m) == "" {
		return false
	}
	for _, h := range s.u.pool.heard(s.group) {
		h.hear(s, m)
	}
	return true
}

// heard answers the listens of one client.
func (p *pool) heard(group [32]byte) []*hearing {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.hearings[group])
}

// subscribed tells whether any listen of one client names a URI, or something that it is within.
func (p *pool) subscribed(group [32]byte, uri string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.hearings[group], func(h *hearing) bool {
		return slices.ContainsFunc(h.uris, func(s string) bool { return rules.Below(uri, s) })
	})
}

// Listens tells how many listens of modern clients are open at a legacy server.
func (u *Upstream) Listens() (n int) {
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	for _, all := range u.pool.hearings {
		n += len(all)
	}
	return n
}
