package work

import (
	"errors"
	"sync"
)

// Closing closes many links concurrently, so that a slow server delays no other. The zero value is ready.
type Closing struct {
	group sync.WaitGroup
	mu    sync.Mutex
	errs  []error
}

// Close runs f, which closes one link, in the background.
func (c *Closing) Close(f func() error) {
	c.group.Go(func() {
		err := f()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.errs = append(c.errs, err)
	})
}

// Wait waits for all and returns their errors, joined.
func (c *Closing) Wait() error {
	c.group.Wait()
	return errors.Join(c.errs...)
}
