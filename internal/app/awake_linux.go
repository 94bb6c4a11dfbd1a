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
	// awakeNap is how long the processor that stays awake is out of the runtime's hands at a time.
	awakeNap = 5 * time.Millisecond
	// awakeStill is after how many naps without a request it rests.
	awakeStill = 20
	// awakeBusy requests within awakeWindow rouse it: 500 in a second are worth more than its naps cost, which is a five hundredth of a
	// processor.
	awakeBusy   = 25
	awakeWindow = 50 * time.Millisecond
)

// awake keeps one more processor of Go's scheduler than there are out of its hands while many requests come. Whenever all of them are idle
// for a moment, as between the calls of a proxy, the runtime's monitor goes to sleep, is woken with the next call, and then looks after them
// every 20 µs for a millisecond at least: each look is a timer and two switches, in all up to a fifth of what a call costs. With one that
// never idles it looks every 10 ms, as in any process under full load. It takes no processor's time: what holds it sleeps in the system.
type awake struct {
	stirred atomic.Bool // since the last nap
	rests   atomic.Bool

	mu    sync.Mutex // guards what is known of the requests that come while it rests
	since time.Time
	count int

	rouse, quit, ended chan struct{}
}

// keepAwake begins it; stop ends it, and waits for that. stir is to be called at each request's beginning.
func keepAwake() (stir, stop func()) {
	a := &awake{rouse: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{})}
	a.rests.Store(true)
	go a.run()
	return a.stir, func() { close(a.quit); <-a.ended }
}

func (a *awake) stir() {
	if a.rests.Load() {
		a.doze()
	} else if !a.stirred.Load() {
		a.stirred.Store(true)
	}
}

// doze is stir while it rests.
func (a *awake) doze() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.Sub(a.since) > awakeWindow {
		a.since, a.count = now, 0
	}
	if a.count++; a.count >= awakeBusy && a.rests.CompareAndSwap(true, false) {
		a.count = 0
		a.rouse <- struct{}{} // there is room: only who rests is roused
	}
}

func (a *awake) run() {
	defer close(a.ended)
	for {
		select {
		case <-a.rouse:
			a.hold()
			a.rests.Store(true)
		case <-a.quit:
			return
		}
	}
}

// hold holds a processor until no more requests come. Meanwhile the runtime does not follow what the system lets the process have.
func (a *awake) hold() {
	had := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(had + 1)
	for still := 0; still < awakeStill; still++ {
		if a.stirred.Swap(false) {
			still = 0
		}
		nap := syscall.NsecToTimespec(int64(awakeNap))
		rawSleep(&nap)
		runtime.Gosched() // a collection may be waiting for it
		select {
		case <-a.quit:
			still = awakeStill
		default:
		}
	}
	if os.Getenv("GOMAXPROCS") != "" {
		runtime.GOMAXPROCS(had)
	} else {
		runtime.SetDefaultGOMAXPROCS()
	}
}
