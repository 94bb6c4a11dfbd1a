package limits

import (
	"sync"
	"time"
)

// bucket is a token bucket like that of golang.org/x/time/rate, without the cost of waiting and reservations: every
// request takes from up to three.
type bucket struct {
	burst   float64
	perNano float64 // tokens added per nanosecond

	mu     sync.Mutex
	tokens float64
	last   int64 // time of that count, in nanoseconds of the owner's clock
}

// newBucket returns a full bucket of burst tokens that gains perMinute tokens a minute.
func newBucket(perMinute, burst int) *bucket {
	most := float64(max(1, burst))
	return &bucket{burst: most, perNano: float64(perMinute) / float64(time.Minute), tokens: most}
}

// take takes a token and returns how many are left. If there is none, it returns how long until the next one, at least
// a millisecond. A token that is due within the same nanosecond is there.
func (b *bucket) take(now int64) (wait time.Duration, left int) {
	b.mu.Lock()
	tokens := min(b.burst, b.tokens+float64(max(0, now-b.last))*b.perNano)
	if tokens < 1 {
		if missing := (1 - tokens) / b.perNano; missing >= 1 {
			b.mu.Unlock()
			return max(time.Millisecond, time.Duration(missing)), 0
		}
	}
	b.tokens, b.last = tokens-1, max(now, b.last)
	b.mu.Unlock()
	return 0, max(0, int(tokens-1))
}
