package sessions

import (
	"context"
	"slices"
	"sync"
	"time"

	"dragoman/adapters/era/work"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Events holds the callbacks of Links.
type Events struct {
	Lost      func()                // a link is lost
	Cancelled func(m *wire.Message) // the server sent notifications/cancelled, which ends a listen
}

// Links holds the links to a modern server. Over HTTP there is one. Behind a pipe a link is a process, and the isolation says how many
// there are: one, one per principal, or a pool. The first call that needs a link opens it. An idle process is stopped after IdleExit.
type Links struct {
	wires  transport.Wires
	opt    Options
	events Events
	work   *work.Group
	quota  *Quota

	mu     sync.Mutex
	of     map[proxy.Identity][]*modernLink // by key
	closed bool
}

// NewLinks returns an empty set of links to one server.
func NewLinks(server *transport.Server, opt Options, events Events, group *work.Group, quota *Quota) *Links {
	return &Links{wires: server.Wires, opt: opt, events: events, work: group, quota: quota, of: make(map[proxy.Identity][]*modernLink)}
}

// modernLink is a link to a modern server, open or being opened. It is the link's Sink: outside calls a modern server may only end a
// listen.
type modernLink struct {
	x     *Links
	key   proxy.Identity
	ready chan struct{} // closed when link or err is set

	link transport.Link
	err  error

	// Under x.mu.
	last time.Time // when a call last used it
	idle *time.Timer
	gone bool
}

// Get returns a link for a caller's call and opens one if necessary.
func (x *Links) Get(ctx context.Context, caller proxy.Identity) (transport.Link, error) {
	l, err := x.pick(caller)
	if err != nil {
		return nil, err
	}
	select {
	case <-l.ready:
		return l.link, l.err
	default: // the common case needs no channel to wait on
	}
	select {
	case <-l.ready:
		return l.link, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Call sends a call over a link and returns the link that carried it. If the process had ended before, it has not received the call,
// which is sent once more over a new link.
func (x *Links) Call(ex *proxy.Exchange, link transport.Link) (proxy.Replies, transport.Link, error) {
	replies, err := link.Call(ex)
	if err == nil {
		return replies, link, nil
	}
	if !x.wires.Stdio || !proxy.IsFault(err, proxy.SessionLost) {
		return replies, link, err
	}
	x.drop(link)
	if link, err = x.Get(ex, ex.Caller.Identity()); err != nil {
		return nil, nil, err
	}
	replies, err = link.Call(ex)
	return replies, link, err
}

// Key returns the key of the links that a caller uses; callers with equal keys share them.
func (x *Links) Key(caller proxy.Identity) proxy.Identity {
	if x.byPrincipal() {
		return caller
	}
	return proxy.Identity{}
}

func (x *Links) byPrincipal() bool {
	return x.wires.Stdio && x.opt.Isolation.Sharing == ByPrincipal
}

// pick chooses a link, the one with the fewest calls, or begins to open another.
func (x *Links) pick(caller proxy.Identity) (*modernLink, error) {
	key := x.Key(caller)
	most := 1
	if x.wires.Stdio && x.opt.Isolation.Sharing == Pooled {
		most = x.opt.Isolation.most()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil, work.ErrClosing()
	}
	var least *modernLink
	fewest := 0
	for _, l := range x.of[key] {
		n := 0
		if most > 1 {
			n = l.calls()
		}
		if least == nil || n < fewest {
			least, fewest = l, n
		}
	}
	if least == nil || fewest > 0 && len(x.of[key]) < most {
		least = x.slot(key)
		x.of[key] = append(x.of[key], least)
		x.work.Go(least.open)
	}
	if x.exits() {
		least.last = time.Now()
	}
	return least, nil
}

// exits reports whether idle links are closed.
func (x *Links) exits() bool { return x.opt.Processes.IdleExit > 0 && x.wires.Stdio }

// slot returns a link that is not open yet.
func (x *Links) slot(key proxy.Identity) *modernLink {
	return &modernLink{x: x, key: key, ready: make(chan struct{})}
}

// calls returns the number of calls on the link; 1 while it is being opened for a call.
func (l *modernLink) calls() int {
	select {
	case <-l.ready:
	default:
		return 1
	}
	if c, ok := transport.As[transport.Channel](l.link); ok {
		return c.InFlight()
	}
	return 0
}

// open dials. It runs as a goroutine of the upstream, since several calls may wait for it.
func (l *modernLink) open() {
	x := l.x
	link, err := x.quota.Dial(x.work.Context(), x.wires.Modern, l.key.Principal, l)
	x.mu.Lock()
	if err != nil {
		x.remove(l)
		if x.work.Context().Err() != nil {
			err = work.ErrClosing()
		}
	}
	l.link, l.err = link, err
	close(l.ready)
	lost := link != nil && l.gone
	if link != nil && !l.gone {
		l.startIdleTimer()
	}
	x.mu.Unlock()
	if lost { // meanwhile
		_ = link.Close()
	}
}

// Adopting implements probe.Links.
func (x *Links) Adopting() (transport.Sink, func(transport.Link)) {
	l := x.slot(proxy.Identity{})
	return l, func(link transport.Link) { x.adopt(l, link) }
}

// adopt takes over the link with which the server was probed. Those from before, when the server may have been another,
// are closed.
func (x *Links) adopt(l *modernLink, link transport.Link) {
	l.link = x.quota.Count(link, l.key.Principal)
	close(l.ready)
	x.mu.Lock()
	var ended []*modernLink
	for _, of := range x.of {
		ended = append(ended, of...)
	}
	x.of = make(map[proxy.Identity][]*modernLink)
	keep := !x.closed && !l.gone && !x.byPrincipal() // the probe's link belongs to no principal
	for _, old := range ended {
		old.leave()
	}
	if l.gone = !keep; keep {
		l.last = time.Now()
		x.of[l.key] = []*modernLink{l}
		l.startIdleTimer()
	} else {
		ended = append(ended, l)
	}
	x.mu.Unlock()
	for _, old := range ended {
		_ = old.end()
	}
}

// remove takes a link out of the table; false if it is not there. The caller holds x.mu.
func (x *Links) remove(l *modernLink) bool {
	i := slices.Index(x.of[l.key], l)
	if i < 0 {
		return false
	}
	if x.of[l.key] = slices.Delete(x.of[l.key], i, i+1); len(x.of[l.key]) == 0 {
		delete(x.of, l.key)
	}
	l.leave()
	return true
}

// leave marks a link as removed from the table. The caller holds x.mu.
func (l *modernLink) leave() {
	l.gone = true
	if l.idle != nil {
		l.idle.Stop()
	}
}

// end closes the link after it has been opened.
func (l *modernLink) end() error {
	<-l.ready
	if l.link == nil {
		return nil
	}
	return l.link.Close()
}

// endLater closes a link that has been removed. The caller holds x.mu: Close waits either for this or closes the link itself.
func (l *modernLink) endLater() { l.x.work.Go(func() { _ = l.end() }) }

// startIdleTimer starts the timer that ends a process without calls. The caller holds x.mu.
func (l *modernLink) startIdleTimer() {
	if l.x.exits() {
		l.idle = time.AfterFunc(l.x.opt.Processes.IdleExit, l.expire)
	}
}

// expire closes the link if it has been idle long enough, and checks again later otherwise. A concurrent call fails unsent and is
// repeated by Call.
func (l *modernLink) expire() {
	l.x.mu.Lock()
	defer l.x.mu.Unlock()
	left := l.x.opt.Processes.IdleExit - time.Since(l.last)
	switch {
	case l.gone:
	case l.calls() > 0:
		l.idle.Reset(l.x.opt.Processes.IdleExit)
	case left > 0:
		l.idle.Reset(left)
	case l.x.remove(l):
		l.x.work.Note("debug", "the server was idle and is stopped; the next request starts it", nil)
		l.endLater()
	}
}

// Message implements transport.Sink. A modern server must not send requests. One that does waits for the answer, often without a time
// limit, and with it the client whose call it is; so a pipe carries a refusal back. Over HTTP there is no way to answer.
func (l *modernLink) Message(m *wire.Message) bool {
	switch {
	case m.Is("notifications/cancelled"):
		l.x.events.Cancelled(m)
	case m.Kind == wire.Request && l.x.wires.Stdio:
		select {
		case <-l.ready:
			l.x.work.Refuse(l.link, m)
		default: // no call has reached the server
		}
		return true
	}
	return false
}

// Lost implements transport.Sink: the next call opens a new link.
func (l *modernLink) Lost(err error) {
	l.x.events.Lost()
	l.x.mu.Lock()
	if l.x.remove(l) {
		l.endLater()
	}
	l.gone = true // the link of a probe is not in the table yet
	l.x.mu.Unlock()
	l.x.work.Note("warn", "the connection to the upstream is lost; the next request opens a new one", err)
}

// drop removes a link that is found to be lost, so that the next call opens another.
func (x *Links) drop(link transport.Link) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, of := range x.of {
		for _, l := range of {
			if l.calls() == 0 && l.link == link && x.remove(l) {
				l.endLater()
				return
			}
		}
	}
}

// Any implements probe.Links.
func (x *Links) Any() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.of) > 0
}

// Close closes all links. Get then fails.
func (x *Links) Close() error {
	x.mu.Lock()
	x.closed = true
	var ends []func() error
	for _, of := range x.of {
		for _, l := range of {
			l.leave()
			ends = append(ends, l.end)
		}
	}
	clear(x.of)
	x.mu.Unlock()
	return work.CloseAll(ends)
}
