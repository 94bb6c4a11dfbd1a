package health

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"dragoman/proxy"
)

// State is where an upstream is in its life (seed 004, Server Lifecycle State Machine).
type State string

// The states. A degraded upstream serves; one in error is not asked, but by who finds out whether it is back.
const (
	Disconnected State = "DISCONNECTED" // nobody has tried it yet
	Connecting   State = "CONNECTING"   // it is being tried, for the first time or again
	Connected    State = "CONNECTED"
	Degraded     State = "DEGRADED" // failed twice in a row
	Errored      State = "ERROR"    // failed three times, or could not be reached at first, or fails too often
)

// States lists them in order.
func States() []State { return []State{Disconnected, Connecting, Connected, Degraded, Errored} }

// Bounds of seed 004, BR-002, BR-006 and EC-001. That EC-005 ends reconnecting after five attempts is not followed.
const (
	degradedAfter = 2
	errorAfter    = 3
	pauseFirst    = time.Second
	pauseMost     = time.Minute
	connectTime   = 30 * time.Second // for a look at a server that is not connected
	suspectPause  = 5 * time.Second  // between looks that calls give rise to
)

// Options are those of NewMonitor.
type Options struct {
	Name string
	// Check asks the server whether it is there, while ctx lives. An error with an HTTPStatus below 500 in its chain is a
	// warning only. nil: nobody asks, and the server is judged by what calls show.
	Check func(ctx context.Context) error
	// Restored, if not nil, is called when failures are over, by the goroutine that checks: what was begun before them may be dead.
	Restored func(ctx context.Context)
	Interval time.Duration // between checks; 0: there are none
	Timeout  time.Duration // of one
	// Starts, if not nil, tells how the starts of a child go: they are its state, and it is not asked.
	Starts  func() Starts
	Breaker BreakerOptions
	Changed func(Change)      // told of each change, in order; it must not call back. nil: nobody
	Warned  func(text string) // told of what is not well and changes nothing yet; likewise
	Metrics *Metrics          // nil: not counted
	Running *Running          // the books of the requests at it; nil: nobody keeps them
}

// Starts is how the starts of a server that is a child go.
type Starts struct {
	Circuit  string // closed, open or half-open
	Failures int    // in a row
	Last     string // how the last failed, as the rest of a sentence
	RetryAt  time.Time
}

// Change is one step of an upstream from state to state.
type Change struct {
	From, To State
	Reason   string
	Again    bool // it is one more of the attempts to reach a server that is known to be down
}

// Report is an upstream's state at a moment.
type Report struct {
	State     State
	Since     time.Time // in that state; an attempt to reach it again is none of its own
	Failures  int       // in a row
	LastError string    // empty if there was none
	RetryAt   time.Time // when it is tried again; zero unless it is in error
	CheckedAt time.Time // zero: never
	Took      time.Duration
	Warning   string // what the last check was not content with
	Breaker   string // closed, open or half-open; off
}

// Monitor keeps the one state of an upstream, fed by real calls ([Monitor.Policy]), by the circuit breaker around them, and by
// checks (seed 004, BR-006). Two failures in a row degrade it; with the third, or the first before it was ever reached, it is
// in error: calls are refused at once, and it is tried again after 1 s, 2 s, 4 s and so on, 60 s at most, without end.
// A call's failure can be the call's own fault as well as the server's: of those that do not say that nobody is there, the
// third has the server checked, and the check decides. What fails together counts once.
type Monitor struct {
	opt Options

	stop  context.CancelFunc
	group sync.WaitGroup
	nudge chan struct{} // the plan has changed

	mu       sync.Mutex
	told     State
	since    time.Time
	base     State // Disconnected, Connecting or Connected
	failures int
	failedAt time.Time // when the last that counted was over
	last     string    // error
	erring   bool      // told is Errored, or Connecting after that
	down     bool
	tries    int       // to reach it since it is down
	trying   bool      // one is under way
	next     time.Time // when the next is due
	planned  time.Time // the next check
	restored bool      // it has failed and is back, and Restored has not been called yet
	breaker  *breaker
	calls    underWay
	orphans  []proxy.Ticket // to be given up, once mu is free

	checkedAt time.Time
	took      time.Duration
	warning   string
}

