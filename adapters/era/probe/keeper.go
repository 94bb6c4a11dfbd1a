package probe

import (
	"context"
	"errors"
	"slices"
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
	Idle      time.Duration    // a process that a probe has left ready, and that no client uses for this long, is stopped; 0: it is kept
	Forwards  bool             // requests carry their callers' forwarded headers (proxy.Forwarded), without which the server may refuse them
	Found     func(v *Profile) // called with each profile that has been found; may be nil
	Forgotten func()           // called when the profile is forgotten; may be nil
}

// Links holds the links to a modern server.
type Links interface {
	// Adopting returns the sink of a link that is about to be opened, and the function that adds the link to the others.
	Adopting() (sink transport.Sink, adopt func(transport.Link))
	// Any reports whether any link is open.
	Any() bool
}

// Keeper holds the profile of one server. It probes the server when the profile is needed, and again when the profile has expired or
// the server contradicts it. It is safe for concurrent use.
type Keeper struct {
	server *transport.Server
	opt    Options
	links  Links // receives the link of a server that was found to be modern
	work   *work.Group

	mu      sync.Mutex
	profile *Profile
	half    *Profile // the legacy side that a handshake has shown, without a probe; nil: none
	probing *probing
	refused bool // a process of which nothing was known has refused initialize
	careful bool // a process has answered a probe as a legacy one does, and then refused the handshake: only a handshake counts

	ready atomic.Bool
	watch atomic.Pointer[func(step string)]
}

// NewKeeper returns a Keeper. It sends nothing before Profile or Both.
func NewKeeper(server *transport.Server, opt Options, links Links, group *work.Group) *Keeper {
	return &Keeper{server: server, opt: opt, links: links, work: group}
}

// Watch makes the keeper call f, on the goroutine of a probe, whenever a step of the probe begins: with the method that it sends.
func (k *Keeper) Watch(f func(step string)) { k.watch.Store(&f) }

// step reports that a step of a probe begins.
func (k *Keeper) step(name string) {
	if f := k.watch.Load(); f != nil {
		(*f)(name)
	}
}

// probing is a probe in progress, for which many may wait.
type probing struct {
	done    chan struct{}
	v       *Profile
	err     error
	sum     [16]byte // of the credentials that the probe sends
	guarded bool     // with other credentials the outcome may differ
}

// Profile returns the server profile, and probes the server if it is not known. It waits until ctx ends; the probe goes on. A server
// that answers only with credentials receives the forwarded headers of ctx, and the profile is then valid for these only.
func (k *Keeper) Profile(ctx context.Context) (*Profile, error) {
	k.mu.Lock()
	if v := k.profile; v != nil && !v.guarded && k.holds(v) {
		k.mu.Unlock()
		return v, nil
	}
	k.mu.Unlock()
	sum := proxy.Caller{Forwarded: proxy.ForwardedFrom(ctx)}.Sum()
	return k.find(ctx, func() *Profile {
		if v := k.profile; v != nil && k.holds(v) && (!v.guarded || v.sum == sum) {
			return v
		}
		return nil
	}, k.probeServer)
}

// Both returns the profile of both eras. It probes a modern server for its legacy side too, once per profile: each client uses a dual
// server in its own era.
func (k *Keeper) Both(ctx context.Context) (*Profile, error) {
	v, err := k.Profile(ctx)
	if err != nil || v.Checked() {
		return v, err
	}
	return k.find(ctx, func() *Profile {
		if k.profile != nil && k.profile.Checked() {
			return k.profile
		}
		return nil
	}, k.checkLegacy)
}

// Last returns the last profile, even if it has expired or covers one era only; nil if there is none.
func (k *Keeper) Last() *Profile {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.profile == nil {
		return k.half
	}
	return k.profile
}

// Ready reports whether the server has been reached and its era is known.
func (k *Keeper) Ready() bool { return k.ready.Load() }

// holds reports whether a profile has not expired. The caller holds k.mu.
func (k *Keeper) holds(v *Profile) bool { return k.steady() || time.Since(v.At) < k.opt.TTL }

// steady reports whether the profile is valid until the server contradicts it: that of a process, or of a server while a connection
// to it is open.
func (k *Keeper) steady() bool {
	return k.server.Wires.Stdio && (!k.server.Wires.Remote || k.links.Any())
}

// find returns the result of known, which it calls under k.mu, or that of a probe: of the one in progress, unless its outcome depends
// on credentials and ctx has others.
func (k *Keeper) find(ctx context.Context, known func() *Profile, probe func(ctx context.Context) (*Profile, error)) (*Profile, error) {
	forwarded := proxy.ForwardedFrom(ctx)
	for {
		k.mu.Lock()
		if v := known(); v != nil {
			k.mu.Unlock()
			return v, nil
		}
		p := k.start(forwarded, probe)
		k.mu.Unlock()
		v, err := p.wait(ctx)
		if own := (proxy.Caller{Forwarded: forwarded}).Sum(); err != nil && ctx.Err() == nil && p.sum != own && p.sum != [16]byte{} {
			err = proxy.Told(err) // what the server said to another caller's headers
		}
		if err == nil && !p.guarded || p.sum == (proxy.Caller{Forwarded: forwarded}).Sum() || ctx.Err() != nil || err != nil && !p.guarded {
			return v, err
		}
	}
}

