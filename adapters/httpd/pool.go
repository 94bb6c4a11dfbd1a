package httpd

import (
	"context"
	"time"
)

// take returns the most recently used connection that is alive, or a new one.
func (h *Host) take(ctx context.Context) (*upConn, error) {
	for {
		h.mu.Lock()
		if h.closed {
			h.mu.Unlock()
			return nil, ErrClosed
		}
		n := len(h.idle)
		if n == 0 {
			break
		}
		c := h.idle[n-1]
		h.idle[n-1] = nil
		h.idle = h.idle[:n-1]
		h.mu.Unlock()
		if c.fresh(time.Now()) {
			return c, nil
		}
		h.drop(c)
	}
	if h.open >= h.opts.MaxConns {
		h.mu.Unlock()
		return nil, ErrTooManyConns
	}
	h.open++
	h.mu.Unlock()
	c, err := h.connect(ctx)
	if err != nil {
		h.release()
		return nil, err
	}
	return c, nil
}

// put gives back a connection whose exchange is over.
func (h *Host) put(c *upConn) {
	c.served++
	c.idleSince = time.Now()
	h.mu.Lock()
	if h.closed || len(h.idle) >= h.opts.MaxIdle {
		h.mu.Unlock()
		h.drop(c)
		return
	}
	h.idle = append(h.idle, c)
	if !h.armed {
		h.arm(h.opts.IdleLimit)
	}
	h.mu.Unlock()
}

// arm has sweep called after d. The lock is held.
func (h *Host) arm(d time.Duration) {
	h.armed = true
	if h.timer == nil {
		h.timer = time.AfterFunc(d, h.sweep)
	} else {
		h.timer.Reset(d)
	}
}

// sweep closes what has been idle for too long, and comes again for the rest.
func (h *Host) sweep() {
	h.mu.Lock()
	h.armed = false
	limit := time.Now().Add(-h.opts.IdleLimit)
	n := 0 // the longest idle come first, as far as the order of use goes
	for n < len(h.idle) && !h.idle[n].idleSince.After(limit) {
		n++
	}
	old := append([]*upConn(nil), h.idle[:n]...)
	rest := copy(h.idle, h.idle[n:])
	clear(h.idle[rest:])
	h.idle = h.idle[:rest]
	if rest > 0 && !h.closed {
		h.arm(max(h.idle[0].idleSince.Sub(limit), time.Millisecond))
	}
	h.mu.Unlock()
	for _, c := range old {
		h.drop(c)
	}
}

// drop closes a connection for good.
func (h *Host) drop(c *upConn) {
	_ = c.wire.Close()
	h.release()
}

func (h *Host) release() {
	h.mu.Lock()
	h.open--
	h.mu.Unlock()
}

// Conns returns how many connections there are, and how many of them are unused.
func (h *Host) Conns() (open, idle int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open, len(h.idle)
}
