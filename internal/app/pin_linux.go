package app

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// pinSlice is how long the pinned processor is out of the runtime's hands at a time.
	pinSlice = 5 * time.Millisecond
	// pinIdleSlices is after how many naps without a request it rests.
	pinIdleSlices = 20
	// pinRequests requests within pinWindow rouse it: 500 in a second are worth more than its naps cost, which is a five hundredth of a
	// processor.
	pinRequests = 25
	pinWindow   = 50 * time.Millisecond
)

// schedulerPin keeps one more processor of Go's scheduler than there are out of its hands while many requests come. Whenever all of them are idle
// for a moment, as between the calls of a proxy, the runtime's monitor goes to sleep, is woken with the next call, and then looks after them
// every 20 µs for a millisecond at least: each look is a timer and two switches, in all up to a fifth of what a call costs. With one that
// never idles it looks every 10 ms, as in any process under full load. It takes no processor's time: what holds it sleeps in the system.
type schedulerPin struct {
	busy atomic.Bool // since the last nap
	idle atomic.Bool

	mu    sync.Mutex // guards what is known of the requests that come while it rests
	since time.Time
	count int

	wake, quit, ended chan struct{}
}

// pinScheduler begins it; stop ends it, and waits for that. stir is to be called at each request's beginning.
func pinScheduler() (stir, stop func()) {
	a := &schedulerPin{wake: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{})}
	a.idle.Store(true)
	go a.run()
	return a.noteRequest, func() { close(a.quit); <-a.ended }
}

func (a *schedulerPin) noteRequest() {
	if a.idle.Load() {
		a.countIdle()
	} else if !a.busy.Load() {
		a.busy.Store(true)
	}
}

// countIdle is stir while it rests.
func (a *schedulerPin) countIdle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.Sub(a.since) > pinWindow {
		a.since, a.count = now, 0
	}
	if a.count++; a.count >= pinRequests && a.idle.CompareAndSwap(true, false) {
		a.count = 0
		a.wake <- struct{}{} // there is room: only who rests is roused
	}
}

func (a *schedulerPin) run() {
	defer close(a.ended)
	for {
		select {
		case <-a.wake:
			a.hold()
			a.idle.Store(true)
		case <-a.quit:
			return
		}
	}
}

// hold holds a processor until no more requests come. Meanwhile the runtime does not follow what the system lets the process have.
func (a *schedulerPin) hold() {
	had := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(had + 1)
	for still := 0; still < pinIdleSlices; still++ {
		if a.busy.Swap(false) {
			still = 0
		}
		nap := syscall.NsecToTimespec(int64(pinSlice))
		rawSleep(&nap)
		runtime.Gosched() // a collection may be waiting for it
		select {
		case <-a.quit:
			still = pinIdleSlices
		default:
		}
	}
	if os.Getenv("GOMAXPROCS") != "" {
		runtime.GOMAXPROCS(had)
	} else {
		runtime.SetDefaultGOMAXPROCS()
	}
}
