package limits

import (
	"container/list"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// SlotOptions bounds what runs at a time (seed 001, Runtime Constraints). 0 is no bound, except of Each.
type SlotOptions struct {
	Requests int // running
	Each     int // of these, of one client; 0: three quarters
	Queue    int // waiting for a slot; further ones are refused
	Bytes    int // of the running requests
}

// Slots bounds the requests that run at a time. Others wait in order of arrival; if too many wait, they are refused. A
// request runs until its replies are closed. Requests that last do not count: a listen has its own bound, and so has a
// call that is suspended for its client's answer.
//
// One client, told apart as by [Rate], takes no more than its share: [SlotOptions].Each of the slots, and three quarters
// of the bytes and of the queue. What waits for a client's own share lets the requests of others pass.
type Slots struct {
	opt     SlotOptions
	all     share // what shares are taken of; 0 is no bound
	each    share // the share of one client
	refused prometheus.Counter

	mu    sync.Mutex
	used  share
	of    map[client]*clientShare
	last  *clientShare // of the sender who came last; nil: none. A sidecar has one client
	from  sender       // who that was
	queue list.List    // of *waiter, in order of arrival
	stuck bool         // the first of the queue that its share admits waits for room: later ones do not pass it
}

// share counts what is in use.
type share struct{ running, waiting, bytes int }

// clientShare is the share of a client.
type clientShare struct {
	share
	who client
}

// waiter is a request that waits.
type waiter struct {
	of    *clientShare
	size  int
	ready chan struct{} // closed once it runs
}

// keptShares is how many clients without a request are remembered, to spare allocations.
const keptShares = 1024

// NewSlots returns the limiter, its metrics registered with reg.
func NewSlots(opt SlotOptions, reg prometheus.Registerer) (*Slots, error) {
	most := func(n int) int { return n - n/4 }
	if opt.Each == 0 || opt.Each > opt.Requests {
		opt.Each = most(opt.Requests)
	}
	r := policies.NewRegistry(reg)
	s := &Slots{opt: opt, all: share{opt.Requests, opt.Queue, opt.Bytes}, each: share{opt.Each, most(opt.Queue), most(opt.Bytes)}, of: make(map[client]*clientShare),
		refused: r.Counter("dragoman_requests_refused_busy_total", "Requests refused because too many requests, or too many bytes of them, were waiting.").WithLabelValues()}
	r.Gauge("dragoman_requests_running", "Requests that occupy one of limits.in_flight.", func() int { return s.now().running })
	r.Gauge("dragoman_requests_queued", "Requests that wait for one.", func() int { return s.now().waiting })
	return s, r.Err()
}

func (s *Slots) now() share {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// newSemaphore returns a semaphore of n, or nil if there is no bound.
func newSemaphore(n int) *semaphore.Weighted {
	if n <= 0 {
		return nil
	}
	return semaphore.NewWeighted(int64(n))
}

func release(sem *semaphore.Weighted, n int64) {
	if sem != nil {
		sem.Release(n)
	}
}

// Policy returns the policy that makes requests wait for a slot. It is nil without a bound.
func (s *Slots) Policy() proxy.Policy {
	if s.opt.Requests == 0 && s.opt.Bytes == 0 {
		return nil
	}
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Own || !slotted(&ex.Msg) {
				return next(ex)
			}
			taken, err := s.enter(ex)
			if err != nil {
				return nil, err
			}
			return holding(ex, next, s, taken)
		}
	}
}

// slotted reports whether a message is a request that takes a slot.
func slotted(m *wire.Message) bool {
	return m.Kind == wire.Request && !m.Is("ping") && !m.Is("subscriptions/listen")
}

// shareOf returns the share of whoever makes a request. The caller holds s.mu.
func (s *Slots) shareOf(ex *proxy.Exchange) *clientShare {
	who := senderOf(&ex.Caller)
	if who.principal == "" && ex.Arrival != nil {
		who.addr = ex.Arrival.Address
	}
	if s.last != nil && s.from == who {
		return s.last
	}
	k := who.client()
	of := s.of[k]
	if of == nil {
		of = &clientShare{who: k}
		s.of[k] = of
	}
	s.last, s.from = of, who
	return of
}

