package era

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"dragoman/adapters/era/work"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// links are the open links to a modern server. Over HTTP there is one. Behind a pipe a link is a process, of which there
// are as many as the isolation wants: one, one for each principal, or a pool. A link is opened by the first call that
// needs it, and behind a pipe ended when it has been idle for idle_exit.
type links struct {
	u *Upstream

	mu     sync.Mutex
	of     map[string][]*modernLink // by principal; "" where it does not matter
	closed bool
}

func (x *links) init(u *Upstream) { x.u, x.of = u, make(map[string][]*modernLink) }

// modernLink is a link to a modern server, opening or open. It is the link's Sink: a modern server may send nothing
// outside calls, but for the end of a listen.
type modernLink struct {
	x     *links
	key   string
	ready chan struct{} // closed when link or err is set

	link transport.Link
	err  error

	// Under x.mu.
	last time.Time // when a call last wanted it
	idle *time.Timer
	gone bool
}

// modernLink answers a link to a modern server for a principal's call, and opens one if need be.
func (u *Upstream) modernLink(ctx context.Context, principal string) (transport.Link, error) {
	l, err := u.links.pick(principal)
	if err != nil {
		return nil, err
	}
	select {
	case <-l.ready:
		return l.link, l.err
	default: // who need not wait makes no channel to wait on
	}
	select {
	case <-l.ready:
		return l.link, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// linkKey is what a modern server's links are kept by.
func (u *Upstream) linkKey(principal string) string {
	if u.opt.Wires.Stdio && u.opt.Isolation.Sharing == ByPrincipal {
		return principal
	}
	return ""
}

// pick chooses a link, the one with the fewest calls, or begins to open another.
func (x *links) pick(principal string) (*modernLink, error) {
	key := x.u.linkKey(principal)
	most := 1
	if x.u.opt.Wires.Stdio && x.u.opt.Isolation.Sharing == Pooled {
		most = x.u.opt.Isolation.most()
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
		x.u.work.Go(least.open)
	}
	if x.u.opt.IdleExit > 0 && x.u.opt.Wires.Stdio { // as watch wants it
		least.last = time.Now()
	}
	return least, nil
}

// slot makes a link that is not there yet.
func (x *links) slot(key string) *modernLink {
	return &modernLink{x: x, key: key, ready: make(chan struct{})}
}

// calls tells how many calls run over the link; one that opens has one, for which it opens.
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

// open dials. It is a goroutine of the upstream, since several calls may wait for it.
func (l *modernLink) open() {
	u := l.x.u
	principal := l.key
	link, err := u.dial(u.work.Context(), u.opt.Wires.Modern, principal, l)
	l.x.mu.Lock()
	if err != nil {
		l.x.remove(l)
		if u.work.Context().Err() != nil {
			err = work.ErrClosing()
		}
	}
	l.link, l.err = link, err
	close(l.ready)
	lost := link != nil && l.gone
	if link != nil && !l.gone {
		l.watch()
	}
	l.x.mu.Unlock()
	if lost { // meanwhile
		_ = link.Close()
	}
}

// Adopting implements probe.Links.
func (x *links) Adopting() (transport.Sink, func(transport.Link)) {
	l := x.slot("")
	return l, func(link transport.Link) { x.adopt(l, link) }
}

// adopt takes over the link with which the server was probed. Those from before, when the server may have been another,
// are closed.
func (x *links) adopt(l *modernLink, link transport.Link) {
	l.link = x.u.seated(link, l.key)
	close(l.ready)
	x.mu.Lock()
	var close []*modernLink
	for _, of := range x.of {
		close = append(close, of...)
	}
	x.of = make(map[string][]*modernLink)
	keep := !x.closed && !l.gone && !(x.u.opt.Wires.Stdio && x.u.opt.Isolation.Sharing == ByPrincipal) // whose would it be?
	for _, old := range close {
		old.leave()
	}
	if l.gone = !keep; keep {
		l.last = time.Now()
		x.of[l.key] = []*modernLink{l}
		l.watch()
	} else {
		close = append(close, l)
	}
	x.mu.Unlock()
	for _, old := range close {
		old.end()
	}
}

// remove takes a link out of the table; false if it is not there. The caller holds x.mu.
func (x *links) remove(l *modernLink) bool {
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

// leave marks a link that is in the table no more. The caller holds x.mu.
func (l *modernLink) leave() {
	l.gone = true
	if l.idle != nil {
		l.idle.Stop()
	}
}

// end closes the link, once it is there.
func (l *modernLink) end() {
	<-l.ready
	if l.link != nil {
		_ = l.link.Close()
	}
}

// watch sees to it that a process without calls ends. The caller holds x.mu.
func (l *modernLink) watch() {
	if d := l.x.u.opt.IdleExit; d > 0 && l.x.u.opt.Wires.Stdio {
		l.idle = time.AfterFunc(d, l.expire)
	}
}

// expire ends the link if it has been idle long enough, or looks again later. A call that comes at this very moment finds
// the link closed, was not sent, and is made anew (unsent).
func (l *modernLink) expire() {
	l.x.mu.Lock()
	defer l.x.mu.Unlock()
	left := l.x.u.opt.IdleExit - time.Since(l.last)
	switch {
	case l.gone:
	case l.calls() > 0:
		l.idle.Reset(l.x.u.opt.IdleExit)
	case left > 0:
		l.idle.Reset(left)
	case l.x.remove(l):
		l.x.u.work.Note("debug", "the server was idle and is stopped; the next request starts it", nil)
		l.x.u.work.Go(l.end) // under the lock: the upstream's Close waits either for this or closes the link itself
	}
}

// Message implements Sink.
func (l *modernLink) Message(m *wire.Message) bool {
	if m.Is("notifications/cancelled") {
		l.x.u.watches.withdrawn(m)
	}
	return false
}

// Lost implements Sink: the next call opens a new link.
func (l *modernLink) Lost(err error) {
	l.x.u.keeper.Lost()
	l.x.mu.Lock()
	if l.x.remove(l) {
		l.x.u.work.Go(l.end) // under the lock, as in expire
	}
	l.gone = true // the one that is being probed is in no table yet
	l.x.mu.Unlock()
	l.x.u.work.Note("warn", "the connection to the upstream is lost; the next request opens a new one", err)
}

// dead takes a link out that has proved dead, so that the next call opens another. Its own Lost closes it.
func (x *links) dead(link transport.Link) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, of := range x.of {
		for _, l := range of {
			if l.calls() == 0 && l.link == link && x.remove(l) {
				x.u.work.Go(l.end)
				return
			}
		}
	}
}

// Any implements probe.Links: no list of links is empty.
func (x *links) Any() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.of) > 0
}

