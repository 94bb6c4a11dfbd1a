package limits

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// SlotOptions bounds what runs at a time (seed 001, Runtime Constraints). 0 is no bound.
type SlotOptions struct {
	Requests int // running
	Queue    int // waiting for a slot; further ones are refused
	Bytes    int // of the running requests
}

// Slots bounds the requests that run at a time. Others wait in order of arrival; if too many wait, they are refused. A
// request runs until its replies are closed. Requests that last do not count: a listen has its own bound, and so has a
// call that is suspended for its client's answer.
type Slots struct {
	opt     SlotOptions
	slots   *semaphore.Weighted // nil: no bound
	bytes   *semaphore.Weighted // nil: no bound
	running atomic.Int64
	waiting atomic.Int64
	refused prometheus.Counter
}

// NewSlots returns the limiter, its metrics registered with reg.
func NewSlots(opt SlotOptions, reg prometheus.Registerer) (*Slots, error) {
	r := policies.NewRegistry(reg)
	s := &Slots{opt: opt, slots: newSemaphore(opt.Requests), bytes: newSemaphore(opt.Bytes),
		refused: r.Counter("dragoman_requests_refused_busy_total", "Requests refused because too many requests, or too many bytes of them, were waiting.").WithLabelValues()}
	r.Gauge("dragoman_requests_running", "Requests that occupy one of limits.in_flight.", func() int { return int(s.running.Load()) })
	r.Gauge("dragoman_requests_queued", "Requests that wait for one.", func() int { return int(s.waiting.Load()) })
	return s, r.Err()
}

// newSemaphore returns a semaphore of n, or nil if there is no bound.
func newSemaphore(n int) *semaphore.Weighted {
	if n <= 0 {
		return nil
	}
	return semaphore.NewWeighted(int64(n))
}

// Policy returns the policy that makes requests wait for a slot. It is nil without a bound.
func (s *Slots) Policy() proxy.Policy {
	if s.slots == nil && s.bytes == nil {
		return nil
	}
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Own || !slotted(&ex.Msg) {
				return next(ex)
			}
			size, err := s.enter(ex)
			if err != nil {
				return nil, err
			}
			return holding(ex, next, s, size)
		}
	}
}

// slotted reports whether a message is a request that takes a slot.
func slotted(m *wire.Message) bool {
	return m.Kind == wire.Request && !m.Is("ping") && !m.Is("subscriptions/listen")
}

// enter waits for a slot, and returns the size to pass to leave.
func (s *Slots) enter(ex *proxy.Exchange) (size int64, err error) {
	size = int64(len(ex.Msg.Raw))
	if s.bytes != nil && size > int64(s.opt.Bytes) {
		s.refused.Inc()
		return 0, proxy.Errf(proxy.Busy, "the request has %d bytes, more than limits.in_flight_bytes lets run at a time, %d", size, s.opt.Bytes)
	}
	if err := s.take(ex, s.bytes, size, "limits.in_flight_bytes", s.opt.Bytes); err != nil {
		return 0, err
	}
	if err := s.take(ex, s.slots, 1, "limits.in_flight", s.opt.Requests); err != nil {
		release(s.bytes, size)
		return 0, err
	}
	s.running.Add(1)
	return size, nil
}

// leave gives back what enter has taken.
func (s *Slots) leave(size int64) {
	s.running.Add(-1)
	release(s.slots, 1)
	release(s.bytes, size)
}

func release(sem *semaphore.Weighted, n int64) {
	if sem != nil {
		sem.Release(n)
	}
}

func (s *Slots) take(ex *proxy.Exchange, sem *semaphore.Weighted, n int64, key string, limit int) error {
	if sem == nil || sem.TryAcquire(n) {
		return nil
	}
	if s.waiting.Add(1) > int64(s.opt.Queue) {
		s.waiting.Add(-1)
		s.refused.Inc()
		err := proxy.Errf(proxy.Busy, "too much is running (%s, %d) and %d requests wait already, as many as limits.queue allows; try again, or raise them", key, limit, s.opt.Queue)
		err.RetryAfter = 1
		return err
	}
	defer s.waiting.Add(-1)
	defer ex.Clock.Waited()
	return sem.Acquire(ex, n) // fails only with the end of the exchange
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
			return holding(ex, next, freeing(func() { release(tool, 1); release(server, 1) }), 0)
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
			return holding(ex, next, freeing(func() { stop(); l.leave(who) }), 0)
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

// releaser takes back what a request holds.
type releaser interface {
	// leave takes back size, as much as the request was given.
	leave(size int64)
}

// freeing is a releaser for requests that all hold the same.
type freeing func()

func (f freeing) leave(int64) { f() }

// holding runs a request that holds size of something. It is released when the replies are closed, or when the request
// fails.
func holding(ex *proxy.Exchange, next proxy.Handler, of releaser, size int64) (proxy.Replies, error) {
	done := false
	defer func() {
		if !done { // it failed, or panicked
			of.leave(size)
		}
	}()
	replies, err := next(ex)
	if err != nil {
		return nil, err
	}
	done = true
	h := proxy.Lend[held](ex, heldSlot)
	*h = held{replies, of, size}
	return h, nil
}

var heldSlot = proxy.NewSlot()

// held wraps the replies of a request that holds something.
type held struct {
	proxy.Replies
	of   releaser
	size int64
}

// Clear implements proxy.Clearer.
func (h *held) Clear() { *h = held{} }

// Close implements proxy.Replies.
func (h *held) Close() error {
	defer h.of.leave(h.size)
	return h.Replies.Close()
}
