package transport

import (
	"context"
	"slices"
	"sync"
)

// Pending tracks the messages that a link sends in the background. It implements Settler for links that embed it. The zero value is
// ready.
type Pending struct {
	mu    sync.Mutex
	under []chan struct{}
}

// Begin adds one message; done, which must be called once, removes it when it has been sent or given up.
func (e *Pending) Begin() (done func()) {
	c := make(chan struct{})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.under = append(e.under, c)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.under = slices.DeleteFunc(e.under, func(o chan struct{}) bool { return o == c })
		close(c)
	}
}

// Settle implements Settler.
func (e *Pending) Settle(ctx context.Context) {
	e.mu.Lock()
	all := slices.Clone(e.under)
	e.mu.Unlock()
	for _, c := range all {
		select {
		case <-c:
		case <-ctx.Done():
			return
		}
	}
}