// enter waits for a slot, and returns what to pass to leave.
func (s *Slots) enter(ex *proxy.Exchange) (taken claim, err error) {
	size := len(ex.Msg.Raw)
	if s.opt.Bytes > 0 && size > s.opt.Bytes {
		s.refused.Inc()
		return taken, proxy.Errf(proxy.Busy, "the request has %d bytes, more than limits.in_flight_bytes lets run at a time, %d", size, s.opt.Bytes)
	}
	s.mu.Lock()
	of := s.shareOf(ex)
	taken = claim{size: size, of: of}
	if !s.stuck && s.room(of, size) {
		s.take(of, size)
		s.mu.Unlock()
		return taken, nil
	}
	if err := s.crowded(of, size); err != nil {
		s.forget(taken)
		s.mu.Unlock()
		s.refused.Inc()
		return taken, err
	}
	w := &waiter{of, size, make(chan struct{})}
	at := s.queue.PushBack(w)
	s.used.waiting++
	of.waiting++
	s.stuck = s.stuck || !fits(s.all, s.used, size, 0)
	s.mu.Unlock()
	return taken, s.wait(ex, at, taken)
}

// wait waits for the turn of a request.
func (s *Slots) wait(ex *proxy.Exchange, at *list.Element, taken claim) error {
	defer ex.Clock.Waited()
	w := at.Value.(*waiter)
	select {
	case <-w.ready:
		return nil
	case <-ex.Done():
	}
	s.mu.Lock()
	select {
	case <-w.ready: // at the same time
		s.mu.Unlock()
		s.leave(taken)
	default:
		s.unqueue(at)
		s.forget(taken)
		s.grant()
		s.mu.Unlock()
	}
	return ex.Err()
}

// fits reports whether one more request of size bytes is within the bounds of all. A bound of 0 is none. The bytes of a
// request that has over at its disposal do not count.
func fits(all, used share, size, over int) bool {
	return (all.running == 0 || used.running < all.running) && (all.bytes == 0 || used.bytes+size <= max(all.bytes, over))
}

// room reports whether a request may run now. Whoever has nothing running may run any one request.
func (s *Slots) room(of *clientShare, size int) bool {
	over := 0
	if of.running == 0 {
		over = size
	}
	return fits(s.all, s.used, size, 0) && fits(s.each, of.share, size, over)
}

// crowded returns the error of a request that cannot wait either.
func (s *Slots) crowded(of *clientShare, size int) error {
	key, limit := "limits.in_flight", s.opt.Requests
	switch {
	case s.opt.Requests > 0 && s.used.running >= s.opt.Requests:
	case s.opt.Requests > 0 && of.running >= s.each.running:
		key, limit = "limits.in_flight_per_principal", s.each.running
	case s.opt.Bytes > 0:
		key, limit = "limits.in_flight_bytes", s.opt.Bytes
	}
	var err *proxy.Error
	switch {
	case s.used.waiting >= s.opt.Queue:
		err = proxy.Errf(proxy.Busy, "too much is running (%s, %d) and %d requests wait already, as many as limits.queue allows; try again, or raise them", key, limit, s.opt.Queue)
	case of.waiting >= s.each.waiting:
		err = proxy.Errf(proxy.Busy, "too much is running (%s, %d) and %d requests of this caller wait already, three quarters of limits.queue; try again, or raise them", key, limit, s.each.waiting)
	default:
		return nil
	}
	err.RetryAfter = 1
	return err
}

func (s *Slots) take(of *clientShare, size int) {
	s.used.run(1, size)
	of.run(1, size)
}

func (x *share) run(n, size int) {
	x.running += n
	x.bytes += size
}

// leave gives back what enter has taken.
func (s *Slots) leave(taken claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used.run(-1, -taken.size)
	taken.of.run(-1, -taken.size)
	s.forget(taken)
	if s.queue.Len() > 0 {
		s.grant()
	}
}

// grant lets those run whose turn it is.
func (s *Slots) grant() {
	s.stuck = false
	for at := s.queue.Front(); at != nil; {
		w := at.Value.(*waiter)
		this := at
		at = at.Next()
		if !fits(s.all, s.used, w.size, 0) {
			s.stuck = true
			return
		}
		if s.room(w.of, w.size) {
			s.unqueue(this)
			s.take(w.of, w.size)
			close(w.ready)
		}
	}
}

func (s *Slots) unqueue(at *list.Element) {
	w := at.Value.(*waiter)
	s.queue.Remove(at)
	s.used.waiting--
	w.of.waiting--
}

// forget drops the counts of a client that has no request.
func (s *Slots) forget(taken claim) {
	if len(s.of) <= keptShares || taken.of.share != (share{}) {
		return
	}
	delete(s.of, taken.of.who)
	if s.last == taken.of {
		s.last = nil
	}
}

