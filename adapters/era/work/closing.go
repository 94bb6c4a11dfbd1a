package work

import (
	"errors"
	"sync"
)

// Closing closes many conversations at a time: a server that does not end takes its time for that, and the others need not wait. The
// zero value is ready.
type Closing struct {
	group sync.WaitGroup
	mu    sync.Mutex
	errs  []error
}

// Close begins to close one.
func (c *Closing) Close(f func() error) {
	c.group.Go(func() {
		err := f()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.errs = append(c.errs, err)
	})
}

// Wait waits until all are closed, and joins their errors.
func (c *Closing) Wait() error {
	c.group.Wait()
	return errors.Join(c.errs...)
}
