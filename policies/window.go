package policies

import "time"

// windowBuckets is how many buckets a Window has.
const windowBuckets = 6

// Window is a sliding count over the last six buckets of time. It does no locking.
type Window struct {
	Bucket time.Duration // by which the window moves
	counts [windowBuckets]int
	newest int64 // number of the newest bucket since the epoch
}

// advance clears the buckets that have become too old.
func (w *Window) advance(now time.Time) {
	at := now.UnixNano() / int64(w.Bucket)
	for n := min(at-w.newest, windowBuckets); n > 0; n-- {
		w.counts[(at-n+1)%windowBuckets] = 0
	}
	w.newest = max(at, w.newest)
}

// Add counts n at a time.
func (w *Window) Add(now time.Time, n int) {
	w.advance(now)
	w.counts[w.newest%windowBuckets] += n
}

// Sum is the count over the whole window.
func (w *Window) Sum(now time.Time) (n int) {
	w.advance(now)
	for _, c := range w.counts {
		n += c
	}
	return n
}