// NewMonitor makes the keeper of an upstream's state. Start begins checking.
func NewMonitor(opt Options) *Monitor {
	if opt.Changed == nil {
		opt.Changed = func(Change) {}
	}
	if opt.Warned == nil {
		opt.Warned = func(string) {}
	}
	return &Monitor{opt: opt, stop: func() {}, nudge: make(chan struct{}, 1), told: Disconnected, since: time.Now(), base: Disconnected,
		breaker: newBreaker(opt.Breaker)}
}

// checks tells whether the upstream is asked now and then.
func (h *Monitor) checks() bool {
	return h.opt.Check != nil && h.opt.Interval > 0 && h.opt.Starts == nil
}

// state computes what stands in none of the fields alone. The caller holds mu.
func (h *Monitor) state() State {
	degraded := h.failures >= degradedAfter
	if h.opt.Starts != nil {
		s := h.opt.Starts()
		switch s.Circuit {
		case "open":
			return Errored
		case "half-open":
			return Connecting
		}
		if h.base != Connected && s.Last != "" {
			return Errored
		}
		degraded = s.Failures >= degradedAfter
	}
	circuit := h.breaker.state()
	switch {
	case h.down && !h.trying, circuit == circuitOpen:
		return Errored
	case h.down, circuit == circuitHalfOpen:
		return Connecting
	case degraded && h.base == Connected:
		return Degraded
	}
	return h.base
}

// settle notes a change of the state and tells of it. The caller holds mu.
func (h *Monitor) settle(now time.Time) {
	to := h.state()
	if to == h.told {
		return
	}
	change := Change{From: h.told, To: to, Reason: h.reason(to), Again: h.erring && (to == Connecting || to == Errored)}
	if !change.Again {
		h.since = now
	}
	h.told, h.erring = to, to == Errored || to == Connecting && h.erring
	h.opt.Metrics.changed(h.opt.Name, to)
	h.opt.Changed(change)
}

// reason says in words why the upstream is in a state. The caller holds mu.
func (h *Monitor) reason(s State) string {
	last, failures := h.lastError()
	switch {
	case s == Connected:
		return "it answers"
	case s == Degraded:
		return fmt.Sprintf("%d failures in a row; the last: %s", failures, last)
	case s == Errored && !h.down && h.breaker.state() == circuitOpen:
		return fmt.Sprintf("half of the calls within %s failed; the last: %s", breakerWindow, last)
	case s == Errored:
		return last
	case h.told == Errored:
		return "it is tried again"
	}
	return "it is tried"
}

// lastError is the last failure and how many there were in a row. The caller holds mu.
func (h *Monitor) lastError() (string, int) {
	if h.opt.Starts != nil {
		if s := h.opt.Starts(); s.Last != "" && (s.Failures > 0 || h.last == "") {
			return "the server " + s.Last, s.Failures
		}
	}
	return h.last, h.failures
}

// update changes what is known, in one step, and does afterwards what must not be done under the lock.
func (h *Monitor) update(f func(now time.Time)) {
	h.mu.Lock()
	now := time.Now()
	f(now)
	h.settle(now)
	orphans, last := h.orphans, h.last
	h.orphans = nil
	h.mu.Unlock()
	for _, call := range orphans {
		call.Cancel(proxy.Errf(proxy.Lost, "the upstream server %q cannot be reached any more, while the call was under way: %s", h.opt.Name, last))
	}
}

// succeeded notes that the server has answered. The caller holds mu.
func (h *Monitor) succeeded(now time.Time) {
	if h.down || h.failures >= degradedAfter {
		h.restored = true
		h.wake()
	}
	if h.down {
		h.down, h.trying, h.tries = false, false, 0
		h.breaker = newBreaker(h.opt.Breaker)
		h.plan(now.Add(spread(h.opt.Interval)))
	}
	h.base, h.failures = Connected, 0
}

