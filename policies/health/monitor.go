// Package health keeps the state of each upstream, and refuses calls to one that is in error.
package health

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"dragoman/policies"
	"dragoman/proxy"
)

// State is the condition of an upstream (seed 004, Server Lifecycle State Machine).
type State string

// The states. A degraded upstream serves requests. An upstream in error gets only those that test whether it is back.
const (
	Disconnected State = "DISCONNECTED" // not tried yet
	Connecting   State = "CONNECTING"   // being tried, for the first time or again
	Connected    State = "CONNECTED"
	Degraded     State = "DEGRADED" // failed twice in a row
	Errored      State = "ERROR"    // failed three times, was never reached, or fails too often
)

// Bounds of seed 004, BR-002, BR-006 and EC-001. EC-005 is not followed: it ends reconnecting after five attempts.
const (
	degradedAfter = 2
	errorAfter    = 3
	pauseFirst    = time.Second
	pauseMost     = time.Minute
	connectTime   = 30 * time.Second // for a check of a server that is not connected
	suspectPause  = 5 * time.Second  // between checks that failed calls give rise to
)

// Options configures a [Monitor].
type Options struct {
	Name string
	// Check asks the server whether it is there, until ctx is done. An error with an HTTPStatus below 500 in its chain
	// is a warning only. If Check is nil, only calls show the state of the server.
	Check func(ctx context.Context) error
	// Restored is called by the checking goroutine when failures are over: what began before them may be dead.
	Restored func(ctx context.Context)
	Interval time.Duration // between checks; 0: there are none
	Timeout  time.Duration // of one check
	// Starts, if not nil, reports the starts of a child process. They determine its state, and there are no checks.
	Starts  func() Starts
	Breaker BreakerOptions
	Changed func(Change) // called for each change, in order; it must not call back
	// Recorded, if not nil, is called after each change and each check with what is known then, one call after the other. It must not call
	// back.
	Recorded func(Report)
	Warned   func(text string) // called for problems that change nothing yet; likewise
	Metrics  *Metrics
	Running  *Running // requests that run at the upstream
}

// Starts reports how the starts of a child process go.
type Starts struct {
	Circuit  string // closed, open or half-open
	Failures int    // in a row
	Last     string // how the last one failed, as the rest of a sentence
	RetryAt  time.Time
}

// Change is one transition of an upstream.
type Change struct {
	From, To State
	Reason   string // for the operator only
	Again    bool   // a further attempt to reach a server that is known to be down
}

// Report describes an upstream at one moment.
type Report struct {
	State     State
	Since     time.Time // start of that state; attempts to reconnect do not change it
	Failures  int       // in a row
	LastError string    // empty if there was none; for the operator only
	Gist      string    // of the last error, for any caller
	RetryAt   time.Time // next attempt; zero unless it is in error
	CheckedAt time.Time // zero: never
	Took      time.Duration
	Warning   string // complaint of the last check
	Breaker   string // closed, open, half-open or off
}

// Monitor keeps the state of one upstream. Real calls ([Monitor.Policy]), the circuit breaker around them and checks
// determine it (seed 004, BR-006). Two failures in a row degrade the upstream. The third puts it into error, as does
// the first if it was never reached. Calls are then refused at once, and the upstream is tried again after 1 s, 2 s, 4
// s and so on, 60 s at most, without end. A failure may be the fault of the call as well as the server's. Unless it
// shows that nobody is there, the third has the server checked, and the check decides. Calls that fail together count
// once.
type Monitor struct {
	opt Options

	stop  context.CancelFunc
	group sync.WaitGroup
	nudge chan struct{} // wakes the checking goroutine

	recording sync.Mutex // taken before mu, see record

	mu        sync.Mutex
	announced State
	since     time.Time
	base      State // Disconnected, Connecting or Connected
	failures  int
	failedAt  time.Time // end of the last failure that counted
	last      string    // text of the last error, and
	gist      string    // its gist
	erring    bool      // announced is Errored, or Connecting after it
	down      bool
	tries     int       // attempts to reach it since it went down
	trying    bool      // an attempt is under way
	next      time.Time // when the next attempt is due
	planned   time.Time // when the next check is due
	restored  bool      // it was down and is back, and Restored has not been called yet
	breaker   *breaker
	calls     policies.List[watched] // without an answer yet
	orphans   []proxy.Ticket         // calls to cancel once mu is free

	checkedAt time.Time
	took      time.Duration
	warning   string
}

