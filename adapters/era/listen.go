package era

import (
	"context"

	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// listenServer adapts an Upstream to the interfaces of package subscriptions.
type listenServer struct{ u *Upstream }

// Listen implements subscriptions.Server.
func (l listenServer) Listen(ctx context.Context, ex *proxy.Exchange) (proxy.Replies, error) {
	u := l.u
	v, err := u.Profile(ctx)
	if err != nil {
		return nil, err
	}
	if !v.Modern {
		ex.Session = nil // the server's session is not the client's
		return u.downgrade(ex)
	}
	link, err := u.links.Get(ctx, ex.Caller.Principal)
	if err != nil {
		return nil, err
	}
	replies, _, err := u.links.Call(ex, link)
	return replies, err
}

// Key implements subscriptions.Server.
func (l listenServer) Key(principal string) string { return l.u.links.Key(principal) }

// Fault implements subscriptions.Server.
func (l listenServer) Fault(err error) error { return (&modernCall{u: l.u}).fault(err) }

// Link implements subscriptions.Reconnector.
func (l listenServer) Link(ctx context.Context, principal string) (transport.Link, error) {
	return l.u.links.Get(ctx, principal)
}

// Begin implements subscriptions.Reconnector.
func (l listenServer) Begin(ex *proxy.Exchange, link transport.Link) (proxy.Replies, error) {
	return (&modernCall{u: l.u, ex: ex, method: "subscriptions/listen"}).begin(link)
}

// BridgeListens returns the number of subscriptions/listen open at the server on behalf of legacy sessions: at most one per
// session, and one per process.
func (u *Upstream) BridgeListens() int { return u.bridges.Count() }

// Dismiss ends the legacy sessions that have a bridge, with cause: their subscriptions are known here only. It is called
// when another upstream replaces this one.
func (u *Upstream) Dismiss(cause *proxy.Error) { u.bridges.Dismiss(cause) }
