package drive

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// grace is the time that calls in flight have when a run is interrupted.
const grace = time.Second

// driver is one run of a plan.
type driver struct {
	ctx      context.Context
	plan     *Plan
	judges   []*judge
	order    []uint8
	links    []link
	workers  []*worker
	children []*child
	stop     func()

	numbers atomic.Uint64 // of calls
	anew    atomic.Uint64
	strays  atomic.Uint64
	tally   *tally
}

// close closes all links, and ends their sessions.
func (d *driver) close() {
	places := make(chan struct{}, openers)
	var all sync.WaitGroup
	for _, l := range d.links {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			l.close()
		})
	}
	all.Wait()
	d.stop()
}

func (d *driver) stray(message []byte) {
	if d.strays.Add(1) == 1 {
		d.tally.strayed(message)
	}
}

// openers is the number of connections opened at a time.
const openers = 32
