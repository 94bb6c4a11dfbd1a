package idempotency

import (
	"errors"
	"io"
	"time"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// call makes a request. Duplicates wait for its response.
func (p *Policy) call(next proxy.Handler, ex *proxy.Exchange, e *entry) (proxy.Replies, error) {
	replies, err := next(ex)
	c := proxy.Lend[firstCall](ex, callSlot)
	*c = firstCall{Replies: replies, p: p, ex: ex, entry: e}
	if err != nil {
		c.failed(err)
		c.ended()
		return nil, err
	}
	return c, nil
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
	case c.entry == nil || policies.Pending(err):
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
	if cause := c.ex.Err(); cause != nil && !errors.As(cause, &own) {
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

// duplicate is the replies to a request that came again before the first call had its response. It replays that response, or, if the first
// call was cancelled, makes the call itself. It waits on the goroutine that calls Next. A Next that takes over may last beyond its time, for
// as long as a Handler may.
type duplicate struct {
	p     *Policy
	ex    *proxy.Exchange
	entry *entry
	next  proxy.Handler
	wake  chan struct{} // gets one value when the call is over, or is this duplicate's to make

	own  proxy.Replies // once it has taken over
	done bool          // nothing follows

	// The store's lock guards these; after wake, the caller of Next does.
	at    int  // index among those that wait; -1: it does not
	leads bool // it is to take over, and has not yet
}

// Next implements proxy.Replies.
func (w *duplicate) Next(until time.Time) (*wire.Message, error) {
	switch {
	case w.own != nil:
		return w.own.Next(until)
	case w.done:
		return nil, io.EOF
	}
	if err := w.wait(until); err != nil {
		return nil, err
	}
	if w.leads {
		return w.takeOver(until)
	}
	w.done = true
	if w.entry.tooLarge() {
		w.p.count("not_kept")
	} else {
		w.p.count("waited")
	}
	m, err := w.entry.message(w.ex)
	return &m, err
}

// wait waits for the first call, until the given time at most.
func (w *duplicate) wait(until time.Time) error {
	select {
	case <-w.wake:
		return nil
	default:
	}
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-w.wake:
		return nil
	case <-w.ex.Done():
		return w.ex.Err()
	case <-late:
		return proxy.ErrNotYet
	}
}

func (w *duplicate) takeOver(until time.Time) (*wire.Message, error) {
	if cause := w.ex.Err(); cause != nil {
		return nil, cause // Close passes it on
	}
	w.leads = false
	w.ex.Clock.Waited()
	w.p.count("took_over")
	own, err := w.p.call(w.next, w.ex, w.entry)
	if err != nil {
		w.done = true
		return nil, err
	}
	w.own = own
	return own.Next(until)
}

// Close implements proxy.Replies.
func (w *duplicate) Close() error {
	if w.own != nil {
		return w.own.Close()
	}
	s := w.p.store
	s.mu.Lock()
	s.leave(w)
	leads := w.leads
	w.leads = false
	s.mu.Unlock()
	if leads {
		s.abandon(w.entry)
	}
	return nil
}
