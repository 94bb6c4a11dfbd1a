package httpd

import (
	"sync"
	"time"
)

const (
	// readingTime is how long a body may be read before it must make room for another that comes, and how long that one waits.
	readingTime = time.Second
	// readingQueue is how many bodies wait for room.
	readingQueue = 1024
)

// reading bounds the bodies that are being read. A body's buffer is made when its length is known, so that many clients who
// announce much and send little would have all the memory there is. Where there is no room for one more, those give way that have
// been coming for the longest: clients who send what they have are done by then.
type reading struct {
	max int // bytes; one body is read whatever its size

	mu      sync.Mutex
	epoch   time.Time // times are told from here
	used    int
	queue   []*conn       // in the order in which they began
	waiting int           // for room
	freed   chan struct{} // closed when there is more room; nil if nobody waits
}

// wait makes room for n bytes to be read from c, and waits for it if need be, readingTime at most. It tells whether there is any.
func (r *reading) wait(c *conn, n int) bool {
	now := time.Now()
	freed, wait := r.enter(c, n, now)
	if wait == 0 {
		return true
	}
	if !r.queued(1) {
		return false
	}
	defer r.queued(-1)
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
		freed, wait = r.enter(c, n, now)
	}
	return wait == 0
}

// queued counts those who wait, and tells whether there may be as many.
func (r *reading) queued(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > 0 && r.waiting >= readingQueue {
		return false
	}
	r.waiting += n
	return true
}

// enter makes room for n bytes to be read from c. If there is none, there may be when freed is closed, and is after wait.
func (r *reading) enter(c *conn, n int, now time.Time) (freed <-chan struct{}, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epoch.IsZero() {
		r.epoch = now
	}
	for r.used > 0 && r.used+n > r.max {
		oldest := r.queue[0]
		if wait := readingTime - (now.Sub(r.epoch) - oldest.began); wait > 0 {
			if r.freed == nil {
				r.freed = make(chan struct{})
			}
			return r.freed, wait
		}
		r.remove(oldest)
		oldest.evicted.Store(true)
		_ = oldest.inner.SetReadDeadline(now) // its reader finds that its time is over
	}
	c.room, c.began = n, now.Sub(r.epoch)
	r.used += n
	r.queue = append(r.queue, c)
	return nil, 0
}

// leave gives back what c has, if anything.
func (r *reading) leave(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.room > 0 {
		r.remove(c)
	}
}

func (r *reading) remove(c *conn) {
	r.used -= c.room
	c.room = 0
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
	for i, other := range r.queue {
		if other == c {
			r.queue = append(r.queue[:i], r.queue[i+1:]...)
			return
		}
	}
}
