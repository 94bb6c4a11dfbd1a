package policies

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A half-open circuit lets as many calls through at a time as it needs to close, learns of those alone, and takes back the place of one
// that tells nothing.
func TestHalfOpenTrials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(BreakerOptions{Failures: 2, Pause: time.Second, Trials: 2})
		enter := func(want bool) pass {
			t.Helper()
			p, ok := b.allow()
			if ok != want {
				t.Fatalf("let through: %v, in the state %s", ok, b.state())
			}
			return p
		}
		state := func(want string) {
			t.Helper()
			if got := b.state(); got != want {
				t.Fatalf("the circuit is %s, and not %s", got, want)
			}
		}
		open := func() {
			t.Helper()
			for b.state() == circuitClosed { // the second time, failures of the last minute count
				p := enter(true)
				time.Sleep(time.Millisecond) // failures that begin together count once
				b.failing(time.Now(), time.Now().Add(-time.Microsecond))
				b.settle(p, errors.New("broken"))
			}
			state(circuitOpen)
			enter(false)
		}
		late, lost := enter(true), enter(true)
		open()
		time.Sleep(time.Second + time.Millisecond)

		b.settle(late, nil) // it began before: it shows nothing of the server as it is now
		state(circuitHalfOpen)
		one, two := enter(true), enter(true)
		enter(false)
		b.settle(one, errNothing)
		three := enter(true)
		b.settle(lost, errors.New("broken")) // the same
		b.settle(two, nil)
		state(circuitHalfOpen)
		b.settle(three, nil)
		state(circuitClosed)

		open()
		time.Sleep(time.Second + time.Millisecond)
		four, five := enter(true), enter(true)
		b.settle(four, errors.New("broken"))
		state(circuitOpen)
		b.settle(five, nil)
		state(circuitOpen)
	})
}
