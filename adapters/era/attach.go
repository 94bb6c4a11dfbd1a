package era

import (
	"bytes"
	"io"
	"time"

	"dragoman/adapters/era/seal"
	"dragoman/adapters/era/work"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// attachment is a client's request while a dialogue serves it: its replies are the dialogue's, until the response, or
// until the server asks.
type attachment struct {
	d     *dialogue
	ex    *proxy.Exchange
	over  bool // the client has its response
	asked bool // and it is input_required: the call goes on without this request
}

// attach makes ex the request that d serves.
func (d *dialogue) attach(ex *proxy.Exchange) *attachment {
	a := &attachment{d: d, ex: ex}
	d.mu.Lock()
	d.caps, d.parked = bytes.Clone(ex.Client.Caps), false
	d.mu.Unlock()
	ex.Attach(a)
	return a
}

// resume takes a retry to the call that waits for it, and gives the server the answers.
func (u *Upstream) resume(c *downCall, h handle) (*attachment, error) {
	d := u.lot.find(h)
	if d == nil || d.u != u {
		return nil, badState()
	}
	if err := d.read(&c.ex.Msg); err != nil {
		return nil, err
	}
	if u.lot.take(h) == nil {
		return nil, badState() // another retry was faster
	}
	c.session, c.ex.Continues = d.session, d.inner.OutgoingTrace()
	a := d.attach(c.ex) // first: the result can come as soon as the answer is sent
	for _, raw := range d.answers(&c.ex.Msg) {
		d.send(c.ex, raw)
	}
	return a, nil
}

// Abort implements proxy.Aborter: the client has left while it was being served.
func (a *attachment) Abort() { a.d.giveUp(proxy.ErrCancelled) }

// Next implements proxy.Replies.
func (a *attachment) Next(until time.Time) (*wire.Message, error) {
	d := a.d
	for {
		if a.over {
			return nil, io.EOF
		}
		d.mu.Lock()
		if len(d.queue) > 0 {
			raw := d.queue[0]
			d.queue = d.queue[1:]
			d.size -= len(raw)
			d.mu.Unlock()
			m, keep, err := a.own(raw)
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
				return a.park() // unlocks
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

// due is when the questions go out: when no other has come for a moment, or at last. The caller holds d.mu.
func (d *dialogue) due() time.Time {
	due, most := d.last.Add(d.u.lot.opt.Settle), d.first.Add(settleMost)
	if most.Before(due) {
		return most
	}
	return due
}

// own makes a reply of the call one of this request: its id, its progress token. keep is false for progress that this
// request has not asked for.
func (a *attachment) own(raw []byte) (m *wire.Message, keep bool, err error) {
	if m, err = proxy.Scanned(raw); err != nil {
		return m, false, proxy.Errf(proxy.Internal, "a queued reply is no message: %w", err)
	}
	req := &a.ex.Msg
	switch {
	case m.IsResponse():
		a.over = true
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

// park ends the request with the questions; the call waits for the retry. The caller holds d.mu, which is released.
func (a *attachment) park() (*wire.Message, error) {
	d := a.d
	d.round++
	h, full := d.u.lot.park(d)
	if full == nil && d.u.work.Closed() && d.u.lot.take(h) != nil { // clear has been there before
		full = work.ErrClosing()
	}
	if full != nil {
		d.mu.Unlock()
		d.giveUp(full)
		return nil, full
	}
	state := d.u.lot.seal.Seal(seal.PendingCall, h[:], d.bound, time.Now().Add(d.u.lot.opt.TTL))
	result := d.inputRequired(state)
	a.over, a.asked, d.parked, d.first = true, true, true, time.Time{}
	d.mu.Unlock()
	a.ex.Detach(a)
	m := proxy.ResultMessage(a.ex.Msg.Of(a.ex.Msg.ID), result)
	return &m, nil
}

// Close implements proxy.Replies: a call whose client goes without a response is given up.
func (a *attachment) Close() error {
	a.ex.Detach(a)
	if !a.over {
		a.d.giveUp(proxy.ErrCancelled)
	}
	return nil
}
