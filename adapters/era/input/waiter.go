package input

import (
	"bytes"
	"io"
	"time"

	"dragoman/adapters/era/seal"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/era/work"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Waiter is a client's request attached to a call. It returns the replies of the call until the response, or until the
// server asks.
type Waiter struct {
	call  *Call
	ex    *proxy.Exchange
	over  bool // the response has been returned
	asked bool // that response is input_required; the call continues
}

// Attach attaches ex to the call.
func (c *Call) Attach(ex *proxy.Exchange) *Waiter {
	a := &Waiter{call: c, ex: ex}
	c.mu.Lock()
	c.caps, c.suspended = bytes.Clone(ex.Client.Caps), false
	c.mu.Unlock()
	ex.Attach(a)
	return a
}

// Resume handles a retry by its requestState. The replies are a *Waiter if the retry continues a suspended call. They
// are nil if the call is to be sent again because its user has visited what the server named, in so many rounds.
func (x *Calls) Resume(ex *proxy.Exchange) (replies proxy.Replies, rounds int, err error) {
	m := &ex.Msg
	kind, body, err := x.store.seal.Open(string(m.Text(m.ReqState)), seal.Binding(ex, x.name), time.Now())
	switch {
	case err != nil:
	case kind == seal.PendingCall && len(body) == len(Handle{}):
		replies, err = x.resume(ex, Handle(body))
		return replies, 0, err
	case kind == seal.URLs && len(body) > 0:
		return x.visited(ex, int(body[0]), body[1:])
	}
	return nil, 0, BadState()
}

// resume attaches a retry to its suspended call and sends the answers to the server.
func (x *Calls) resume(ex *proxy.Exchange, h Handle) (proxy.Replies, error) {
	d := x.store.find(h)
	if d == nil || d.x != x {
		return nil, BadState()
	}
	if err := d.validate(&ex.Msg); err != nil {
		return nil, err
	}
	if x.store.take(h) == nil {
		return nil, BadState() // taken by another retry
	}
	ex.Continues = d.inner.OutgoingTrace()
	a := d.Attach(ex) // first: the result may follow the answer at once
	for _, raw := range d.takeAnswers(&ex.Msg) {
		d.send(ex, raw)
	}
	return a, nil
}

// Session returns the session in which the call runs.
func (w *Waiter) Session() *sessions.Session { return w.call.session }

// Asked reports whether the request ended with questions.
func (w *Waiter) Asked() bool { return w.asked }

// Abort implements proxy.Aborter: it gives the call up because the client has left.
func (w *Waiter) Abort() { w.call.giveUp(proxy.ErrCancelled) }

// Next implements proxy.Replies.
func (w *Waiter) Next(until time.Time) (*wire.Message, error) {
	d := w.call
	for {
		if w.over {
			return nil, io.EOF
		}
		d.mu.Lock()
		if len(d.queue) > 0 {
			raw := d.queue[0]
			d.queue = d.queue[1:]
			d.size -= len(raw)
			d.mu.Unlock()
			m, keep, err := w.adapt(raw)
			if err != nil || keep {
				return m, err
			}
			continue
		}
		if err := d.err; err != nil {
			d.mu.Unlock()
			return nil, err
		}
		wait := until
		if len(d.open) > 0 {
			due := d.due()
			if !time.Now().Before(due) {
				return w.suspend() // unlocks
			}
			if wait.IsZero() || due.Before(wait) {
				wait = due
			}
		}
		d.mu.Unlock()
		if !work.Pause(d.wake, wait) && !until.IsZero() && !time.Now().Before(until) {
			return nil, proxy.ErrNotYet
		}
	}
}

// due returns when open questions are sent: once no other has followed for a moment, or settleMax after the first. The
// caller holds c.mu.
func (c *Call) due() time.Time {
	due, most := c.last.Add(c.x.store.opt.Settle), c.first.Add(settleMax)
	if most.Before(due) {
		return most
	}
	return due
}

// adapt gives a reply the id and progress token of this request. keep is false for progress that the request did not ask
// for.
func (w *Waiter) adapt(raw []byte) (m *wire.Message, keep bool, err error) {
	if m, err = proxy.Scanned(raw); err != nil {
		return m, false, proxy.Errf(proxy.Internal, "a queued reply is no message: %w", err)
	}
	req := &w.ex.Msg
	switch {
	case m.IsResponse():
		w.over = true
		m.Replace(m.ID, req.Of(req.ID))
	case m.Is("notifications/progress"):
		if !req.Token.Present() {
			return m, false, nil
		}
		if m.ProgressToken.Present() {
			m.Replace(m.ProgressToken, req.Of(req.Token))
		}
	}
	return m, true, nil
}

// suspend ends the request with the questions and suspends the call. The caller holds c.mu, which suspend releases.
func (w *Waiter) suspend() (*wire.Message, error) {
	d := w.call
	d.round++
	h, full := d.x.store.suspend(d)
	if full == nil && d.x.work.Closed() && d.x.store.take(h) != nil { // clear ran before suspend
		full = work.ErrClosing()
	}
	if full != nil {
		d.mu.Unlock()
		d.giveUp(full)
		return nil, full
	}
	state := d.x.store.seal.Seal(seal.PendingCall, h[:], d.binding, time.Now().Add(d.x.store.opt.TTL))
	result := d.inputRequired(state)
	w.over, w.asked, d.suspended, d.first = true, true, true, time.Time{}
	d.mu.Unlock()
	w.ex.Detach(w)
	m := proxy.ResultMessage(w.ex.Msg.Of(w.ex.Msg.ID), result)
	return &m, nil
}

// Close implements proxy.Replies. It gives the call up if the request has no response yet.
func (w *Waiter) Close() error {
	w.ex.Detach(w)
	if !w.over {
		w.call.giveUp(proxy.ErrCancelled)
	}
	return nil
}
