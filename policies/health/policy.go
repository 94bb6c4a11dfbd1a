package health

import (
	"errors"
	"fmt"
	"time"

	"dragoman/adapters/rules"
	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Policy refuses calls to an upstream that is in error (upstream_down), and learns the upstream's state from the
// outcome of the others. A child process that fails to start is left to its own circuit, whose errors are more precise,
// while other children go on serving. A ping concerns the connection only, and passes.
func (h *Monitor) Policy(next proxy.Handler) proxy.Handler {
	return func(ex *proxy.Exchange) (proxy.Replies, error) {
		if ex.Msg.Kind != wire.Request || ex.Msg.Is("ping") {
			return next(ex)
		}
		lasts := ex.Msg.Is("subscriptions/listen")
		if err := h.opt.Running.enter(ex, lasts); err != nil {
			return nil, err
		}
		c, err := h.admit(ex, lasts)
		if err != nil {
			h.opt.Running.leave(ex, lasts)
			return nil, err
		}
		replies, err := next(ex)
		if err != nil {
			c.failed(err)
			if lasts {
				h.opt.Running.leave(ex, true)
			}
			return nil, c.explained(err)
		}
		c.Replies = replies
		return c, nil
	}
}

// admit lets a call through, or returns its refusal.
func (h *Monitor) admit(ex *proxy.Exchange, lasts bool) (*watched, error) {
	c := proxy.Lend[watched](ex, watchedSlot)
	*c = watched{h: h, ex: ex, began: ex.Clock.Now(), lasts: lasts}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		if h.checks() || h.trying || c.began.Before(h.next) {
			return nil, h.refusal(c.began)
		}
		h.trying, c.trial = true, true
	}
	if !c.trial { // an upstream that is down gets a new breaker when it is back; until then the pauses suffice
		var ok bool
		if c.pass, ok = h.breaker.allow(); !ok {
			h.settle(c.began)
			return nil, h.refusal(c.began)
		}
	}
	if !c.lasts {
		h.calls.Add(c)
	}
	if h.base == Disconnected {
		h.base = Connecting
	}
	if h.announced != Connected || h.down {
		h.settle(c.began)
	}
	return c, nil
}

// refusal counts a call that is not sent and returns its error: why the upstream is down, since when, and when it is tried
// again. The caller holds mu.
func (h *Monitor) refusal(now time.Time) *proxy.Error {
	h.opt.Metrics.refusals.WithLabelValues(h.opt.Name).Inc()
	at, why := h.retryAt(), ""
	if !h.down {
		why = fmt.Sprintf(" (upstreams.%s.breaker_pause)", h.opt.Name)
	}
	left := max(at.Sub(now), 0)
	when := "it is being tried again now" + why
	if left > 0 {
		when = fmt.Sprintf("it is tried again in %s%s", left.Round(100*time.Millisecond), why)
	}
	e := proxy.Errf(proxy.UpstreamDown, "the upstream server %q is down since %s (%s): %s; %s", h.opt.Name, h.since.UTC().Format(time.RFC3339),
		now.Sub(h.since).Round(time.Second), h.reason(Errored, true), when)
	e.RetryAfter = max(int((left+time.Second-1)/time.Second), 1)
	return e
}

var watchedSlot = proxy.NewSlot()

// watched is a call whose outcome affects the state.
type watched struct {
	proxy.Replies
	h     *Monitor
	ex    *proxy.Exchange
	began time.Time
	pass  pass // permission of the breaker; zero for a trial
	trial bool // the one call that tests whether the server is back
	lasts bool // a listen: its first message counts as an answer
	over  bool
	place policies.Link[watched] // among the calls under way
}

// Clear implements proxy.Clearer.
func (c *watched) Clear() { *c = watched{} }

