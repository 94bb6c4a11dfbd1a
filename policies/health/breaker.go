package health

import (
	"dragoman/policies"
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
)

// breakerWindow is the time within which calls are counted, breakerBucket how finely it moves on.
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

// BreakerOptions are those of the circuit breaker around an upstream: a server of which Failures calls within a minute, and half of
// all, have failed is not called for Pause; then Trials calls show whether it does again. Calls that fail together count as one
// of Failures. Failures 0: there is none.
type BreakerOptions struct {
	Failures int
	Pause    time.Duration
	Trials   int
}

// breaker is the circuit. A nil breaker lets everything through. Its user sees to it that it is used by one at a time.
type breaker struct {
	opt      BreakerOptions
	circuit  *gobreaker.CircuitBreaker[struct{}]
	life     uint64          // grows when the circuit changes
	is       gobreaker.State // since then; what is open may be half open meanwhile
	trials   int             // calls that are under way while it is half open
	openedAt time.Time
	failedAt time.Time
	rounds   policies.Window // failures that began after the one before was over
	good     policies.Window // answers since the circuit has changed: to tell it of one costs two readings of the clock
	bad      policies.Window // failures likewise
}

// errNothing settles a call that tells nothing about the server.
var errNothing = errors.New("health: the call tells nothing about the server")

func newBreaker(opt BreakerOptions) *breaker {
	if opt.Failures <= 0 {
		return nil
	}
	b := &breaker{opt: opt, rounds: policies.Window{Bucket: breakerBucket}}
	b.forget()
	b.circuit = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: uint32(max(opt.Trials, 1)), Timeout: opt.Pause, //nolint:gosec // small
		ReadyToTrip: func(gobreaker.Counts) bool { // they know nothing of what is good
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

// forget counts from nothing.
func (b *breaker) forget() {
	b.good, b.bad = policies.Window{Bucket: breakerBucket}, policies.Window{Bucket: breakerBucket}
}

func (b *breaker) state() string {
	if b == nil {
		return circuitOff
	}
	return b.circuit.State().String()
}

// retryAt is when an open circuit lets a call through.
func (b *breaker) retryAt() time.Time { return b.openedAt.Add(b.opt.Pause) }

// pass is what a call has that was let through.
type pass struct {
	life  uint64 // of the circuit
	trial bool   // it shows whether the circuit may close
}

// allow lets a call through, to be settled; false if it does not. The circuit is told of calls once they are over: to be told before,
// it would make a function for each. So what is under way while it is half open is counted here.
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

// settle tells the circuit how a call has ended now: nil, errNothing, or why it failed. Of one that began in another life it learns nothing;
// of what is good, only whoever shows whether it may close.
func (b *breaker) settle(p pass, now time.Time, err error) {
	if b == nil {
		return
	}
	if b.is == gobreaker.StateOpen {
		b.circuit.State() // its time may have changed it
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

// errFailed is all that a circuit has to know of a failure.
var errFailed = errors.New("health: the call has failed")

// failing notes that a call has failed that began when; it is to be settled after that.
func (b *breaker) failing(now, began time.Time) {
	if b != nil && began.After(b.failedAt) {
		b.rounds.Add(now, 1)
		b.failedAt = now
	}
}
