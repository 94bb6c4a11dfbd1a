package supervisor

import (
	"context"
	"slices"
	"sync"
	"time"

	"dragoman/proxy"
)

// prewarmed holds prestarted children that no session uses yet. One goroutine at a time starts them, and ends when there are
// enough.
type prewarmed struct {
	mu      sync.Mutex
	want    int // how many to keep; 0 before Warm
	idle    []*instance
	lost    int  // children in a row that died unused or could not be started
	filling bool // fill runs
	closed  bool
	// group counts the fill goroutine, the Dials under way, and the children until they are used. It is only added to by a
	// member, or under mu while closed is false.
	group sync.WaitGroup
}

// enter begins a Dial, which must end with s.group.Done; false after Close.
func (s *prewarmed) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.group.Add(1)
	return true
}

// Warm starts keeping Options.Spares children ready. It does not wait for them, and may be called several times.
func (d *Dialer) Warm() {
	d.prewarmed.mu.Lock()
	defer d.prewarmed.mu.Unlock()
	d.prewarmed.want = d.opt.Spares
	d.refill()
}

// refill starts fill if children are missing. The caller holds d.prewarmed.mu.
func (d *Dialer) refill() {
	s := &d.prewarmed
	if s.filling || s.closed || len(s.idle) >= s.want {
		return
	}
	s.filling = true
	s.group.Go(d.fill)
}

// spare takes the oldest spare and starts its replacement; nil if there is none.
func (d *Dialer) spare() *instance {
	s := &d.prewarmed
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

// Return implements transport.Reusable: the child becomes the spare that is used next.
func (l *link) Return(idle time.Duration) bool {
	c, s := l.c, &l.c.d.prewarmed
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.closed || c.expired != nil || c.proc.Exit() != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	l.Fail(errReturned())
	c.served, c.asked = true, 0
	if c.overdueTimer != nil && c.overdueTimer.Stop() {
		c.late.Done()
	}
	c.overdueTimer = nil
	c.link.Store(nil)
	s.group.Add(1)
	s.idle = slices.Insert(s.idle, 0, c)
	if idle > 0 {
		time.AfterFunc(idle, func() { c.d.expire(c) })
	}
	return true
}

// expire stops a child that was given back, if it is still unused.
func (d *Dialer) expire(c *instance) {
	s := &d.prewarmed
	s.mu.Lock()
	i := slices.Index(s.idle, c)
	if i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
	}
	s.mu.Unlock()
	if i >= 0 {
		c.close()
	}
}

// Returned implements transport.Reusable.
func (l *link) Returned() bool {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	return l.c.served
}

// Waits implements transport.Reusable.
func (l *link) Waits() (waits, known bool) {
	n, known := l.c.proc.Unread()
	return n == 0, known
}

// errReturned is the error of a call on a link whose child was given back.
func errReturned() *proxy.Error {
	return proxy.Errf(proxy.SessionLost, "the process serves another conversation")
}

// Prepare starts a child for the first Dial, which need not wait for it. The error is that of Dial.
func (d *Dialer) Prepare(ctx context.Context) error {
	if !d.prewarmed.enter() {
		return errClosing()
	}
	defer d.prewarmed.group.Done()
	t, err := d.sup.begin(ctx)
	if err != nil {
		return err
	}
	c, err := d.launch(ctx, t)
	if err != nil {
		return err
	}
	d.addSpare(c)
	return nil
}

// used records that a spare has been taken into use.
func (d *Dialer) used() {
	d.prewarmed.mu.Lock()
	defer d.prewarmed.mu.Unlock()
	d.prewarmed.lost = 0
	d.prewarmed.group.Done()
}

// spareEnded is called when an unused child has ended. failed says that it is to blame.
func (d *Dialer) spareEnded(c *instance, failed bool) {
	s := &d.prewarmed
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if i := slices.Index(s.idle, c); i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
	}
	if failed {
		s.lost++
	}
	d.refill()
}

// fill starts children until there are enough. After a failed one it waits, for longer than the circuit demands, since
// the circuit accepts a child that ends after some time.
func (d *Dialer) fill() {
	s := &d.prewarmed
	for {
		s.mu.Lock()
		if s.closed || len(s.idle) >= s.want {
			s.filling = false
			s.mu.Unlock()
			return
		}
		pause := backoff(s.lost)
		s.mu.Unlock()
		pause = max(pause, time.Until(d.sup.health().RetryAt))
		if d.sup.wait(d.ctx, nil, pause) != nil {
			continue // closed
		}
		if c := d.prepare(); c != nil {
			d.addSpare(c)
		}
	}
}

// prepare starts a spare; nil if that failed.
func (d *Dialer) prepare() *instance {
	t, err := d.sup.begin(d.ctx)
	if err == nil {
		var c *instance
		if c, err = d.launch(d.ctx, t); err == nil {
			return c
		}
	}
	d.prewarmed.mu.Lock()
	d.prewarmed.lost++
	d.prewarmed.mu.Unlock()
	return nil
}

// addSpare adds a new spare and starts to read its output. The spare may be taken into use before that.
func (d *Dialer) addSpare(c *instance) {
	s := &d.prewarmed
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

// Close stops the prewarmed children and refuses every later Dial; a Dial under way fails. Links that were returned stay with their
// owners. Close returns when all goroutines and children of the dialer itself have ended.
func (d *Dialer) Close() {
	s := &d.prewarmed
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