// start starts a probe with the given credentials, unless one is in progress. The caller holds k.mu.
func (k *Keeper) start(forwarded *proxy.Forwarded, probe func(ctx context.Context) (*Profile, error)) *probing {
	if k.probing != nil {
		return k.probing
	}
	p := &probing{done: make(chan struct{}), sum: proxy.Caller{Forwarded: forwarded}.Sum()}
	begun := k.work.Spawn(func() {
		p.v, p.err = probe(proxy.WithForwarded(k.work.Context(), forwarded))
		p.guarded = k.opt.Forwards && (p.v != nil && p.v.guarded || transport.Unauthorized(p.err) != nil)
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

// probeServer probes the server and stores the profile. An inconclusive probe is an error.
func (k *Keeper) probeServer(ctx context.Context) (*Profile, error) {
	sink, adopt := k.links.Adopting()
	p := &prober{keeper: k, sink: sink}
	v, link, err := p.probe(ctx)
	if k.opt.Forwards && err != nil && transport.Unauthorized(err) != nil { // the server is reachable; a caller with credentials can probe it
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
	k.mu.Lock()
	v.checked = v.checked || v.Modern && k.refused || k.server.Wires.Legacy == nil && k.server.Wires.SSE == nil
	k.mu.Unlock()
	if k.opt.Forwards && p.guarded != nil {
		v.guarded, v.sum = true, proxy.Caller{Forwarded: proxy.ForwardedFrom(ctx)}.Sum()
	}
	k.store(v)
	return v, nil
}

// proved records the result of a handshake with a process.
func (k *Keeper) proved(m *wire.Message) {
	init := slices.Clone(m.Of(m.Result))
	k.mu.Lock()
	v := &Profile{Legacy: true, At: time.Now()}
	known := k.profile
	if known != nil {
		copied := *known
		v = &copied
	}
	news := known == nil && k.half == nil || known != nil && (known.presumed || !known.Legacy)
	v.presumed, v.checked, v.Legacy, v.Init = false, true, true, init
	if !v.Modern {
		v.Version = string(wire.Get(init, wire.Whole(init), "protocolVersion").Text(init))
	}
	if k.careful = false; known != nil {
		k.profile = v
	} else {
		k.half = v
	}
	k.mu.Unlock()
	if news {
		k.found(v)
	}
}

// disproved records that a process does not take a handshake that no other has taken before, and forgets a presumed profile. The next
// probe goes on to a handshake.
func (k *Keeper) disproved() {
	k.mu.Lock()
	presumed := k.profile != nil && k.profile.presumed
	k.careful = k.careful || presumed || k.profile == nil && k.half == nil
	k.mu.Unlock()
	if presumed {
		k.forget()
	}
}

// proves reports whether only a handshake shows a legacy server.
func (k *Keeper) proves() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.careful
}

// end closes a link in the background.
func (k *Keeper) end(link transport.Link) {
	if f := func() { _ = link.Close() }; !k.work.Spawn(f) {
		f()
	}
}

// checkLegacy probes a modern server for its legacy side, or a process for the handshake that a probe has left open, and stores the
// outcome.
func (k *Keeper) checkLegacy(ctx context.Context) (*Profile, error) {
	v := &Profile{Modern: true, At: time.Now()}
	if before := k.Last(); before != nil {
		copied := *before
		v = &copied
	}
	p := &prober{keeper: k, sink: transport.Discard{}, prove: true}
	presumed := v.presumed
	err := p.legacy(ctx, v) // a failure means that a modern server is modern only
	switch {
	case presumed && err == nil:
		return k.Last(), nil // stored with the handshake
	case presumed:
		k.disproved()
		return k.probeServer(ctx)
	}
	if k.opt.Forwards && p.guarded != nil && !v.Legacy {
		v.guarded = true // or it hides its legacy side from this caller
		return v, nil
	}
	v.checked, v.presumed = true, false
	k.store(v)
	return v, nil
}

func (k *Keeper) store(v *Profile) {
	k.mu.Lock()
	k.profile = v
	k.careful = k.careful && v.presumed
	k.mu.Unlock()
	k.found(v)
}

// found reports a profile.
func (k *Keeper) found(v *Profile) {
	k.ready.Store(true)
	revision := ""
	if v.Version != "" {
		revision = ", revision " + v.Version
	}
	k.work.Note("info", "upstream speaks "+v.Eras()+revision, nil)
	if k.opt.Found != nil {
		k.opt.Found(v)
	}
}

// Lost is called when a connection to the server is lost. It forgets the profile of a server that others run, which may be replaced
// meanwhile.
func (k *Keeper) Lost() {
	if k.server.Wires.Remote {
		k.forget()
	}
}

// forget forgets the profile, and reports whether there was one.
func (k *Keeper) forget() bool {
	k.mu.Lock()
	known := k.profile != nil
	k.profile, k.half, k.refused = nil, nil, false
	k.mu.Unlock()
	if k.opt.Forgotten != nil {
		k.opt.Forgotten()
	}
	return known
}

// Doubt forgets the profile because of an answer that contradicts it. A refusal of a caller's credentials contradicts nothing.
func (k *Keeper) Doubt(why error) {
	if k.opt.Forwards && transport.Unauthorized(why) != nil {
		return
	}
	if k.forget() {
		k.work.Note("info", "the upstream contradicted what was known of it; it is probed again", why)
	}
}

// Refused returns the error for a server's refusal of method, the first request of a conversation. It doubts the profile, unless the
// server may have refused the caller's credentials.
func (k *Keeper) Refused(m *wire.Message, method string) *proxy.Error {
	if k.opt.Forwards && m.ErrorCode != proxy.CodeUnsupportedVersion && m.ErrorCode != proxy.CodeMethodNotFound {
		return proxy.Errf(proxy.Refused, "the upstream server refused %s: %s (code %d)", method, m.Text(m.ErrorText), m.ErrorCode)
	}
	k.Doubt(errors.New(string(m.Text(m.ErrorText))))
	return proxy.Errf(proxy.BadAnswer, "the upstream server refused %s: %s (code %d)", method, m.Text(m.ErrorText), m.ErrorCode)
}
