package httpserver

import (
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
	slots   [keepAliveSlots]map[keepAliveStream]struct{}
	next    uint8         // slot of the next stream
	stopped bool          // no more streams
	stop    chan struct{} // ends the goroutine; nil before there is one
	done    chan struct{}
	open    group // counts the streams
}

// keepAliveStream is a Stream.
type keepAliveStream interface {
	keepAlive()         // writes a comment if nothing is under way
	drain()             // ends it properly
	close(reason error) // ends it at once
}

func newKeepAlives(limit int, period time.Duration) *keepAlives {
	return &keepAlives{max: limit, period: period}
}

// add registers a stream within the limit and returns its slot.
func (k *keepAlives) add(s keepAliveStream) (slot uint8, err error) {
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
		k.slots[slot] = make(map[keepAliveStream]struct{})
	}
	k.slots[slot][s] = struct{}{}
	k.open.begin()
	return slot, nil
}

func (k *keepAlives) remove(s keepAliveStream, slot uint8) {
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
	var batch []keepAliveStream
	for slot := 0; ; slot = (slot + 1) % keepAliveSlots {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		k.mu.Lock()
		for s := range k.slots[slot] {
			batch = append(batch, s)
		}
		k.mu.Unlock()
		for i, s := range batch {
			s.keepAlive()
			batch[i] = nil
		}
		batch = batch[:0]
	}
}

// drain refuses further streams and returns those there are.
func (k *keepAlives) drain() []keepAliveStream {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	all := make([]keepAliveStream, 0, k.open.count())
	for _, slot := range k.slots {
		for s := range slot {
			all = append(all, s)
		}
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
