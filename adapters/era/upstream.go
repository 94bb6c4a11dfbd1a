package era

import (
	"context"
	"errors"
	"slices"
	"time"

	"dragoman/adapters/era/input"
	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/relay"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/era/subscriptions"
	"dragoman/adapters/era/translate"
	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Options configure an Upstream.
type Options struct {
	transport.Server
	Probe         probe.Options
	Sessions      sessions.Options      // LeaseWait is that of Store
	Subscriptions subscriptions.Options // Timeout is that of Server
	Store         *input.Store          // holds suspended calls; nil: a store for this upstream only
	AsksOnCall    bool                  // the server asks on the stream of the call concerned, so calls in which it may ask share sessions
	SealState     bool                  // a modern server's requestState is sealed and bound to the principal
	DriveTasks    bool                  // calls that become tasks are driven for clients of the other era
	Note          func(level, msg string, err error)
	// Notice reports whether a caller may receive a notification that is no reply to a call, and may edit it; nil: all may.
	Notice func(who proxy.Caller, m *wire.Message) bool
}

// Defaults for an upstream with a store of its own.
const (
	settleStandard = 8 * time.Millisecond
	leaseStandard  = 30 * time.Second
)

// Upstream is one server of either era, for clients of both.
type Upstream struct {
	opt    Options
	work   *work.Group
	keeper *probe.Keeper
	quota  *sessions.Quota
	links  *sessions.Links // to a modern server
	pool   *sessions.Pool  // sessions with a legacy server, for modern clients

	store   *input.Store           // holds suspended calls
	calls   *input.Calls           // interactive calls of modern clients at a legacy server
	bridges *subscriptions.Bridges // of legacy sessions at a modern server
	listens *subscriptions.Listens // of modern clients at a legacy server

	relays *relay.Relays // of legacy clients at a legacy server
	strays strays

	tools     toolIndex
	metaCache clientCache // metaMember
	capsCache clientCache // modernCaps
}

// NewUpstream returns an Upstream. Nothing is sent before Profile or the first exchange.
func NewUpstream(opt Options) *Upstream {
	u := &Upstream{work: work.New(opt.Note), store: opt.Store}
	if u.store == nil {
		u.store, _ = input.NewStore(input.Options{Settle: settleStandard, LeaseWait: leaseStandard}) // cannot fail without a key
	}
	opt.Probe.Idle = opt.Sessions.Processes.IdleExit
	if opt.Notice == nil {
		opt.Notice = func(proxy.Caller, *wire.Message) bool { return true }
	}
	opt.Subscriptions.Notice = opt.Notice
	opt.Sessions.LeaseWait, opt.Subscriptions.Timeout, opt.Probe.Forgotten = u.store.Options().LeaseWait, opt.Timeout, u.tools.forget
	opt.Sessions.Stray, opt.Sessions.Others = u.stray, func() int { return u.relays.Len() }
	u.opt = opt
	server := &u.opt.Server
	u.quota = sessions.NewQuota(server, opt.Sessions, u.makeRoom)
	u.links = sessions.NewLinks(server, opt.Sessions, sessions.Events{Lost: func() { u.keeper.Lost() }, Cancelled: func(m *wire.Message) { u.bridges.Cancelled(m) }}, u.work, u.quota)
	u.keeper = probe.NewKeeper(server, opt.Probe, u.links, u.work)
	u.pool = sessions.NewPool(server, opt.Sessions, u.work, u.keeper, u.quota)
	u.relays = relay.New(server, relay.Options{IdleExit: opt.Sessions.Processes.IdleExit, Notice: opt.Notice, Ended: u.pool.Wake}, u.work, u.keeper, u.quota)
	u.calls = input.NewCalls(opt.Name, opt.Sessions.DeclareAll, u.store, u.work)
	u.bridges = subscriptions.NewBridges(opt.Subscriptions, u.work, listenServer{u})
	u.listens = subscriptions.NewListens(opt.Subscriptions, u.work, u.pool)
	return u
}

// makeRoom ends the session that has been idle for longest, of the principal if own is set; false if all are in use.
func (u *Upstream) makeRoom(principal string, own bool) bool {
	pooled, since := u.pool.Unused(principal, own)
	relayed := u.relays.Idle(principal, own, since)
	switch {
	case relayed != nil:
		u.work.Note("info", "the longest unused session is ended to make room for another (max_processes)", nil)
		relayed.EndFor(proxy.Expired, proxy.Errf(proxy.SessionLost, "the session was unused, and another needed its process"))
	case pooled != nil:
		u.pool.Discard(pooled)
	default:
		return false
	}
	return true
}

// Processes returns the number of processes, those that are ending included; 0 if links are not processes.
func (u *Upstream) Processes() int { return u.quota.Processes() }

// Listens returns the number of listens of modern clients at a legacy server.
func (u *Upstream) Listens() int { return u.pool.Listens() }

// Do implements proxy.Upstream. The eras of client and server select the way of the exchange.
func (u *Upstream) Do(ex *proxy.Exchange) (proxy.Replies, error) {
	if ex.Client.Era == proxy.Legacy {
		return u.doLegacy(ex)
	}
	replies, err := u.doModern(ex)
	if err == nil && replies != nil && ex.Msg.Is("subscriptions/listen") {
		replies = &judgedListen{replies, u, ex}
	}
	return replies, err
}

// judgedListen wraps the replies of a modern client's listen. Rules may change while it lasts.
type judgedListen struct {
	proxy.Replies
	u  *Upstream
	ex *proxy.Exchange
}

// Next implements proxy.Replies.
func (l *judgedListen) Next(until time.Time) (*wire.Message, error) {
	m, err := l.Replies.Next(until)
	for err == nil && !l.u.opt.Notice(l.ex.Caller, m) {
		m, err = l.Replies.Next(until)
	}
	return m, err
}

func (u *Upstream) doModern(ex *proxy.Exchange) (proxy.Replies, error) {
	if ex.Msg.Kind == wire.Notification {
		return nil, nil // no server awaits a notification of the modern era
	}
	if err := translate.CheckArguments(&ex.Msg); err != nil {
		return nil, err
	}
	v, err := u.Profile(ex)
	if err != nil {
		return nil, err
	}
	if v.Modern {
		ex.UpstreamEra.In(proxy.Modern)
		return u.passModern(ex)
	}
	ex.UpstreamEra.In(proxy.Legacy)
	return u.downgrade(ex)
}

func (u *Upstream) doLegacy(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	if err := translate.CheckArguments(m); err != nil {
		return nil, err
	}
	if replies, ok, err := u.relays.Do(ex); ok {
		return replies, err
	}
	if m.Kind == wire.Request && !m.Is("initialize") && ex.Session.State() == proxy.Created {
		answer, err := rules.Early(m)
		if err != nil {
			return nil, err
		}
		return proxy.Reply(answer), nil
	}
	opens := m.Is("initialize") && m.Kind == wire.Request && !u.pooled()
	if opens {
		if replies, tried, err := u.openFirst(ex); tried {
			return replies, err
		}
	}
	v, err := u.Profile(ex)
	if err != nil {
		return nil, err
	}
	if opens { // a probe that was under way has found a modern side
		if replies, tried, err := u.openFirst(ex); tried {
			return replies, err
		}
	}
	if m.Kind == wire.Request && !m.Is("initialize") && !v.Modern && !u.pooled() { // its relay has ended, and the session is about to
		lost := proxy.Errf(proxy.SessionLost, "the session with the upstream server is lost; send initialize to open a new one")
		ex.Session.EndFor(proxy.Closed, lost) // before the client can send initialize
		ex.NotProcessed = true
		return nil, lost
	}
	ex.UpstreamEra.In(proxy.Legacy)
	if v.Modern {
		ex.UpstreamEra.In(proxy.Modern)
	}
	if !opens {
		return u.upgrade(ex)
	}
	if v.Modern {
		if v, err = u.keeper.Both(ex); err != nil {
			return nil, err
		}
	}
	if v.Legacy && !v.Bare {
		ex.UpstreamEra.In(proxy.Legacy)
		if replies, err := u.relays.Open(ex, u.keeper.Legacy(v)); !errors.Is(err, relay.ErrRetiring) {
			return replies, err
		}
	}
	return u.upgrade(ex)
}

// pooled reports whether legacy clients use the sessions of the pool, and have none with a legacy server of their own.
func (u *Upstream) pooled() bool { return u.opt.Sessions.Isolation.Mixed() || u.pool.Single() }

// openFirst sends initialize to a process whose legacy side is unknown, which shows as much as a probe and takes no other process. tried is
// false if the server refuses it, and has to be probed or is known to be modern.
func (u *Upstream) openFirst(ex *proxy.Exchange) (replies proxy.Replies, tried bool, err error) {
	if !u.keeper.First() {
		return nil, false, nil
	}
	msg := ex.Msg
	msg.Edits = slices.Clone(msg.Edits)
	ex.UpstreamEra.In(proxy.Legacy)
	replies, err = u.relays.Open(ex, u.keeper.Legacy(nil))
	if err == nil || ex.Err() != nil {
		return replies, true, err
	}
	servers := errors.Is(err, probe.ErrNotLegacy) || proxy.IsFault(err, proxy.UpstreamTimeout) || proxy.IsFault(err, proxy.Lost) // and not a limit of ours
	modern := servers && u.keeper.NotLegacy()
	if !modern && !errors.Is(err, probe.ErrNotLegacy) && !errors.Is(err, relay.ErrRetiring) {
		return replies, true, err
	}
	u.work.Note("debug", "the server does not take initialize; what it speaks is found out otherwise", err)
	ex.Msg = msg
	return nil, false, nil
}

// Profile returns the server profile, and probes if it is not known ([probe.Keeper.Profile]).
func (u *Upstream) Profile(ctx context.Context) (*probe.Profile, error) { return u.keeper.Profile(ctx) }

// WatchProbe makes probes call f whenever a step begins.
func (u *Upstream) WatchProbe(f func(step string)) { u.keeper.Watch(f) }

// Both returns the profile of both eras: it also probes a modern server for its legacy side.
func (u *Upstream) Both(ctx context.Context) (*probe.Profile, error) { return u.keeper.Both(ctx) }

// Dual reports whether a modern server serves legacy clients by a legacy side, in sessions of theirs. It probes for that as Both does.
func (u *Upstream) Dual(ctx context.Context) (bool, error) {
	if u.pooled() {
		return false, nil
	}
	v, err := u.Both(ctx)
	if err != nil {
		return false, err
	}
	return v.Modern && v.Legacy && !v.Bare, nil
}

// Ready reports whether the server has been reached and its era is known.
func (u *Upstream) Ready() bool { return u.keeper.Ready() }

// ServerInfo returns the Implementation object that the server last sent, as raw JSON; nil if it has not been reached or
// sent none.
func (u *Upstream) ServerInfo() []byte {
	v := u.keeper.Last()
	if v == nil {
		return nil
	}
	info, _ := v.Identity()
	return info
}

// Revision returns the revision found by the probe; empty if the server has not been reached. A legacy client may have
// negotiated an older one.
func (u *Upstream) Revision() string {
	v := u.keeper.Last()
	if v == nil {
		return ""
	}
	return v.Version
}

// Sessions returns the number of pooled sessions with a legacy server, and of those that are leased.
func (u *Upstream) Sessions() (all, leased int) { return u.pool.Size() }

// Name returns the upstream's name in the configuration.
func (u *Upstream) Name() string { return u.opt.Name }

// Close ends all connections to the server.
func (u *Upstream) Close() error {
	u.work.Close()
	relayed := u.relays.Take()
	u.calls.Close()
	u.pool.Settle()
	u.work.Cancel()
	ends := []func() error{u.links.Close, u.pool.Close}
	for _, link := range relayed {
		ends = append(ends, link.Close)
	}
	err := work.CloseAll(ends)
	u.work.Wait()
	return err
}

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
	link, err := u.links.Get(ctx, ex.Caller.Identity())
	if err != nil {
		return nil, err
	}
	replies, _, err := u.links.Call(ex, link)
	return replies, err
}

// Key implements subscriptions.Server.
func (l listenServer) Key(caller proxy.Identity) proxy.Identity { return l.u.links.Key(caller) }

// Fault implements subscriptions.Server.
func (l listenServer) Fault(err error) error { return (&modernCall{u: l.u}).fault(err) }

// Link implements subscriptions.Reconnector.
func (l listenServer) Link(ctx context.Context, caller proxy.Identity) (transport.Link, error) {
	return l.u.links.Get(ctx, caller)
}

// Begin implements subscriptions.Reconnector.
func (l listenServer) Begin(ex *proxy.Exchange, link transport.Link) (proxy.Replies, error) {
	return (&modernCall{u: l.u, ex: ex, method: "subscriptions/listen"}).begin(link)
}

// BridgeListens returns the number of subscriptions/listen open at the server on behalf of legacy sessions: at most one per session, and
// one per process.
func (u *Upstream) BridgeListens() int { return u.bridges.Count() }

// Dismiss ends the legacy sessions that have a bridge, with cause: their subscriptions are known here only. It is called
// when another upstream replaces this one.
func (u *Upstream) Dismiss(cause *proxy.Error) { u.bridges.Dismiss(cause) }
