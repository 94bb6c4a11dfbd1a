package era

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/era/translate"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Options of an Upstream.
type Options struct {
	Name         string
	Wires        transport.Wires
	Self         []byte           // Dragoman's own clientInfo, raw JSON
	ProbeTimeout time.Duration    // for each step of the ladder
	StartTimeout time.Duration    // for a process to answer for the first time
	VerdictTTL   time.Duration    // how long a verdict is believed; a stdio server's until it is contradicted
	MaxSessions  int              // pooled legacy sessions
	MaxProcesses int              // processes, whatever they are for; 0: no limit
	Spares       int              // of these, processes that nobody uses yet
	MaxPrincipal int              // processes of one principal; 0: no limit of its own
	Isolation    Isolation        // which clients have sessions, or processes, in common
	Carries      bool             // its requests have what their callers carry (proxy.Carried), without which it may refuse them
	AsksOnCall   bool             // the server asks on the stream of the call concerned: calls that may be asked share sessions
	DeclareAll   bool             // a legacy server is told that it may ask anything; a call in which it asks what its client has not declared ends with -32021
	DriveTasks   bool             // long calls that become tasks are driven for clients of the other era, which cannot
	SealState    bool             // a modern server's requestState goes to clients sealed, bound to the principal
	PollChanges  time.Duration    // how often what is listened for is read at a legacy server without a stream for notices; 0: never
	Lot          *Lot             // where calls wait for their clients' answers; nil: one of this upstream's own
	IdleTTL      time.Duration    // a pooled session without calls for so long is closed
	IdleExit     time.Duration    // the same of a process, whatever it is for; 0: a pooled one as IdleTTL says, others not
	Known        func(v *Verdict) // told when it has been found what the server speaks
	Note         func(level, msg string, err error)
	Changed      func(m *wire.Message) // nil, or told of the notices of changes that no client's own listen brings; m is borrowed
}

// Upstream is one server of whatever era, for clients of both.
type Upstream struct {
	opt    Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu      sync.Mutex
	verdict *Verdict
	probing *probing
	links   links
	seats   seats
	relays  map[string]*relay // by session id
	pool    pool
	lot     *Lot
	mirrors mirrors
	stamps  stamps
	dressed dressed
	watches watches // of legacy sessions at a modern server
	closed  bool

	ready     atomic.Bool
	dialogues atomic.Uint64 // so far
}

// probing is a ladder being climbed; many may wait for it.
type probing struct {
	done    chan struct{}
	v       *Verdict
	err     error
	sum     [16]byte // of what is carried, on whose behalf it is climbed
	guarded bool     // who carries something else may find more
}

// NewUpstream makes the upstream; nothing is sent yet. Probe begins, or the first exchange.
func NewUpstream(opt Options) *Upstream {
	if opt.Note == nil {
		opt.Note = func(string, string, error) {}
	}
	u := &Upstream{opt: opt, relays: make(map[string]*relay), lot: opt.Lot}
	if u.lot == nil {
		u.lot, _ = NewLot(Questions{Settle: settleStandard, LeaseWait: leaseStandard}) // fails for no key but a given one
	}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	u.pool.init(u)
	u.links.init(u)
	u.seats.init(u)
	return u
}

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
	v, err := u.Verdict(ex)
	if err != nil {
		return nil, err
	}
	if v.Modern {
		ex.Spoken.In(proxy.Modern)
		return u.passModern(ex)
	}
	ex.Spoken.In(proxy.Legacy)
	return u.downgrade(ex)
}

func (u *Upstream) doLegacy(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	if err := translate.CheckArguments(m); err != nil {
		return nil, err
	}
	if r := u.relayOf(ex.Session.ID); r != nil {
		ex.Spoken.In(proxy.Legacy)
		return r.do(ex)
	}
	v, err := u.Verdict(ex)
	if err != nil {
		return nil, err
	}
	if m.Kind == wire.Request && !m.Is("initialize") && !v.Modern && !u.opt.Isolation.mixed() { // its relay has ended, and it is about to
		lost := proxy.Errf(proxy.SessionLost, "the session with the upstream server is lost; send initialize to open a new one")
		ex.Session.EndFor(proxy.Closed, lost) // before the client does what it is told
		ex.Untaken = true
		return nil, lost
	}
	ex.Spoken.In(proxy.Legacy)
	if v.Modern {
		ex.Spoken.In(proxy.Modern)
	}
	if !m.Is("initialize") || u.opt.Isolation.mixed() {
		return u.upgrade(ex)
	}
	if v.Modern && !v.checked {
		if v, err = u.checkLegacy(ex); err != nil {
			return nil, err
		}
	}
	if v.Legacy {
		ex.Spoken.In(proxy.Legacy)
		return u.openRelay(ex, v)
	}
	return u.upgrade(ex)
}

