// Package supervisor runs stdio servers as transport.Links. It keeps prewarmed children ready, limits what is reported of their
// output, and delays or refuses starts after crashes.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"dragoman/adapters/stdio/upstream"
	"dragoman/proxy"
)

const (
	// healthyAge is how long a child must live for its start to count as good.
	healthyAge = 10 * time.Second
	// crashWindow is the period over which failed starts are counted, crashBucket the step in which it moves.
	crashWindow = time.Minute
	crashBucket = 10 * time.Second
	// backoffFirst is the pause after the first failed start. Each further failure doubles it, up to backoffMost.
	backoffFirst = 250 * time.Millisecond
	backoffMost  = 30 * time.Second

	defaultCrashLimit = 5
	defaultCrashPause = 30 * time.Second
)

// Health describes how a server's starts go.
type Health struct {
	// State is "closed" (the server is started when it is needed), "open" (it keeps crashing and is not started before
	// RetryAt) or "half-open" (one start shows whether it does again).
	State    string
	Failures int       // starts that failed since the last good one
	Last     string    // how the last start failed; empty if none has
	LastAt   time.Time // time of that failure
	RetryAt  time.Time // when an open circuit allows a start; zero unless it is open
}

// circuit is the circuit breaker for the starts of one server: it delays them after failures, and refuses them after too
// many. A start fails if there is no child, if the child does not answer its first request in time, or if it ends
// unexpectedly before healthyAge.
type circuit struct {
	name    string
	pause   time.Duration
	jitter  func(time.Duration) time.Duration
	changed func(Health) // called when the circuit opens or closes
	quit    <-chan struct{}
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	moved   atomic.Bool // the state has changed and changed has not been called yet
	failed  atomic.Uint64

	mu        sync.Mutex // never held while the breaker is called, which calls back under its own lock
	failures  int        // failed starts since the last good one
	rounds    int        // of these, starts that began after the previous failure: concurrent failures count once
	last      string
	lastAt    time.Time
	notBefore time.Time     // when the next start is due
	openedAt  time.Time     // when the circuit last opened
	settled   chan struct{} // closed and replaced with each outcome
}

// errNeutral settles a ticket whose start says nothing about the server.
var errNeutral = errors.New("stdio: the start counts as neither good nor bad")

func newCircuit(opt *Options, quit <-chan struct{}) *circuit {
	s := &circuit{name: opt.Name, pause: opt.CrashPause, jitter: halfJitter, changed: opt.Changed, quit: quit,
		settled: make(chan struct{})}
	limit := uint32(opt.CrashLimit) //nolint:gosec // positive, and far below the limit
	s.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: opt.Name, MaxRequests: 1, Interval: crashWindow, BucketPeriod: crashBucket, Timeout: opt.CrashPause,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.TotalFailures >= limit && 2*c.TotalFailures >= c.Requests-c.TotalExclusions
		},
		IsExcluded:    func(err error) bool { return errors.Is(err, errNeutral) },
		OnStateChange: s.stateChanged,
	})
	return s
}

// halfJitter returns a random time in the second half of a pause, so that many proxies do not start their servers in
// step.
func halfJitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) } //nolint:gosec // spreads load; not for security

// backoff returns the pause after n failures in a row, without jitter.
func backoff(n int) time.Duration {
	if n < 1 {
		return 0
	}
	return min(backoffFirst<<min(n-1, 16), backoffMost)
}

// stateChanged is called by the breaker, under its lock, when the state changes.
func (s *circuit) stateChanged(_ string, _, to gobreaker.State) {
	if to == gobreaker.StateOpen {
		s.mu.Lock()
		s.openedAt = time.Now()
		s.mu.Unlock()
	}
	s.moved.Store(true)
}

// reportChange calls changed if the circuit's state has changed.
func (s *circuit) reportChange() {
	if s.moved.Swap(false) && s.changed != nil {
		s.changed(s.health())
	}
}

func (s *circuit) health() Health {
	state := s.breaker.State()
	s.mu.Lock()
	defer s.mu.Unlock()
	h := Health{State: state.String(), Failures: s.failures, Last: s.last, LastAt: s.lastAt}
	if state == gobreaker.StateOpen {
		h.RetryAt = s.openedAt.Add(s.pause)
	}
	return h
}

// ticket is one permitted start of a child.
type ticket struct {
	s     *circuit
	began time.Time
	trial bool // the one start that a half-open circuit lets through

	mu   sync.Mutex
	done func(error) // nil once settled
}

