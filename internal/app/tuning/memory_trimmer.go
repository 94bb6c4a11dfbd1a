// Package tuning adapts Go's runtime to a proxy: it returns unused memory to the system, and on Linux it keeps the
// scheduler awake between calls under load.
package tuning

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// trimEvery is how often the heap is examined.
	trimEvery = 2 * time.Second
	// trimSpare is how many unused bytes are worth a collection. trimCalm is how many bytes may have been allocated
	// since the last look: during work, memory is needed again at once.
	trimSpare = 32 << 20
	trimCalm  = 8 << 20
	// idleSpare and idleCalm are the same for a process that hardly works, as a sidecar does most of its life: it keeps
	// next to nothing. idleTime is how much processor time it may have used meanwhile: a call allocates too little to
	// show, and a collection under load costs all calls. An occasional scrape of the metrics does not count as work.
	idleSpare = 512 << 10
	idleCalm  = 1 << 20
	idleTime  = trimEvery / 50
	// restLooks is after how many idle looks in a row the heap is collected once in any case: what the last work kept
	// alive and has let go since counts as unused only after a collection.
	restLooks = 2
)

// TrimMemory returns memory that a burst of large messages has left behind to the system: an idle proxy makes too
// little garbage for the collector to run by itself. stop ends it and waits for that.
func TrimMemory() (stop func()) {
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

// memoryTrimmer keeps the state of the heap between two looks.
type memoryTrimmer struct {
	free    func()
	asked   uint64        // bytes allocated from the start to the last look
	worked  time.Duration // processor time used until then
	samples [5]metrics.Sample
	floor   uint64 // unused bytes after the last forced collection
	idle    int    // looks in a row at which the process was idle
	// again says that a second collection is due. Pools are emptied by the second one only, and the first may have come
	// before the last response was sent.
	again bool
}

// read returns how many bytes have been allocated and how much processor time was used since the start, and how many
// bytes are unused: garbage, and free memory.
func (h *memoryTrimmer) read() (asked uint64, worked time.Duration, spare uint64) {
	for i, name := range [...]string{"/gc/heap/allocs:bytes", "/gc/heap/live:bytes", "/memory/classes/heap/objects:bytes",
		"/memory/classes/heap/free:bytes", "/memory/classes/heap/unused:bytes"} {
		h.samples[i].Name = name
	}
	metrics.Read(h.samples[:])
	v := func(i int) uint64 { return h.samples[i].Value.Uint64() }
	garbage := v(2) - min(v(1), v(2))
	return v(0), processorTime(), garbage + v(3) + v(4)
}

// look returns memory to the system if enough is unused.
func (h *memoryTrimmer) look(asked uint64, worked time.Duration, spare uint64) {
	since, work := asked-h.asked, worked-h.worked
	h.asked, h.worked = asked, worked
	h.floor = min(h.floor, spare)
	enough := uint64(trimSpare)
	if since < idleCalm && work < idleTime {
		enough = idleSpare
		h.idle++
	} else {
		h.idle = 0
	}
	if since >= trimCalm {
		return
	}
	much := spare >= h.floor+enough || h.idle == restLooks
	if !much && !h.again {
		return
	}
	h.again = much
	h.free()
	_, h.worked, h.floor = h.read()
}
