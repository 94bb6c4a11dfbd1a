package subscriptions

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// The pace of a bridge.
const (
	gatherTime  = 50 * time.Millisecond  // subscriptions that arrive within it share one listen
	giveUpTime  = 100 * time.Millisecond // how long a process may take to end a listen that is given up
	overlapTime = 20 * time.Millisecond  // how long the old listen is still read after the new one is acknowledged
	steadyTime  = 10 * time.Second       // a listen that lasted this long resets the backoff
	backoffMin  = time.Second
	backoffMax  = 40 * time.Second // plus a random half
)

// Bounds on what one session subscribes to, and on the URIs of one listen.
const (
	maxSubscribed   = 1024
	subscribedBytes = 1 << 20
	listenedBytes   = 8 << 20
)

// bridge carries change notices from a modern server to legacy sessions. The sessions' subscriptions, and the lists
// whose changes the server announces, form the filter of one subscriptions/listen (2026-07-28 subscriptions). Its
// notices go to the sessions' streams.
//
// Over HTTP each session has its own bridge, since what a server shows may depend on the caller. A process cannot tell
// its clients apart, and some servers support one listen per connection, so all sessions of a process share one bridge.
//
// A worker goroutine runs while there is something to open, close or wait for; otherwise only the reader of the listen
// runs. A session's own bridge ends with the session, and all bridges end with the upstream.
type bridge struct {
	x      *Bridges
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{} // wakes the waiting worker after a change

	mu          sync.Mutex
	working     bool
	retired     bool // the last session has ended
	subscribers []*subscriber
	several     bool             // they belong, or have belonged, to several callers
	pending     []*subscribeCall // subscriptions that wait for the next listen
	opening     []*subscribeCall // subscriptions that wait for the acknowledgement of unacked
	unacked     *listen          // the listen that is not yet acknowledged
	current     *listen          // the acknowledged listen
	delivered   map[string]bool  // keys of the notices that current delivered while the previous listen was still read
	gap         bool             // notices may have been missed: after the next acknowledgement everything is reported as changed
	failures    int              // consecutive failed listens
	retryAt     time.Time        // the earliest time of the next listen
}

// change calls do under the lock, then starts or wakes the worker if there is work.
func (b *bridge) change(do func()) {
	b.mu.Lock()
	do()
	begin := !b.working && b.hasWork()
	b.working = b.working || begin
	b.mu.Unlock()
	if !begin {
		work.Signal(b.wake)
		return
	}
	if !b.x.work.Spawn(b.work) {
		b.cancel()
		b.plan()
	}
}

// wanted reports whether a listen should be open: always for subscriptions, and for list changes only once a client has
// a stream. The caller holds b.mu.
func (b *bridge) wanted() bool {
	return slices.ContainsFunc(b.subscribers, func(m *subscriber) bool {
		return len(m.uris) > 0 || m.ready && len(m.lists) > 0 && (b.current != nil || m.session.HasOutlet())
	})
}

// lacksList reports whether the current listen lacks a list that a session needs. The caller holds b.mu.
func (b *bridge) lacksList() bool {
	return b.current != nil && slices.ContainsFunc(b.subscribers, func(m *subscriber) bool {
		return m.ready && slices.ContainsFunc(m.lists, func(list string) bool { return !slices.Contains(b.current.lists, list) })
	})
}

// hasWork reports whether the worker has something to do, now or later. The caller holds b.mu.
func (b *bridge) hasWork() bool {
	return len(b.pending) > 0 || b.ctx.Err() == nil && ((b.current != nil) != b.wanted() || b.lacksList())
}

// work runs until nothing is left to do.
func (b *bridge) work() {
	for {
		next, wait, more := b.plan()
		switch {
		case !more:
			return
		case wait > 0:
			b.pause(wait, b.wake)
		case next != nil:
			next.giveUp() // no longer wanted
		default:
			b.open()
		}
	}
}

// plan decides the next step of the worker: to stop a listen, to wait, or, if both are zero, to open a listen. The
// worker ends if more is false.
func (b *bridge) plan() (stop *listen, wait time.Duration, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ctx.Err() != nil:
		for _, j := range b.pending {
			j.settle(errOver)
		}
		b.pending = nil
	case len(b.pending) > 0:
		if wait = gatherTime - time.Since(b.pending[0].at); wait <= 0 {
			b.opening, b.pending = b.pending, nil
		}
		return nil, wait, true
	case b.current != nil && !b.wanted():
		stop, b.current = b.current, nil
		return stop, 0, true
	case b.current == nil && b.wanted(), b.lacksList():
		return nil, time.Until(b.retryAt), true
	}
	b.working = false
	if b.retired {
		b.cancel()
	}
	return nil, 0, false
}

// pause waits for d, for wake, or for the end of the bridge.
func (b *bridge) pause(d time.Duration, wake <-chan struct{}) {
	select {
	case <-time.After(d):
	case <-wake:
	case <-b.ctx.Done():
	}
}

