package era

import (
	"context"
	"errors"
	"time"

	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// nap is what lets the process behind a legacy client's session end while nobody uses it (idle_exit) and another take its
// place later: the words of the handshake, and of what the client has set since. What the server itself remembered is gone.
// The relay's mutex guards it.
type nap struct {
	hello   []byte // the client's initialize
	version string // on which it settled
	greeted bool
	level   []byte // the last logging/setLevel
	wakeful bool   // resources are subscribed to, or tasks were begun: a new process would not know of them

	calls  int
	last   time.Time // when the last of them ended
	timer  *time.Timer
	asleep bool
	waking *waking
	links  int // so far
}

// waking is a process being started again; several calls may wait for it.
type waking struct {
	done chan struct{}
	err  error
}

// relayLink is the sink of one of a relay's links: what an earlier one says of its end is nobody's business.
type relayLink struct {
	*relay
	n int
}

// Lost implements Sink.
func (l *relayLink) Lost(err error) {
	l.mu.Lock()
	current := l.n == l.nap.links && !l.nap.asleep
	l.mu.Unlock()
	if current {
		l.relay.Lost(err)
	}
}

// naps tells whether the session's process ends when it is idle.
func (r *relay) naps() bool { return r.u.opt.IdleExit > 0 && r.u.opt.Wires.Stdio }

// sink makes the sink of the next link.
func (r *relay) sink() transport.Sink {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nap.links++
	return &relayLink{relay: r, n: r.nap.links}
}

// enter begins a call, and starts a process for it if the session has none. Call leave once it has ended.
func (r *relay) enter(ctx context.Context) error {
	if !r.naps() {
		return nil
	}
	r.mu.Lock()
	r.nap.calls++
	if !r.nap.asleep {
		r.mu.Unlock()
		return nil
	}
	w, begin := r.nap.waking, false
	if w == nil {
		w = &waking{done: make(chan struct{})}
		r.nap.waking = w
		begin = true
	}
	r.mu.Unlock()
	if begin && !r.u.work.Spawn(func() { r.wake(w) }) {
		r.woken(w, work.ErrClosing())
	}
	select {
	case <-w.done:
		if w.err != nil {
			r.leave()
		}
		return w.err
	case <-ctx.Done():
		r.leave()
		return ctx.Err()
	}
}

// leave ends a call.
func (r *relay) leave() {
	if !r.naps() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nap.calls--
	r.nap.last = time.Now()
	if r.nap.timer == nil && r.nap.calls == 0 {
		r.nap.timer = time.AfterFunc(r.u.opt.IdleExit, r.doze)
	}
}

// doze ends the process if it has been idle long enough, or looks again later.
func (r *relay) doze() {
	r.u.mu.Lock()
	defer r.u.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	n := &r.nap
	left := r.u.opt.IdleExit - time.Since(n.last)
	switch {
	case r.u.work.Closed() || r.u.relays[r.session.ID] != r || n.asleep:
		return // it ends anyway, or begins to be looked at again when it is woken
	case n.calls > 0 || n.wakeful || len(r.open) > 0 || r.session.State() != proxy.Initialized:
		n.timer.Reset(r.u.opt.IdleExit)
		return
	case left > 0:
		n.timer.Reset(left)
		return
	}
	link := r.link.Get()
	r.link.Set(nil)
	n.asleep = true
	r.u.work.Note("debug", "the process of an idle session is stopped; its next request starts it again", nil)
	r.u.work.Go(func() { _ = link.Close() }) // under the lock: the upstream's Close waits for this
}

// wake starts a process and shakes hands with it in the client's own words.
func (r *relay) wake(w *waking) {
	ctx, cancel := context.WithTimeout(r.u.work.Context(), r.u.opt.patience())
	defer cancel()
	link, err := r.u.quota.Dial(ctx, r.u.opt.Wires.Legacy, r.session.Caller.Principal, r.sink())
	if err == nil {
		if err = r.rehearse(ctx, link); err != nil {
			_ = link.Close()
		}
	}
	if err != nil {
		r.woken(w, r.fault(err))
		return
	}
	r.u.mu.Lock()
	gone := r.u.work.Closed() || r.u.relays[r.session.ID] != r
	if !gone {
		r.link.Set(link)
	}
	r.u.mu.Unlock()
	if gone {
		_ = link.Close()
		r.woken(w, proxy.Errf(proxy.SessionLost, "the session has ended; send initialize to open a new one"))
		return
	}
	r.woken(w, nil)
}

// rehearse says again what the client has said.
func (r *relay) rehearse(ctx context.Context, link transport.Link) error {
	r.mu.Lock()
	hello, version, greeted, level := r.nap.hello, r.nap.version, r.nap.greeted, r.nap.level
	r.mu.Unlock()
	m, err := say(ctx, link, hello)
	if err != nil {
		return err
	}
	if got := string(wire.Get(m.Raw, m.Result, "protocolVersion").Text(m.Raw)); m.Kind != wire.Result || got != version {
		r.u.work.Spawn(func() { r.Lost(errors.New("the server that was started again settles on another revision")) })
		return proxy.Errf(proxy.SessionLost, "the upstream server was started again and is another; send initialize to open a new session")
	}
	if greeted {
		if err := link.Send(ctx, []byte(rules.Initialized)); err != nil {
			return err
		}
	}
	if level != nil {
		_, err = say(ctx, link, level) // a refusal is the server's choice
	}
	return err
}

// say sends a client's request a second time and waits for its response.
func say(ctx context.Context, link transport.Link, raw []byte) (wire.Message, error) {
	ex, err := transport.NewExchange(proxy.Legacy, raw)
	if err != nil {
		return wire.Message{}, proxy.AsError(err)
	}
	return transport.Ask(ctx, link, ex)
}

// woken lets those go on that wait.
func (r *relay) woken(w *waking, err error) {
	r.mu.Lock()
	w.err = err
	r.nap.asleep, r.nap.waking = err != nil, nil
	if r.nap.timer != nil {
		r.nap.timer.Reset(r.u.opt.IdleExit)
	}
	r.mu.Unlock()
	close(w.done)
}

// absent tells whether the session has no process just now.
func (r *relay) absent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nap.asleep
}

// remember notes what a client has said that another process must be told again, once the server has taken it.
func (r *relay) remember(said *wire.Message, result *wire.Message) {
	if !r.naps() {
		return
	}
	var raw []byte
	if said.Is("initialize") || said.Is("logging/setLevel") {
		raw = said.Append(nil)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case said.Is("initialize"):
		r.nap.hello = raw
		r.nap.version = string(wire.Get(result.Raw, result.Result, "protocolVersion").Text(result.Raw))
	case said.Is("logging/setLevel"):
		r.nap.level = raw
	case said.Is("resources/subscribe"), said.Task.Present():
		r.nap.wakeful = true
	}
}
