package peer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errStopped reports a call that the tester itself has ended.
var errStopped = errors.New("the tester has ended the call")

func (c *Call) take(m Message) {
	c.mu.Lock()
	if m.Kind() == IsResponse && c.answer < 0 {
		c.answer = len(c.got)
	}
	if len(c.got) < maxOther {
		c.got = append(c.got, m)
	}
	close(c.more)
	c.more = make(chan struct{})
	c.mu.Unlock()
}

// fail ends the call. err is the reason, nil after the regular end of its stream.
func (c *Call) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.ended:
		return
	default:
	}
	c.err = err
	close(c.ended)
}

// Wait waits for the response.
func (c *Call) Wait() (Message, error) {
	m, err := c.WaitFor(func(m Message) bool { return m.Kind() == IsResponse })
	if err != nil {
		return m, fmt.Errorf("%s: %w", c.Method, err)
	}
	return m, nil
}

// WaitFor waits for a message of this call.
func (c *Call) WaitFor(wanted func(Message) bool) (Message, error) {
	limit := c.conn.patience()
	ctx, cancel := context.WithTimeout(c.conn.ctx, limit)
	defer cancel()
	seen := 0
	for {
		c.mu.Lock()
		for ; seen < len(c.got); seen++ {
			if m := c.got[seen]; wanted(m) {
				c.mu.Unlock()
				return m, nil
			}
		}
		more := c.more
		c.mu.Unlock()
		select {
		case <-more:
			continue
		default:
		}
		select {
		case <-more:
		case <-c.ended:
			c.mu.Lock()
			left := seen < len(c.got)
			err := c.err
			c.mu.Unlock()
			if left {
				continue
			}
			if err == nil {
				err = errors.New("its stream has ended without it")
			}
			return Message{}, err
		case <-ctx.Done():
			return Message{}, fmt.Errorf("nothing came within %s", limit)
		}
	}
}

// patience returns the timeout for a message.
func (c *Conn) patience() time.Duration {
	if c.child != nil {
		return c.child.Patience(c.target.Patience())
	}
	return c.target.Patience()
}

// Got returns what has come for the call so far, in order.
func (c *Call) Got() []Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Message(nil), c.got...)
}

// WaitEnd waits for the end of the call's own stream. On a shared stream there is none, and it returns false at the timeout.
func (c *Call) WaitEnd() bool {
	ctx, cancel := context.WithTimeout(c.conn.ctx, c.conn.target.Patience())
	defer cancel()
	select {
	case <-c.ended:
		return true
	case <-ctx.Done():
		return false
	}
}

// Over reports whether nothing more can come for the call.
func (c *Call) Over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// Leave closes the call's own stream, as a client does that disconnects. On a shared stream it does nothing.
func (c *Call) Leave() {
	if c.stop != nil {
		c.stop()
	}
}

// Cancel cancels the call in the way of its face: it closes the stream of a modern HTTP request, and sends a notification elsewhere.
func (c *Call) Cancel() {
	if c.conn.Face == ModernHTTP {
		c.Leave()
		return
	}
	_, _ = c.conn.Notify("notifications/cancelled", `{"requestId":`+c.ID+`}`)
}
