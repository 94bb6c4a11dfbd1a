package hook

import (
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// judged wraps the replies of a request whose result is asked about.
type judged struct {
	proxy.Replies
	h      *Hook
	ex     *proxy.Exchange
	q      *question
	target string // of the request, when it was asked about
	listed bool   // requests of the method are asked about

	held   *wire.Message // the result, while it is asked about
	asking *asking
	answer chan outcome // of the question; nil: none is under way
	own    []byte       // memory of an edited result
}

type outcome struct {
	got answer
	err error
}

// Next implements proxy.Replies. A result comes when it was permitted.
func (r *judged) Next(until time.Time) (*wire.Message, error) {
	if r.held == nil {
		m, err := r.Replies.Next(until)
		if err != nil || m.Kind != wire.Result || !r.concerns(m) {
			return m, err
		}
		if err := r.ask(m); err != nil {
			return nil, err
		}
	}
	over, ok := r.wait(until)
	if !ok {
		return nil, proxy.ErrNotYet
	}
	m := r.held
	r.held, r.answer = nil, nil
	r.asking.end(r.ex)
	if err := r.denial(over); err != nil {
		return nil, err
	}
	return m, nil
}

// concerns reports whether a result is asked about. A fallback has asked by itself, about the server that it is for. The state of a task is
// asked about with the result of the call (SEP-2663), unless requests for states are asked about anyway.
func (r *judged) concerns(m *wire.Message) bool {
	return r.ex.Target == r.target && (r.listed || !r.ex.Msg.Is("tasks/get") || wire.Get(m.Raw, m.Result, "result").Present())
}

// ask begins to ask about a result.
func (r *judged) ask(m *wire.Message) (err error) {
	if len(m.Edits) > 0 { // the question is about the result as it will be sent
		if r.own, err = m.Settle(r.own); err != nil {
			return proxy.Errf(proxy.Internal, "an edited result is no message: %w", err)
		}
	}
	also, cut := r.h.shown("result", "resultKeys", m.Raw, m.Result)
	if r.h.ambiguous(also) {
		r.q.unasked = "it has a member twice"
	}
	if r.q.unasked != "" {
		r.h.opt.Metrics.count(phaseResult, denied, unasked)
		return proxy.Errf(proxy.PolicyDenied, "the server has carried out the request, but the policy hook is not asked about the result, which is therefore denied: %s", r.q.unasked)
	}
	r.q.cut = r.q.cut || cut
	b := r.q.body(phaseResult, also...)
	r.held, r.asking, r.answer = m, begin(r.ex, r.h.opt.Timeout), make(chan outcome, 1)
	ctx, trace, answered := r.asking.ctx, r.ex.Trace, r.answer
	go func() { // ends with ctx; Close waits for it
		got, err := r.h.decide(ctx, trace, b)
		answered <- outcome{got, err}
	}()
	return nil
}

// wait waits for the answer, until the given time at most; the zero time is no limit.
func (r *judged) wait(until time.Time) (over outcome, ok bool) {
	if until.IsZero() {
		return <-r.answer, true
	}
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	select {
	case over = <-r.answer:
		return over, true
	case <-late.C:
		return over, false
	}
}

// denial returns the error in the place of a result; nil: it is permitted. None is retryable: the server has carried out the request.
func (r *judged) denial(over outcome) error {
	switch {
	case over.err != nil && r.ex.Err() != nil:
		return r.ex.Err()
	case over.err != nil && !r.h.opt.FailOpen:
		e := proxy.Errf(proxy.PolicyDenied, "the server has carried out the request, but the policy hook (policy_hook) cannot be asked about the result: %s", r.h.gist(over.err))
		e.Cause = over.err
		return e
	case over.err != nil || over.got.allow:
		return nil
	case over.got.reason == "":
		return proxy.Errf(proxy.PolicyDenied, "the server has carried out the request, but the policy hook has denied the result")
	}
	return proxy.Errf(proxy.PolicyDenied, "the server has carried out the request, but the policy hook has denied the result: %s", over.got.reason)
}

// Close implements proxy.Replies.
func (r *judged) Close() error {
	if r.answer != nil {
		r.asking.end(r.ex)
		<-r.answer
	}
	return r.Replies.Close()
}
