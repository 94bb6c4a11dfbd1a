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
	// healthyAge is how long a child has to live for its start to count as good.
	healthyAge = 10 * time.Second
	// crashWindow is the time within which failed starts are counted, crashBucket how finely it moves on.
	crashWindow = time.Minute
	crashBucket = 10 * time.Second
	// backoffFirst is the pause after the first failed start, doubled with each further one up to backoffMost.
	backoffFirst = 250 * time.Millisecond
	backoffMost  = 30 * time.Second

	defaultCrashLimit = 5
	defaultCrashPause = 30 * time.Second
)

// Health tells how a server's starts go.
type Health struct {
	// State is "closed" (the server is started when it is needed), "open" (it keeps crashing and is not started before
	// RetryAt) or "half-open" (one start shows whether it does again).
	State    string
	Failures int       // starts that failed since the last good one
	Last     string    // how the last failed; empty if none has so far
	LastAt   time.Time // when that was
	RetryAt  time.Time // when an open circuit lets a start through; zero unless it is open
}

// circuit keeps the books on the starts of one server, delays them after failures, and refuses them when there are too
// many (a circuit breaker). A start fails if there is no child, if the child does not answer its first request in time,
// and if it ends uninvited while it is young.
type circuit struct {
	name    string
	pause   time.Duration
	jitter  func(time.Duration) time.Duration
	changed func(Health) // told when the circuit opens or closes
	quit    <-chan struct{}
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	moved   atomic.Bool // the circuit's state has changed and nobody has been told yet
	failed  atomic.Uint64

	mu        sync.Mutex // never held while the breaker is called, which calls back under its own lock
	failures  int        // since the last good start
	rounds    int        // of these, starts that began after the failure before: what fails together counts once
	last      string
	lastAt    time.Time
	notBefore time.Time     // when the next start is due
	openedAt  time.Time     // when the circuit last opened
	settled   chan struct{} // closed, and made anew, with each outcome
}

// errNeutral settles a ticket that tells nothing about the server.
var errNeutral = errors.New("stdio: the start tells nothing")

func newCircuit(opt *UpstreamOptions, quit <-chan struct{}) *circuit {
	s := &circuit{name: opt.Name, pause: opt.CrashPause, jitter: halfJitter, changed: opt.Changed, quit: quit,
		settled: make(chan struct{})}
	limit := uint32(opt.CrashLimit) //nolint:gosec // positive, and no count of processes comes near
	s.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: opt.Name, MaxRequests: 1, Interval: crashWindow, BucketPeriod: crashBucket, Timeout: opt.CrashPause,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.TotalFailures >= limit && 2*c.TotalFailures >= c.Requests-c.TotalExclusions
		},
		IsExcluded:    func(err error) bool { return errors.Is(err, errNeutral) },
		OnStateChange: s.turned,
	})
	return s
}

// halfJitter spreads a pause over its second half, so that many proxies do not start their servers in step.
func halfJitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) } //nolint:gosec // spreads load, guards nothing

// backoff is the pause after n failures in a row, before jitter.
func backoff(n int) time.Duration {
	if n < 1 {
		return 0
	}
	return min(backoffFirst<<min(n-1, 16), backoffMost)
}

// turned is called by the breaker, under its lock.
func (s *circuit) turned(_ string, _, to gobreaker.State) {
	if to == gobreaker.StateOpen {
		s.mu.Lock()
		s.openedAt = time.Now()
		s.mu.Unlock()
	}
	s.moved.Store(true)
}

// tell passes a change of the circuit's state on.
func (s *circuit) tell() {
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

// ticket is one start of a child.
type ticket struct {
	s     *circuit
	began time.Time
	trial bool // the one start that a half-open circuit lets through

	mu   sync.Mutex
	done func(error) // nil: settled
}

// begin asks for a start and waits for its turn: after a failure for the pause, while the circuit is half-open for the
// outcome of the one trial. A ticket must be settled. The errors: a *proxy.Error if the circuit is open, or ctx ends
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
		s.tell()
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

// wait returns when some start is settled, or after a time, unless that is negative.
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

// refusal says why the server is not started: its circuit is open.
func (s *circuit) refusal() *proxy.Error {
	s.mu.Lock()
	left := max(time.Until(s.openedAt.Add(s.pause)), 0)
	text := fmt.Sprintf("%s keeps crashing: %s, the last one %s ago: it %s; it is started again in %s (upstreams.%s.crash_pause)",
		upstream.Called(s.name), plural(s.failures, "start", " in a row failed"), upstream.Duration(time.Since(s.lastAt)), s.last, upstream.Duration(left),
		upstream.Key(s.name))
	s.mu.Unlock()
	e := proxy.Errf(proxy.Unreachable, "%s", text)
	e.RetryAfter = seconds(left)
	return e
}

// tooEarly says that the caller is gone before the start that is due after a failure; or, if wait is negative, before the
// outcome of the trial.
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

// retryIn tells how long an open circuit stays open; zero if it is not.
func (s *circuit) retryIn() time.Duration {
	if s.breaker.State() != gobreaker.StateOpen {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(time.Until(s.openedAt.Add(s.pause)), 0)
}

// take answers what settles the ticket at the breaker; nil if that was done before.
func (t *ticket) take() func(error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	done := t.done
	t.done = nil
	return done
}

// succeed says that the start was good.
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

// drop says that the start tells nothing about the server.
func (t *ticket) drop() {
	if done := t.take(); done != nil {
		done(errNeutral)
		t.s.wake()
	}
}

// fail says that the start has failed, how being the rest of a sentence that begins with the server. It counts also if
// the start was good before, as that of a spare that dies unused; and if the breaker has forgotten it since.
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
		done, _ = s.breaker.Allow() // refused if the circuit has opened just now, and then there is nothing to add
	}
	if done != nil {
		done(errors.New(how))
	}
	s.wake()
}

// impossible notes a start that was none: there is no such command. It is said at once each time, so nothing is delayed.
func (t *ticket) impossible(how string) {
	t.s.failed.Add(1)
	t.s.mu.Lock()
	t.s.last, t.s.lastAt = how, time.Now()
	t.s.mu.Unlock()
	t.drop()
}

// wake lets those look again who wait for an outcome, and tells whether the circuit has moved.
func (s *circuit) wake() {
	s.mu.Lock()
	close(s.settled)
	s.settled = make(chan struct{})
	s.mu.Unlock()
	s.tell()
}

// errClosing answers who comes when all conversations end.
func errClosing() *proxy.Error { return proxy.Errf(proxy.ShuttingDown, "the proxy is shutting down") }

// seconds rounds up, for Retry-After.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

func plural(n int, what, rest string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what + rest
}