// open opens a listen for everything that is wanted. The previous listen ends only once the new one is acknowledged. At
// a process it ends first: some servers support one listen per connection, and ending the old one would silence the new
// one for good.
func (b *bridge) open() {
	b.mu.Lock()
	old := b.current
	apart := old != nil && old.shared()
	if apart {
		b.current, b.gap = nil, true
	}
	b.mu.Unlock()
	if apart {
		old.giveUp()
	}
	l := b.listen()
	if err := l.acknowledged(); err != nil {
		l.giveUp()
		b.openFailed(err)
		return
	}
	b.accept(l)
}

// listen starts a listen for all lists, the subscriptions, and those in opening.
func (b *bridge) listen() *listen {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lists, uris []string
	seen := map[string]bool{}
	add := func(uri string) {
		if !seen[uri] {
			uris = append(uris, uri)
		}
		seen[uri] = true
	}
	for _, m := range b.subscribers {
		for _, list := range m.lists {
			if !slices.Contains(lists, list) {
				lists = append(lists, list)
			}
		}
		for _, uri := range m.uris {
			add(uri)
		}
	}
	for _, j := range b.opening {
		add(j.uri)
	}
	b.unacked = newListen(b, lists, uris)
	b.x.work.Go(b.unacked.run) // called by the worker, which belongs to the group
	return b.unacked
}

// openFailed handles a listen that could not be opened and fails the subscriptions in opening. A current listen stays
// open. If it was closed first, the worker opens it again without them.
func (b *bridge) openFailed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		err = errOver
	}
	for _, j := range b.opening {
		j.settle(err)
	}
	if b.current == nil {
		b.gap = true
	}
	if len(b.opening) == 0 && !errors.Is(err, errOver) {
		b.backOff(time.Time{})
	}
	b.opening, b.unacked = nil, nil
}

// errOver fails a subscription whose bridge has ended.
var errOver = proxy.Errf(proxy.ShuttingDown, "the session ends, or the proxy is shutting down")

// accept makes an acknowledged listen the current one and answers the subscriptions in opening: those that the server
// did not acknowledge fail. If none succeeds, the previous listen stays and the new one is closed.
func (b *bridge) accept(l *listen) {
	b.mu.Lock()
	var gone []delivery
	if b.gap {
		gone = b.allChanged()
	}
	old, news := b.current, len(b.opening) == 0
	for _, j := range b.opening {
		switch {
		case !slices.Contains(l.honoured, j.uri):
			j.settle(proxy.Errf(proxy.InvalidParams, "the server does not take subscriptions to this resource"))
			continue
		case !j.withdrawn && !slices.Contains(j.subscriber.uris, j.uri):
			j.subscriber.uris = append(j.subscriber.uris, j.uri)
		}
		j.settle(nil)
		news = true
	}
	b.opening, b.unacked = nil, nil
	if old != nil && !news {
		b.mu.Unlock()
		l.stop()
		return
	}
	b.current, b.gap = l, false
	if old != nil {
		old.late, b.delivered = map[string]delivery{}, map[string]bool{}
	}
	if l.over {
		b.lost(l)
	}
	b.mu.Unlock()
	for _, d := range gone {
		b.send(d)
	}
	if old != nil {
		b.retire(old)
	}
}

// retire ends a listen that has been replaced. Notices that it delivers meanwhile count, unless the new listen has
// delivered the same.
func (b *bridge) retire(old *listen) {
	b.pause(overlapTime, nil)
	old.stop()
	b.mu.Lock()
	late := old.late
	for key := range b.delivered {
		delete(late, key)
	}
	b.delivered = nil
	b.mu.Unlock()
	for _, d := range late {
		b.send(d)
	}
}

// lost handles a listen that ended without being closed here. The caller holds b.mu.
func (b *bridge) lost(l *listen) {
	if b.current == l {
		b.current, b.gap = nil, true
		b.backOff(l.since)
	}
}

// backOff sets the earliest time of the next listen. since is when the last one was acknowledged; the zero time if it
// never was. The caller holds b.mu.
func (b *bridge) backOff(since time.Time) {
	if !since.IsZero() && time.Since(since) >= steadyTime {
		b.failures = 0
	}
	b.failures++
	b.retryAt = time.Now().Add(backoff(b.failures))
}

// backoff returns the pause after a number of consecutive failures: doubled each time up to backoffMax, plus a random half.
func backoff(failures int) time.Duration {
	d := min(backoffMin<<min(failures-1, 10), backoffMax)
	return d + rand.N(d/2) //nolint:gosec // jitter
}

// delivery is a notice and the sessions that receive it.
type delivery struct {
	rules.Notice
	to []*proxy.Session
}

// send delivers the notice to the sessions that may receive it; a session without a stream keeps it until it has one.
func (b *bridge) send(d delivery) {
	for _, s := range d.to {
		m, err := wire.Scan(d.Msg)
		if err == nil && b.x.opt.Notice(s.Reader(), &m) {
			s.Keep(d.Key, m.Append(nil))
		}
	}
}

// allChanged returns notices that everything has changed, in place of the missed ones: 2026-07-28 replays nothing. The
// caller holds b.mu.
func (b *bridge) allChanged() (all []delivery) {
	for _, m := range b.subscribers {
		if !m.ready {
			continue
		}
		for _, n := range rules.AllChanged(m.lists, m.uris) {
			all = append(all, delivery{n, []*proxy.Session{m.session}})
		}
	}
	return all
}
