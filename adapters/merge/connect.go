package merge

import (
	"bytes"
	"context"
	"slices"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// connection is a session of Dragoman's own at a member.
type connection struct {
	asker
	caps []byte          // capabilities of the member
	gone <-chan struct{} // closed when it is lost
}

// asker sends requests in a session.
type asker interface {
	ask(ctx context.Context, method string, params []wire.Change) (wire.Message, error)
	close()
}

// has reports whether the member has lists of a kind.
func (c *connection) has(kind catalogue.Kind) bool {
	return wire.Get(c.caps, wire.Whole(c.caps), rules.NoticeLists[min(kind, catalogue.Resources)]).Present()
}

// connect opens a connection, and describes the member in the catalogue.
func (r *refresher) connect(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	modern, err := r.member.modern(ctx)
	if err != nil {
		return nil, err
	}
	if modern {
		return r.connectModern(ctx)
	}
	return r.connectLegacy(ctx)
}

// legacyConnection is a connection to a legacy member: a session as a client has it.
type legacyConnection struct {
	r       *refresher
	session *proxy.Session
}

func (r *refresher) connectLegacy(ctx context.Context) (*connection, error) {
	c, gone := &legacyConnection{r: r}, make(chan struct{})
	c.session = proxy.NewSession(r.u.opt.NewID()+"/"+r.member.Name, "merge", r.member.Name, proxy.Caller{}, time.Now())
	c.session.OnEnd(func() { close(gone) })
	m, err := c.ask(ctx, "initialize", []wire.Change{{Key: "protocolVersion", Value: wire.AppendText(nil, rules.LegacyVersion)}, {Key: "capabilities", Value: []byte("{}")}, {Key: "clientInfo", Value: r.u.opt.Info}})
	if err == nil && m.Kind == wire.Failure {
		err = proxy.Errf(proxy.BadAnswer, "the server refuses the session: %d %s", m.ErrorCode, m.Text(m.ErrorText))
	}
	if err != nil {
		c.close()
		return nil, err
	}
	caps := bytes.Clone(wire.Get(m.Raw, m.Result, "capabilities").Of(m.Raw))
	r.u.opt.Catalogue.Describe(r.member.Name, catalogue.Description{Revision: string(wire.Get(m.Raw, m.Result, "protocolVersion").Text(m.Raw)), Capabilities: caps,
		Info: bytes.Clone(wire.Get(m.Raw, m.Result, "serverInfo").Of(m.Raw)), Instructions: string(wire.Get(m.Raw, m.Result, "instructions").Text(m.Raw))})
	c.session.SetOutlet(c)
	if done, err := wire.Scan([]byte(rules.Initialized)); err == nil {
		session.Deliver(c.session, &proxy.Exchange{Msg: done, Own: true}, r.member.Do)
	}
	return &connection{asker: c, caps: caps, gone: gone}, nil
}

func (c *legacyConnection) ask(ctx context.Context, method string, params []wire.Change) (wire.Message, error) {
	return askIn(ctx, c.session, c.r.member, proxy.Caller{}, method, params)
}

// askIn sends a request of Dragoman's own in a legacy session at a member, on behalf of a caller, and waits for its response until ctx ends.
func askIn(ctx context.Context, s *proxy.Session, member *member, caller proxy.Caller, method string, params []wire.Change) (wire.Message, error) {
	m, err := wire.Scan(request(method, params))
	if err != nil {
		return m, proxy.Errf(proxy.Internal, "a request to a member is no message: %w", err)
	}
	inner := &proxy.Exchange{Msg: m, Caller: caller, Own: true}
	defer inner.Release()
	defer inner.Follow(ctx)()
	replies, err := session.Run(s, inner, member.Do)
	if err == nil {
		until, _ := ctx.Deadline()
		m, err = proxy.Response(session.Handshake(replies), until)
	}
	if err != nil {
		return m, inner.Why(err)
	}
	return m, nil
}

// request returns a request of Dragoman's own.
func request(method string, params []wire.Change) []byte {
	raw := append([]byte(`{"jsonrpc":"2.0","id":"dragoman-`+method+`","method":"`+method+`","params":`), wire.Object(params)...)
	return append(raw, '}')
}

func (c *legacyConnection) close() { c.session.End(proxy.Closed) }

// Push implements proxy.Outlet.
func (c *legacyConnection) Push(msg []byte) error {
	if m, err := wire.Scan(msg); err == nil && m.Kind == wire.Notification {
		c.r.heard(&m)
	}
	return nil
}

// End implements proxy.Outlet.
func (c *legacyConnection) End() {}

// modernConnection is a connection to a modern member: a listen, and requests beside it.
type modernConnection struct {
	r  *refresher
	ex *proxy.Exchange // the listen; nil: the member announces nothing
}

func (r *refresher) connectModern(ctx context.Context) (*connection, error) {
	c := &modernConnection{r: r}
	m, err := c.ask(ctx, "server/discover", nil)
	if err == nil && m.Kind == wire.Failure {
		err = proxy.Errf(proxy.BadAnswer, "the server refuses server/discover: %d %s", m.ErrorCode, m.Text(m.ErrorText))
	}
	if err != nil {
		return nil, err
	}
	caps := bytes.Clone(wire.Get(m.Raw, m.Result, "capabilities").Of(m.Raw))
	r.u.opt.Catalogue.Describe(r.member.Name, catalogue.Description{Revision: rules.ModernVersion, Capabilities: caps, Info: bytes.Clone(m.Of(m.Info)),
		Instructions: string(wire.Get(m.Raw, m.Result, "instructions").Text(m.Raw))})
	gone := make(chan struct{})
	return &connection{asker: c, caps: caps, gone: gone}, c.listen(caps, gone)
}

func (c *modernConnection) ask(ctx context.Context, method string, params []wire.Change) (wire.Message, error) {
	ex, err := c.exchange(method, params)
	if err != nil {
		return wire.Message{}, err
	}
	defer ex.Release()
	defer ex.Follow(ctx)()
	replies, err := c.r.member.Do(ex)
	if err != nil {
		return wire.Message{}, err
	}
	until, _ := ctx.Deadline()
	return proxy.Response(replies, until)
}

// exchange returns a modern request of Dragoman's own.
func (c *modernConnection) exchange(method string, params []wire.Change) (*proxy.Exchange, error) {
	meta := wire.Object(rules.ModernMeta(c.r.u.opt.Info, []byte("{}")))
	m, err := wire.Scan(request(method, append(slices.Clone(params), wire.Change{Key: "_meta", Value: meta})))
	if err != nil {
		return nil, err
	}
	client := proxy.Client{Era: proxy.Modern, Version: rules.ModernVersion, Info: c.r.u.opt.Info, Caps: []byte("{}")}
	return &proxy.Exchange{Msg: m, Client: client, Own: true, Server: c.r.member.Name, Target: c.r.member.Name}, nil
}

// listen asks for the changes of the lists that the member announces, and closes gone when it is told no more.
func (c *modernConnection) listen(caps []byte, gone chan<- struct{}) error {
	var lists []string
	for _, list := range rules.NoticeLists {
		if string(wire.Path(caps, wire.Whole(caps), list, "listChanged").Of(caps)) == "true" {
			lists = append(lists, list)
		}
	}
	if lists == nil {
		return nil
	}
	ex, err := c.exchange("subscriptions/listen", []wire.Change{{Key: "notifications", Value: wire.Object(rules.SubscriptionFilter(lists, nil))}})
	if err != nil {
		return err
	}
	replies, err := c.r.member.Do(ex)
	if err != nil {
		return err
	}
	listens := func() {
		defer close(gone)
		defer ex.Release()
		defer func() { _ = replies.Close() }()
		for {
			m, err := replies.Next(time.Time{})
			if err != nil || m.IsResponse() {
				return
			}
			c.r.heard(m)
		}
	}
	if !c.r.u.work.Spawn(listens) {
		_ = replies.Close()
		return work.ErrClosing()
	}
	c.ex = ex
	return nil
}

func (c *modernConnection) close() {
	if c.ex != nil {
		c.ex.Cancel(proxy.ErrCancelled)
	}
}
