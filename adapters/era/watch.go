package era

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// The pace of a watch.
const (
	gatherTime   = 50 * time.Millisecond  // subscriptions that come within it become one listen
	partTime     = 100 * time.Millisecond // how long a process may take to end a listen that is given up
	overlapTime  = 20 * time.Millisecond  // how long a listen is still read after the next one was acknowledged
	steadyTime   = 10 * time.Second       // a listen that lasted so long did not fail at once
	backoffLeast = time.Second
	backoffMost  = 40 * time.Second // and half of it again at most by chance
)

// Bounds on what one session subscribes to.
const (
	maxSubscribed   = 1024
	subscribedBytes = 1 << 20
)

// watch tells one legacy session of changes at a modern server: what the session has subscribed to, and the lists whose
// changes the server announces, become the filter of one subscriptions/listen (2026-07-28 subscriptions), and what comes
// on that goes to the session's stream.
//
// A worker runs while there is something to be opened, closed or waited for; in between there is only the reader of the
// listen. All of it ends with the session, or with the upstream.
type watch struct {
	u          *Upstream
	session    *proxy.Session
	client     proxy.Client // as the requests of the watch carry it
	caller     proxy.Caller
	lists      []string // tools, prompts, resources: the lists whose changes the server announces
	subscribes bool     // its resources can be subscribed to
	ctx        context.Context
	cancel     context.CancelFunc
	wake       chan struct{} // something has changed while the worker waits

	mu      sync.Mutex
	working bool
	ready   bool            // the handshake is over: the client may be told something
	uris    []string        // what the session has subscribed to
	joins   []*joining      // subscriptions that wait for a listen
	opening []*joining      // those that wait for the acknowledgement of one
	coming  *listen         // the one that has not been acknowledged
	now     *listen         // the one that has
	fresh   map[string]bool // what now has brought since it took another's place, while that is still read
	gap     bool            // something may have been missed: the next acknowledgement is followed by notices of everything
	tries   int             // listens that failed, one after the other
	retry   time.Time       // not before then
}

// watches are the watches of an upstream's sessions.
type watches struct {
	mu sync.Mutex
	of map[*proxy.Session]*watch
	n  uint64 // listens so far, for their ids
}

func (x *watches) get(s *proxy.Session) *watch {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.of[s]
}

func (x *watches) all() []*watch {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := make([]*watch, 0, len(x.of))
	for _, w := range x.of {
		list = append(list, w)
	}
	return list
}

// put makes w its session's watch, and answers the one before.
func (x *watches) put(w *watch) (before *watch) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of == nil {
		x.of = make(map[*proxy.Session]*watch)
	}
	before = x.of[w.session]
	x.of[w.session] = w
	return before
}

func (x *watches) drop(w *watch) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of[w.session] == w {
		delete(x.of, w.session)
	}
}

func (x *watches) number() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.n++
	return x.n
}

// Watches tells for how many legacy sessions a subscriptions/listen is open at the server.
func (u *Upstream) Watches() (n int) {
	for _, w := range u.watches.all() {
		w.mu.Lock()
		if w.now != nil {
			n++
		}
		w.mu.Unlock()
	}
	return n
}

// offer answers the capabilities that a legacy client is told of a server: with listChanged and subscribe only where
// change notices can be brought to it, by a watch that begins here. inner is the server/discover that asked for them.
func (u *Upstream) offer(ex, inner *proxy.Exchange, caps []byte) []byte {
	v, err := u.Verdict(ex)
	notices := err == nil && v.Modern
	caps = serverCaps(caps, notices)
	if notices {
		u.watch(ex, inner, caps)
	}
	return caps
}

