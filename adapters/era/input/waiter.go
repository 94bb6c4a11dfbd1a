package input

import (
	"bytes"
	"io"
	"strconv"
	"time"

	"dragoman/adapters/era/seal"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/era/translate"
	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
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
	return nil, 0, seal.BadState()
}

// resume attaches a retry to its suspended call and sends the answers to the server.
func (x *Calls) resume(ex *proxy.Exchange, h Handle) (proxy.Replies, error) {
	d := x.store.find(h)
	if d == nil || d.x != x {
		return nil, seal.BadState()
	}
	if err := d.validate(&ex.Msg); err != nil {
		return nil, err
	}
	if x.store.take(h) == nil {
		return nil, seal.BadState() // taken by another retry
	}
	ex.Continues = d.inner.OutgoingTrace()
	d.turn.Resume(ex)
	a := d.Attach(ex) // first: the result may follow the answer at once
	for _, raw := range d.takeAnswers(&ex.Msg) {
		x.work.Answer(ex, d.session.Link(), raw)
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
		w.call.dropQuestions()
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
	d.turn.Suspend() // before the client has the questions, so that its next call finds the session free
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

// A server of 2025-11-25 may refuse a call until its user has visited some URLs, which error -32042 lists. No call waits meanwhile. A
// modern client receives them as questions in URL mode, and its retry is a new call.

// AskVisits translates a -32042 error to input_required, or to another error after too many rounds; nil if it lists no
// URL that can be asked for, or the client has not declared URL mode. rounds is the number of rounds before this one;
// info is the server's serverInfo.
func (x *Calls) AskVisits(ex *proxy.Exchange, m *wire.Message, rounds int, info []byte) *wire.Message {
	list := wire.Get(m.Raw, m.ErrorData, "elicitations")
	var requests []wire.Change
	for i, s := range wire.Items(m.Raw, list) {
		if !s.IsObject(m.Raw) || i >= MaxOpen {
			continue
		}
		params := wire.With(wire.Without(s.Of(m.Raw), "elicitationId", "_meta", "task"),
			wire.Change{Key: "mode", Value: []byte(`"url"`)}) // some servers omit the mode, which the error code implies
		whole := wire.Whole(params)
		if !wire.Get(params, whole, "url").IsString(params) || rules.Undeclared(ex.Client.Caps, "elicitation/create", params, whole) != "" {
			return nil
		}
		requests = append(requests, wire.Change{Key: "u" + strconv.Itoa(rounds+1) + "-" + strconv.Itoa(i+1), Value: wire.Object([]wire.Change{
			{Key: "method", Value: []byte(`"elicitation/create"`)}, {Key: "params", Value: params}})})
	}
	switch {
	case len(requests) == 0:
		return nil
	case rounds >= x.store.opt.Rounds:
		over := proxy.ErrorMessage(ex.Msg.Of(ex.Msg.ID), proxy.Errf(proxy.BadAnswer,
			"the upstream server has asked for visits in %d rounds, and asks for more than questions.rounds allows", rounds))
		return &over
	}
	again := x.visitsRequired(ex, wire.Object(requests), rounds+1, info)
	return &again
}

// visitsRequired returns the result that asks for visits. Its state carries the questions, since no call is suspended.
func (x *Calls) visitsRequired(ex *proxy.Exchange, requests []byte, round int, info []byte) wire.Message {
	body := append([]byte{byte(round)}, requests...) //nolint:gosec // at most questions.rounds, 100
	state := x.store.seal.Seal(seal.URLs, body, seal.Binding(ex, x.name), time.Now().Add(x.store.opt.TTL))
	return proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), translate.InputRequired(requests, state, info))
}

// visited handles the retry of a call that was refused until visits. The replies are nil once all visits are consented to.
// Otherwise they ask the unanswered questions again, or end the call of a user who refused.
func (x *Calls) visited(ex *proxy.Exchange, round int, requests []byte) (proxy.Replies, int, error) {
	m := &ex.Msg
	if m.InputResponses.Present() && !m.InputResponses.IsObject(m.Raw) {
		return nil, 0, proxy.Errf(proxy.InvalidParams, "params.inputResponses must be an object")
	}
	var missing []wire.Change
	refused := false
	for k, v := range wire.Members(requests, wire.Whole(requests)) {
		key := string(k.Text(requests))
		at := wire.Get(m.Raw, m.InputResponses, key)
		switch {
		case !at.Present():
			missing = append(missing, wire.Change{Key: key, Value: v.Of(requests)})
		case !at.IsObject(m.Raw):
			return nil, 0, proxy.Errf(proxy.InvalidParams, "params.inputResponses[%q] must be an object", key)
		default:
			refused = refused || !wire.Get(m.Raw, at, "action").Is(m.Raw, "accept")
		}
	}
	switch {
	case refused && !m.Is("tools/call"):
		return nil, 0, proxy.Errf(proxy.Unanswered, visitRefused)
	case refused:
		return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), translate.ToolError(visitRefused))), 0, nil
	case len(missing) > 0:
		return proxy.Reply(x.visitsRequired(ex, wire.Object(missing), round, nil)), 0, nil
	}
	return nil, round, nil
}

// visitRefused ends a call whose user refused to open a page.
const visitRefused = "the user did not agree to open the page that the server asks for"
