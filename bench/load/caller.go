package load

import (
	"context"
	"fmt"
	"time"
)

// Caller is one client with a connection and, if it is legacy, a session of its own: for who counts sessions, not calls.
// It is used by one goroutine at a time.
type Caller struct{ w *worker }

// Open connects and opens the session; index numbers the calls, so that those of callers with different ones differ. It
// may be any number from 0. The plan's Connections, Warmup, Duration, Begin and End mean nothing here.
func Open(ctx context.Context, p Plan, index int) (*Caller, error) {
	if p.Timeout <= 0 {
		p.Timeout = DefaultTimeout
	}
	w := newWorker(&p, index%MaxConnections)
	if err := w.open(ctx); err != nil {
		w.close()
		return nil, err
	}
	return &Caller{w}, nil
}

// Call makes one call and returns what is wrong with the answer.
func (c *Caller) Call() error { return c.w.call(time.Now()) }

// Leave closes the connections without ending the session: no DELETE is sent. It may be called again.
func (c *Caller) Leave() { c.w.close() }

// Once makes one call outside any measurement and returns what is wrong with the
// answer: the way to wait for a server that is starting.
func Once(ctx context.Context, p Plan) error {
	c, err := Open(ctx, p, 0)
	if err != nil {
		return err
	}
	defer c.Leave()
	if err = c.Call(); err != nil {
		return fmt.Errorf("load: the first call: %w", err)
	}
	return nil
}
