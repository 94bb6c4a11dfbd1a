package session

import (
	"runtime"
	"sync"
	"time"
)

const (
	// idleHands is how many goroutines may wait for a request, and idleTime how long one waits at least; twice that at most.
	idleHands = 256
	idleTime  = 100 * time.Millisecond
)

// Job is what a goroutine does for one request.
type Job interface{ Do() }

// Hand gives a job to a goroutine that has done one before, or to a new one, and does not wait. A request goes deep, through all the
// policies: a new goroutine's stack is made anew for each, a used one's is there. One that is not needed any more ends by itself.
func Hand(job Job) { spare.give(job) }

var spare hands

// hands are goroutines without a job.
type hands struct {
	mu    sync.Mutex
	idle  []*hand // the one that was used last is used first
	least int     // so few of them were idle at one time since the last tick
	timer *time.Timer
	runs  bool // the timer does
}

// hand is a goroutine; it ends when its jobs are closed.
type hand struct{ jobs chan Job }

func (h *hands) give(job Job) {
	h.mu.Lock()
	n := len(h.idle) - 1
	if n < 0 {
		h.mu.Unlock()
		one := &hand{jobs: make(chan Job, 1)}
		one.jobs <- job
		go h.work(one) // ends when it was idle for a while
		return
	}
	one := h.idle[n]
	h.idle[n] = nil
	h.idle = h.idle[:n]
	h.least = min(h.least, n)
	h.mu.Unlock()
	one.jobs <- job // there is room: it has none
}

func (h *hands) work(one *hand) {
	for job := range one.jobs {
		deepen(true)
		job.Do()
		if !h.rest(one) {
			return
		}
	}
}

// rest puts one among the idle; false: there are enough.
func (h *hands) rest(one *hand) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.idle) >= idleHands {
		return false
	}
	h.idle = append(h.idle, one)
	if h.runs {
		return true
	}
	h.runs, h.least = true, 0
	if h.timer == nil {
		h.timer = time.AfterFunc(idleTime, h.tick)
	} else {
		h.timer.Reset(idleTime)
	}
	return true
}

// tick ends those that were not needed since the last one.
func (h *hands) tick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.idle[:h.least] {
		close(one.jobs)
	}
	left := copy(h.idle, h.idle[h.least:])
	clear(h.idle[left:])
	h.idle, h.least = h.idle[:left], left
	if h.runs = left > 0; h.runs {
		h.timer.Reset(idleTime)
	}
}

// deepen makes the stack of a goroutine as large as a request needs it. By itself it would double on the way down the policies, and be
// copied with all that stands there already, each time: that was a fifth of what a call over HTTP+SSE took. The collector makes the
// stack of one that waits smaller again. The room is not touched: that it could be needed is enough.
//
//go:noinline
func deepen(enough bool) {
	if enough {
		return
	}
	var room [9 << 10]byte
	runtime.KeepAlive(&room)
}