// watch makes the session's watch, if the server announces anything.
func (u *Upstream) watch(ex, inner *proxy.Exchange, caps []byte) {
	all := wire.Span{From: 0, To: uint32(len(caps))} //nolint:gosec // part of a message
	says := func(path ...string) bool { return string(wire.Path(caps, all, path...).Of(caps)) == "true" }
	w := &watch{u: u, session: ex.Session, caller: ex.Caller, wake: make(chan struct{}, 1), subscribes: says("resources", "subscribe"),
		client: proxy.Client{Era: proxy.Modern, Version: ModernVersion,
			Info: slices.Clone(inner.Msg.Of(inner.Msg.Info)), Caps: slices.Clone(inner.Msg.Of(inner.Msg.Caps))}}
	for _, list := range noticeLists {
		if says(list, "listChanged") {
			w.lists = append(w.lists, list)
		}
	}
	if !w.subscribes && len(w.lists) == 0 {
		return
	}
	w.ctx, w.cancel = context.WithCancel(u.ctx)
	if before := u.watches.put(w); before != nil { // a handshake that the client began anew
		before.cancel()
	}
	w.session.OnEnd(w.end)
	w.session.OnOutlet(func() {
		// A stream that is there before the handshake waits for notifications/initialized.
		w.change(func() { w.ready = w.ready || w.session.State() == proxy.Initialized })
	})
}

// greeted takes a session's notifications/initialized: from now on the client may be told something.
func (u *Upstream) greeted(s *proxy.Session) {
	if w := u.watches.get(s); w != nil {
		w.change(func() { w.ready = true })
	}
}

func (w *watch) end() {
	w.u.watches.drop(w)
	w.cancel()
}

// change does something to the state, under the lock, and sees to it that somebody does what that makes necessary.
func (w *watch) change(do func()) {
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
	if !w.u.spawn(w.work) {
		w.cancel()
		w.plan()
	}
}

// spawn runs f as one of the upstream's goroutines; false if the upstream has been closed.
func (u *Upstream) spawn(f func()) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed {
		u.group.Go(f)
	}
	return !u.closed
}

// wanted tells whether a listen should be open: for subscriptions always, for mere changes of lists once the client has
// a stream. The caller holds w.mu.
func (w *watch) wanted() bool {
	return len(w.uris) > 0 || w.ready && len(w.lists) > 0 && (w.now != nil || w.session.HasOutlet())
}

// due tells whether the worker has something to do, now or later. The caller holds w.mu.
func (w *watch) due() bool {
	return len(w.joins) > 0 || w.ctx.Err() == nil && (w.now != nil) != w.wanted()
}

// work does what is due until nothing is.
func (w *watch) work() {
	for {
		next, wait, more := w.plan()
		switch {
		case !more:
			return
		case wait > 0:
			w.pause(wait, w.wake)
		case next != nil:
			next.stop() // no longer wanted
		default:
			w.open()
		}
	}
}

// plan decides what the worker does next: wait, or stop a listen, or, if neither is answered, open one. No more: the
// worker ends.
func (w *watch) plan() (stop *listen, wait time.Duration, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ctx.Err() != nil:
		for _, a := range w.joins {
			a.settle(errOver)
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
	case w.now == nil && w.wanted():
		return nil, time.Until(w.retry), true
	}
	w.working = false
	return nil, 0, false
}

// pause waits for a time, or for something on wake, or for the watch's end.
func (w *watch) pause(d time.Duration, wake <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-w.ctx.Done():
	}
}

// open opens a listen for all that is wanted. Make before break: the one before ends when the new one has been
// acknowledged. Over a process it is break before make, because some servers know one listen for each connection: ending
// the old one would silence the new one for good.
func (w *watch) open() {
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
		l.stop()
		w.refused(err)
		return
	}
	w.accept(l)
}

// listen begins a listen for the session's subscriptions and those that are asked for.
func (w *watch) listen() *listen {
	w.mu.Lock()
	defer w.mu.Unlock()
	uris := slices.Clone(w.uris)
	for _, a := range w.opening {
		if !slices.Contains(uris, a.uri) {
			uris = append(uris, a.uri)
		}
	}
	w.coming = newListen(w, uris)
	w.u.group.Go(w.coming.run) // from the worker, which is one of the group
	return w.coming
}

