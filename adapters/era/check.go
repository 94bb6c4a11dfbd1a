package era

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Check asks the server whether it is there, in the way that costs least: a modern one by server/discover, a legacy one by a
// ping, in a session that is open anyway or, if there is none, in one of Dragoman's own, which is kept for the next time.
// Where it is not known what the server speaks, that is found out, which may take longer than ctx lives; then it goes on, and
// the next Check has the outcome. The error is nil if the server answers at all; a *proxy.Error otherwise, or ctx's. It has an
// HTTPStatus in its chain if the server answered in HTTP only.
func (u *Upstream) Check(ctx context.Context) error {
	v := u.keeper.Last() // also an old one: that it is found anew concerns requests
	if v == nil {
		_, err := u.Profile(ctx)
		return err
	}
	if v.Modern {
		return u.checkModern(ctx)
	}
	return u.checkSession(ctx)
}

func (u *Upstream) checkModern(ctx context.Context) error {
	link, err := u.links.Get(ctx, "")
	if err != nil {
		return err
	}
	ex, err := transport.NewExchange(proxy.Modern, rules.DiscoverRequest(u.opt.Self, nil))
	if err != nil {
		return err
	}
	defer ex.Follow(ctx)()
	replies, err := (&modernCall{u: u, ex: ex, method: "server/discover"}).begin(link)
	if err != nil {
		return err
	}
	until, _ := ctx.Deadline()
	_, err = proxy.Response(replies, until)
	return err
}

const ping = `{"jsonrpc":"2.0","id":"dragoman-ping","method":"ping"}`

// checkSession pings in a pooled session. One that has gone stale, or does not answer although the server is there, is dropped,
// and a new one is opened (seed 004, EC-010).
func (u *Upstream) checkSession(ctx context.Context) error {
	for again := true; ; again = false {
		s, done, err := u.pool.Lend(ctx)
		if err != nil {
			return err
		}
		half := ctx
		if end, ok := ctx.Deadline(); ok && again {
			var cancel context.CancelFunc
			half, cancel = context.WithTimeout(ctx, time.Until(end)/2)
			defer cancel()
		}
		err = pingOver(half, s.Link())
		done()
		var e *proxy.Error
		stale := errors.As(err, &e) && (e.Name == proxy.SessionLost.Name || e.Name == proxy.UpstreamTimeout.Name)
		if stale {
			u.pool.Discard(s)
		}
		if !stale || !again || ctx.Err() != nil {
			return err
		}
	}
}

// pingOver pings over a link. That the server refuses to be pinged shows that it lives.
func pingOver(ctx context.Context, link transport.Link) error {
	ex, err := transport.NewExchange(proxy.Legacy, []byte(ping))
	if err != nil {
		return err
	}
	_, err = transport.Ask(ctx, link, ex)
	return err
}

// siftAtOnce is how many conversations are pinged at a time.
const siftAtOnce = 16

// Sift pings the conversations that last: after the network was away, one may be dead although no side has noticed (seed 004,
// EC-010). One that does not answer while ctx lives is given up as lost: its calls end, and its client opens another.
// Over HTTP a conversation is no connection: there each request finds out for itself.
func (u *Upstream) Sift(ctx context.Context) {
	type kept struct {
		link transport.Link
		lost func(error)
	}
	var all []kept
	add := func(link transport.Link, lost func(error)) {
		if _, shared := transport.As[transport.Channel](link); shared {
			all = append(all, kept{link, lost})
		}
	}
	if u.opt.Wires.Stdio && !u.opt.Wires.Remote {
		return
	}
	u.relays.Each(add)
	for _, s := range u.pool.Sessions() {
		if link := s.Link(); link != nil {
			add(link, s.Lost)
		}
	}
	turns := make(chan struct{}, siftAtOnce)
	var group sync.WaitGroup
	for _, k := range all {
		turns <- struct{}{}
		group.Go(func() {
			defer func() { <-turns }()
			var e *proxy.Error
			if err := pingOver(ctx, k.link); errors.As(err, &e) && e.Name == proxy.UpstreamTimeout.Name {
				_ = k.link.Close()
				k.lost(proxy.Errf(proxy.Lost, "the upstream server does not answer in this session any more"))
			}
		})
	}
	group.Wait()
}

// Tools reads the server's list of tools on behalf of an exchange, while ctx lives, and gives each page to see: a borrowed result of
// tools/list. What cannot be had is left out.
func (u *Upstream) Tools(ctx context.Context, ex *proxy.Exchange, see func(m *wire.Message)) {
	var cursor []byte
	for range listPages {
		inner, err := transport.NewExchange(proxy.Modern, listRequest(ex, cursor))
		if err != nil {
			return
		}
		inner.Client = proxy.Client{Era: proxy.Modern, Version: rules.ModernVersion, Info: ex.Client.Info, Caps: []byte("{}")}
		inner.Caller = ex.Caller
		inner.Inherit(ex)
		m, err := u.listed(ctx, inner)
		if err != nil || m.Kind != wire.Result {
			return
		}
		see(&m)
		next := wire.Get(m.Raw, m.Result, "nextCursor")
		if !next.IsString(m.Raw) || string(next.Of(m.Raw)) == string(cursor) {
			return
		}
		cursor = append([]byte(nil), next.Of(m.Raw)...)
	}
}

func (u *Upstream) listed(ctx context.Context, inner *proxy.Exchange) (wire.Message, error) {
	defer inner.Follow(ctx)()
	replies, err := u.doModern(inner)
	if err != nil {
		return wire.Message{}, err
	}
	if replies == nil {
		return wire.Message{}, io.EOF
	}
	until, _ := ctx.Deadline()
	return proxy.Response(replies, until)
}
