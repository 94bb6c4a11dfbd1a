package httpd

import (
	"context"
	"sync"
	"time"
)

// keeperSlots is how many parts a keep-alive period has: each part, the streams of one slot are written to.
const keeperSlots = 16

// keeper knows all held streams of a Server and writes their keep-alive comments, from one goroutine that lives from the
// first stream to Shutdown.
type keeper struct {
	max    int
	period time.Duration

	mu      sync.Mutex
	slots   [keeperSlots]map[*Held]struct{}
	next    int // slot for the next stream
	n       int
	stopped bool          // no more streams
	stop    chan struct{} // ends the goroutine; nil before there is one
	done    chan struct{}
	empty   chan struct{} // closed when n comes to zero; nil while nobody waits
}

func newKeeper(limit int, period time.Duration) *keeper {
	return &keeper{max: limit, period: period}
}

// add registers h within the cap.
func (k *keeper) add(h *Held) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.stopped:
		return ErrShutdown
	case k.n >= k.max:
		return ErrTooManyStreams
	case k.stop == nil:
		k.stop, k.done = make(chan struct{}), make(chan struct{})
		go k.run(k.stop, k.done)
	}
	h.slot = k.next
	k.next = (k.next + 1) % keeperSlots
	if k.slots[h.slot] == nil {
		k.slots[h.slot] = make(map[*Held]struct{})
	}
	k.slots[h.slot][h] = struct{}{}
	k.n++
	return nil
}

func (k *keeper) remove(h *Held) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.slots[h.slot][h]; !ok {
		return
	}
	delete(k.slots[h.slot], h)
	k.n--
	if k.n == 0 && k.empty != nil {
		close(k.empty)
		k.empty = nil
	}
}

func (k *keeper) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.n
}

// run goes round the slots once a period.
func (k *keeper) run(stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	tick := time.NewTicker(max(k.period/keeperSlots, time.Millisecond))
	defer tick.Stop()
	var batch []*Held
	for slot := 0; ; slot = (slot + 1) % keeperSlots {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		k.mu.Lock()
		for h := range k.slots[slot] {
			batch = append(batch, h)
		}
		k.mu.Unlock()
		for i, h := range batch {
			h.keepAlive()
			batch[i] = nil
		}
		batch = batch[:0]
	}
}

// drain refuses further streams and returns those there are.
func (k *keeper) drain() []*Held {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	held := make([]*Held, 0, k.n)
	for _, slot := range k.slots {
		for h := range slot {
			held = append(held, h)
		}
	}
	return held
}

// wait returns nil once there is no stream, or the cause why ctx ended before.
func (k *keeper) wait(ctx context.Context) error {
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
func (k *keeper) close() {
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