// NewMonitor returns the monitor of an upstream, in the state Disconnected. Start begins checking.
func NewMonitor(opt Options) *Monitor {
	return &Monitor{opt: opt, stop: func() {}, nudge: make(chan struct{}, 1), announced: Disconnected, since: time.Now(), base: Disconnected,
		breaker: newBreaker(opt.Breaker), calls: policies.List[watched]{Link: func(c *watched) *policies.Link[watched] { return &c.place }}}
}

// checks reports whether the upstream is checked at intervals.
func (h *Monitor) checks() bool {
	return h.opt.Check != nil && h.opt.Interval > 0 && h.opt.Starts == nil
}

// state derives the state from the fields. The caller holds mu.
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
		degraded = degraded || s.Failures >= degradedAfter
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

// settle announces the state if it has changed, and those through which it came there. The caller holds mu.
func (h *Monitor) settle(now time.Time) {
	for _, to := range way(h.announced, h.state()) {
		change := Change{From: h.announced, To: to, Reason: h.reason(to, false), Again: h.erring && (to == Connecting || to == Errored)}
		if !change.Again {
			h.since = now
		}
		h.announced, h.erring = to, to == Errored || to == Connecting && h.erring
		h.opt.Metrics.changes.WithLabelValues(h.opt.Name, string(to)).Inc()
		h.opt.Changed(change)
	}
}

// reason explains why the upstream is in a state: to the operator, or told to any caller. The caller holds mu.
func (h *Monitor) reason(s State, told bool) string {
	last, gist, failures := h.lastError()
	if told {
		last = gist
	}
	switch {
	case s == Connected:
		return "it answers"
	case s == Degraded:
		return fmt.Sprintf("%d failures in a row; the last: %s", failures, last)
	case s == Errored && !h.down && h.breaker.state() == circuitOpen:
		return fmt.Sprintf("half of the calls within %s failed; the last: %s", breakerWindow, last)
	case s == Errored:
		return last
	case h.announced == Errored:
		return "it is tried again"
	}
	return "it is tried"
}

// lastError returns the last failure for the operator, its gist for everybody, and the number of failures in a row. The caller holds mu.
func (h *Monitor) lastError() (last, gist string, failures int) {
	if h.opt.Starts != nil {
		if s := h.opt.Starts(); s.Last != "" && (s.Failures > 0 || h.last == "") {
			return "the server " + s.Last, "the server " + s.Last, s.Failures
		}
	}
	return h.last, h.gist, h.failures
}

// update calls f and settles the state under the lock, and then, without it, reports what is new and cancels the orphaned calls.
func (h *Monitor) update(f func(now time.Time)) {
	h.mu.Lock()
	now, announced, checkedAt := time.Now(), h.announced, h.checkedAt
	f(now)
	h.settle(now)
	orphans, gist := h.orphans, h.gist
	h.orphans = nil
	news := h.opt.Recorded != nil && (h.announced != announced || h.checkedAt != checkedAt)
	h.mu.Unlock()
	if news {
		h.record()
	}
	for _, call := range orphans {
		call.Cancel(proxy.Errf(proxy.Lost, "the upstream server %q cannot be reached any more, while the call was under way: %s", h.opt.Name, gist))
	}
}

