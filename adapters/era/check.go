package era

import (
	"context"
	"sync"
	"time"

	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// Check checks that the server responds, at the lowest cost: a modern server by server/discover, a legacy one by a ping
// in an open pooled session, or in a new one that is kept for the next check. If the profile is not known, Check probes;
// a probe that outlasts ctx goes on, and the next Check has its outcome. The error is nil if the server responds at all;
// otherwise it is a *proxy.Error or the error of ctx, with an HTTPStatus in its chain if the server only responded in
// HTTP.
func (u *Upstream) Check(ctx context.Context) error {
	v := u.keeper.Last() // an expired profile suffices here
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
	link, err := u.links.Get(ctx, proxy.Identity{})
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

// checkSession pings in a pooled session. A session that is stale, or does not respond in half the time, is discarded,
// and another is tried once (seed 004, EC-010).
func (u *Upstream) checkSession(ctx context.Context) error {
	if u.Broadcasts() && u.relays.Len() > 0 { // it serves them, and has no session to spare
		return nil
	}
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
		stale := proxy.IsFault(err, proxy.SessionLost, proxy.UpstreamTimeout)
		if stale {
			u.pool.Discard(s)
		}
		if !stale || !again || ctx.Err() != nil {
			return err
		}
	}
}

// pingOver pings over a link. An error response shows that the server is alive.
func pingOver(ctx context.Context, link transport.Link) error {
	_, err := transport.AskLegacy(ctx, link, []byte(`{"jsonrpc":"2.0","id":"dragoman-ping","method":"ping"}`))
	return err
}

// concurrentPings is the number of concurrent pings.
const concurrentPings = 16

// CheckConnections pings the long-lived connections: after a network outage one may be dead without either side noticing (seed 004,
// EC-010). One that does not respond while ctx lives is given up as lost: its calls end, and its client opens another.
// Sessions over HTTP are not connections; there each request notices for itself.
func (u *Upstream) CheckConnections(ctx context.Context) {
	type connection struct {
		link transport.Link
		lost func(error)
	}
	var all []connection
	add := func(link transport.Link, lost func(error)) {
		if _, shared := transport.As[transport.Channel](link); shared {
			all = append(all, connection{link, lost})
		}
	}
	if u.opt.Wires.Stdio && !u.opt.Wires.Remote {
		return
	}
	u.relays.Each(add)
	for _, s := range u.pool.Sessions() {
		add(s.Link(), s.Lost)
	}
	slots := make(chan struct{}, concurrentPings)
	var group sync.WaitGroup
	for _, c := range all {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			if proxy.IsFault(pingOver(ctx, c.link), proxy.UpstreamTimeout) {
				_ = c.link.Close()
				c.lost(proxy.Errf(proxy.Lost, "the upstream server does not answer in this session any more"))
			}
		})
	}
	group.Wait()
}
