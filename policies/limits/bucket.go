package limits

import (
	"sync"
	"time"
)

// bucket is a token bucket, as golang.org/x/time/rate has it, without what its waiting and reservations cost: every request takes from
// three.
type bucket struct {
	burst   float64
	perNano float64 // tokens that come in a nanosecond

	mu     sync.Mutex
	tokens float64
	last   int64 // when there were so many, in nanoseconds of its owner's clock
}

// newBucket is a full one of so many a minute.
func newBucket(perMinute, burst int) *bucket {
	most := float64(max(1, burst))
	return &bucket{burst: most, perNano: float64(perMinute) / float64(time.Minute), tokens: most}
}

// take takes a token, and tells how many are left; or answers how long it is until there is one, a millisecond at least. What comes within
// the same nanosecond is there.
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
