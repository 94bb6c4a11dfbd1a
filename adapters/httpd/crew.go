package httpd

import (
	"context"
	"sync"
)

// crew counts goroutines at work. Unlike a sync.WaitGroup it may grow while somebody waits, and waiting can be given up.
type crew struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n comes to zero; nil while nobody waits
}

// run starts f as one of the crew.
func (c *crew) run(f func()) {
	c.begin()
	go func() {
		defer c.end()
		f()
	}()
}

// begin counts the caller, until end.
func (c *crew) begin() {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
}

func (c *crew) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.n == 0 && c.zero != nil {
		close(c.zero)
		c.zero = nil
	}
}

// wait returns nil once nobody is at work, or the cause why ctx ended before.
func (c *crew) wait(ctx context.Context) error {
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return nil
	}
	if c.zero == nil {
		c.zero = make(chan struct{})
	}
	zero := c.zero
	c.mu.Unlock()
	select {
	case <-zero:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
