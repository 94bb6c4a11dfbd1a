package httpserver

import (
	"context"
	"sync"
)

// group counts running goroutines, or other things that begin and end. Unlike a sync.WaitGroup it may grow during a wait, and a wait can
// be cancelled.
type group struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n comes to zero; nil without a wait
}

// run starts f in the group.
func (g *group) run(f func()) {
	g.begin()
	go func() {
		defer g.end()
		f()
	}()
}

// count returns how many have begun and not ended.
func (g *group) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n
}

// begin counts the calling goroutine until end.
func (g *group) begin() {
	g.mu.Lock()
	g.n++
	g.mu.Unlock()
}

func (g *group) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n--
	if g.n == 0 && g.zero != nil {
		close(g.zero)
		g.zero = nil
	}
}

// wait returns nil once the count is zero, or the cause of ctx's end.
func (g *group) wait(ctx context.Context) error {
	g.mu.Lock()
	if g.n == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.zero == nil {
		g.zero = make(chan struct{})
	}
	zero := g.zero
	g.mu.Unlock()
	select {
	case <-zero:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
