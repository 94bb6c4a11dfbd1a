package httpserver

import (
	"sync"
	"time"
)

const (
	// readingTime is how long a body may be read before it can be evicted for another, and how long that one waits.
	readingTime = time.Second
	// maxWaiting is how many bodies may wait for room.
	maxWaiting = 1024
)

// budget bounds the bodies that are being read. The buffer of a body is made when its length is known, so that clients that announce
// much and send little could take all memory. Where there is no room for another body, those that have been read for the longest are
// evicted: clients that send what they have are done by then.
type budget struct {
	max int // bytes; one body is read whatever its size

	mu      sync.Mutex
	epoch   time.Time // times are relative to it
	used    int
	queue   []claimant    // in the order in which they began
	waiting int           // for room
	freed   chan struct{} // closed when there is more room; nil if nobody waits
}

// claimant reads a body.
type claimant interface {
	claim() *claim
	// evict makes the read fail: its time is over.
	evict(now time.Time)
}

// claim is the part of the budget that a body has. The budget's lock guards it.
type claim struct {
	room  int           // bytes; 0: none
	began time.Duration // since the epoch
}

// wait makes room for a body of n bytes, and waits readingTime for it at most. It reports whether there is room.
func (b *budget) wait(c claimant, n int) bool {
	now := time.Now()
	freed, wait := b.enter(c, n, now)
	if wait == 0 {
		return true
	}
	if !b.enqueue() {
		return false
	}
	defer b.dequeue()
	limit := now.Add(readingTime)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for wait > 0 && !now.After(limit) {
		timer.Reset(wait)
		select {
		case <-freed:
		case <-timer.C:
		}
		now = time.Now()
		freed, wait = b.enter(c, n, now)
	}
	return wait == 0
}

// enqueue counts a body that waits, and reports whether it may.
func (b *budget) enqueue() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting >= maxWaiting {
		return false
	}
	b.waiting++
	return true
}

func (b *budget) dequeue() {
	b.mu.Lock()
	b.waiting--
	b.mu.Unlock()
}

// enter makes room for a body of n bytes. If there is none, there may be when freed is closed, and is after wait.
func (b *budget) enter(c claimant, n int, now time.Time) (freed <-chan struct{}, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.epoch.IsZero() {
		b.epoch = now
	}
	for b.used > 0 && b.used+n > b.max {
		oldest := b.queue[0]
		if wait := readingTime - (now.Sub(b.epoch) - oldest.claim().began); wait > 0 {
			if b.freed == nil {
				b.freed = make(chan struct{})
			}
			return b.freed, wait
		}
		b.remove(oldest)
		oldest.evict(now)
	}
	*c.claim() = claim{room: n, began: now.Sub(b.epoch)}
	b.used += n
	b.queue = append(b.queue, c)
	return nil, 0
}

// leave gives back the room of a body, if it has any.
func (b *budget) leave(c claimant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.claim().room > 0 {
		b.remove(c)
	}
}

func (b *budget) remove(c claimant) {
	b.used -= c.claim().room
	c.claim().room = 0
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
	for i, other := range b.queue {
		if other == c {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			return
		}
	}
}
