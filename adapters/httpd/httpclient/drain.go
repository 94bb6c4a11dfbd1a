package httpclient

import (
	"time"

	"dragoman/adapters/httpd/netpoll"
)

// After Finish, the end of a body may still be this far away.
const (
	drainTime  = 5 * time.Millisecond
	drainBytes = 16 << 10
)

// Buffered returns what of the body has arrived in one piece, without waiting; Discard consumes it. It is valid until the next read.
func (r Response) Buffered() []byte {
	if c := r.conn(); c != nil && c.headDone {
		return c.body.Buffered()
	}
	return nil
}

// Discard consumes the first n bytes of what Buffered has returned.
func (r Response) Discard(n int) {
	if c := r.conn(); c != nil {
		c.body.Discard(n)
	}
}

// finish prepares for the rest of a body whose reader has finished. Nobody waits for it: the connection goes into the pool, and its
// next user reads the rest first.
func (c *conn) finish() {
	if !c.headDone || c.lastUse || c.body.Err() != nil || c.body.DiscardBuffered() {
		return
	}
	switch now := time.Now(); {
	case c.body.Err() != nil:
	case netpoll.CanPeek && c.peek != nil:
		c.owes = now.Add(drainTime)
	default: // without a Peeker its arrival cannot be seen later
		c.drain(now.Add(drainTime))
	}
}

// drain reads the outstanding end of a response until a time. It reports whether the connection can be used.
func (c *conn) drain(until time.Time) bool {
	if cap(c.out) < 1<<10 {
		c.out = make([]byte, 0, 1<<10)
	}
	sink := c.out[:1<<10] // the request has been sent
	for left := drainBytes; left > 0 && !c.body.Done(); {
		n, err := c.read(sink, until)
		left -= n
		if err != nil {
			break
		}
	}
	c.owes = time.Time{}
	return c.body.Done() && c.body.Err() == nil && c.br.Buffered() == 0
}

// awaitEnd waits for the outstanding end of a response as long as it may take.
func (c *conn) awaitEnd(now time.Time) bool {
	until := c.owes
	if c.peek.Peek() == netpoll.Readable { // it may have arrived long ago
		until = now.Add(drainTime)
	}
	return until.After(now) && c.drain(until)
}
