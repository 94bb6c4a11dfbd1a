package httpcall

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// Bounds on opening a broken stream again.
const (
	retryStd   = time.Second // where the server names no time
	retryLeast = 100 * time.Millisecond
	retryMost  = 30 * time.Second
	reopenings = 10   // in a row without a new event
	markMost   = 1024 // bytes of an event id that is remembered
)

// Mark is the place in a server's stream up to which it was read.
type Mark struct {
	ID    []byte // of the last event that had one; nil: none can be asked for
	retry time.Duration
	asked bool // the server has named a time
}

// Note takes from an event what it says of its place; true if the place is a new one. An id too long for a header
// cannot be asked for.
func (k *Mark) Note(ev *eventstream.Event) bool {
	if ev.Retry >= 0 {
		k.retry, k.asked = time.Duration(ev.Retry)*time.Millisecond, true
	}
	if !ev.HasID {
		return false
	}
	if len(ev.ID) == 0 || len(ev.ID) > markMost {
		k.ID = nil
		return true
	}
	moved := !bytes.Equal(k.ID, ev.ID)
	k.ID = append(k.ID[:0], ev.ID...)
	return moved
}

// Wait is how long to wait before the stream is opened again: as the server said, within bounds, else std.
func (k *Mark) Wait(std time.Duration) time.Duration {
	if !k.asked {
		return std
	}
	return min(max(k.retry, retryLeast), retryMost)
}

// again is what a call knows about opening its answer's stream again.
type again struct {
	Mark
	at    time.Time     // not before
	tries int           // in a row without a new event
	gone  chan struct{} // closed by Abort; guarded by Call.mu
}

// note takes what an event says of its place.
func (c *Call) note(ev *eventstream.Event) {
	if c.Reopen == nil {
		return
	}
	if c.again.Note(ev) || len(ev.Data) > 0 {
		c.again.tries = 0
	}
}

// interrupted judges an error of the stream: nil if it is to be opened again. A server that has ended it in good order, after
// having said when to come back, does not want to hold connections for so long (2025-11-25 transports, Sending Messages);
// then the client may be let go of too.
func (c *Call) interrupted(err error) error {
	var read *httpclient.ReadError
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if !ended && !errors.As(err, &read) || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if c.Reopen == nil || len(c.again.ID) == 0 || c.ex.Err() != nil {
		if ended {
			return proxy.Errf(proxy.Lost, "the upstream server's answer ended without a response")
		}
		return err
	}
	wish := err == io.EOF && c.again.asked // a broken connection wraps it
	if err = c.retry(err); err != nil {
		return err
	}
	if wish && c.ex.Polls && !c.ex.Polled.Swap(true) {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// retry plans the next attempt, each later than the one before; an error if there have been enough.
func (c *Call) retry(cause error) error {
	c.Answer.Close()
	if c.again.tries++; c.again.tries > reopenings {
		return proxy.Errf(proxy.Lost, "the upstream server's answer broke off, and could not be picked up again: %v", cause)
	}
	wait := c.again.Wait(retryStd)
	for range c.again.tries - 1 {
		wait = min(2*wait, retryMost)
	}
	c.state, c.again.at = broken, time.Now().Add(wait)
	return nil
}

// reopen waits for its time and asks for what follows.
func (c *Call) reopen(until time.Time) error {
	if err := c.sleep(until); err != nil {
		return err
	}
	var ctx context.Context = c.ex
	if !until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	ans, err := c.Reopen(ctx, c.again.ID)
	switch {
	case err == nil:
	case c.ex.Err() != nil:
		return c.ex.Err()
	case ctx.Err() != nil:
		return os.ErrDeadlineExceeded // not its fault: the next call tries again
	default:
		return c.retry(err)
	}
	c.mu.Lock()
	over := c.over
	c.Answer = ans
	c.mu.Unlock()
	if over {
		return httpclient.ErrAborted
	}
	c.state = reopening
	return nil
}

// sleep waits until the attempt is due.
func (c *Call) sleep(until time.Time) error {
	due := c.again.at
	late := !until.IsZero() && until.Before(due)
	if late {
		due = until
	}
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return httpclient.ErrAborted
	}
	if c.again.gone == nil {
		c.again.gone = make(chan struct{})
	}
	gone := c.again.gone
	c.mu.Unlock()
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-gone:
		return httpclient.ErrAborted
	case <-timer.C:
	}
	if late {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// reopened waits for the head of the stream that was asked for.
func (c *Call) reopened(until time.Time) error {
	status, h, err := c.Answer.Head(until)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case err != nil && c.ex.Err() != nil:
		return c.ex.Err()
	case err != nil:
		return c.retry(err)
	case status == fasthttp.StatusOK && isEventStream(h):
		c.state = streaming
		c.split.Reset(c.Limits.Event)
		return nil
	case status == fasthttp.StatusNotFound && c.InSession: // not SessionLost: the call may have run, and must not be sent again
		return proxy.Errf(proxy.Lost, "the upstream server has forgotten the session in the middle of the call")
	case status >= 500 || status == fasthttp.StatusTooManyRequests || status == fasthttp.StatusConflict:
		return c.retry(&transport.StatusError{Status: status}) // 409: it has not noticed yet that the first stream is gone
	}
	return proxy.Errf(proxy.Lost, "the upstream server's answer broke off, and it will not go on with it: %s", httpclient.Reason(status))
}