// Verdict answers what the server speaks, probing it if that is not known. It waits no longer than ctx lives. A server that wants
// to see credentials before it says anything is shown those that ctx carries; what it says then it says of itself.
func (u *Upstream) Verdict(ctx context.Context) (*Verdict, error) {
	u.mu.Lock()
	if v := u.verdict; v != nil && !v.guarded && u.holds(v) {
		u.mu.Unlock()
		return v, nil
	}
	u.mu.Unlock()
	sum := proxy.Caller{Carried: proxy.CarriedIn(ctx)}.Sum()
	return u.seek(ctx, func() *Verdict {
		if v := u.verdict; v != nil && u.holds(v) && (!v.guarded || v.sum == sum) {
			return v
		}
		return nil
	}, u.climb)
}

// holds tells whether a verdict is recent enough. The caller holds u.mu.
func (u *Upstream) holds(v *Verdict) bool { return u.steady() || time.Since(v.At) < u.opt.VerdictTTL }

// seek answers what is known, which it looks up under u.mu, or what a climb finds: one that is under way, unless that fails for
// want of credentials and ctx carries others.
func (u *Upstream) seek(ctx context.Context, known func() *Verdict, climb func(ctx context.Context) (*Verdict, error)) (*Verdict, error) {
	carried := proxy.CarriedIn(ctx)
	for {
		u.mu.Lock()
		if v := known(); v != nil {
			u.mu.Unlock()
			return v, nil
		}
		p := u.start(carried, climb)
		u.mu.Unlock()
		v, err := p.wait(ctx)
		if err == nil && !p.guarded || p.sum == (proxy.Caller{Carried: carried}).Sum() || ctx.Err() != nil || err != nil && !p.guarded {
			return v, err
		}
	}
}

// steady tells whether the verdict holds until it is contradicted: that of a command, or of a server to which the
// connection still stands on which it was found.
func (u *Upstream) steady() bool {
	return u.opt.Wires.Stdio && (!u.opt.Wires.Remote || u.links.any())
}

// checkLegacy asks a modern server for its legacy side, once a verdict: a dual server is spoken to in each client's own
// era.
func (u *Upstream) checkLegacy(ctx context.Context) (*Verdict, error) {
	return u.seek(ctx, func() *Verdict {
		if u.verdict != nil && u.verdict.checked {
			return u.verdict
		}
		return nil
	}, func(ctx context.Context) (*Verdict, error) {
		u.mu.Lock()
		before := u.verdict
		u.mu.Unlock()
		v := &Verdict{Modern: true, At: time.Now()}
		if before != nil {
			copied := *before
			v = &copied
		}
		p := u.prober(transport.Discard{})
		_ = p.legacy(ctx, v) // that it fails is an answer: the server is modern only
		if p.carries && p.guarded != nil && !v.Legacy {
			v.guarded = true // or it does not say so to this caller
			return v, nil
		}
		v.checked = true
		u.believe(v)
		return v, nil
	})
}

// start begins probing, on behalf of who carries that, unless it is under way. The caller holds u.mu.
func (u *Upstream) start(carried *proxy.Carried, climb func(ctx context.Context) (*Verdict, error)) *probing {
	if u.probing != nil {
		return u.probing
	}
	p := &probing{done: make(chan struct{}), sum: proxy.Caller{Carried: carried}.Sum()}
	if u.closed {
		p.err = proxy.Errf(proxy.ShuttingDown, "the proxy is shutting down")
		close(p.done)
		return p
	}
	u.probing = p
	u.group.Go(func() {
		p.v, p.err = climb(proxy.Carry(u.ctx, carried))
		p.guarded = u.opt.Carries && (p.v != nil && p.v.guarded || transport.Unauthorized(p.err) != nil)
		u.mu.Lock()
		u.probing = nil
		u.mu.Unlock()
		close(p.done)
	})
	return p
}

