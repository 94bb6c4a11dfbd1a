package relay

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

// suspension is the state that lets an idle session's process be stopped (idle_exit) and another replace it later: the
// client's handshake and settings. State that the server itself kept is lost. The relay's mutex guards it.
type suspension struct {
	initialize  []byte // the client's initialize request
	version     string // the negotiated revision
	initialized bool
	level       []byte // the last logging/setLevel
	pinned      bool   // resources are subscribed to or tasks were started: a new process would not know of them

	calls     int
	last      time.Time // when the last call ended
	timer     *time.Timer
	suspended bool
	resuming  *resuming
	links     int // links opened so far
}

// resuming is the restart of a process; several calls may wait for it.
type resuming struct {
	done chan struct{}
	err  error
}

// relaySink is the sink of one link of a relay. The loss of an earlier link is ignored.
type relaySink struct {
	*relay
	n int
}

// Lost implements Sink.
func (l *relaySink) Lost(err error) {
	l.mu.Lock()
	current := l.n == l.suspension.links && !l.suspension.suspended
	l.mu.Unlock()
	if current {
		l.relay.Lost(err)
	}
}

// suspends reports whether idle processes are stopped.
func (r *relay) suspends() bool { return r.x.opt.IdleExit > 0 }

// sink returns the sink of the next link.
func (r *relay) sink() transport.Sink {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.suspension.links++
	return &relaySink{relay: r, n: r.suspension.links}
}

// enter begins a call, and restarts the process if it is stopped. On success the caller must call leave when the call
// has ended.
func (r *relay) enter(ctx context.Context) error {
	r.mu.Lock()
	if r.retiring.Load() {
		r.mu.Unlock()
		return ErrRetiring
	}
	r.suspension.calls++
	if !r.suspension.suspended {
		r.mu.Unlock()
		return nil
	}
	w, begin := r.suspension.resuming, false
	if w == nil {
		w = &resuming{done: make(chan struct{})}
		r.suspension.resuming = w
		begin = true
	}
	r.mu.Unlock()
	if begin && !r.x.work.Spawn(func() { r.resume(w) }) {
		r.finishResume(w, work.ErrClosing())
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
	r.mu.Lock()
	r.suspension.calls--
	idle := r.suspension.calls == 0
	if r.suspends() {
		r.suspension.last = time.Now()
		if r.suspension.timer == nil && idle {
			r.suspension.timer = time.AfterFunc(r.x.opt.IdleExit, r.suspendIdle)
		}
	}
	r.mu.Unlock()
	if idle && r.retiring.Load() {
		r.end()
	}
}

// suspendIdle stops the process if it has been idle long enough, and checks again later otherwise.
func (r *relay) suspendIdle() {
	r.x.mu.Lock()
	defer r.x.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	n := &r.suspension
	left := r.x.opt.IdleExit - time.Since(n.last)
	switch {
	case r.x.work.Closed() || r.x.of[r.session.ID] != r || n.suspended:
		return // it ends anyway, or resuming sets the timer again
	case n.calls > 0 || n.pinned || len(r.open) > 0 || r.session.State() != proxy.Initialized:
		n.timer.Reset(r.x.opt.IdleExit)
		return
	case left > 0:
		n.timer.Reset(left)
		return
	}
	link := r.link.Get()
	r.link.Set(nil)
	n.suspended = true
	r.x.work.Note("debug", "the process of an idle session is stopped; its next request starts it again", nil)
	r.x.work.Go(func() { _ = link.Close() }) // under the lock: the upstream's Close waits for this
}

// resume starts a process and repeats the client's handshake.
func (r *relay) resume(w *resuming) {
	ctx, cancel := context.WithTimeout(r.x.work.Context(), r.x.server.HandshakeTimeout())
	defer cancel()
	link, err := r.x.quota.Dial(transport.Owned(ctx), r.x.server.Wires.Legacy, r.session.Caller.Principal, r.sink())
	if err == nil {
		if err = r.repeatHandshake(ctx, link); err != nil {
			_ = link.Close()
		}
	}
	if err != nil {
		r.finishResume(w, r.fault(err))
		return
	}
	r.x.mu.Lock()
	gone := r.x.work.Closed() || r.x.of[r.session.ID] != r
	if !gone {
		r.link.Set(link)
	}
	r.x.mu.Unlock()
	if gone {
		_ = link.Close()
		r.finishResume(w, proxy.Errf(proxy.SessionLost, "the session has ended; send initialize to open a new one"))
		return
	}
	r.finishResume(w, nil)
}

// repeatHandshake sends the client's initialize, notifications/initialized and log level again.
func (r *relay) repeatHandshake(ctx context.Context, link transport.Link) error {
	r.mu.Lock()
	initialize, version, initialized, level := r.suspension.initialize, r.suspension.version, r.suspension.initialized, r.suspension.level
	r.mu.Unlock()
	m, err := transport.AskLegacy(ctx, link, initialize)
	if err != nil {
		return err
	}
	if got := string(wire.Get(m.Raw, m.Result, "protocolVersion").Text(m.Raw)); m.Kind != wire.Result || got != version {
		r.x.work.Spawn(func() { r.Lost(errors.New("the server that was started again settles on another revision")) })
		return proxy.Errf(proxy.SessionLost, "the upstream server was started again and is another; send initialize to open a new session")
	}
	if initialized {
		if err := link.Send(ctx, []byte(rules.Initialized)); err != nil {
			return err
		}
	}
	if level != nil {
		_, err = transport.AskLegacy(ctx, link, level) // an error response is ignored
	}
	return err
}

// finishResume records the outcome of a restart and wakes the waiting calls.
func (r *relay) finishResume(w *resuming, err error) {
	r.mu.Lock()
	w.err = err
	r.suspension.suspended, r.suspension.resuming = err != nil, nil
	if r.suspension.timer != nil {
		r.suspension.timer.Reset(r.x.opt.IdleExit)
	}
	r.mu.Unlock()
	close(w.done)
}

// isSuspended reports whether the session has no process at the moment.
func (r *relay) isSuspended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.suspension.suspended
}

// remember records a request that must be repeated to the next process, once the server has accepted it.
func (r *relay) remember(request, result *wire.Message) {
	if !r.suspends() {
		return
	}
	var raw []byte
	if request.Is("initialize") || request.Is("logging/setLevel") {
		raw = request.Append(nil)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case request.Is("initialize"):
		r.suspension.initialize = raw
		r.suspension.version = string(wire.Get(result.Raw, result.Result, "protocolVersion").Text(result.Raw))
	case request.Is("logging/setLevel"):
		r.suspension.level = raw
	case request.Is("resources/subscribe"), request.Task.Present():
		r.suspension.pinned = true
	}
}
