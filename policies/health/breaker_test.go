package health

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A half-open circuit admits as many calls at a time as it needs to close. Only their results count, and a call without a result gives its
// place back.
func TestHalfOpenTrials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(BreakerOptions{Failures: 2, Pause: time.Second, Trials: 2})
		enter := func(want bool) pass {
			t.Helper()
			p, ok := b.allow()
			if ok != want {
				t.Fatalf("admitted: %v, in state %s", ok, b.state())
			}
			return p
		}
		state := func(want string) {
			t.Helper()
			if got := b.state(); got != want {
				t.Fatalf("the circuit is %s, want %s", got, want)
			}
		}
		open := func() {
			t.Helper()
			for b.state() == circuitClosed { // the second time, failures of the last minute count
				p := enter(true)
				time.Sleep(time.Millisecond) // failures that begin together count once
				b.failing(time.Now(), time.Now().Add(-time.Microsecond))
				b.settle(p, time.Now(), errors.New("broken"))
			}
			state(circuitOpen)
			enter(false)
		}
		late, lost := enter(true), enter(true)
		open()
		time.Sleep(time.Second + time.Millisecond)

		b.settle(late, time.Now(), nil) // it began earlier: it says nothing about the server now
		state(circuitHalfOpen)
		one, two := enter(true), enter(true)
		enter(false)
		b.settle(one, time.Now(), errNothing)
		three := enter(true)
		b.settle(lost, time.Now(), errors.New("broken")) // the same
		b.settle(two, time.Now(), nil)
		state(circuitHalfOpen)
		b.settle(three, time.Now(), nil)
		state(circuitClosed)

		open()
		time.Sleep(time.Second + time.Millisecond)
		four, five := enter(true), enter(true)
		b.settle(four, time.Now(), errors.New("broken"))
		state(circuitOpen)
		b.settle(five, time.Now(), nil)
		state(circuitOpen)
	})
}

// A circuit opens when half of the calls of the last minute have failed. Good calls count for a minute, and calls from before it opened do
// not count.
func TestBreakerCountsWhatIsGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(BreakerOptions{Failures: 2, Pause: time.Second, Trials: 1})
		call := func(n int, err error) {
			t.Helper()
			for range n {
				p, ok := b.allow()
				if !ok {
					t.Fatalf("not admitted, in state %s", b.state())
				}
				if time.Sleep(time.Millisecond); err != nil { // failures that begin together count once
					b.failing(time.Now(), time.Now().Add(-time.Microsecond))
				}
				b.settle(p, time.Now(), err)
			}
		}
		broken := errors.New("broken")
		call(10, nil)
		call(9, broken)
		if b.state() != circuitClosed {
			t.Errorf("%s with 9 of 19", b.state())
		}
		if call(1, broken); b.state() != circuitOpen {
			t.Errorf("%s with 10 of 20", b.state())
		}
		time.Sleep(time.Second + time.Millisecond)
		if call(1, nil); b.state() != circuitClosed {
			t.Errorf("%s after a trial", b.state())
		}
		call(3, nil)
		if call(2, broken); b.state() != circuitClosed {
			t.Errorf("%s: failures from before it opened count", b.state())
		}
		time.Sleep(breakerWindow)
		if call(2, broken); b.state() != circuitOpen {
			t.Errorf("%s: good calls of a minute ago count", b.state())
		}
	})
}