// record reports the state. Of changes that follow each other closely the last report has the last one.
func (h *Monitor) record() {
	h.recording.Lock()
	defer h.recording.Unlock()
	h.mu.Lock()
	r := h.report()
	h.mu.Unlock()
	h.opt.Recorded(r)
}

// succeeded notes an answer of the server. The caller holds mu.
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

// failed notes the failure of something that began at the given time. sure says that only the server, or the way to it,
// can be the cause. The caller holds mu.
func (h *Monitor) failed(now, began time.Time, err error, sure bool) {
	h.last, h.gist = errorText(err), proxy.Gist(err)
	switch {
	case h.down:
		return
	case h.failures > 0 && !began.After(h.failedAt): // they failed together
		return
	case sure && h.opt.Starts != nil: // it is known by its starts
		return
	case sure && h.base != Connected:
		h.failures, h.failedAt = h.failures+1, now
		h.goDown(now, err)
		return
	case !sure && h.failures >= degradedAfter && h.checks():
		if due := h.checkedAt.Add(suspectPause); h.planned.IsZero() || due.Before(h.planned) {
			h.plan(due)
		}
		return
	}
	h.failures, h.failedAt = h.failures+1, now
	switch {
	case h.opt.Starts != nil: // a child is replaced when it must be, and another may serve
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
	if isSilence(err) { // where the server refuses connections, calls under way learn it from their own
		for c := range h.calls.All() {
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

// pause returns how long to wait after n failed attempts: up to a tenth less than the doubled pause, so that many
// proxies do not retry in step.
func pause(n int) time.Duration {
	d := min(pauseFirst<<min(n, 16), pauseMost)
	return d - rand.N(d/10) //nolint:gosec // spreads load, guards nothing
}

// spread makes an interval longer or shorter by up to a tenth.
func spread(d time.Duration) time.Duration {
	if d < 10 {
		return d
	}
	return d - d/10 + rand.N(d/5) //nolint:gosec // spreads load, guards nothing
}

// Now returns the state of the upstream.
func (h *Monitor) Now() (r Report) {
	h.update(func(time.Time) { r = h.report() })
	return r
}

// report describes the upstream as it is now. The caller holds mu.
func (h *Monitor) report() Report {
	r := Report{State: h.state(), Since: h.since, CheckedAt: h.checkedAt, Took: h.took, Warning: h.warning, Breaker: h.breaker.state(), RetryAt: h.retryAt()}
	r.LastError, r.Gist, r.Failures = h.lastError()
	return r
}

// retryAt returns when an upstream in error is tried again, or zero. The caller holds mu.
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

// Serves reports whether the upstream may get a request: it is not in error, or the request would test whether it is
// back.
func (h *Monitor) Serves() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.announced == Connected && h.opt.Starts == nil { // time alone cannot change that
		return true
	}
	now := time.Now()
	h.settle(now)
	if h.down {
		return !h.checks() && !h.trying && !now.Before(h.next) // the request tests whether the server is back
	}
	return h.announced != Errored
}

// Look updates the state after a change outside, such as the start of a child process.
func (h *Monitor) Look() { h.update(func(time.Time) {}) }

// Trying notes that the server is being probed.
func (h *Monitor) Trying() {
	h.update(func(time.Time) {
		if h.base == Disconnected {
			h.base = Connecting
		}
	})
}

// Tried notes the result of probing that began at the given time; a nil err means that the server was reached. A probe that
// the server has failed, by whatever answer, leaves a server that cannot be used. One that it has answered with a status
// does not: it may take the credentials of the next caller.
func (h *Monitor) Tried(began time.Time, err error) {
	h.update(func(now time.Time) {
		switch {
		case err == nil:
			h.succeeded(now)
		case isUnusable(err):
			h.failed(now, began, err, true)
		}
	})
}

// errorText returns the text of an error for people.
func errorText(err error) string {
	if e, ok := errors.AsType[*proxy.Error](err); ok {
		return e.Message
	}
	return err.Error()
}
