package httpclient

import (
	"context"
	"slices"
	"time"
)

// take returns the most recently used connection that is alive, or a new one.
func (h *Host) take(ctx context.Context) (*conn, error) {
	for {
		h.mu.Lock()
		if h.closed {
			h.mu.Unlock()
			return nil, ErrClosed
		}
		if len(h.idle) == 0 {
			break
		}
		c := h.pop()
		h.mu.Unlock()
		if c.taken = time.Now(); (c.owes.IsZero() || c.awaitEnd(c.taken)) && c.fresh(c.taken) {
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

// pop removes the last of the unused connections, preferring one whose last response has ended. The caller holds the lock.
func (h *Host) pop() *conn {
	last := len(h.idle) - 1
	i := last
	for i > 0 && !h.idle[i].owes.IsZero() {
		i--
	}
	if !h.idle[i].owes.IsZero() {
		i = last
	}
	c := h.idle[i]
	h.idle = slices.Delete(h.idle, i, i+1)
	return c
}

// keep adds a connection to the unused ones.
func (h *Host) keep(c *conn) {
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

// arm has sweep called after d. The caller holds the lock.
func (h *Host) arm(now time.Time, d time.Duration) {
	h.armed, h.due = true, now.Add(d)
	if h.timer == nil {
		h.timer = time.AfterFunc(d, h.sweep)
	} else {
		h.timer.Reset(d)
	}
}

// sweep closes connections that have been idle, or have waited for the end of a response, for too long.
func (h *Host) sweep() {
	h.mu.Lock()
	now := time.Now()
	h.armed = false
	limit := now.Add(-h.opts.IdleLimit)
	var old []*conn
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
		if !c.owes.IsZero() && c.idleSince.After(limit) && c.awaitEnd(now) {
			h.keep(c)
		} else {
			h.drop(c)
		}
	}
}

// drop closes a connection.
func (h *Host) drop(c *conn) {
	_ = c.sock.Close()
	h.release()
}

func (h *Host) release() {
	h.mu.Lock()
	h.open--
	h.mu.Unlock()
}
