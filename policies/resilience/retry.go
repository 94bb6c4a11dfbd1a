// Package resilience decides what happens to a request that fails: a repetition, new credentials, or another upstream.
package resilience

import (
	"context"
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

const (
	// retryPauseMost bounds the pause between attempts. If the server asks for a longer one, the request is not
	// repeated.
	retryPauseMost = 5 * time.Second
	// retryFloor is how many retries a window always allows, however few requests there are.
	retryFloor = 3
	// retryEnd is how long after its first attempt a request may be repeated: one that took longer to fail would do so
	// again.
	retryEnd    = 10 * time.Second
	retryBucket = 2 * time.Second // a sixth of the budget's window
)

// RetryOptions configures a [Retry].
type RetryOptions struct {
	Server  string
	Most    int           // attempts after the first; 0: retries are off
	Backoff time.Duration // the longest first pause, doubled with each attempt
	Budget  int           // retries, in percent of the requests of the last 12 s
	Hints   *Hints        // which tools may run twice
	Metric  *prometheus.CounterVec
}

// Retry repeats failed requests to an upstream where that cannot run anything twice: nothing was written to the server,
// or the request has no effects, because its method only reads or its tool declares readOnlyHint or idempotentHint
// (2025-03-26 and later, ToolAnnotations). A call whose client has received anything, such as progress, another
// notification or a question, is not repeated; nor is a listen. Pauses grow and are randomised. A budget keeps retries
// from multiplying an outage. All attempts count against the time of the request.
type Retry struct {
	opt RetryOptions

	mu              sync.Mutex
	requests, spent policies.Window
}

// NewRetry returns the policy. It is off if opt.Most is 0.
func NewRetry(opt RetryOptions) *Retry {
	return &Retry{opt: opt, requests: policies.Window{Bucket: retryBucket}, spent: policies.Window{Bucket: retryBucket}}
}

// Policy wraps next. It returns next itself if retries are off.
func (r *Retry) Policy(next proxy.Handler) proxy.Handler {
	if r.opt.Most <= 0 {
		return next
	}
	return func(ex *proxy.Exchange) (proxy.Replies, error) {
		if ex.Msg.Kind != wire.Request || ex.Msg.Is("subscriptions/listen") || ex.Msg.Is("ping") {
			return next(ex)
		}
		now := ex.Clock.Now()
		r.mu.Lock()
		r.requests.Add(now, 1)
		r.mu.Unlock()
		c := proxy.Lend[retried](ex, retriedSlot)
		*c = retried{r: r, ex: ex, next: next, began: now, edits: slices.Clone(ex.Msg.Edits), headers: ex.Headers}
		replies, err := next(ex)
		if err != nil && !c.again(err) {
			return nil, err
		}
		c.Replies = replies
		return c, nil
	}
}

// afford takes one retry from the budget. It returns false if the budget is spent.
func (r *Retry) afford() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.spent.Sum(now) >= max(retryFloor, r.requests.Sum(now)*r.opt.Budget/100) {
		return false
	}
	r.spent.Add(now, 1)
	return true
}

var retriedSlot = proxy.NewSlot()

// retried is a request that may be repeated, and its replies.
type retried struct {
	proxy.Replies // nil between attempts
	r             *Retry
	ex            *proxy.Exchange
	next          proxy.Handler
	edits         []wire.Edit    // as the message had them before the first attempt
	headers       []proxy.Header // likewise
	began         time.Time
	attempts      int       // after the first
	due           time.Time // of the next attempt, while Replies is nil
	failure       error     // of the previous attempt
	given         bool      // the client has received something
}

// Clear implements proxy.Clearer.
func (c *retried) Clear() { *c = retried{} }

// Next implements proxy.Replies.
func (c *retried) Next(until time.Time) (m *wire.Message, err error) {
	for {
		if c.Replies == nil {
			if err = c.attempt(until); err != nil {
				return m, err
			}
		}
		m, err = c.Replies.Next(until)
		switch {
		case err == nil:
			if c.attempts > 0 && m.IsResponse() && !c.given {
				c.count("succeeded")
			}
			c.given = true
			if m.Kind == wire.Result && c.ex.Msg.Is("tools/list") {
				c.r.opt.Hints.Learn(m)
			}
			return m, nil
		case policies.Pending(err):
			return m, err
		case !c.again(err):
			return m, c.reported(err)
		}
		_ = c.Replies.Close()
		c.Replies = nil
	}
}

// attempt waits until the next attempt is due, and makes it. It returns ErrNotYet if until comes first.
func (c *retried) attempt(until time.Time) error {
	wait, late := time.Until(c.due), false
	if !until.IsZero() && until.Before(c.due) {
		wait, late = time.Until(until), true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ex.Done():
		return c.ex.Err()
	}
	if late {
		return proxy.ErrNotYet
	}
	c.ex.Msg.Edits, c.ex.Headers = slices.Clone(c.edits), c.headers
	c.ex.Clock.Waited()
	replies, err := c.next(c.ex)
	switch {
	case err == nil:
		c.Replies = replies
		return nil
	case c.again(err):
		return c.attempt(until)
	}
	return c.reported(err)
}

// reported returns the error for the client. An upstream_down that follows a failed attempt is replaced by the failure of
// that attempt, which tells the client more.
func (c *retried) reported(err error) error {
	var e, before *proxy.Error
	if !errors.As(err, &e) || e.Name != proxy.UpstreamDown.Name || !errors.As(c.failure, &before) {
		return err
	}
	if before.RetryAfter > 0 {
		return c.failure
	}
	with := *before
	with.RetryAfter = e.RetryAfter
	return &with
}

