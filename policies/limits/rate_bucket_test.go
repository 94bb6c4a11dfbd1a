package limits

import (
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// A bucket allows the same as golang.org/x/time/rate, at any rate, number and time.
func TestBucketMatchesXTimeRate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ perMinute, burst int }{{60, 5}, {1, 1}, {10, 10}, {600, 1}, {7, 3}, {100_000, 1000}, {1_000_000_000, 100}, {60, 0}} {
		ours, theirs := newBucket(c.perMinute, c.burst), rate.NewLimiter(rate.Limit(float64(c.perMinute)/60), max(1, c.burst))
		start := time.Unix(1e9, 0)
		gap := int64(time.Minute) / int64(c.perMinute)
		var at int64
		differ := 0
		const steps = 20_000
		for range steps {
			switch r.IntN(4) {
			case 0:
				at += r.Int64N(2*gap + 2)
			case 1:
				at += gap
			case 2:
				at += r.Int64N(gap*int64(c.burst+1)*2 + 2)
			}
			wait, left := ours.take(at)
			now := start.Add(time.Duration(at))
			if theirs.AllowN(now, 1) != (wait == 0) {
				differ++
			}
			if want := max(0, int(theirs.TokensAt(now))); wait == 0 && (left < want-1 || left > want+1) {
				t.Fatalf("%v: %d left, x/time/rate has %d", c, left, want)
			}
			if missing := (1 - theirs.TokensAt(now)) / float64(theirs.Limit()); wait > time.Millisecond && (wait.Seconds() < missing-1e-6 || wait.Seconds() > missing+1e-6) {
				t.Fatalf("%v: a wait of %v, x/time/rate has %v s", c, wait, missing)
			}
		}
		if differ > steps/1000 { // rounding may differ by a nanosecond
			t.Errorf("%v: %d of %d differ", c, differ, steps)
		}
	}
}

// A clock that goes back adds no tokens.
func TestBucketAndClocks(t *testing.T) {
	b := newBucket(60, 1)
	if wait, _ := b.take(int64(time.Hour)); wait != 0 {
		t.Error(wait)
	}
	if wait, _ := b.take(0); wait.Round(time.Microsecond) != time.Second {
		t.Error(wait)
	}
	if wait, left := b.take(int64(time.Hour + time.Second)); wait != 0 || left != 0 {
		t.Error(wait, left)
	}
}
