package idempotency

import (
	"errors"
	"io"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// call makes a request, for all duplicates that will wait for its response.
func (p *Policy) call(next proxy.Handler, ex *proxy.Exchange, e *entry) (proxy.Replies, error) {
	replies, err := next(ex)
	c := proxy.Lend[firstCall](ex, callSlot)
	*c = firstCall{Replies: replies, p: p, ex: ex, entry: e}
	if err == nil && replies != nil {
		return c, nil
	}
	c.failed(err)
	c.ended()
	return nil, err
}

var callSlot = proxy.NewSlot()

// firstCall is the replies to a request that is made.
type firstCall struct {
	proxy.Replies
	p     *Policy
	ex    *proxy.Exchange
	entry *entry // nil once it has an outcome
}

// Clear implements proxy.Clearer.
func (c *firstCall) Clear() { *c = firstCall{} }

// Next implements proxy.Replies.
func (c *firstCall) Next(until time.Time) (m *wire.Message, err error) {
	m, err = c.Replies.Next(until)
	switch {
	case c.entry == nil || errors.Is(err, proxy.ErrNotYet) || errors.Is(err, io.EOF):
	case err != nil:
		c.failed(err)
	case m.IsResponse():
		c.answered(m)
	}
	return m, err
}

// Close implements proxy.Replies. The call is over before a duplicate may take its place.
func (c *firstCall) Close() error {
	err := c.Replies.Close()
	c.ended()
	return err
}

func (c *firstCall) answered(m *wire.Message) {
	var raw []byte
	if size := m.Size(); size <= maxResponse && m.ID.Present() && c.p.opt.Mode == Replay {
		raw = m.Append(c.entry.room(size))
	}
	c.finish(raw, nil, true)
}

// failed finishes the call with a failure, unless its client has cancelled it: that is for ended.
func (c *firstCall) failed(err error) {
	var own *proxy.Error
	if cause := c.ex.Err(); err == nil || cause != nil && !errors.As(cause, &own) {
		return
	}
	if e := proxy.AsError(c.ex.Why(err)); e.Name != proxy.Cancelled.Name {
		c.finish(nil, e, !e.Retryable)
	}
}

// ended settles a call that is over without a response: it took too long, or its client has left.
func (c *firstCall) ended() {
	switch {
	case c.entry == nil:
	case c.ex.Late():
		c.finish(nil, proxy.Overdue(c.ex.Limit()), true)
	default:
		c.p.store.abandon(c.entry)
		c.entry = nil
	}
}

func (c *firstCall) finish(raw []byte, err *proxy.Error, keep bool) {
	e := c.entry
	c.entry = nil
	c.p.store.finish(e, response{raw: raw, err: err, target: c.ex.Target}, keep)
}