// Concurrency returns the policy that bounds the requests that run at one server, and the calls of single tools, for servers
// that are not thread-safe (seed 001, Concurrent Execution). Others wait in order of arrival until the end of their own
// time. It is nil without a bound.
//
// A call that is suspended for its client's answer has no turn meanwhile, although the server has not ended it.
func Concurrency(all int, tools map[string]int) proxy.Policy {
	if all == 0 && len(tools) == 0 {
		return nil
	}
	server := newSemaphore(all)
	of := make(map[string]*semaphore.Weighted, len(tools))
	for name, n := range tools {
		of[name] = newSemaphore(n)
	}
	rules := policies.NewPatterns(of)
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			m := &ex.Msg
			if !slotted(m) || m.Is("initialize") {
				return next(ex)
			}
			var tool *semaphore.Weighted
			if m.Is("tools/call") {
				tool, _ = rules.Find(m.Text(m.Name))
			}
			for i, sem := range [...]*semaphore.Weighted{tool, server} { // the tool first: a call that waits for it holds nothing of the server
				if sem == nil || sem.TryAcquire(1) {
					continue
				}
				ex.Clock.Waited()
				if err := sem.Acquire(ex, 1); err != nil {
					if i > 0 {
						release(tool, 1)
					}
					return nil, err
				}
			}
			return holding(ex, next, freeing(func() { release(tool, 1); release(server, 1) }), claim{})
		}
	}
}

// Listens returns the policy that bounds the open listens, each of which holds a connection: in total, and per
// principal. Anonymous clients have no principal, so only the total bounds them. A listen ends when its credential
// expires. A bound of 0 is none; without bounds the policy is nil.
func Listens(all, perPrincipal int) proxy.Policy {
	if all == 0 && perPrincipal == 0 {
		return nil
	}
	l := &listens{all: all, each: perPrincipal, of: make(map[string]int)}
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Msg.Kind != wire.Request || !ex.Msg.Is("subscriptions/listen") {
				return next(ex)
			}
			who := ex.Caller.Principal
			if err := l.enter(who); err != nil {
				return nil, err
			}
			stop := expire(ex)
			return holding(ex, next, freeing(func() { stop(); l.leave(who) }), claim{})
		}
	}
}

// expire ends a listen when its credential expires, as a drain does: the client listens anew, with another credential.
// stop undoes it.
func expire(ex *proxy.Exchange) (stop func()) {
	if ex.Own || ex.Caller.Rights == nil || ex.Caller.Rights.Expires.IsZero() {
		return func() {}
	}
	listen := ex.Ticket() // the timer may fire after the end of the listen
	timer := time.AfterFunc(time.Until(ex.Caller.Rights.Expires), func() { listen.Cancel(proxy.ErrDraining) })
	return func() { timer.Stop() }
}

type listens struct {
	all, each int

	mu sync.Mutex
	n  int
	of map[string]int
}

func (l *listens) enter(who string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.all > 0 && l.n >= l.all:
		return proxy.Errf(proxy.Busy, "%d listens are open, as many as limits.listens allows", l.n)
	case l.each > 0 && who != "" && l.of[who] >= l.each:
		return proxy.Errf(proxy.Busy, "%d listens of this caller are open, as many as limits.listens_per_principal allows", l.of[who])
	}
	l.n++
	l.of[who]++
	return nil
}

func (l *listens) leave(who string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n--
	if l.of[who]--; l.of[who] == 0 {
		delete(l.of, who)
	}
}

// claim is what a request holds of something. The zero claim is for releasers that need none.
type claim struct {
	size int
	of   *clientShare
}

// releaser takes back what a request holds.
type releaser interface{ leave(claim) }

// freeing is a releaser for requests that all hold the same.
type freeing func()

func (f freeing) leave(claim) { f() }

// holding runs a request that holds something. It is released when the replies are closed, or when the request fails.
func holding(ex *proxy.Exchange, next proxy.Handler, of releaser, taken claim) (proxy.Replies, error) {
	done := false
	defer func() {
		if !done { // it failed, or panicked
			of.leave(taken)
		}
	}()
	replies, err := next(ex)
	if err != nil {
		return nil, err
	}
	done = true
	h := proxy.Lend[held](ex, heldSlot)
	*h = held{replies, of, taken}
	return h, nil
}

var heldSlot = proxy.NewSlot()

// held wraps the replies of a request that holds something.
type held struct {
	proxy.Replies
	of    releaser
	taken claim
}

// Clear implements proxy.Clearer.
func (h *held) Clear() { *h = held{} }

// Close implements proxy.Replies.
func (h *held) Close() error {
	defer h.of.leave(h.taken)
	return h.Replies.Close()
}