// begin waits until a start is allowed: for the pause after a failure, or for the outcome of the one trial while the
// circuit is half-open. The ticket must be settled. The errors are a *proxy.Error if the circuit is open or ctx ends
// before the start is due; ctx's; errClosing after quit.
func (s *circuit) begin(ctx context.Context) (*ticket, error) {
	for {
		s.mu.Lock()
		settled, due := s.settled, s.notBefore
		s.mu.Unlock()
		if wait := time.Until(due); wait > 0 && s.breaker.State() == gobreaker.StateClosed {
			if end, ok := ctx.Deadline(); ok && end.Before(due) {
				return nil, s.tooEarly(wait)
			}
			if err := s.wait(ctx, settled, wait); err != nil {
				return nil, err
			}
			continue
		}
		done, err := s.breaker.Allow()
		s.reportChange()
		switch {
		case err == nil:
			return &ticket{s: s, done: done, began: time.Now(), trial: s.breaker.State() == gobreaker.StateHalfOpen}, nil
		case !errors.Is(err, gobreaker.ErrTooManyRequests):
			return nil, s.refusal()
		}
		if err := s.wait(ctx, settled, -1); err != nil {
			return nil, err
		}
	}
}

// wait returns when any start is settled, or after limit, unless that is negative.
func (s *circuit) wait(ctx context.Context, settled <-chan struct{}, limit time.Duration) error {
	var late <-chan time.Time
	if limit >= 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-settled:
	case <-late:
	case <-s.quit:
		return errClosing()
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return s.tooEarly(limit)
		}
		return ctx.Err()
	}
	return nil
}

// refusal returns the error of an open circuit.
func (s *circuit) refusal() *proxy.Error {
	s.mu.Lock()
	left := max(time.Until(s.openedAt.Add(s.pause)), 0)
	text := fmt.Sprintf("%s keeps crashing: %s, the last one %s ago: it %s; it is started again in %s (upstreams.%s.crash_pause)",
		upstream.Called(s.name), plural(s.failures, "start", " in a row failed"), upstream.Duration(time.Since(s.lastAt)), s.last, upstream.Duration(left),
		upstream.Key(s.name))
	s.mu.Unlock()
	e := proxy.NewError(proxy.Unreachable, text)
	e.RetryAfter = seconds(left)
	return e
}

// tooEarly returns the error for a caller whose time ends before the start that is due after a failure or, if wait is
// negative, before the outcome of the trial.
func (s *circuit) tooEarly(wait time.Duration) *proxy.Error {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	e := proxy.Errf(proxy.Unreachable, "%s is started again after a pause: the last time it %s", upstream.Called(s.name), last)
	if e.RetryAfter = seconds(wait); wait < 0 {
		e = proxy.Errf(proxy.Unreachable, "%s kept crashing, and a start that shows whether it still does is under way: "+
			"the last time it %s", upstream.Called(s.name), last)
		e.RetryAfter = 1
	}
	return e
}

// take returns the function that settles the ticket at the breaker; nil if it is settled already.
func (t *ticket) take() func(error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	done := t.done
	t.done = nil
	return done
}

// succeed settles the ticket: the start was good.
func (t *ticket) succeed() {
	done := t.take()
	if done == nil {
		return
	}
	t.s.mu.Lock()
	t.s.failures, t.s.rounds, t.s.notBefore = 0, 0, time.Time{}
	t.s.mu.Unlock()
	done(nil)
	t.s.wake()
}

// drop settles the ticket: the start says nothing about the server.
func (t *ticket) drop() {
	if done := t.take(); done != nil {
		done(errNeutral)
		t.s.wake()
	}
}

// fail settles the ticket: the start has failed. how is the rest of a sentence that begins with the server. The failure
// counts also if the start was good before, as that of a spare that dies unused, and if the breaker has forgotten the
// start.
func (t *ticket) fail(how string) {
	s, done := t.s, t.take()
	s.failed.Add(1)
	s.mu.Lock()
	s.failures++
	now := time.Now()
	if s.rounds == 0 || !t.began.Before(s.lastAt) {
		s.rounds++
		s.notBefore = now.Add(s.jitter(backoff(s.rounds)))
	}
	s.last, s.lastAt = how, now
	s.mu.Unlock()
	if done != nil && now.Sub(t.began) > crashWindow-crashBucket {
		done(errNeutral)
		done = nil
	}
	if done == nil && s.breaker.State() == gobreaker.StateClosed {
		done, _ = s.breaker.Allow() // refused if the circuit has just opened, which needs no further failure
	}
	if done != nil {
		done(errors.New(how))
	}
	s.wake()
}

// impossible settles the ticket: there is no such command. That error is immediate each time, so it delays no later
// start.
func (t *ticket) impossible(how string) {
	t.s.failed.Add(1)
	t.s.mu.Lock()
	t.s.last, t.s.lastAt = how, time.Now()
	t.s.mu.Unlock()
	t.drop()
}

// wake wakes the waiters of an outcome, and reports a change of the circuit's state.
func (s *circuit) wake() {
	s.mu.Lock()
	close(s.settled)
	s.settled = make(chan struct{})
	s.mu.Unlock()
	s.reportChange()
}

// errClosing is the error of a Dial during shutdown.
func errClosing() *proxy.Error { return proxy.Errf(proxy.ShuttingDown, "the proxy is shutting down") }

// seconds returns d in seconds, rounded up, for Retry-After.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

func plural(n int, what, rest string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what + rest
}
