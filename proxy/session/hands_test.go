package session

import (
	"runtime"
	"testing"
)

// step is a job that says that it runs, and lasts as long as it is told.
type step struct{ runs, ends chan struct{} }

func (s step) Do() {
	s.runs <- struct{}{}
	<-s.ends
}

// resting waits until so many have no job.
func (h *hands) resting(n int) {
	for {
		h.mu.Lock()
		have := len(h.idle)
		h.mu.Unlock()
		if have == n {
			return
		}
		runtime.Gosched()
	}
}

// Goroutines serve one job after the other; jobs at once have one each, and those that are needed no more end.
func TestHands(t *testing.T) {
	var h hands
	s := step{make(chan struct{}), make(chan struct{})}
	const many = 3
	for range 2 {
		for range many {
			h.give(s)
		}
		for range many {
			<-s.runs // all of them, before one ends
		}
		h.resting(0)
		for range many {
			s.ends <- struct{}{}
		}
		h.resting(many)
	}
	was := h.idle[many-1]
	for range 10 { // one at a time: the same
		h.give(s)
		<-s.runs
		s.ends <- struct{}{}
		h.resting(many)
	}
	h.mu.Lock()
	if h.idle[many-1] != was {
		t.Error("not the one that was used last")
	}
	h.least = many // as after a tick
	h.mu.Unlock()
	h.give(s)
	<-s.runs
	h.mu.Lock()
	if h.least != many-1 {
		t.Errorf("%d were idle", h.least)
	}
	h.mu.Unlock()
	s.ends <- struct{}{}
	h.resting(many)
	h.tick()
	h.resting(1)
	h.mu.Lock()
	if h.idle[0] != was {
		t.Error("the one that was needed has ended")
	}
	h.mu.Unlock()
	h.resting(0) // at the timer's next tick, and with it the last goroutine: goleak would see it
	h.give(s)
	<-s.runs
	s.ends <- struct{}{}
	h.resting(1)
	h.resting(0) // the timer runs again
}

// No more wait for a job than may.
func TestHandsBound(t *testing.T) {
	h := hands{idle: make([]*hand, idleHands-1), runs: true}
	if !h.rest(new(hand)) {
		t.Error("there was room for one more")
	}
	if h.rest(new(hand)) || len(h.idle) != idleHands {
		t.Errorf("%d wait", len(h.idle))
	}
}
