package supervisor

import (
	"slices"
	"sync"
	"time"
)

// spares are children that wait for somebody to use them. One goroutine at a time starts them, and ends when there are
// enough.
type spares struct {
	mu      sync.Mutex
	want    int // none before Warm
	idle    []*instance
	lost    int  // in a row that have died before anybody used one, or could not be started
	filling bool // the goroutine runs
	closed  bool
	// group are that goroutine, the Dials under way, and spares until they are used. Whoever adds one is in it, or sees that
	// closed is not set.
	group sync.WaitGroup
}

// enter begins a Dial, which ends with s.group.Done; false after the end.
func (s *spares) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.group.Add(1)
	return true
}

// Warm makes the dialer keep as many children started as UpstreamOptions.Spares says, from now on. It does not wait for
// them, and may be called any number of times.
func (d *Dialer) Warm() {
	d.spares.mu.Lock()
	defer d.spares.mu.Unlock()
	d.spares.want = d.opt.Spares
	d.refill()
}

// refill sees to it that somebody starts what is missing. The caller holds d.spares.mu.
func (d *Dialer) refill() {
	s := &d.spares
	if s.filling || s.closed || len(s.idle) >= s.want {
		return
	}
	s.filling = true
	s.group.Go(d.fill)
}

// spare answers a child that was started before, the oldest first, and lets it be replaced; nil if there is none.
func (d *Dialer) spare() *instance {
	s := &d.spares
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) == 0 {
		return nil
	}
	c := s.idle[0]
	s.idle = slices.Delete(s.idle, 0, 1)
	d.refill()
	return c
}

// used notes that a spare was of use, and is none any more.
func (d *Dialer) used() {
	d.spares.mu.Lock()
	defer d.spares.mu.Unlock()
	d.spares.lost = 0
	d.spares.group.Done()
}

// spareEnded is called when a child has ended to which nobody has said anything.
func (d *Dialer) spareEnded(c *instance) {
	s := &d.spares
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if i := slices.Index(s.idle, c); i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
	}
	s.lost++
	d.refill()
}

// fill starts spares until there are enough. After one that was of no use it waits: longer than the supervisor asks, which
// is content with a child that lives for a while and goes then.
func (d *Dialer) fill() {
	s := &d.spares
	for {
		s.mu.Lock()
		if s.closed || len(s.idle) >= s.want {
			s.filling = false
			s.mu.Unlock()
			return
		}
		pause := backoff(s.lost)
		s.mu.Unlock()
		if pause = max(pause, d.sup.retryIn()); pause > 0 && !d.rest(pause) {
			continue // closed
		}
		if c := d.prepare(); c != nil {
			d.shelve(c)
		}
	}
}

// prepare starts a spare; nil if that did not work.
func (d *Dialer) prepare() *instance {
	t, err := d.sup.begin(d.ctx)
	if err == nil {
		var c *instance
		if c, err = d.launch(d.ctx, t); err == nil {
			return c
		}
	}
	d.spares.mu.Lock()
	d.spares.lost++
	d.spares.mu.Unlock()
	return nil
}

// shelve puts a new spare to the others and begins to read what it says. It may be in use before that.
func (d *Dialer) shelve(c *instance) {
	s := &d.spares
	s.group.Add(1)
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.idle = append(s.idle, c)
	}
	s.mu.Unlock()
	go c.read() // ends with the child
	if closed {
		c.close()
	}
}

// rest waits; false if the dialer is closed meanwhile.
func (d *Dialer) rest(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.ctx.Done():
		return false
	}
}

// Close ends the spares and refuses every later Dial; one under way fails. Links that were given out stay their owners'.
// It returns when nothing of the dialer's own is left.
func (d *Dialer) Close() {
	s := &d.spares
	s.mu.Lock()
	s.closed = true
	idle := s.idle
	s.idle = nil
	s.mu.Unlock()
	d.cancel()
	var ends sync.WaitGroup
	for _, c := range idle {
		ends.Go(c.close)
	}
	ends.Wait()
	s.group.Wait()
}