// again decides whether a failed request is repeated, and when.
func (c *retried) again(err error) bool {
	if c.given || c.ex.Err() != nil || c.ex.Late() || c.attempts >= c.r.opt.Most || time.Since(c.began) > retryEnd {
		return false
	}
	e, ok := errors.AsType[*proxy.Error](err)
	if !ok || errors.Is(err, transport.ErrFatal) || !c.harmless(e) {
		return false
	}
	asked := time.Duration(e.RetryAfter) * time.Second
	if asked > retryPauseMost {
		return false
	}
	wait := max(asked, rand.N(min(c.r.opt.Backoff<<min(c.attempts, 16), retryPauseMost)+1)) //nolint:gosec // spreads load, guards nothing
	if !c.r.afford() {
		c.count("refused")
		return false
	}
	c.count("attempted")
	c.attempts++
	c.failure, c.due = err, time.Now().Add(wait)
	return true
}

// harmless reports whether a request that failed with e may be repeated.
func (c *retried) harmless(e *proxy.Error) bool {
	status := policies.HTTPStatus(e)
	switch e.Name {
	case proxy.Unreachable.Name: // nothing was written; a circuit's RetryAfter is respected
		return e.RetryAfter == 0
	case proxy.Overloaded.Name: // without a status, the request was not sent
		if status == 0 || status == 429 {
			return status == 0
		}
	case proxy.Lost.Name: // not BadAnswer: a malformed answer would come again
	case proxy.HTTPStatus.Name, proxy.UpstreamFailed.Name:
		if status < 500 {
			return false
		}
	default:
		return false
	}
	return rules.ReadsOnly(&c.ex.Msg) || c.ex.Msg.Is("tools/call") && c.r.opt.Hints.Harmless(c.ex)
}

// Close implements proxy.Replies.
func (c *retried) Close() error {
	if c.Replies == nil {
		return nil
	}
	return c.Replies.Close()
}

// NewRetryMetric returns the counter of retries. All upstreams share one.
func NewRetryMetric(reg *policies.Registry) *prometheus.CounterVec {
	return reg.Counter("dragoman_retries_total",
		"Requests that were made again: attempted, of these succeeded, and refused because the budget was spent.", "server", "outcome")
}

func (c *retried) count(outcome string) {
	c.r.opt.Metric.WithLabelValues(c.r.opt.Server, outcome).Inc()
}

const (
	hintsMost  = 4096            // tools that are remembered
	hintsTime  = 3 * time.Second // timeout for listing the tools
	hintsPause = time.Minute     // minimum time between two such listings
	hintName   = 256             // longest remembered name, in bytes
)

// Hints remembers the annotations of an upstream's tools (ToolAnnotations: readOnlyHint, idempotentHint). It reads them
// from the lists that pass, and lists the tools itself when a failed call needs them.
type Hints struct {
	list func(ctx context.Context, ex *proxy.Exchange, see func(m *wire.Message))

	mu     sync.Mutex
	tools  *lru.Cache[string, bool]
	seed   maphash.Seed
	last   [2]uint64 // sums of the two pages read last: most lists repeat
	nextAt int
	asked  time.Time
	asking chan struct{} // closed when the listing that runs is over; nil: none runs
}

// NewHints returns an empty memory. list lists the upstream's tools on behalf of an exchange and calls see for each
// result.
func NewHints(list func(ctx context.Context, ex *proxy.Exchange, see func(m *wire.Message))) *Hints {
	tools, _ := lru.New[string, bool](hintsMost) // fails only for a size below 1
	return &Hints{list: list, tools: tools, seed: maphash.MakeSeed()}
}

// Learn reads the annotations in a result of tools/list.
func (h *Hints) Learn(m *wire.Message) {
	sum := maphash.Bytes(h.seed, m.Of(m.Result))
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last[0] == sum || h.last[1] == sum {
		return
	}
	h.last[h.nextAt], h.nextAt = sum, 1-h.nextAt
	for _, tool := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "tools")) {
		name := wire.Get(m.Raw, tool, "name").Text(m.Raw)
		if len(name) == 0 || len(name) > hintName {
			continue
		}
		said := func(hint string) bool {
			return string(wire.Path(m.Raw, tool, "annotations", hint).Of(m.Raw)) == "true"
		}
		h.tools.Add(string(name), said("readOnlyHint") || said("idempotentHint"))
	}
}

// Harmless reports whether the annotations of the tool that an exchange calls allow it to run twice. It may list the
// tools first, or wait until another exchange has, for hintsTime at most.
func (h *Hints) Harmless(ex *proxy.Exchange) bool {
	name := string(ex.Msg.Text(ex.Msg.Name))
	h.mu.Lock()
	harmless, known := h.tools.Get(name)
	asking := h.asking
	ask := asking == nil && !known && len(name) <= hintName && (h.asked.IsZero() || time.Since(h.asked) >= hintsPause)
	if ask {
		h.asked, h.asking = time.Now(), make(chan struct{})
	}
	h.mu.Unlock()
	if known || !ask && asking == nil {
		return harmless
	}
	ctx, done := context.WithTimeout(ex, hintsTime)
	defer done()
	if ask {
		h.list(ctx, ex, h.Learn)
	} else { // of the calls that a server loses with a connection, the first one asks
		select {
		case <-asking:
		case <-ctx.Done():
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if ask {
		close(h.asking)
		h.asking = nil
	}
	harmless, _ = h.tools.Get(name)
	return harmless
}
