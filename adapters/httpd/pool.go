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
		c := h.pop(n)
		h.mu.Unlock()
		if c.taken = time.Now(); (c.owes.IsZero() || c.settled(c.taken)) && c.fresh(c.taken) {
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
	c.taken = time.Now()
	return c, nil
}

// pop takes the last of n unused connections, if it can one that owes nothing. The lock is held.
func (h *Host) pop(n int) *upConn {
	i := n - 1
	for i > 0 && !h.idle[i].owes.IsZero() {
		i--
	}
	if !h.idle[i].owes.IsZero() {
		i = n - 1
	}
	c := h.idle[i]
	copy(h.idle[i:], h.idle[i+1:])
	h.idle[n-1] = nil
	h.idle = h.idle[:n-1]
	return c
}

// put gives back a connection whose exchange is over.
func (h *Host) put(c *upConn) {
	c.served++
	c.idleSince = time.Now()
	h.keep(c)
}

// keep adds a connection to the unused ones.
func (h *Host) keep(c *upConn) {
	h.mu.Lock()
	if h.closed || len(h.idle) >= h.opts.MaxIdle {
		h.mu.Unlock()
		h.drop(c)
		return
	}
	h.idle = append(h.idle, c)
	wait := h.opts.IdleLimit
	if !c.owes.IsZero() {
		wait = drainTime
	}
	if !h.armed || wait == drainTime && h.due.Sub(c.idleSince) > drainTime {
		h.arm(c.idleSince, wait)
	}
	h.mu.Unlock()
}

// arm has sweep called after d. The lock is held.
func (h *Host) arm(now time.Time, d time.Duration) {
	h.armed, h.due = true, now.Add(d)
	if h.timer == nil {
		h.timer = time.AfterFunc(d, h.sweep)
	} else {
		h.timer.Reset(d)
	}
}

// sweep closes what has been idle for too long, or owes something for too long, and comes again for the rest.
func (h *Host) sweep() {
	h.mu.Lock()
	now := time.Now()
	h.armed = false
	limit := now.Add(-h.opts.IdleLimit)
	var old []*upConn
	var oldest time.Time
	wait, rest := time.Duration(-1), 0
	for _, c := range h.idle {
		switch {
		case !c.idleSince.After(limit), !c.owes.IsZero() && !c.owes.After(now):
			old = append(old, c)
			continue
		case !c.owes.IsZero():
			wait = drainTime
		case oldest.IsZero() || c.idleSince.Before(oldest):
			oldest = c.idleSince
		}
		h.idle[rest] = c
		rest++
	}
	clear(h.idle[rest:])
	h.idle = h.idle[:rest]
	if wait < 0 && rest > 0 {
		wait = max(oldest.Sub(limit), time.Millisecond)
	}
	if wait > 0 && !h.closed {
		h.arm(now, wait)
	}
	h.mu.Unlock()
	for _, c := range old {
		if !c.owes.IsZero() && c.idleSince.After(limit) && c.settled(now) {
			h.keep(c)
		} else {
			h.drop(c)
		}
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
