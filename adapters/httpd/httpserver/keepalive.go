package httpserver

import (
	"context"
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
	slots   [keepAliveSlots]map[keptStream]struct{}
	next    uint8 // slot of the next stream
	n       int
	stopped bool          // no more streams
	stop    chan struct{} // ends the goroutine; nil before there is one
	done    chan struct{}
	empty   chan struct{} // closed when n comes to zero; nil while nobody waits
}

// keptStream is a Stream.
type keptStream interface {
	keepAlive()         // writes a comment if nothing is under way
	drain()             // ends it properly
	close(reason error) // ends it at once
}

func newKeepAlives(limit int, period time.Duration) *keepAlives {
	return &keepAlives{max: limit, period: period}
}

// add registers a stream within the limit and returns its slot.
func (k *keepAlives) add(s keptStream) (slot uint8, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.stopped:
		return 0, ErrShutdown
	case k.n >= k.max:
		return 0, ErrTooManyStreams
	case k.stop == nil:
		k.stop, k.done = make(chan struct{}), make(chan struct{})
		go k.run(k.stop, k.done)
	}
	slot = k.next
	k.next = (k.next + 1) % keepAliveSlots
	if k.slots[slot] == nil {
		k.slots[slot] = make(map[keptStream]struct{})
	}
	k.slots[slot][s] = struct{}{}
	k.n++
	return slot, nil
}

func (k *keepAlives) remove(s keptStream, slot uint8) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.slots[slot][s]; !ok {
		return
	}
	delete(k.slots[slot], s)
	k.n--
	if k.n == 0 && k.empty != nil {
		close(k.empty)
		k.empty = nil
	}
}

func (k *keepAlives) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.n
}

// run goes round the slots once a period.
func (k *keepAlives) run(stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	tick := time.NewTicker(max(k.period/keepAliveSlots, time.Millisecond))
	defer tick.Stop()
	var batch []keptStream
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
func (k *keepAlives) drain() []keptStream {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	all := make([]keptStream, 0, k.n)
	for _, slot := range k.slots {
		for s := range slot {
			all = append(all, s)
		}
	}
	return all
}

// wait returns nil once there is no stream, or the cause of ctx's end.
func (k *keepAlives) wait(ctx context.Context) error {
	k.mu.Lock()
	if k.n == 0 {
		k.mu.Unlock()
		return nil
	}
	if k.empty == nil {
		k.empty = make(chan struct{})
	}
	empty := k.empty
	k.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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
