package era

import (
	"context"
	"time"

	"dragoman/adapters/era/input"
	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/relay"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/era/subscriptions"
	"dragoman/adapters/era/translate"
	"dragoman/adapters/era/work"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Options configure an Upstream.
type Options struct {
	Name         string
	Wires        transport.Wires
	Self         []byte                 // Dragoman's own clientInfo, raw JSON
	ProbeTimeout time.Duration          // for each step of a probe
	StartTimeout time.Duration          // for a process's first answer
	ProfileTTL   time.Duration          // how long a server profile is valid; a stdio server's until it is contradicted
	MaxSessions  int                    // pooled legacy sessions
	MaxProcesses int                    // processes in all; 0: no limit
	Spares       int                    // prewarmed processes among these
	MaxPrincipal int                    // processes of one principal; 0: no separate limit
	Isolation    sessions.Isolation     // which clients share sessions or processes
	Carries      bool                   // requests carry their callers' forwarded headers (proxy.Forwarded), without which the server may refuse them
	AsksOnCall   bool                   // the server asks on the stream of the call concerned, so calls in which it may ask share sessions
	DeclareAll   bool                   // a legacy server is promised that it may ask anything; a call in which it asks what its client has not declared ends with -32021
	DriveTasks   bool                   // calls that become tasks are driven for clients of the other era
	SealState    bool                   // a modern server's requestState is sealed and bound to the principal
	PollChanges  time.Duration          // polling interval for changes at a legacy server without a notice stream; 0: no polling
	Store        *input.Store           // holds suspended calls; nil: a store for this upstream only
	IdleTTL      time.Duration          // a pooled session without calls for this long is closed
	IdleExit     time.Duration          // the same for any process; 0: IdleTTL for pooled ones, others stay
	Known        func(v *probe.Profile) // called when the server profile has been found
	Note         func(level, msg string, err error)
	Changed      func(m *wire.Message) // called for change notices that no client's own listen delivers, if not nil; m is borrowed
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

	tools     toolIndex
	metaCache metaCache
	capsCache capsCache
}

// NewUpstream returns an Upstream. Nothing is sent before Profile or the first exchange.
func NewUpstream(opt Options) *Upstream {
	u := &Upstream{opt: opt, work: work.New(opt.Note), store: opt.Store}
	if u.store == nil {
		u.store, _ = input.NewStore(input.Options{Settle: settleStandard, LeaseWait: leaseStandard}) // cannot fail without a key
	}
	limits := sessions.Limits{Name: opt.Name, Spares: opt.Spares, Wait: u.store.Options().LeaseWait}
	if opt.Wires.Stdio {
		limits.Processes = opt.MaxProcesses
	}
	if !opt.Isolation.Anonymous() {
		limits.PerPrincipal = opt.MaxPrincipal
	}
	u.quota = sessions.NewQuota(limits, u.makeRoom)
	u.links = sessions.NewLinks(sessions.LinkOptions{Dial: opt.Wires.Modern, Process: opt.Wires.Stdio, Isolation: opt.Isolation, IdleExit: opt.IdleExit,
		Lost: func() { u.keeper.Lost() }, Cancelled: func(m *wire.Message) { u.bridges.Cancelled(m) }}, u.work, u.quota)
	u.keeper = probe.NewKeeper(probe.Options{Wires: opt.Wires, Self: opt.Self, Timeout: opt.ProbeTimeout, Patience: opt.patience(), TTL: opt.ProfileTTL,
		Carries: opt.Carries, Links: u.links, Known: opt.Known, Changed: u.tools.forget}, u.work)
	idle := opt.IdleTTL
	if opt.IdleExit > 0 {
		idle = opt.IdleExit
	}
	u.pool = sessions.NewPool(sessions.Options{Name: opt.Name, Self: opt.Self, Isolation: opt.Isolation, DeclareAll: opt.DeclareAll, Max: opt.MaxSessions,
		Idle: idle, LeaseWait: u.store.Options().LeaseWait, Timeout: opt.ProbeTimeout, Patience: opt.patience(), Legacy: opt.Wires.Legacy, SSE: opt.Wires.SSE},
		u.work, u.keeper, u.quota)
	exit := opt.IdleExit
	if !opt.Wires.Stdio {
		exit = 0
	}
	u.relays = relay.New(relay.Options{Legacy: opt.Wires.Legacy, SSE: opt.Wires.SSE, Patience: opt.patience(), IdleExit: exit}, u.work, u.keeper, u.quota)
	u.calls = input.NewCalls(opt.Name, opt.DeclareAll, u.store, u.work)
	u.bridges = subscriptions.NewBridges(subscriptions.Options{Timeout: opt.ProbeTimeout, Key: u.links.Key, Changed: opt.Changed}, u.work, listenServer{u})
	u.listens = subscriptions.NewListens(subscriptions.ListenOptions{Poll: opt.PollChanges, Timeout: opt.ProbeTimeout}, u.work, u.pool)
	return u
}

// patience is the limit for a handshake: a process must be started first, perhaps by a package runner that downloads it.
func (o *Options) patience() time.Duration {
	if o.Wires.Stdio {
		return max(o.StartTimeout+time.Second, o.ProbeTimeout) // the link fails first, with the output of the process
	}
	return o.ProbeTimeout
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
	if ex.Client.Era == proxy.Modern {
		return u.doModern(ex)
	}
	return u.doLegacy(ex)
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
	v, err := u.Profile(ex)
	if err != nil {
		return nil, err
	}
	if m.Kind == wire.Request && !m.Is("initialize") && !v.Modern && !u.opt.Isolation.Mixed() { // its relay has ended, and the session is about to
		lost := proxy.Errf(proxy.SessionLost, "the session with the upstream server is lost; send initialize to open a new one")
		ex.Session.EndFor(proxy.Closed, lost) // before the client can send initialize
		ex.NotProcessed = true
		return nil, lost
	}
	ex.UpstreamEra.In(proxy.Legacy)
	if v.Modern {
		ex.UpstreamEra.In(proxy.Modern)
	}
	if !m.Is("initialize") || u.opt.Isolation.Mixed() {
		return u.upgrade(ex)
	}
	if v.Modern {
		if v, err = u.keeper.Both(ex); err != nil {
			return nil, err
		}
	}
	if v.Legacy {
		ex.UpstreamEra.In(proxy.Legacy)
		return u.relays.Open(ex, v.SSE)
	}
	return u.upgrade(ex)
}

// Profile returns the server profile, and probes if it is not known ([probe.Keeper.Profile]).
func (u *Upstream) Profile(ctx context.Context) (*probe.Profile, error) { return u.keeper.Profile(ctx) }

// Both returns the profile of both eras: it also probes a modern server for its legacy side.
func (u *Upstream) Both(ctx context.Context) (*probe.Profile, error) { return u.keeper.Both(ctx) }

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
	var ends work.Closing
	ends.Close(u.links.Close)
	ends.Close(u.pool.Close)
	for _, link := range relayed {
		ends.Close(link.Close)
	}
	err := ends.Wait()
	u.work.Wait()
	return err
}
