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

// Bounds on reopening a broken stream.
const (
	retryStd   = time.Second // delay if the server names none
	retryLeast = 100 * time.Millisecond
	retryMost  = 30 * time.Second
	reopenings = 10   // attempts in a row without a new event
	markMost   = 1024 // bytes of the longest event id that is remembered
)

// Mark is the position up to which a server's stream was read.
type Mark struct {
	ID    []byte // of the last event that had one; nil: the stream cannot be resumed
	retry time.Duration
	asked bool // the server has sent a retry delay
}

// Note updates the position from an event and reports whether the position is new. An id too long for a header is treated
// as no id.
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

// Wait returns how long to wait before the stream is reopened: the server's delay, within bounds, or std if it sent none.
func (k *Mark) Wait(std time.Duration) time.Duration {
	if !k.asked {
		return std
	}
	return min(max(k.retry, retryLeast), retryMost)
}

// again is the state of a call for reopening its answer's stream.
type again struct {
	Mark
	at    time.Time     // earliest time of the next attempt
	tries int           // attempts in a row without a new event
	gone  chan struct{} // closed by Abort; the field is guarded by Call.mu
}

// note updates the position from an event.
func (c *Call) note(ev *eventstream.Event) {
	if c.Reopen == nil {
		return
	}
	if c.again.Note(ev) || len(ev.Data) > 0 {
		c.again.tries = 0
	}
}

// interrupted handles an error of the stream and returns nil if the stream is to be reopened. A server that ends the
// stream cleanly after sending a retry delay does not want to hold the connection (2025-11-25 transports, Sending
// Messages); the client's connection may then be closed too.
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
	wish := err == io.EOF && c.again.asked // a broken connection returns a wrapped io.EOF
	if err = c.retry(err); err != nil {
		return err
	}
	if wish && c.ex.Polls && !c.ex.Polled.Swap(true) {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// retry schedules the next attempt, each after a longer delay; an error if there have been too many.
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

// reopen waits until the attempt is due and requests what follows the last event.
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
		return os.ErrDeadlineExceeded // the caller's time is up; the next call tries again
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

// reopened waits for the head of the reopened stream.
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
		return c.retry(&transport.StatusError{Status: status}) // 409: the server has not noticed yet that the first stream is gone
	}
	return proxy.Errf(proxy.Lost, "the upstream server's answer broke off, and it will not go on with it: %s", httpclient.Reason(status))
}
