package subscriptions

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"dragoman/adapters/rules"
	"dragoman/proxy"
)

// The pace of a bridge.
const (
	gatherTime  = 50 * time.Millisecond  // subscriptions that come within it become one listen
	giveUpTime  = 100 * time.Millisecond // how long a process may take to end a listen that is given up
	overlapTime = 20 * time.Millisecond  // how long a listen is still read after the next one was acknowledged
	steadyTime  = 10 * time.Second       // a listen that lasted so long did not fail at once
	backoffMin  = time.Second
	backoffMax  = 40 * time.Second // and half of it again at most by chance
)

// Bounds on what one session subscribes to, and on the URIs of one listen.
const (
	maxSubscribed   = 1024
	subscribedBytes = 1 << 20
	listenedBytes   = 8 << 20
)

// bridge tells legacy sessions of changes at a modern server: what they have subscribed to, and the lists whose changes
// the server announces, become the filter of one subscriptions/listen (2026-07-28 subscriptions), and what comes on that
// goes to the sessions' streams.
//
// Over HTTP each session has a bridge to itself, since what a server shows may depend on who asks. A process cannot tell
// its clients apart, and some servers know one listen for each connection: there all sessions share one bridge.
//
// A worker runs while there is something to be opened, closed or waited for; in between there is only the reader of the
// listen. A session's own bridge ends with it; all end with the upstream.
type bridge struct {
	x      *Bridges
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{} // something has changed while the worker waits

	mu          sync.Mutex
	working     bool
	retired     bool // its last session has ended
	subscribers []*subscriber
	pending     []*subscribeCall // subscriptions that wait for a listen
	opening     []*subscribeCall // those that wait for the acknowledgement of one
	unacked     *listen          // the one that has not been acknowledged
	current     *listen          // the one that has
	delivered   map[string]bool  // what now has brought since it took another's place, while that is still read
	gap         bool             // something may have been missed: the next acknowledgement is followed by notices of everything
	failures    int              // listens that failed, one after the other
	retryAt     time.Time        // not before then
}

// change does something to the state, under the lock, and sees to it that somebody does what that makes necessary.
func (w *bridge) change(do func()) {
	w.mu.Lock()
	do()
	begin := !w.working && w.hasWork()
	w.working = w.working || begin
	w.mu.Unlock()
	if !begin {
		select {
		case w.wake <- struct{}{}:
		default:
		}
		return
	}
	if !w.x.work.Spawn(w.work) {
		w.cancel()
		w.plan()
	}
}

// wanted reports whether a listen should be open: for subscriptions always, for mere changes of lists once a client has a
// stream. The caller holds w.mu.
func (w *bridge) wanted() bool {
	return slices.ContainsFunc(w.subscribers, func(m *subscriber) bool {
		return len(m.uris) > 0 || m.ready && len(m.lists) > 0 && (w.current != nil || m.session.HasOutlet())
	})
}

// lacksList reports whether the listen lacks a list whose changes were announced to a session since. The caller holds w.mu.
func (w *bridge) lacksList() bool {
	return w.current != nil && slices.ContainsFunc(w.subscribers, func(m *subscriber) bool {
		return m.ready && slices.ContainsFunc(m.lists, func(list string) bool { return !slices.Contains(w.current.lists, list) })
	})
}

// hasWork reports whether the worker has something to do, now or later. The caller holds w.mu.
func (w *bridge) hasWork() bool {
	return len(w.pending) > 0 || w.ctx.Err() == nil && ((w.current != nil) != w.wanted() || w.lacksList())
}

// work does what is due until nothing is.
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

// plan decides what the worker does next: wait, or stop a listen, or, if neither is answered, open one. No more: the
// worker ends.
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

// pause waits for a time, or for something on wake, or for the bridge's end.
func (w *bridge) pause(d time.Duration, wake <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-w.ctx.Done():
	}
}

// open opens a listen for all that is wanted. Make before break: the one before ends when the new one has been
// acknowledged. At a process it is break before make: some servers know one listen for each connection, and ending the
// old one would silence the new one for good.
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

// listen begins a listen for all lists and subscriptions, and those that are to join them.
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
	w.x.work.Go(w.unacked.run) // from the worker, which is one of the group
	return w.unacked
}

// openFailed takes note that a listen could not be opened. One that was open stays; one that was given up for it is opened
// again without what was to join.
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

// errOver returns a subscription whose bridge has ended.
var errOver = proxy.Errf(proxy.ShuttingDown, "the session ends, or the proxy is shutting down")

// accept puts an acknowledged listen in the place of the one before, and answers what was to join: what the server has
// not acknowledged is not subscribed to. A listen that brings nothing new does not take another's place.
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

// retire ends a listen whose place another has taken. What it brings in the meantime counts unless the other one has
// brought the same, later.
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

// lost takes note that the listen has ended, of itself. The caller holds w.mu.
func (w *bridge) lost(l *listen) {
	if w.current == l {
		w.current, w.gap = nil, true
		w.backOff(l.since)
	}
}

// backOff sets when the next listen may be opened, after one that was acknowledged at the given time, or never. The caller
// holds w.mu.
func (w *bridge) backOff(since time.Time) {
	if !since.IsZero() && time.Since(since) >= steadyTime {
		w.failures = 0
	}
	d := min(backoffMin<<min(w.failures, 10), backoffMax)
	w.failures++
	w.retryAt = time.Now().Add(d + rand.N(d/2))
}

// delivery is a notice for sessions.
type delivery struct {
	rules.Notice
	to []*proxy.Session
}

// send brings it to the sessions, or keeps it for those without a stream.
func (b delivery) send() {
	for _, s := range b.to {
		s.Keep(b.Key, b.Msg)
	}
}

// allChanged makes the notices that stand for whatever was missed: 2026-07-28 replays nothing. The caller holds w.mu.
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
