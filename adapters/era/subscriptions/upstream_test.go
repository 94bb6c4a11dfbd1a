package subscriptions

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"dragoman/adapters/era/sessions"
	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// upstream holds the parts of a modern server's upstream that subscriptions use: its links, and the bridges of legacy sessions.
type upstream struct {
	group   *work.Group
	links   *sessions.Links
	bridges *Bridges
	process bool
	keys    func(principal string) string // nil: the keys of links
}

func newUpstream(server *transport.Server, opt Options) *upstream {
	u := &upstream{group: work.New(nil), process: server.Wires.Stdio}
	quota := sessions.NewQuota(server, sessions.Options{}, func(string, bool) bool { return false })
	events := sessions.Events{Lost: func() {}, Cancelled: func(m *wire.Message) { u.bridges.Cancelled(m) }}
	u.links = sessions.NewLinks(server, sessions.Options{}, events, u.group, quota)
	u.bridges = NewBridges(opt, u.group, u)
	return u
}

// Listen implements Server.
func (u *upstream) Listen(ctx context.Context, ex *proxy.Exchange) (proxy.Replies, error) {
	link, err := u.Link(ctx, ex.Caller.Identity())
	if err != nil {
		return nil, err
	}
	return u.Begin(ex, link)
}

// Key implements Server.
func (u *upstream) Key(caller proxy.Identity) proxy.Identity {
	if u.keys != nil {
		return proxy.Identity{Principal: u.keys(caller.Principal)}
	}
	return u.links.Key(caller)
}

// Fault implements Server.
func (u *upstream) Fault(err error) error { return err }

// Link implements Reconnector.
func (u *upstream) Link(ctx context.Context, caller proxy.Identity) (transport.Link, error) {
	return u.links.Get(ctx, caller)
}

// Begin implements Reconnector.
func (u *upstream) Begin(ex *proxy.Exchange, link transport.Link) (proxy.Replies, error) {
	replies, _, err := u.links.Call(ex, link)
	return replies, err
}

// Do handles a legacy client's message as an upgrade does.
func (u *upstream) Do(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	u.bridges.Refresh(ex)
	switch {
	case m.Is("notifications/initialized"):
		u.bridges.Initialized(ex.Session)
		return nil, nil
	case m.Is("resources/subscribe"):
		return u.bridges.Subscribe(ex)
	case m.Is("resources/unsubscribe"):
		return u.bridges.Unsubscribe(ex)
	case m.Is("initialize"):
		inner, err := transport.NewExchange(proxy.Modern, rules.DiscoverRequest(ex.Client.Info, ex.Client.Caps))
		if err != nil {
			return nil, err
		}
		link, err := u.Link(ex, ex.Caller.Identity())
		if err != nil {
			return nil, err
		}
		found, err := transport.Ask(ex, link, inner)
		if err != nil {
			return nil, err
		}
		caps := wire.Get(found.Raw, found.Result, "capabilities").Of(found.Raw)
		u.bridges.Join(ex, inner, caps, !u.process)
		return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), []byte(`{"capabilities":`+string(caps)+`}`))), nil
	}
	return u.Listen(ex, ex)
}

func (u *upstream) Close() error {
	u.group.Close()
	u.group.Cancel()
	err := u.links.Close()
	u.group.Wait()
	return err
}