// refused takes note that a listen could not be opened. One that was open stays.
func (w *watch) refused(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		err = errOver
	}
	for _, a := range w.opening {
		a.settle(err)
	}
	w.opening, w.coming = nil, nil
	if w.now == nil {
		w.gap = true
		w.later(time.Time{})
	}
}

// errOver answers a subscription whose watch has ended.
var errOver = proxy.Errf(proxy.ShuttingDown, "the session ends, or the proxy is shutting down")

// accept puts an acknowledged listen in the place of the one before, and answers who asked for it: what the server has
// not acknowledged is not subscribed to. A listen that brings nothing new does not take another's place.
func (w *watch) accept(l *listen) {
	w.mu.Lock()
	old, before, news := w.now, len(w.uris), 0
	for _, a := range w.opening {
		switch {
		case !slices.Contains(l.honoured, a.uri):
			a.settle(proxy.Errf(proxy.InvalidParams, "the server does not take subscriptions to this resource"))
			continue
		case !a.gone && !slices.Contains(w.uris, a.uri):
			w.uris = append(w.uris, a.uri)
		}
		a.settle(nil)
		news++
	}
	w.opening, w.coming = nil, nil
	if old != nil && news == 0 {
		w.mu.Unlock()
		l.stop()
		return
	}
	var missed []notice
	if w.gap {
		missed = w.everything(before)
	}
	w.now, w.gap = l, false
	if old != nil {
		old.late, w.fresh = map[string][]byte{}, map[string]bool{}
	}
	if l.over {
		w.lost(l)
	}
	w.mu.Unlock()
	for _, n := range missed {
		w.session.Keep(n.key, n.msg)
	}
	if old != nil {
		w.retire(old)
	}
}

// retire ends a listen whose place another has taken. What it brings in the meantime counts unless the other one has
// brought the same, later.
func (w *watch) retire(old *listen) {
	w.pause(overlapTime, nil)
	old.stop()
	w.mu.Lock()
	late := old.late
	for key := range w.fresh {
		delete(late, key)
	}
	w.fresh = nil
	w.mu.Unlock()
	for key, msg := range late {
		w.session.Keep(key, msg)
	}
}

// lost takes note that the listen has ended, of itself. The caller holds w.mu.
func (w *watch) lost(l *listen) {
	if w.now == l {
		w.now, w.gap = nil, true
		w.later(l.since)
	}
}

// later sets when the next listen may be opened, after one that was acknowledged at the given time, or never. The caller
// holds w.mu.
func (w *watch) later(since time.Time) {
	if !since.IsZero() && time.Since(since) >= steadyTime {
		w.tries = 0
	}
	d := min(backoffLeast<<min(w.tries, 10), backoffMost)
	w.tries++
	w.retry = time.Now().Add(d + rand.N(d/2))
}

// notice is something the client is told, and what it is told about.
type notice struct {
	key string
	msg []byte
}

// everything makes the notices that stand for whatever was missed: 2026-07-28 replays nothing. The caller holds w.mu.
func (w *watch) everything(uris int) (list []notice) {
	for _, name := range w.lists {
		method := "notifications/" + name + "/list_changed"
		list = append(list, notice{method, []byte(`{"jsonrpc":"2.0","method":"` + method + `"}`)})
	}
	for _, uri := range w.uris[:uris] {
		msg := wire.AppendText([]byte(`{"jsonrpc":"2.0","method":"`+updated+`","params":{"uri":`), uri)
		list = append(list, notice{updated + " " + uri, append(msg, "}}"...)})
	}
	return list
}

// withdrawn takes a process's notifications/cancelled, which is how it ends a listen of itself (2026-07-28 cancellation).
func (x *watches) withdrawn(m *wire.Message) {
	n, err := strconv.ParseUint(string(m.Of(m.RequestID)), 10, 64)
	if err != nil {
		return
	}
	for _, w := range x.all() {
		w.mu.Lock()
		for _, l := range []*listen{w.now, w.coming} {
			if l != nil {
				l.withdraw(n)
			}
		}
		w.mu.Unlock()
	}
}
