package probe

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/era/work"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Options configure a Keeper.
type Options struct {
	TTL       time.Duration    // how long a profile is valid; that of a stdio server is valid until the server contradicts it
	Carries   bool             // requests carry their callers' forwarded headers (proxy.Forwarded), without which the server may refuse them
	Known     func(v *Profile) // called with each profile that has been found; may be nil
	Forgotten func()           // called when the profile is forgotten; may be nil
}

// Links are the open links to a modern server.
type Links interface {
	// Adopting returns the sink of a link that is about to be opened, and the function that takes it over if it is to be kept.
	Adopting() (sink transport.Sink, adopt func(transport.Link))
	// Any reports whether there is a link.
	Any() bool
}

// Keeper knows the profile of one server: it probes the server when the profile is needed, and again when it is too old or the
// server contradicts it. It is safe for use by many goroutines.
type Keeper struct {
	server *transport.Server
	opt    Options
	links  Links // receives the link of a server that was found to be modern
	work   *work.Group

	mu      sync.Mutex
	profile *Profile
	probing *probing

	ready atomic.Bool
}

// NewKeeper makes a keeper; nothing is sent yet.
func NewKeeper(server *transport.Server, opt Options, links Links, group *work.Group) *Keeper {
	return &Keeper{server: server, opt: opt, links: links, work: group}
}

// probing is a server being probed; many may wait for it.
type probing struct {
	done    chan struct{}
	v       *Profile
	err     error
	sum     [16]byte // of the credentials that it is shown
	guarded bool     // with others it may show more
}

// Profile returns what the server speaks, and probes it if that is not known. It waits no longer than ctx lives. A server that
// wants to see credentials before it says anything is shown those that ctx carries; the profile then counts for these.
func (k *Keeper) Profile(ctx context.Context) (*Profile, error) {
	k.mu.Lock()
	if v := k.profile; v != nil && !v.guarded && k.holds(v) {
		k.mu.Unlock()
		return v, nil
	}
	k.mu.Unlock()
	sum := proxy.Caller{Forwarded: proxy.ForwardedFrom(ctx)}.Sum()
	return k.seek(ctx, func() *Profile {
		if v := k.profile; v != nil && k.holds(v) && (!v.guarded || v.sum == sum) {
			return v
		}
		return nil
	}, k.climb)
}

// Both returns the profile of both eras: a modern server is asked for its legacy side too, once a profile, since a dual server is
// spoken to in each client's own era.
func (k *Keeper) Both(ctx context.Context) (*Profile, error) {
	v, err := k.Profile(ctx)
	if err != nil || v.Checked() {
		return v, err
	}
	return k.seek(ctx, func() *Profile {
		if k.profile != nil && k.profile.checked {
			return k.profile
		}
		return nil
	}, k.checkLegacy)
}

// Last returns the profile that was found last, however old it is; nil if there is none.
func (k *Keeper) Last() *Profile {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.profile
}

// Ready reports whether the server has been reached and its era is known.
func (k *Keeper) Ready() bool { return k.ready.Load() }

// holds reports whether a profile is recent enough. The caller holds k.mu.
func (k *Keeper) holds(v *Profile) bool { return k.steady() || time.Since(v.At) < k.opt.TTL }

// steady reports whether the profile holds until it is contradicted: that of a command, or of a server to which the
// connection still stands on which it was found.
func (k *Keeper) steady() bool {
	return k.server.Wires.Stdio && (!k.server.Wires.Remote || k.links.Any())
}

// seek returns what is known, which it looks up under k.mu, or what a probe finds: the one that is under way, unless that fails for
// want of credentials and ctx carries others.
func (k *Keeper) seek(ctx context.Context, known func() *Profile, probe func(ctx context.Context) (*Profile, error)) (*Profile, error) {
	carried := proxy.ForwardedFrom(ctx)
	for {
		k.mu.Lock()
		if v := known(); v != nil {
			k.mu.Unlock()
			return v, nil
		}
		p := k.start(carried, probe)
		k.mu.Unlock()
		v, err := p.wait(ctx)
		if err == nil && !p.guarded || p.sum == (proxy.Caller{Forwarded: carried}).Sum() || ctx.Err() != nil || err != nil && !p.guarded {
			return v, err
		}
	}
}

// start begins to probe with the given credentials, unless that is under way. The caller holds k.mu.
func (k *Keeper) start(carried *proxy.Forwarded, probe func(ctx context.Context) (*Profile, error)) *probing {
	if k.probing != nil {
		return k.probing
	}
	p := &probing{done: make(chan struct{}), sum: proxy.Caller{Forwarded: carried}.Sum()}
	begun := k.work.Spawn(func() {
		p.v, p.err = probe(proxy.WithForwarded(k.work.Context(), carried))
		p.guarded = k.opt.Carries && (p.v != nil && p.v.guarded || transport.Unauthorized(p.err) != nil)
		k.mu.Lock()
		k.probing = nil
		k.mu.Unlock()
		close(p.done)
	})
	if !begun {
		p.err = work.ErrClosing()
		close(p.done)
		return p
	}
	k.probing = p
	return p
}

