// Package work runs the goroutines of one upstream and ends them with it.
package work

import (
	"context"
	"errors"
	"sync"
	"time"

	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// Group holds the goroutines of one upstream, their context and their log. New returns one. It is closed in the order Close, Cancel,
// Wait.
type Group struct {
	note   func(level, msg string, err error)
	ctx    context.Context
	cancel context.CancelFunc

	refusals refusals

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// New returns a group that logs to note; nil discards.
func New(note func(level, msg string, err error)) *Group {
	if note == nil {
		note = func(string, string, error) {}
	}
	g := &Group{note: note}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Note logs a message; level is a log level in words, and err may be nil.
func (g *Group) Note(level, msg string, err error) { g.note(level, msg, err) }

// Context returns the context of the goroutines, which ends with Cancel.
func (g *Group) Context() context.Context { return g.ctx }

// Spawn runs f as a goroutine of the group; false, without running it, if the group has been closed.
func (g *Group) Spawn(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.wg.Go(f)
	}
	return !g.closed
}

// Go runs f as a goroutine of the group even if the group has been closed. The caller must ensure that Wait is called later: it is itself
// a goroutine of the group, or holds the lock of a table that is emptied before.
func (g *Group) Go(f func()) { g.wg.Go(f) }

// Close makes every later Spawn fail.
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

// ErrClosing returns the error of a request to an upstream that is closing.
func ErrClosing() *proxy.Error { return proxy.Errf(proxy.ShuttingDown, "the proxy is shutting down") }

// Pause waits for a signal until the given time (zero: without limit); false if none came.
func Pause(wake <-chan struct{}, until time.Time) bool {
	select {
	case <-wake:
		return true
	case <-After(until):
		return false
	}
}

// After returns a channel that receives at the given time; the zero time is never.
func After(until time.Time) <-chan time.Time {
	if until.IsZero() {
		return nil
	}
	return time.After(time.Until(until))
}

// Signal sends a signal to a channel of capacity 1, unless one waits there already.
func Signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// CloseAll calls functions that close links, concurrently, so that a slow server delays no other, and joins their errors.
func CloseAll(all []func() error) error {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, f := range all {
		group.Go(func() { errs[i] = f() })
	}
	group.Wait()
	return errors.Join(errs...)
}

// AnswerTime bounds the sending of an answer to a server that does not read.
const AnswerTime = 10 * time.Second

// Answer sends an answer to a server's question, for AnswerTime at most, and logs an error.
func (g *Group) Answer(ctx context.Context, link transport.Link, raw []byte) {
	ctx, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	if err := link.Send(ctx, raw); err != nil {
		g.Note("debug", "an answer to the upstream's question could not be sent", err)
	}
}
