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
	gatherTime   = 50 * time.Millisecond  // subscriptions that come within it become one listen
	partTime     = 100 * time.Millisecond // how long a process may take to end a listen that is given up
	overlapTime  = 20 * time.Millisecond  // how long a listen is still read after the next one was acknowledged
	steadyTime   = 10 * time.Second       // a listen that lasted so long did not fail at once
	backoffLeast = time.Second
	backoffMost  = 40 * time.Second // and half of it again at most by chance
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

	mu      sync.Mutex
	working bool
	retired bool // its last session has ended
	members []*member
	joins   []*joining      // subscriptions that wait for a listen
	opening []*joining      // those that wait for the acknowledgement of one
	coming  *listen         // the one that has not been acknowledged
	now     *listen         // the one that has
	fresh   map[string]bool // what now has brought since it took another's place, while that is still read
	gap     bool            // something may have been missed: the next acknowledgement is followed by notices of everything
	tries   int             // listens that failed, one after the other
	retry   time.Time       // not before then
}

// change does something to the state, under the lock, and sees to it that somebody does what that makes necessary.
func (w *bridge) change(do func()) {
	w.mu.Lock()
	do()
	begin := !w.working && w.due()
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
	return slices.ContainsFunc(w.members, func(m *member) bool {
		return len(m.uris) > 0 || m.ready && len(m.lists) > 0 && (w.now != nil || m.session.HasOutlet())
	})
}

// narrow reports whether the listen lacks a list whose changes were announced to a session since. The caller holds w.mu.
func (w *bridge) narrow() bool {
	return w.now != nil && slices.ContainsFunc(w.members, func(m *member) bool {
		return m.ready && slices.ContainsFunc(m.lists, func(list string) bool { return !slices.Contains(w.now.lists, list) })
	})
}

// due reports whether the worker has something to do, now or later. The caller holds w.mu.
func (w *bridge) due() bool {
	return len(w.joins) > 0 || w.ctx.Err() == nil && ((w.now != nil) != w.wanted() || w.narrow())
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
			next.part() // no longer wanted
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
		for _, j := range w.joins {
			j.settle(errOver)
		}
		w.joins = nil
	case len(w.joins) > 0:
		if wait = gatherTime - time.Since(w.joins[0].at); wait <= 0 {
			w.opening, w.joins = w.joins, nil
		}
		return nil, wait, true
	case w.now != nil && !w.wanted():
		stop, w.now = w.now, nil
		return stop, 0, true
	case w.now == nil && w.wanted(), w.narrow():
		return nil, time.Until(w.retry), true
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
	old := w.now
	apart := old != nil && old.shared()
	if apart {
		w.now, w.gap = nil, true
	}
	w.mu.Unlock()
	if apart {
		old.part()
	}
	l := w.listen()
	if err := l.acknowledged(); err != nil {
		l.part()
		w.refused(err)
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
	for _, m := range w.members {
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
	w.coming = newListen(w, lists, uris)
	w.x.work.Go(w.coming.run) // from the worker, which is one of the group
	return w.coming
}

// refused takes note that a listen could not be opened. One that was open stays; one that was given up for it is opened
// again without what was to join.
func (w *bridge) refused(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		err = errOver
	}
	for _, j := range w.opening {
		j.settle(err)
	}
	if w.now == nil {
		w.gap = true
	}
	if len(w.opening) == 0 && !errors.Is(err, errOver) {
		w.later(time.Time{})
	}
	w.opening, w.coming = nil, nil
}

// errOver returns a subscription whose bridge has ended.
var errOver = proxy.Errf(proxy.ShuttingDown, "the session ends, or the proxy is shutting down")

// accept puts an acknowledged listen in the place of the one before, and answers what was to join: what the server has
// not acknowledged is not subscribed to. A listen that brings nothing new does not take another's place.
func (w *bridge) accept(l *listen) {
	w.mu.Lock()
	var gone []bulletin
	if w.gap {
		gone = w.everything()
	}
	old, news := w.now, len(w.opening) == 0
	for _, j := range w.opening {
		switch {
		case !slices.Contains(l.honoured, j.uri):
			j.settle(proxy.Errf(proxy.InvalidParams, "the server does not take subscriptions to this resource"))
			continue
		case !j.gone && !slices.Contains(j.m.uris, j.uri):
			j.m.uris = append(j.m.uris, j.uri)
		}
		j.settle(nil)
		news = true
	}
	w.opening, w.coming = nil, nil
	if old != nil && !news {
		w.mu.Unlock()
		l.stop()
		return
	}
	w.now, w.gap = l, false
	if old != nil {
		old.late, w.fresh = map[string]bulletin{}, map[string]bool{}
	}
	if l.over {
		w.lost(l)
	}
	w.mu.Unlock()
	for _, b := range gone {
		b.tell()
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
	for key := range w.fresh {
		delete(late, key)
	}
	w.fresh = nil
	w.mu.Unlock()
	for _, b := range late {
		b.tell()
	}
}

// lost takes note that the listen has ended, of itself. The caller holds w.mu.
func (w *bridge) lost(l *listen) {
	if w.now == l {
		w.now, w.gap = nil, true
		w.later(l.since)
	}
}

// later sets when the next listen may be opened, after one that was acknowledged at the given time, or never. The caller
// holds w.mu.
func (w *bridge) later(since time.Time) {
	if !since.IsZero() && time.Since(since) >= steadyTime {
		w.tries = 0
	}
	d := min(backoffLeast<<min(w.tries, 10), backoffMost)
	w.tries++
	w.retry = time.Now().Add(d + rand.N(d/2))
}

// bulletin is a notice for sessions.
type bulletin struct {
	rules.Notice
	to []*proxy.Session
}

// tell brings it to the sessions, or keeps it for those without a stream.
func (b bulletin) tell() {
	for _, s := range b.to {
		s.Keep(b.Key, b.Msg)
	}
}

// everything makes the notices that stand for whatever was missed: 2026-07-28 replays nothing. The caller holds w.mu.
func (w *bridge) everything() (all []bulletin) {
	for _, m := range w.members {
		if !m.ready {
			continue
		}
		for _, n := range rules.AllChanged(m.lists, m.uris) {
			all = append(all, bulletin{n, []*proxy.Session{m.session}})
		}
	}
	return all
}
