package httpserver

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// keepAliveSlots is how many parts a keep-alive period has. In each, the streams of one slot are written to.
const keepAliveSlots = 16

// keepAlives holds all Streams of a Server and writes their keep-alive comments, on one goroutine that lives from the first Stream to
// Shutdown.
type keepAlives struct {
	max    int
	period time.Duration

	mu      sync.Mutex
	slots   [keepAliveSlots]map[*Stream]struct{}
	next    uint8         // slot of the next stream
	stopped bool          // no more streams
	stop    chan struct{} // ends the goroutine; nil before there is one
	done    chan struct{}
	open    group // counts the streams
}

// add registers a stream within the limit and returns its slot.
func (k *keepAlives) add(s *Stream) (slot uint8, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.stopped:
		return 0, ErrShutdown
	case k.open.count() >= k.max:
		return 0, ErrTooManyStreams
	case k.stop == nil:
		k.stop, k.done = make(chan struct{}), make(chan struct{})
		go k.run(k.stop, k.done)
	}
	slot = k.next
	k.next = (k.next + 1) % keepAliveSlots
	if k.slots[slot] == nil {
		k.slots[slot] = make(map[*Stream]struct{})
	}
	k.slots[slot][s] = struct{}{}
	k.open.begin()
	return slot, nil
}

func (k *keepAlives) remove(s *Stream, slot uint8) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.slots[slot][s]; !ok {
		return
	}
	delete(k.slots[slot], s)
	k.open.end()
}

// run goes round the slots once a period.
func (k *keepAlives) run(stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	tick := time.NewTicker(max(k.period/keepAliveSlots, time.Millisecond))
	defer tick.Stop()
	var batch []*Stream
	for slot := 0; ; slot = (slot + 1) % keepAliveSlots {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		k.mu.Lock()
		batch = slices.AppendSeq(batch[:0], maps.Keys(k.slots[slot]))
		k.mu.Unlock()
		for _, s := range batch {
			s.keepAlive()
		}
		clear(batch)
	}
}

// drain refuses further streams and returns the open ones.
func (k *keepAlives) drain() []*Stream {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	all := make([]*Stream, 0, k.open.count())
	for _, slot := range k.slots {
		all = slices.AppendSeq(all, maps.Keys(slot))
	}
	return all
}

// close ends the goroutine.
func (k *keepAlives) close() {
	k.mu.Lock()
	k.stopped = true
	stop, done := k.stop, k.done
	k.stop = nil
	k.mu.Unlock()
	if stop != nil {
		close(stop)
		<-done
	}
}
