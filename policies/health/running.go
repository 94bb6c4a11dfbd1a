package health

import (
	"context"
	"sync"

	"dragoman/proxy"
)

// Running tracks the requests that run at an upstream, so that another can replace it without losing any.
type Running struct {
	mu      sync.Mutex
	calls   int
	lasting map[*proxy.Exchange]struct{} // listens
	retired bool
	idle    chan struct{} // closed when it is retired and no call runs
}

// NewRunning returns a Running without requests.
func NewRunning() *Running {
	return &Running{lasting: make(map[*proxy.Exchange]struct{}), idle: make(chan struct{})}
}

// enter adds a request, or fails with ErrRetired if another upstream has taken over. lasts marks a listen.
func (r *Running) enter(ex *proxy.Exchange, lasts bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retired {
		return proxy.ErrRetired
	}
	if lasts {
		r.lasting[ex] = struct{}{}
	} else {
		r.calls++
	}
	return nil
}

// leave removes a request that enter has added.
func (r *Running) leave(ex *proxy.Exchange, lasts bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lasts {
		delete(r.lasting, ex)
		return
	}
	if r.calls--; r.calls == 0 && r.retired {
		close(r.idle)
	}
}

// Retire admits no further requests, ends listens as a drain does, so that their clients listen anew, and waits for the
// running calls until ctx is done. It must be called only once.
func (r *Running) Retire(ctx context.Context) error {
	r.mu.Lock()
	r.retired = true
	listens := make([]proxy.Ticket, 0, len(r.lasting))
	for ex := range r.lasting {
		listens = append(listens, ex.Ticket())
	}
	idle := r.calls == 0
	r.mu.Unlock()
	for _, listen := range listens {
		listen.Cancel(proxy.ErrDraining)
	}
	if idle {
		return nil
	}
	select {
	case <-r.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