func (x *links) close() error {
	x.mu.Lock()
	x.closed = true
	all := x.of
	x.of = make(map[string][]*modernLink)
	for _, of := range all {
		for _, l := range of {
			l.leave()
		}
	}
	x.mu.Unlock()
	var ends closing
	for _, of := range all {
		for _, l := range of {
			ends.close(func() error {
				<-l.ready
				if l.link == nil {
					return nil
				}
				return l.link.Close()
			})
		}
	}
	return ends.wait()
}

// call sends a call to a modern server. A link that was dead already has sent nothing: then another is opened, once.
func (u *Upstream) call(ex *proxy.Exchange, link transport.Link) (proxy.Replies, transport.Link, error) {
	replies, err := link.Call(ex)
	if err == nil {
		return replies, link, nil
	}
	var e *proxy.Error
	if !u.opt.Wires.Stdio || !errors.As(err, &e) || e.Name != proxy.SessionLost.Name {
		return replies, link, err
	}
	u.links.dead(link)
	if link, err = u.modernLink(ex, ex.Caller.Principal); err != nil {
		return nil, nil, err
	}
	replies, err = link.Call(ex)
	return replies, link, err
}

// closing closes many conversations at a time: one whose server does not end takes its graces, and the others need not wait.
type closing struct {
	group sync.WaitGroup
	mu    sync.Mutex
	errs  []error
}

func (c *closing) close(f func() error) {
	c.group.Go(func() {
		err := f()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.errs = append(c.errs, err)
	})
}

func (c *closing) wait() error {
	c.group.Wait()
	return errors.Join(c.errs...)
}