// failed notes a failure of something that began when. sure says that nothing but the server, or the way there, can be the
// cause. The caller holds mu.
func (h *Monitor) failed(now, began time.Time, err error, sure bool) {
	h.last = plainly(err)
	switch {
	case h.opt.Starts != nil || h.down:
		return
	case h.failures > 0 && !began.After(h.failedAt): // they failed together
		return
	case sure && h.base != Connected:
		h.failures, h.failedAt = h.failures+1, now
		h.goDown(now, err)
		return
	case !sure && h.failures >= degradedAfter && h.checks():
		if due := h.checkedAt.Add(suspectPause); due.After(now) {
			h.plan(earlier(due, h.planned))
		} else {
			h.plan(now)
		}
		return
	}
	h.failures, h.failedAt = h.failures+1, now
	switch {
	case h.failures >= errorAfter:
		h.goDown(now, err)
	case h.failures < degradedAfter:
		h.opt.Warned(h.last)
	}
}

// goDown puts the upstream into error. The caller holds mu.
func (h *Monitor) goDown(now time.Time, err error) {
	h.down, h.tries = true, 0
	h.next = now.Add(pause(0))
	h.plan(h.next)
	if isSilence(err) { // those whose server has refused a connection would have been told by theirs
		for c := h.calls.last; c != nil; c = c.older {
			h.orphans = append(h.orphans, c.ex.Ticket())
		}
	}
}

// postpone plans the next attempt to reach a server that is down. The caller holds mu.
func (h *Monitor) postpone(now time.Time) {
	h.trying = false
	h.tries++
	h.next = now.Add(pause(h.tries))
	h.plan(h.next)
}

// pause is how long to wait after n failed attempts, a little less so that many proxies do not come in step.
func pause(n int) time.Duration {
	d := min(pauseFirst<<min(n, 16), pauseMost)
	return d - rand.N(d/10) //nolint:gosec // spreads load, guards nothing
}

// spread makes an interval a tenth longer or shorter.
func spread(d time.Duration) time.Duration {
	if d < 10 {
		return d
	}
	return d - d/10 + rand.N(d/5) //nolint:gosec // spreads load, guards nothing
}

func earlier(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}

// Now tells how the upstream is.
func (h *Monitor) Now() (r Report) {
	h.update(func(time.Time) {
		r = Report{State: h.state(), Since: h.since, CheckedAt: h.checkedAt, Took: h.took, Warning: h.warning, Breaker: h.breaker.state()}
		r.LastError, r.Failures = h.lastError()
		r.RetryAt = h.retryAt()
	})
	return r
}

// retryAt is when an upstream in error is tried again. The caller holds mu.
func (h *Monitor) retryAt() time.Time {
	if h.opt.Starts != nil {
		if s := h.opt.Starts(); s.Circuit == "open" {
			return s.RetryAt
		}
	}
	switch {
	case h.down:
		return h.next
	case h.breaker.state() == circuitOpen:
		return h.breaker.retryAt()
	}
	return time.Time{}
}

// Serves tells whether the upstream is asked at all: it is not in error.
func (h *Monitor) Serves() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told == Connected && h.opt.Starts == nil && h.failures == 0 { // nothing that time alone could change
		return true
	}
	now := time.Now()
	h.settle(now)
	if h.down {
		return !h.checks() && !h.trying && !now.Before(h.next) // it shows whether the server is back
	}
	return h.told != Errored
}

// Look takes note of a change outside: of a child's starts.
func (h *Monitor) Look() { h.update(func(time.Time) {}) }

// Trying says that somebody begins to find out what the server is.
func (h *Monitor) Trying() {
	h.update(func(time.Time) {
		if h.base == Disconnected {
			h.base = Connecting
		}
	})
}

// Tried says what came of it: it was reached, or why not.
func (h *Monitor) Tried(began time.Time, err error) {
	h.update(func(now time.Time) {
		switch {
		case err == nil:
			h.succeeded(now)
		case judge(err) == verdictSure:
			h.failed(now, began, err, true)
		}
	})
}

// plainly is an error for people.
func plainly(err error) string {
	var e *proxy.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}
