package tuning

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	// pinSlice is how long the pinned processor is withheld from the runtime at a time.
	pinSlice = 5 * time.Millisecond
	// pinIdleSlices is after how many slices without a request pinning stops.
	pinIdleSlices = 20
	// pinRequests requests within pinWindow start pinning: at 500 requests a second it saves more than it costs, which
	// is a five-hundredth of a processor.
	pinRequests = 25
	pinWindow   = 50 * time.Millisecond
)

// schedulerPin withholds one extra processor from Go's scheduler while many requests come. Whenever all processors are
// idle for a moment, as between the calls of a proxy, the runtime's monitor goes to sleep. The next call wakes it, and
// it then examines the processors every 20 µs for at least a millisecond. Each time costs a timer and two context
// switches, in all up to a fifth of a call. If one processor never idles, the monitor wakes only every 10 ms, as in any
// process under full load. The pinned processor takes no processor time: its thread sleeps in the system.
type schedulerPin struct {
	busy atomic.Bool // a request came in the last slice
	idle atomic.Bool

	mu    sync.Mutex // guards the count of requests while pinning is off
	since time.Time
	count int

	wake, quit, ended chan struct{}
}

// PinScheduler starts pinning on demand. stir must be called at the beginning of each request. stop ends pinning and
// waits for that.
func PinScheduler() (stir, stop func()) {
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

// countIdle counts a request while pinning is off.
func (a *schedulerPin) countIdle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.Sub(a.since) > pinWindow {
		a.since, a.count = now, 0
	}
	if a.count++; a.count >= pinRequests && a.idle.CompareAndSwap(true, false) {
		a.count = 0
		a.wake <- struct{}{} // never blocks: only one goroutine gets here while pinning is off
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

// hold pins a processor until no more requests come. Meanwhile the runtime does not follow changes of the system's
// processor limit.
func (a *schedulerPin) hold() {
	had := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(had + 1)
	for still := 0; still < pinIdleSlices; still++ {
		if a.busy.Swap(false) {
			still = 0
		}
		rawSleep(pinSlice)
		runtime.Gosched() // a garbage collection may be waiting for it
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

// rawSleep sleeps without informing the scheduler, which would take the processor away. A signal ends it.
func rawSleep(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_, _, _ = syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0) //nolint:gosec // argument of a system call
}
