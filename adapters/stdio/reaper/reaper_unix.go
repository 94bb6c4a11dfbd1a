//go:build unix

package reaper

import (
	"context"
	"sync"
	"time"
)

const (
	// readyTime is how long a new reaper process may take to report that it is ready. It is generous for busy machines.
	readyTime = 10 * time.Second
	// closeTime is how long a reaper process may take to end; it limits itself to less (termGrace and killLimit).
	closeTime = 5 * time.Second
	// sendTime is how long a request may wait for the reaper process to read it.
	sendTime = 10 * time.Second
	// retryAfter is the pause after a reaper process that could not be started.
	retryAfter = time.Minute
	// maxClearing bounds the lost reaper processes for which Close waits; earlier ones have been cleared up long ago.
	maxClearing = 8
)

// impl is the state of a Reaper on Unix.
type impl struct {
	mu       sync.Mutex
	conn     *connection // to the reaper process; nil if there is none
	retry    time.Time   // no new attempt before
	noted    bool        // Note was called because no reaper could be started
	closed   bool
	clearing []chan struct{} // closed once what a lost reaper process left behind is cleared up
	starting sync.WaitGroup  // Prestart's goroutines
}

// Prestart starts the reaper process in the background unless it runs already, so that the first Start need not wait for it. It
// reports no error; Start does. Close waits for the goroutine.
func (r *Reaper) Prestart() { r.impl.starting.Go(func() { _, _ = r.connect() }) }

// Start starts a child through the reaper process and returns once the child executes its program. The error is ErrUnavailable,
// ErrClosed, ErrLost, the error of ctx, or an *os.PathError as from os.StartProcess. If ctx ends first, the child is killed as
// soon as it is there.
func (r *Reaper) Start(ctx context.Context, s Spec) (*Child, error) {
	c, err := r.connect()
	if err != nil {
		return nil, err
	}
	return c.start(ctx, s)
}

// Close ends the reaper process and everything that still runs below it, and waits for that: a moment if all children are gone,
// less than 5 s in any case.
func (r *Reaper) Close() {
	m := &r.impl
	defer m.starting.Wait() // those that come later start nothing
	m.mu.Lock()
	m.closed = true
	c, clearing := m.conn, m.clearing
	m.mu.Unlock()
	if c != nil {
		c.close()
	}
	for _, done := range clearing {
		<-done
	}
}

// connect returns the connection to the running reaper process, or to a new one.
func (r *Reaper) connect() (*connection, error) {
	m := &r.impl
	var first bool
	var err error
	defer func() {
		if first {
			r.opt.Note(&noteError{ErrUnavailable, "children are started without one", err})
		}
	}()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, ErrClosed
	case m.conn != nil:
		return m.conn, nil
	case time.Now().Before(m.retry):
		return nil, ErrUnavailable
	}
	var c *connection
	if c, err = launch(r); err != nil {
		first = m.unavailable()
		return nil, ErrUnavailable
	}
	m.conn = c
	return c, nil
}

// unavailable records that no reaper process could be started. It reports whether that is news. The caller holds mu.
func (m *impl) unavailable() (first bool) {
	first = !m.noted
	m.retry, m.noted = time.Now().Add(retryAfter), true
	return first
}

// lost forgets a reaper process that has ended. ready says whether it ever reported to be ready.
func (r *Reaper) lost(c *connection, ready bool, cause error) {
	m := &r.impl
	m.mu.Lock()
	closed, first := m.closed, false
	if !closed {
		m.conn = nil
		m.clearing = append(m.clearing, c.done)
		if len(m.clearing) > maxClearing {
			m.clearing = m.clearing[1:]
		}
		if ready {
			m.noted = false
		} else {
			first = m.unavailable()
		}
	}
	m.mu.Unlock()
	switch {
	case first:
		r.opt.Note(&noteError{ErrUnavailable, "children are started without one", cause})
	case ready && !closed:
		r.opt.Note(&noteError{ErrLost, "and its children with it; the next child gets a new one", cause})
	}
}

// noteError is what Note gets: what happened, what follows from it, and the cause.
type noteError struct {
	what   error
	effect string
	cause  error
}

func (e *noteError) Error() string   { return e.what.Error() + ", " + e.effect + ": " + e.cause.Error() }
func (e *noteError) Unwrap() []error { return []error{e.what, e.cause} }
