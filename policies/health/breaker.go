package health

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"

	"dragoman/policies"
)

// breakerWindow is the time within which calls are counted. It moves in steps of breakerBucket.
const (
	breakerWindow = time.Minute
	breakerBucket = 10 * time.Second
)

// The states of a circuit.
const (
	circuitClosed   = "closed"
	circuitOpen     = "open"
	circuitHalfOpen = "half-open"
	circuitOff      = "off"
)

// BreakerOptions configures the circuit breaker of an upstream. The circuit opens when Failures calls within a minute,
// and half of all calls, have failed. The upstream is then not called for Pause; after that, Trials calls test whether
// it answers again. Calls that fail together count as one of Failures. With Failures 0 there is no breaker.
type BreakerOptions struct {
	Failures int
	Pause    time.Duration
	Trials   int
}

// breaker is the circuit. A nil breaker lets everything through. A breaker is not safe for concurrent use.
type breaker struct {
	opt      BreakerOptions
	circuit  *gobreaker.CircuitBreaker[struct{}]
	life     uint64          // incremented when the circuit changes
	is       gobreaker.State // state since that change; an open circuit may have become half-open
	trials   int             // calls under way while the circuit is half-open
	openedAt time.Time
	failedAt time.Time
	rounds   policies.Window // failures of calls that began after the previous failure
	good     policies.Window // answers since the last change; reporting each to the circuit would read the clock twice
	bad      policies.Window // failures since the last change
}

// errNothing settles a call that says nothing about the server.
var errNothing = errors.New("health: the call says nothing about the state of the server")

func newBreaker(opt BreakerOptions) *breaker {
	if opt.Failures <= 0 {
		return nil
	}
	b := &breaker{opt: opt, rounds: policies.Window{Bucket: breakerBucket}}
	b.forget()
	b.circuit = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: uint32(max(opt.Trials, 1)), Timeout: opt.Pause, //nolint:gosec // small
		ReadyToTrip: func(gobreaker.Counts) bool { // its own counts lack the answers in b.good
			now := time.Now()
			return b.rounds.Sum(now) >= opt.Failures && b.bad.Sum(now) >= b.good.Sum(now)
		},
		OnStateChange: func(_ string, _, to gobreaker.State) {
			b.life++
			b.forget()
			b.is, b.trials = to, 0
			if to == gobreaker.StateOpen {
				b.openedAt = time.Now()
			}
		},
	})
	return b
}

// forget resets the counts of answers and failures.
func (b *breaker) forget() {
	b.good, b.bad = policies.Window{Bucket: breakerBucket}, policies.Window{Bucket: breakerBucket}
}

func (b *breaker) state() string {
	if b == nil {
		return circuitOff
	}
	return b.circuit.State().String()
}

// retryAt returns when an open circuit lets the next call through.
func (b *breaker) retryAt() time.Time { return b.openedAt.Add(b.opt.Pause) }

// pass is the permission of a call that was let through.
type pass struct {
	life  uint64 // life of the circuit when the call began
	trial bool   // the call decides whether the circuit closes
}

// allow lets a call through, which must be settled, or returns false. The circuit learns of a call when it is over: to
// report the beginning as well would cost a closure for each call. Calls under way while the circuit is half-open are
// therefore counted here.
func (b *breaker) allow() (pass, bool) {
	if b == nil {
		return pass{}, true
	}
	if b.is == gobreaker.StateClosed {
		return pass{b.life, false}, true
	}
	if b.circuit.State() == gobreaker.StateOpen || b.trials >= max(b.opt.Trials, 1) {
		return pass{}, false
	}
	b.trials++
	return pass{b.life, true}, true
}

// settle reports the outcome of a call at now: nil, errNothing, or the reason of the failure. It ignores a call that
// began before the circuit's last change. Good answers are counted here while the circuit is closed, and reported to
// the circuit only while it is half-open.
func (b *breaker) settle(p pass, now time.Time, err error) {
	if b == nil {
		return
	}
	if p.life != b.life {
		return
	}
	if p.trial {
		b.trials--
	}
	switch {
	case err == nil && b.is == gobreaker.StateClosed:
		b.good.Add(now, 1)
	case err == nil:
		_, _ = b.circuit.Execute(well)
	case !errors.Is(err, errNothing):
		b.bad.Add(now, 1)
		_, _ = b.circuit.Execute(badly)
	}
}

func well() (none struct{}, err error)  { return none, nil }
func badly() (none struct{}, err error) { return none, errFailed }

// errFailed stands for any failure: the circuit needs no details.
var errFailed = errors.New("health: the call has failed")

// failing notes the failure of a call that began at the given time. It must be called before the call is settled.
func (b *breaker) failing(now, began time.Time) {
	if b != nil && began.After(b.failedAt) {
		b.rounds.Add(now, 1)
		b.failedAt = now
	}
}