// Next implements proxy.Replies.
func (c *watched) Next(until time.Time) (m *wire.Message, err error) {
	m, err = c.Replies.Next(until)
	switch {
	case c.over || policies.Pending(err):
	case err != nil:
		c.failed(err)
		err = c.explained(err)
	case m.IsResponse() || c.lasts:
		c.end(answered(&c.ex.Msg), nil)
	}
	return m, err
}

// explained adds the server's name and the call that was under way to the error of a lost server (seed 004, EC-003). If
// the call was cancelled because of the loss, the cause of the cancellation is the more precise error.
func (c *watched) explained(err error) error {
	var e, why *proxy.Error
	if !errors.As(err, &e) || e.Name != proxy.Lost.Name {
		return err
	}
	if errors.As(c.ex.Err(), &why) && why.Name == proxy.Lost.Name {
		e = why
	}
	m, with := &c.ex.Msg, *e
	what := wire.Shown(m.Text(m.Method))
	if name := policies.About(m); name != "" {
		what += " of " + name
	}
	with.Message += fmt.Sprintf("; %s had been under way for %s at the upstream server %q", what, time.Since(c.began).Round(time.Millisecond), c.h.opt.Name)
	if !rules.ReadsOnly(m) {
		with.Message += ", and may have been carried out"
	}
	return &with
}

// Close implements proxy.Replies.
func (c *watched) Close() error {
	if !c.over {
		c.failed(policies.Unanswered(c.ex))
	}
	if c.lasts {
		c.h.opt.Running.leave(c.ex, true)
	}
	return c.Replies.Close()
}

// answered returns what a response says about the server. Some responses may come from this proxy, and say nothing.
func answered(m *wire.Message) verdict {
	if m.Is("tools/call") {
		return verdictGood
	}
	for _, own := range [...]string{"server/discover", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"} {
		if m.Is(own) {
			return verdictNone
		}
	}
	return verdictGood
}

// failed settles a call that has failed. A call that ends because the client has left says nothing about the server,
// whatever its error.
func (c *watched) failed(err error) {
	v := judge(err)
	if status := policies.HTTPStatus(err); c.trial && v == verdictNone && status != 0 && status < 500 { // a server that is down does not answer, not even with a refusal
		v = verdictGood
	}
	if cause := c.ex.Err(); cause != nil {
		if _, own := errors.AsType[*proxy.Error](cause); !own {
			v = verdictNone
		}
	}
	c.end(v, err)
}

// Cut cancels the calls that have no response yet, with a cause. Listens are not among them, see [Running.Retire].
func (h *Monitor) Cut(cause error) {
	h.mu.Lock()
	var all []proxy.Ticket
	for c := range h.calls.All() {
		all = append(all, c.ex.Ticket())
	}
	h.mu.Unlock()
	for _, call := range all {
		call.Cancel(cause)
	}
}

func (c *watched) end(v verdict, err error) {
	if c.over {
		return
	}
	c.over = true
	h := c.h
	if !c.lasts {
		h.opt.Running.leave(c.ex, false)
	}
	if v == verdictGood && !c.trial && h.settleUnchanged(c) {
		return
	}
	h.update(func(now time.Time) {
		h.calls.Remove(c)
		settled := errNothing
		switch v {
		case verdictGood:
			settled = nil
			h.succeeded(now)
		case verdictUnsure, verdictSure:
			settled = err
			h.breaker.failing(now, c.began)
			if h.failed(now, c.began, err, v == verdictSure); c.trial {
				h.postpone(now)
			}
		}
		if c.trial {
			h.trying = false
		} else {
			h.breaker.settle(c.pass, now, settled)
		}
	})
}

// settleUnchanged settles a good answer if it leaves the state as it is. It returns false if the state may change.
func (h *Monitor) settleUnchanged(c *watched) bool {
	var now time.Time
	if h.opt.Breaker.Failures > 0 {
		now = c.began.Add(c.ex.Clock.Since(c.began))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.announced != Connected || h.failures > 0 {
		return false
	}
	h.calls.Remove(c)
	h.breaker.settle(c.pass, now, nil)
	return true
}
