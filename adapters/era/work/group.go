// Package work runs the goroutines of one upstream, which end with it.
package work

import (
	"context"
	"sync"
	"time"

	"dragoman/proxy"
)

// Group is the goroutines of one upstream, the context that ends with it, and where they report. Make it with New.
type Group struct {
	note   func(level, msg string, err error)
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// New makes a group that reports to note, which may be nil.
func New(note func(level, msg string, err error)) *Group {
	if note == nil {
		note = func(string, string, error) {}
	}
	g := &Group{note: note}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Note reports something to whoever runs the proxy; err may be nil.
func (g *Group) Note(level, msg string, err error) { g.note(level, msg, err) }

// Context ends with Cancel.
func (g *Group) Context() context.Context { return g.ctx }

// Spawn runs f as a goroutine of the group; false if the group has been closed.
func (g *Group) Spawn(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.wg.Go(f)
	}
	return !g.closed
}

// Go runs f as a goroutine of the group even if the group has been closed. The caller holds what keeps Wait from being called: it is
// itself such a goroutine, or holds the lock of a table that is emptied before.
func (g *Group) Go(f func()) { g.wg.Go(f) }

// Close lets nothing more be spawned.
func (g *Group) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// Closed reports whether Close has been called.
func (g *Group) Closed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// Cancel ends the context.
func (g *Group) Cancel() { g.cancel() }

// Wait waits for the goroutines.
func (g *Group) Wait() { g.wg.Wait() }

// ErrClosing is the error of a request that comes when the upstream closes.
func ErrClosing() *proxy.Error { return proxy.Errf(proxy.ShuttingDown, "the proxy is shutting down") }

// Pause waits for a signal, until the given time at most (zero: without limit); false if none came.
func Pause(wake <-chan struct{}, until time.Time) bool {
	if until.IsZero() {
		<-wake
		return true
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-wake:
		return true
	case <-timer.C:
		return false
	}
}
