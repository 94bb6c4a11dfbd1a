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
func (w *bridge) change(do func()) {
	w.mu.Lock()
	do()
	begin := !w.working && w.hasWork()
	w.working = w.working || begin
	w.mu.Unlock()
	if !begin {
		work.Signal(w.wake)
		return
	}
	if !w.x.work.Spawn(w.work) {
		w.cancel()
		w.plan()
	}
}

// wanted reports whether a listen should be open: always for subscriptions, and for list changes only once a client has
// a stream. The caller holds w.mu.
func (w *bridge) wanted() bool {
	return slices.ContainsFunc(w.subscribers, func(m *subscriber) bool {
		return len(m.uris) > 0 || m.ready && len(m.lists) > 0 && (w.current != nil || m.session.HasOutlet())
	})
}

// lacksList reports whether the current listen lacks a list that a session needs. The caller holds w.mu.
func (w *bridge) lacksList() bool {
	return w.current != nil && slices.ContainsFunc(w.subscribers, func(m *subscriber) bool {
		return m.ready && slices.ContainsFunc(m.lists, func(list string) bool { return !slices.Contains(w.current.lists, list) })
	})
}

// hasWork reports whether the worker has something to do, now or later. The caller holds w.mu.
func (w *bridge) hasWork() bool {
	return len(w.pending) > 0 || w.ctx.Err() == nil && ((w.current != nil) != w.wanted() || w.lacksList())
}

// work runs until nothing is left to do.
func (w *bridge) work() {
	for {
		next, wait, more := w.plan()
		switch {
		case !more:
			return
		case wait > 0:
			w.pause(wait, w.wake)
		case next != nil:
			next.giveUp() // no longer wanted
		default:
			w.open()
		}
	}
}

// plan decides the next step of the worker: to stop a listen, to wait, or, if both are zero, to open a listen. The
// worker ends if more is false.
func (w *bridge) plan() (stop *listen, wait time.Duration, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ctx.Err() != nil:
		for _, j := range w.pending {
			j.settle(errOver)
		}
		w.pending = nil
	case len(w.pending) > 0:
		if wait = gatherTime - time.Since(w.pending[0].at); wait <= 0 {
			w.opening, w.pending = w.pending, nil
		}
		return nil, wait, true
	case w.current != nil && !w.wanted():
		stop, w.current = w.current, nil
		return stop, 0, true
	case w.current == nil && w.wanted(), w.lacksList():
		return nil, time.Until(w.retryAt), true
	}
	w.working = false
	if w.retired {
		w.cancel()
	}
	return nil, 0, false
}

// pause waits for d, for wake, or for the end of the bridge.
func (w *bridge) pause(d time.Duration, wake <-chan struct{}) {
	select {
	case <-time.After(d):
	case <-wake:
	case <-w.ctx.Done():
	}
}

// open opens a listen for everything that is wanted. The previous listen ends only once the new one is acknowledged. At
// a process it ends first: some servers support one listen per connection, and ending the old one would silence the new
// one for good.
func (w *bridge) open() {
	w.mu.Lock()
	old := w.current
	apart := old != nil && old.shared()
	if apart {
		w.current, w.gap = nil, true
	}
	w.mu.Unlock()
	if apart {
		old.giveUp()
	}
	l := w.listen()
	if err := l.acknowledged(); err != nil {
		l.giveUp()
		w.openFailed(err)
		return
	}
	w.accept(l)
}

// listen starts a listen for all lists, the subscriptions, and those in opening.
func (w *bridge) listen() *listen {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lists, uris []string
	seen := map[string]bool{}
	add := func(uri string) {
		if !seen[uri] {
			uris = append(uris, uri)
		}
		seen[uri] = true
	}
	for _, m := range w.subscribers {
		for _, list := range m.lists {
			if !slices.Contains(lists, list) {
				lists = append(lists, list)
			}
		}
		for _, uri := range m.uris {
			add(uri)
		}
	}
	for _, j := range w.opening {
		add(j.uri)
	}
	w.unacked = newListen(w, lists, uris)
	w.x.work.Go(w.unacked.run) // called by the worker, which belongs to the group
	return w.unacked
}

// openFailed handles a listen that could not be opened and fails the subscriptions in opening. A current listen stays
// open. If it was closed first, the worker opens it again without them.
func (w *bridge) openFailed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		err = errOver
	}
	for _, j := range w.opening {
		j.settle(err)
	}
	if w.current == nil {
		w.gap = true
	}
	if len(w.opening) == 0 && !errors.Is(err, errOver) {
		w.backOff(time.Time{})
	}
	w.opening, w.unacked = nil, nil
}

// errOver fails a subscription whose bridge has ended.
var errOver = proxy.Errf(proxy.ShuttingDown, "the session ends, or the proxy is shutting down")

// accept makes an acknowledged listen the current one and answers the subscriptions in opening: those that the server
// did not acknowledge fail. If none succeeds, the previous listen stays and the new one is closed.
func (w *bridge) accept(l *listen) {
	w.mu.Lock()
	var gone []delivery
	if w.gap {
		gone = w.allChanged()
	}
	old, news := w.current, len(w.opening) == 0
	for _, j := range w.opening {
		switch {
		case !slices.Contains(l.honoured, j.uri):
			j.settle(proxy.Errf(proxy.InvalidParams, "the server does not take subscriptions to this resource"))
			continue
		case !j.withdrawn && !slices.Contains(j.m.uris, j.uri):
			j.m.uris = append(j.m.uris, j.uri)
		}
		j.settle(nil)
		news = true
	}
	w.opening, w.unacked = nil, nil
	if old != nil && !news {
		w.mu.Unlock()
		l.stop()
		return
	}
	w.current, w.gap = l, false
	if old != nil {
		old.late, w.delivered = map[string]delivery{}, map[string]bool{}
	}
	if l.over {
		w.lost(l)
	}
	w.mu.Unlock()
	for _, b := range gone {
		b.send()
	}
	if old != nil {
		w.retire(old)
	}
}

// retire ends a listen that has been replaced. Notices that it delivers meanwhile count, unless the new listen has
// delivered the same.
func (w *bridge) retire(old *listen) {
	w.pause(overlapTime, nil)
	old.stop()
	w.mu.Lock()
	late := old.late
	for key := range w.delivered {
		delete(late, key)
	}
	w.delivered = nil
	w.mu.Unlock()
	for _, b := range late {
		b.send()
	}
}

// lost handles a listen that ended without being closed here. The caller holds w.mu.
func (w *bridge) lost(l *listen) {
	if w.current == l {
		w.current, w.gap = nil, true
		w.backOff(l.since)
	}
}

// backOff sets the earliest time of the next listen. since is when the last one was acknowledged; the zero time if it
// never was. The caller holds w.mu.
func (w *bridge) backOff(since time.Time) {
	if !since.IsZero() && time.Since(since) >= steadyTime {
		w.failures = 0
	}
	w.failures++
	w.retryAt = time.Now().Add(backoff(w.failures))
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

// send delivers the notice to the sessions; a session without a stream keeps it until it has one.
func (b delivery) send() {
	for _, s := range b.to {
		s.Keep(b.Key, b.Msg)
	}
}

// allChanged returns notices that everything has changed, in place of the missed ones: 2026-07-28 replays nothing. The
// caller holds w.mu.
func (w *bridge) allChanged() (all []delivery) {
	for _, m := range w.subscribers {
		if !m.ready {
			continue
		}
		for _, n := range rules.AllChanged(m.lists, m.uris) {
			all = append(all, delivery{n, []*proxy.Session{m.session}})
		}
	}
	return all
}
