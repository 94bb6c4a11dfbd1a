package app

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// trimEvery is how often the heap is looked at.
	trimEvery = 2 * time.Second
	// trimSpare is how much may lie about unused before it is worth a collection, and trimCalm the most that may have been
	// asked for since the last look: in the middle of work the memory is needed again at once.
	trimSpare = 32 << 20
	trimCalm  = 8 << 20
	// idleSpare and idleCalm are the same for a process that hardly works at all, as a sidecar does most of its life: it
	// keeps next to nothing. Somebody who asks for the metrics now and then does not count as work.
	idleSpare = 512 << 10
	idleCalm  = 1 << 20
)

// trimMemory gives memory back to the system that a burst of large messages has left behind: an idle proxy makes too little
// garbage for the collector to run by itself. stop ends it, and waits for that.
func trimMemory() (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop
		defer close(ended)
		tick := time.NewTicker(trimEvery)
		defer tick.Stop()
		h := memoryTrimmer{free: debug.FreeOSMemory}
		for {
			select {
			case <-tick.C:
				h.look(h.read())
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-ended }
}

// memoryTrimmer is what is known of the heap from one look to the next.
type memoryTrimmer struct {
	free    func()
	asked   uint64 // bytes allocated in all until the last look
	samples [5]metrics.Sample
	floor   uint64 // what lay about after the last collection of ours
	// again says that a second collection is due: it takes two for what lies in pools, and the first may have come before
	// the last answer had gone.
	again bool
}

// read answers how many bytes have been allocated since the start, and how many lie about unused: garbage, and what was.
func (h *memoryTrimmer) read() (asked, spare uint64) {
	for i, name := range [...]string{"/gc/heap/allocs:bytes", "/gc/heap/live:bytes", "/memory/classes/heap/objects:bytes",
		"/memory/classes/heap/free:bytes", "/memory/classes/heap/unused:bytes"} {
		h.samples[i].Name = name
	}
	metrics.Read(h.samples[:])
	v := func(i int) uint64 { return h.samples[i].Value.Uint64() }
	garbage := v(2) - min(v(1), v(2))
	return v(0), garbage + v(3) + v(4)
}

// look decides whether there is something to give back, and gives it.
func (h *memoryTrimmer) look(asked, spare uint64) {
	since := asked - h.asked
	h.asked = asked
	h.floor = min(h.floor, spare)
	if since >= trimCalm {
		return
	}
	enough := uint64(trimSpare)
	if since < idleCalm {
		enough = idleSpare
	}
	much := spare >= h.floor+enough
	if !much && !h.again {
		return
	}
	h.again = much
	h.free()
	_, h.floor = h.read()
}
