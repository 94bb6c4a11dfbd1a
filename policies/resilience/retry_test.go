package resilience

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/transport"
	"dragoman/policies"
	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

const annotated = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"look","annotations":{"readOnlyHint":true}},` +
	`{"name":"put","annotations":{"readOnlyHint":false,"idempotentHint":true}},{"name":"t"}]}}`

// newRetry fills in what a test leaves out: a server that lists no tools, and a counter.
func newRetry(opt RetryOptions) *Retry {
	if opt.Hints == nil {
		opt.Hints = NewHints(func(context.Context, *proxy.Exchange, func(*wire.Message)) {})
	}
	if opt.Metric == nil {
		opt.Metric = NewRetryMetric(policies.NewRegistry(prometheus.NewRegistry()))
	}
	return NewRetry(opt)
}

// attempts makes a request whose first attempts fail, and counts them. If first is a message, it comes before each failure; otherwise the
// handler itself fails.
func attempts(t *testing.T, r *Retry, raw, first string, failures ...error) (n int, err error) {
	t.Helper()
	ex := policytest.Request(t, raw)
	ex.GiveUp(time.Minute)
	err = policytest.Drain(r.Policy(func(ex *proxy.Exchange) (proxy.Replies, error) {
		n++
		if len(ex.Msg.Edits) != 0 || ex.Headers != nil {
			t.Errorf("attempt %d begins with edits of the one before", n)
		}
		ex.Msg.Replace(ex.Msg.ID, []byte("2"))
		ex.Headers = []proxy.Header{{Name: "Mcp-Param-A", Value: "b"}}
		if n > len(failures) {
			return &policytest.Script{Messages: []string{policytest.Result}, End: io.EOF}, nil
		}
		s := &policytest.Script{End: failures[n-1]}
		if first == "" {
			return nil, s.End
		}
		if first != "-" {
			s.Messages = []string{first}
		}
		return s, nil
	})(ex))
	return n, err
}

// Requests that are retried: those that were not written, and those without effects, unless the client has seen a part of the answer.
func TestRetry(t *testing.T) {
	lost := proxy.Errf(proxy.Lost, "broke off")
	bad := proxy.Errf(proxy.BadAnswer, "nonsense")
	busy := proxy.Errf(proxy.Overloaded, "it answered %w", policytest.StatusError(503))
	later := proxy.Errf(proxy.Overloaded, "it answered %w", policytest.StatusError(503))
	later.RetryAfter = 60
	soon := proxy.Errf(proxy.Overloaded, "it answered %w", policytest.StatusError(503))
	soon.RetryAfter = 2
	fatal := errors.Join(transport.ErrFatal, policytest.Unreachable())
	const listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`
	const read = `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}`
	for _, c := range []struct {
		name, raw, first string
		err              error
		again            bool
	}{
		{"not written", policytest.CallOf("t"), "", policytest.Unreachable(), true},
		{"not written, found later", policytest.CallOf("t"), "-", policytest.Unreachable(), true},
		{"after a notification", policytest.CallOf("t"), policytest.Notification, policytest.Unreachable(), false},
		{"no such command", policytest.CallOf("t"), "", fatal, false},
		{"a call is lost", policytest.CallOf("t"), "-", lost, false},
		{"a call that reads is lost", policytest.CallOf("look"), "-", lost, true},
		{"one that may run twice", policytest.CallOf("put"), "-", lost, true},
		{"its answer is nonsense", policytest.CallOf("put"), "-", bad, false},
		{"it fails with 502", policytest.CallOf("put"), "-", policytest.BadGateway(), true},
		{"it may run twice, but was heard of", policytest.CallOf("put"), policytest.Notification, lost, false},
		{"an unknown tool", policytest.CallOf("new"), "-", lost, false},
		{"a list is lost", policytest.List, "-", lost, true},
		{"a resource is lost", read, "-", lost, true},
		{"initialize is lost", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, "-", lost, false},
		{"a listen", listen, "", policytest.Unreachable(), false},
		{"a timeout", policytest.List, "-", proxy.Errf(proxy.UpstreamTimeout, "slow"), false},
		{"a 404", policytest.List, "-", proxy.Errf(proxy.HTTPStatus, "it answered %w", policytest.StatusError(404)), false},
		{"not now", policytest.CallOf("put"), "-", busy, true},
		{"not now, and it may have run", policytest.CallOf("t"), "-", busy, false},
		{"not sent for our own limit", policytest.CallOf("t"), "-", proxy.Errf(proxy.Overloaded, "too many connections"), true},
		{"not for long", policytest.CallOf("put"), "-", later, false},
		{"in two seconds", policytest.CallOf("put"), "-", soon, true},
		{"too often", policytest.CallOf("t"), "-", proxy.Errf(proxy.Overloaded, "it answered %w", policytest.StatusError(429)), false},
		{"our own limit", policytest.List, "", proxy.Errf(proxy.TooManySessions, "full"), false},
		{"a lost session", policytest.List, "-", proxy.Errf(proxy.SessionLost, "gone"), false},
		{"an upstream in error", policytest.CallOf("t"), "", proxy.Errf(proxy.UpstreamDown, "down"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRetry(RetryOptions{Server: "up", Most: 2, Backoff: 100 * time.Millisecond, Budget: 20})
				m := policytest.Scan(t, annotated)
				r.opt.Hints.Learn(&m)
				began := time.Now()
				n, err := attempts(t, r, c.raw, c.first, c.err)
				seen := c.first == policytest.Notification // the reply was read: nothing more follows
				if c.again != (n == 2) || !seen && (err == nil) != c.again {
					t.Errorf("%d attempts, %v", n, err)
				}
				took := time.Since(began)
				if c.name == "in two seconds" && took < 2*time.Second || c.name != "in two seconds" && took > 100*time.Millisecond {
					t.Errorf("after %v", took)
				}
			})
		})
	}
}

