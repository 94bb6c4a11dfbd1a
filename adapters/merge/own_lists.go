package merge

import (
	"context"
	"slices"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/lists"
	"dragoman/adapters/merge/view"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// heard notes which lists a notification in the client's session at the member says have changed.
func (s *seat) heard(m *wire.Message) {
	kinds := lists.Changed(m)
	s.mu.Lock()
	for _, kind := range kinds {
		s.changed[kind] = true
	}
	s.mu.Unlock()
	if kinds != nil {
		s.c.u.opt.Lists.Changed(s.member.Name, legacyClient(s.c.session.Reader()))
	}
}

// refresh reads the lists of a kind that have changed in the client's sessions. A list that differs there from what others with its identity
// see belongs to the client alone.
func (c *client) refresh(ex *proxy.Exchange, kind catalogue.Kind) {
	for _, s := range c.all() {
		s.mu.Lock()
		due := s.changed[kind]
		s.changed[kind] = false
		s.mu.Unlock()
		if due && !s.reread(ex, kind) {
			s.mu.Lock()
			s.changed[kind] = true
			s.mu.Unlock()
		}
	}
}

// reread reads a list in the session; false if it could not be read.
func (s *seat) reread(ex *proxy.Exchange, kind catalogue.Kind) bool {
	l, err := lists.Fetch(ex, seatAsker{s, ex}, kind)
	if err != nil {
		s.c.u.note("debug", s.member.Name, "a list of a client's own could not be read", err)
		return false
	}
	own := &l
	who := legacyClient(ex.Caller)
	if of := s.c.u.viewOf(&who).Snapshot().Server(s.member.Name); of != nil && of.Lists[kind] != nil && of.Lists[kind].Same(own) {
		own = nil
	}
	l.Private = true
	s.mu.Lock()
	s.lists[kind] = own
	s.mu.Unlock()
	s.c.mu.Lock()
	s.c.own, s.c.base = nil, nil
	s.c.mu.Unlock()
	return true
}

// seatAsker makes a seat a lists.Asker.
type seatAsker struct {
	s  *seat
	ex *proxy.Exchange
}

func (a seatAsker) Ask(_ context.Context, method string, params []wire.Change) (wire.Message, error) {
	return a.s.ask(a.ex, a.s.member.Do, method, params)
}

// sees returns what the client of a request sees.
func (c *client) sees(ex *proxy.Exchange) *view.View { return c.view(ex.Caller) }

// view returns what the client sees: as others with its rights, but for lists of its own.
func (c *client) view(caller proxy.Caller) *view.View {
	base := c.u.everyone()
	if base == nil {
		who := legacyClient(caller)
		base = c.u.viewOf(&who)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.base == base && c.own != nil {
		return c.own
	}
	snap := base.Snapshot()
	for _, s := range c.open() {
		s.mu.Lock()
		for kind, l := range s.lists {
			if l != nil {
				snap = snap.With(s.member.Name, catalogue.Kind(kind), l)
			}
		}
		s.mu.Unlock()
	}
	c.base, c.own = base, base
	if snap != base.Snapshot() {
		c.own = base.Alone(snap)
	}
	return c.own
}

// shown holds the lists of the members at one moment.
type shown struct {
	at   *membership
	snap *catalogue.Snapshot
	own  []*catalogue.Server // of snap: those that do not show the client what the catalogue has
}

// shown returns what members list now to a caller that is a legacy client.
func (u *Upstream) shown(caller proxy.Caller) shown {
	at, snap := u.now.Load(), u.catalogue().Snapshot()
	who := legacyClient(caller)
	own := u.opt.Lists.Own(at.order, &who)
	if own != nil {
		snap = snap.Instead(own)
	}
	return shown{at, snap, own}
}

// after returns the state with what was known before in place of what is not known any more.
func (s shown) after(before shown) shown {
	for _, own := range s.own {
		if was := before.snap.Server(own.Name); lists.Unread(own) && was != nil {
			s.snap = s.snap.Instead([]*catalogue.Server{was})
		}
	}
	return s
}

// list returns the list that a server shows; nil: none, or an empty one.
func (s shown) list(server string, kind catalogue.Kind) *catalogue.List {
	of := s.snap.Server(server)
	if of == nil || s.at.members[server] == nil || of.Presence == catalogue.Out || of.Lists[kind] == nil || len(of.Lists[kind].Items) == 0 {
		return nil
	}
	return of.Lists[kind]
}

// announce tells the legacy clients which lists have changed, until ctx ends.
func (u *Upstream) announce(ctx context.Context) {
	for {
		at, version, own := u.now.Load(), u.catalogue().Snapshot().Version, u.opt.Lists.OwnChanged()
		for _, c := range u.clients.all() {
			who := c.session.Reader()
			u.opt.Lists.Renew(at.order, legacyClient(who))
			c.announce(u.shown(who))
		}
		select {
		case <-ctx.Done():
			return
		case <-at.replaced:
		case <-own:
		case <-u.catalogue().Changed(version):
		}
	}
}

// announce tells the client which lists differ from those that it was told of last. A member at which the client has a session tells it
// itself, unless its rules show the client something else.
func (c *client) announce(now shown) {
	seats := c.all()
	c.mu.Lock()
	before := c.told
	now = now.after(before)
	c.told = now
	c.mu.Unlock()
	who := legacyClient(c.session.Reader())
	changed := c.u.ruled(before.at, now.at, &who)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(before.at.order, now.at.order)))) {
		member, of := now.at.members[name], now.snap.Server(name)
		seated := member != nil && slices.ContainsFunc(seats, func(seat *seat) bool { return seat.member == member })
		if seated && of != nil && of.Presence == catalogue.There {
			continue
		}
		for kind := range catalogue.Kinds {
			list := rules.NoticeLists[min(kind, catalogue.Resources)]
			if !slices.Contains(changed, list) && !sameList(before.list(name, kind), now.list(name, kind)) {
				changed = append(changed, list)
			}
		}
	}
	if tools := rules.NoticeLists[catalogue.Tools]; c.u.resorted(before.snap, now.snap) && !slices.Contains(changed, tools) {
		changed = append(changed, tools)
	}
	for _, n := range rules.AllChanged(changed, nil) {
		c.session.Keep(n.Key, n.Msg)
	}
}

// ruled returns the lists of which the rules of one membership show a client something else than those of another before it.
func (u *Upstream) ruled(before, now *membership, who *lists.Client) []string {
	if before == now {
		return nil
	}
	return now.view(u.opt.Lists, who).Changed(before.view(u.opt.Lists, who))
}

// sameList reports whether two lists show the same; nil shows nothing.
func sameList(a, b *catalogue.List) bool { return a == b || a != nil && b != nil && a.Same(b) }