func (p *probing) wait(ctx context.Context) (*Profile, error) {
	select {
	case <-p.done:
		return p.v, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// background runs f as a goroutine of the group, or, when those are being waited for already, at once.
func (k *Keeper) background(f func()) {
	if !k.work.Spawn(f) {
		f()
	}
}

func (k *Keeper) prober(modern transport.Sink) *prober {
	return &prober{wires: k.server.Wires, carries: k.opt.Carries, self: k.server.Self, timeout: k.server.Timeout, patience: k.server.Patience(), sink: modern, spawn: k.background}
}

// climb finds the profile and remembers it; one that is inconclusive is an error and is not remembered.
func (k *Keeper) climb(ctx context.Context) (*Profile, error) {
	sink, adopt := k.links.Adopting()
	p := k.prober(sink)
	v, link, err := p.climb(ctx)
	if k.opt.Carries && err != nil && transport.Unauthorized(err) != nil { // it is there; a caller with credentials will see what it speaks
		k.ready.Store(true)
		k.work.Note("info", "the upstream does not say what it speaks without credentials that it takes; it is asked again with those of the next caller", err)
		return nil, err
	}
	if err != nil {
		k.ready.Store(false)
		k.work.Note("warn", "the upstream's revision could not be found", err)
		return nil, err
	}
	if link != nil {
		adopt(link)
	}
	if k.server.Wires.Legacy == nil && k.server.Wires.SSE == nil {
		v.checked = true
	}
	if k.opt.Carries && p.guarded != nil {
		v.guarded, v.sum = true, proxy.Caller{Forwarded: proxy.ForwardedFrom(ctx)}.Sum()
	}
	k.believe(v)
	return v, nil
}

// checkLegacy asks a modern server for its legacy side.
func (k *Keeper) checkLegacy(ctx context.Context) (*Profile, error) {
	v := &Profile{Modern: true, At: time.Now()}
	if before := k.Last(); before != nil {
		copied := *before
		v = &copied
	}
	p := k.prober(transport.Discard{})
	_ = p.legacy(ctx, v) // that it fails is an answer: the server is modern only
	if p.carries && p.guarded != nil && !v.Legacy {
		v.guarded = true // or it does not say so to this caller
		return v, nil
	}
	v.checked = true
	k.believe(v)
	return v, nil
}

func (k *Keeper) believe(v *Profile) {
	k.mu.Lock()
	k.profile = v
	k.mu.Unlock()
	k.ready.Store(true)
	k.work.Note("info", "upstream speaks "+v.Eras()+", revision "+v.Version, nil)
	if k.opt.Known != nil {
		k.opt.Known(v)
	}
}

// Lost takes note that a connection to the server is lost: a server that others run may be replaced meanwhile, so its profile is
// forgotten.
func (k *Keeper) Lost() {
	if k.server.Wires.Remote {
		k.forget()
	}
}

// forget forgets the profile, and reports whether there was one.
func (k *Keeper) forget() bool {
	k.mu.Lock()
	known := k.profile != nil
	k.profile = nil
	k.mu.Unlock()
	if k.opt.Forgotten != nil {
		k.opt.Forgotten()
	}
	return known
}

// Doubt forgets the profile because the server contradicted it. That the server refuses a caller's credentials contradicts nothing.
func (k *Keeper) Doubt(why error) {
	if k.opt.Carries && transport.Unauthorized(why) != nil {
		return
	}
	if k.forget() {
		k.work.Note("info", "the upstream contradicted what was known of it; it is probed again", why)
	}
}

// Refused makes the error of a server's refusal to begin a conversation: the server is not what it was found to be, or refuses the
// caller's credentials.
func (k *Keeper) Refused(m *wire.Message, method string) *proxy.Error {
	if k.opt.Carries && m.ErrorCode != proxy.CodeUnsupportedVersion && m.ErrorCode != proxy.CodeMethodNotFound {
		return proxy.Errf(proxy.Refused, "the upstream server refused %s: %s (code %d)", method, m.Text(m.ErrorText), m.ErrorCode)
	}
	k.Doubt(errors.New(string(m.Text(m.ErrorText))))
	return proxy.Errf(proxy.BadAnswer, "the upstream server refused %s: %s (code %d)", method, m.Text(m.ErrorText), m.ErrorCode)
}