// Attempts end after their number, when the budget is spent, with the request's timeout, and when the client leaves.
func TestRetryBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		r := newRetry(RetryOptions{Server: "up", Most: 2, Backoff: time.Second, Budget: 20, Metric: NewRetryMetric(policies.NewRegistry(reg))})
		down := []error{policytest.Unreachable(), policytest.Unreachable(), policytest.Unreachable(), policytest.Unreachable()}
		if n, err := attempts(t, r, policytest.Call, "", down...); n != 3 || policytest.Row(err) != proxy.Unreachable.Name {
			t.Errorf("%d attempts, %v", n, err)
		}
		n := 0
		for range 100 { // 20 % of them
			made, _ := attempts(t, r, policytest.Call, "", down...)
			n += made - 1
			time.Sleep(time.Millisecond)
		}
		if n < 15 || n > 60 { // the window moves on during the pauses
			t.Errorf("%d retries of 100 requests", n)
		}
		if got := policytest.Metric(t, reg, "dragoman_retries_total"); got < float64(n) {
			t.Errorf("%v counted", got)
		}
		time.Sleep(time.Minute) // the budget is that of the last requests
		if n, err := attempts(t, r, policytest.Call, "", down[0]); n != 2 || err != nil {
			t.Errorf("%d attempts, %v", n, err)
		}

		ex := policytest.Request(t, policytest.Call)
		replies, err := r.Policy(func(*proxy.Exchange) (proxy.Replies, error) { return nil, policytest.Unreachable() })(ex)
		if err != nil {
			t.Fatal(err)
		}
		ex.Cancel(proxy.ErrCancelled)
		if err := policytest.Drain(replies, nil); !errors.Is(err, proxy.ErrCancelled) {
			t.Error(err)
		}
		ex = policytest.Request(t, policytest.Call)
		ex.GiveUp(time.Nanosecond)
		time.Sleep(time.Millisecond)
		if _, err := r.Policy(func(*proxy.Exchange) (proxy.Replies, error) { return nil, policytest.Unreachable() })(ex); policytest.Row(err) != proxy.Unreachable.Name {
			t.Error(err)
		}
	})
}

// A reader with an earlier deadline gets no reply yet, and the pause goes on.
func TestRetryNotYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := proxy.Errf(proxy.Overloaded, "it answered %w", policytest.StatusError(503))
		failure.RetryAfter = 3
		r, n := newRetry(RetryOptions{Most: 1, Backoff: time.Second, Budget: 20}), 0
		replies, err := r.Policy(func(*proxy.Exchange) (proxy.Replies, error) {
			if n++; n == 1 {
				return nil, failure
			}
			return &policytest.Script{Messages: []string{policytest.Result}}, nil
		})(policytest.Request(t, policytest.List))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := replies.Next(time.Now().Add(time.Second)); !errors.Is(err, proxy.ErrNotYet) {
				t.Fatal(err)
			}
		}
		if m, err := replies.Next(time.Now().Add(2 * time.Second)); err != nil || m.Kind != wire.Result || n != 2 {
			t.Errorf("%v, %v, %d attempts", m.Kind, err, n)
		}
		_ = replies.Close()
	})
}

// If the upstream is in error after the request's own attempt failed, the client gets that state and when to retry.
func TestRetryReportsTheUpstreamState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := proxy.Errf(proxy.UpstreamDown, "down")
		down.RetryAfter = 7
		r := newRetry(RetryOptions{Most: 2, Backoff: time.Second, Budget: 20})
		n, err := attempts(t, r, policytest.Call, "", policytest.Unreachable(), down)
		var e *proxy.Error
		if n != 2 || !errors.As(err, &e) || e.Name != proxy.Unreachable.Name || e.RetryAfter != 7 {
			t.Errorf("%d attempts, %+v", n, err)
		}
	})
}

// Tool annotations are fetched when a failure needs them, with a minimum interval.
func TestHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		h := NewHints(func(_ context.Context, _ *proxy.Exchange, see func(m *wire.Message)) {
			asked++
			m := policytest.Scan(t, annotated)
			see(&m)
		})
		for tool, want := range map[string]bool{"look": true, "put": true, "t": false, "other": false} {
			if got := h.Harmless(policytest.Request(t, policytest.CallOf(tool))); got != want {
				t.Errorf("%s: %v", tool, got)
			}
		}
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
		time.Sleep(hintsPause)
		if h.Harmless(policytest.Request(t, policytest.CallOf("other"))) || asked != 2 {
			t.Errorf("asked %d times", asked)
		}
		// Annotations are learnt from lists that pass, also when they change.
		m := policytest.Scan(t, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"look"}]}}`)
		h.Learn(&m)
		if h.Harmless(policytest.Request(t, policytest.CallOf("look"))) {
			t.Error("the old annotation was kept")
		}
	})
}

// Calls that are lost together wait for one listing, and all learn from it.
func TestHintsAskedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		h := NewHints(func(_ context.Context, _ *proxy.Exchange, see func(m *wire.Message)) {
			asked++
			time.Sleep(time.Second) // in the bubble
			m := policytest.Scan(t, annotated)
			see(&m)
		})
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				if !h.Harmless(policytest.Request(t, policytest.CallOf("look"))) {
					t.Error("a call did not wait for what its tool allows")
				}
			})
		}
		group.Wait()
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}
