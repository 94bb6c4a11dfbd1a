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

// Options of an Upstream.
type Options struct {
	Name         string
	Wires        transport.Wires
	Self         []byte                 // Dragoman's own clientInfo, raw JSON
	ProbeTimeout time.Duration          // for each step of a probe
	StartTimeout time.Duration          // for a process to answer for the first time
	ProfileTTL   time.Duration          // how long a server profile is believed; a stdio server's until it is contradicted
	MaxSessions  int                    // pooled legacy sessions
	MaxProcesses int                    // processes, whatever they are for; 0: no limit
	Spares       int                    // of these, processes that nobody uses yet
	MaxPrincipal int                    // processes of one principal; 0: no limit of its own
	Isolation    sessions.Isolation     // which clients have sessions, or processes, in common
	Carries      bool                   // its requests have what their callers carry (proxy.Forwarded), without which it may refuse them
	AsksOnCall   bool                   // the server asks on the stream of the call concerned: calls that may be asked share sessions
	DeclareAll   bool                   // a legacy server is told that it may ask anything; a call in which it asks what its client has not declared ends with -32021
	DriveTasks   bool                   // long calls that become tasks are driven for clients of the other era, which cannot
	SealState    bool                   // a modern server's requestState goes to clients sealed, bound to the principal
	PollChanges  time.Duration          // how often what is listened for is read at a legacy server without a stream for notices; 0: never
	Store        *input.Store           // where calls wait for their clients' answers; nil: one of this upstream's own
	IdleTTL      time.Duration          // a pooled session without calls for so long is closed
	IdleExit     time.Duration          // the same of a process, whatever it is for; 0: a pooled one as IdleTTL says, others not
	Known        func(v *probe.Profile) // told when it has been found what the server speaks
	Note         func(level, msg string, err error)
	Changed      func(m *wire.Message) // nil, or told of the notices of changes that no client's own listen brings; m is borrowed
}

// Of an upstream without a store that it shares with others.
const (
	settleStandard = 8 * time.Millisecond
	leaseStandard  = 30 * time.Second
)

// Upstream is one server of whatever era, for clients of both.
type Upstream struct {
	opt    Options
	work   *work.Group
	keeper *probe.Keeper
	quota  *sessions.Quota
	links  *sessions.Links // to a modern server
	pool   *sessions.Pool  // of sessions with a legacy server, for modern clients

	store   *input.Store           // where calls wait for the answers of their clients
	calls   *input.Calls           // of modern clients at a legacy server, in which the server may ask
	bridges *subscriptions.Bridges // of legacy sessions at a modern server
	listens *subscriptions.Listens // of modern clients at a legacy server

	relays *relay.Relays // of legacy clients at a legacy server

	tools     toolIndex
	metaCache metaCache
	capsCache capsCache
}

// NewUpstream makes the upstream; nothing is sent yet. Profile begins to probe, or the first exchange.
func NewUpstream(opt Options) *Upstream {
	u := &Upstream{opt: opt, work: work.New(opt.Note), store: opt.Store}
	if u.store == nil {
		u.store, _ = input.NewStore(input.Options{Settle: settleStandard, LeaseWait: leaseStandard}) // fails for no key but a given one
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

// patience is how long a server may take to shake hands: a process has to be started first, perhaps by a package runner
// that downloads it.
func (o *Options) patience() time.Duration {
	if o.Wires.Stdio {
		return max(o.StartTimeout+time.Second, o.ProbeTimeout) // the link gives up first, and knows what the process said
	}
	return o.ProbeTimeout
}

// makeRoom ends the longest unused session, of the principal if own says so; false if all are in use.
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

// Processes is how many processes there are, those that are ending included; 0 where links are none.
func (u *Upstream) Processes() int { return u.quota.Processes() }

// Listens is how many listens of modern clients are open at a legacy server.
func (u *Upstream) Listens() int { return u.pool.Listens() }

// Do implements proxy.Upstream: the client's era and the server's decide which way the exchange goes.
func (u *Upstream) Do(ex *proxy.Exchange) (proxy.Replies, error) {
	if ex.Client.Era == proxy.Modern {
		return u.doModern(ex)
	}
	return u.doLegacy(ex)
}

func (u *Upstream) doModern(ex *proxy.Exchange) (proxy.Replies, error) {
	if ex.Msg.Kind == wire.Notification {
		return nil, nil // the era has none that a server awaits
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
	if m.Kind == wire.Request && !m.Is("initialize") && !v.Modern && !u.opt.Isolation.Mixed() { // its relay has ended, and it is about to
		lost := proxy.Errf(proxy.SessionLost, "the session with the upstream server is lost; send initialize to open a new one")
		ex.Session.EndFor(proxy.Closed, lost) // before the client does what it is told
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

// Profile returns what the server speaks, and probes it if that is not known ([probe.Keeper.Profile]).
func (u *Upstream) Profile(ctx context.Context) (*probe.Profile, error) { return u.keeper.Profile(ctx) }

// Both returns the profile of both eras: a modern server is asked for its legacy side too.
func (u *Upstream) Both(ctx context.Context) (*probe.Profile, error) { return u.keeper.Both(ctx) }

// Ready reports whether the server has been reached and its era is known.
func (u *Upstream) Ready() bool { return u.keeper.Ready() }

// ServerInfo is what the server said of itself when it was asked last, an Implementation object as raw JSON; nil if it has
// not been reached, or said nothing.
func (u *Upstream) ServerInfo() []byte {
	v := u.keeper.Last()
	if v == nil {
		return nil
	}
	info, _ := v.Identity()
	return info
}

// Revision is the revision that the server was found to speak; empty if it has not been reached. A legacy client may have
// settled on an older one.
func (u *Upstream) Revision() string {
	v := u.keeper.Last()
	if v == nil {
		return ""
	}
	return v.Version
}

// Sessions tells how many sessions modern clients have with a legacy server, and how many are leased.
func (u *Upstream) Sessions() (all, leased int) { return u.pool.Size() }

// Name is the upstream's name in the configuration.
func (u *Upstream) Name() string { return u.opt.Name }

// Close ends all conversations with the server.
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