func (p *probing) wait(ctx context.Context) (*Verdict, error) {
	select {
	case <-p.done:
		return p.v, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// background runs f as one of the upstream's goroutines, or, when those are being waited for already, at once.
func (u *Upstream) background(f func()) {
	if !u.spawn(f) {
		f()
	}
}

func (u *Upstream) prober(modern transport.Sink) *prober {
	return &prober{wires: u.opt.Wires, carries: u.opt.Carries, self: u.opt.Self, timeout: u.opt.ProbeTimeout, patience: u.opt.patience(), sink: modern, spawn: u.background}
}

// climb finds the verdict and remembers it; one that is inconclusive is an error and is not remembered.
func (u *Upstream) climb(ctx context.Context) (*Verdict, error) {
	slot := u.links.slot("")
	p := u.prober(slot)
	v, link, err := p.climb(ctx)
	if u.opt.Carries && err != nil && transport.Unauthorized(err) != nil { // it is there, and what it speaks is seen when somebody comes who may ask
		u.ready.Store(true)
		u.opt.Note("info", "the upstream does not say what it speaks without credentials that it takes; it is asked again with those of the next caller", err)
		return nil, err
	}
	if err != nil {
		u.ready.Store(false)
		u.opt.Note("warn", "the upstream's revision could not be found", err)
		return nil, err
	}
	if link != nil {
		u.links.adopt(slot, link)
	}
	if u.opt.Wires.Legacy == nil && u.opt.Wires.SSE == nil {
		v.checked = true
	}
	if u.opt.Carries && p.guarded != nil {
		v.guarded, v.sum = true, proxy.Caller{Carried: proxy.CarriedIn(ctx)}.Sum()
	}
	u.believe(v)
	return v, nil
}

func (u *Upstream) believe(v *Verdict) {
	u.mu.Lock()
	u.verdict = v
	u.mu.Unlock()
	u.ready.Store(true)
	u.opt.Note("info", "upstream speaks "+v.Eras()+", revision "+v.Version, nil)
	if u.opt.Known != nil {
		u.opt.Known(v)
	}
}

// lost forgets the verdict if the server may not be the same when it is back.
func (u *Upstream) lost() {
	if u.opt.Wires.Remote {
		u.forget()
	}
}

// forget forgets the verdict, and tells whether there was one.
func (u *Upstream) forget() bool {
	u.mu.Lock()
	known := u.verdict != nil
	u.verdict = nil
	u.mu.Unlock()
	u.mirrors.forget()
	return known
}

// doubt forgets the verdict: the server contradicted it. That it does not take what a caller carries says nothing of the server.
func (u *Upstream) doubt(why error) {
	if u.opt.Carries && transport.Unauthorized(why) != nil {
		return
	}
	if u.forget() {
		u.opt.Note("info", "the upstream contradicted what was known of it; it is probed again", why)
	}
}

// turnedDown judges a server's refusal of how a conversation begins: it is not what it was found to be, or does not take what the
// caller carries.
func (u *Upstream) turnedDown(m *wire.Message, method string) *proxy.Error {
	if u.opt.Carries && m.ErrorCode != proxy.CodeUnsupportedVersion && m.ErrorCode != proxy.CodeMethodNotFound {
		return proxy.Errf(proxy.Refused, "the upstream server refused %s: %s (code %d)", method, m.Text(m.ErrorText), m.ErrorCode)
	}
	u.doubt(errors.New(string(m.Text(m.ErrorText))))
	return proxy.Errf(proxy.BadAnswer, "the upstream server refused %s: %s (code %d)", method, m.Text(m.ErrorText), m.ErrorCode)
}

// Ready tells whether the server has been reached and its era is known.
func (u *Upstream) Ready() bool { return u.ready.Load() }

// ServerInfo is what the server said of itself when it was asked last, an Implementation object as raw JSON; nil if it has
// not been reached, or said nothing.
func (u *Upstream) ServerInfo() []byte {
	u.mu.Lock()
	v := u.verdict
	u.mu.Unlock()
	if v == nil {
		return nil
	}
	info, _ := v.Identity()
	return info
}

// Sessions tells how many sessions modern clients have with a legacy server, and how many are leased.
func (u *Upstream) Sessions() (all, leased int) { return u.pool.size() }

// Name is the upstream's name in the configuration.
func (u *Upstream) Name() string { return u.opt.Name }

// Close ends all conversations with the server.
func (u *Upstream) Close() error {
	u.mu.Lock()
	u.closed = true
	relays := make([]*relay, 0, len(u.relays))
	for _, r := range u.relays {
		relays = append(relays, r)
	}
	u.relays = map[string]*relay{}
	u.mu.Unlock()
	u.lot.clear(u)
	u.pool.settle()
	u.cancel()
	var ends closing
	ends.close(u.links.close)
	ends.close(u.pool.close)
	for _, r := range relays {
		if link := r.link.Get(); link != nil {
			ends.close(link.Close)
		}
	}
	err := ends.wait()
	u.group.Wait()
	return err
}

func (u *Upstream) shut() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.closed
}

// errClosing answers who comes when all conversations end.
func errClosing() *proxy.Error { return proxy.Errf(proxy.ShuttingDown, "the proxy is shutting down") }

// Revision is the revision that the server was found to speak; empty if it has not been reached. A legacy client may have settled on
// an older one.
func (u *Upstream) Revision() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.verdict == nil {
		return ""
	}
	return u.verdict.Version
}
