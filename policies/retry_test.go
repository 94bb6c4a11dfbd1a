package policies

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/era"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

const annotated = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"look","annotations":{"readOnlyHint":true}},` +
	`{"name":"put","annotations":{"readOnlyHint":false,"idempotentHint":true}},{"name":"t"}]}}`

func callOf(tool string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{}}}`
}

// attempts makes a request whose first attempts fail, and counts them; first is given out before each failure, if it is a
// message, else the failure is the handler's own.
func attempts(t *testing.T, r *Retry, raw, first string, failures ...error) (n int, err error) {
	t.Helper()
	ex := request(t, raw)
	ex.GiveUp(time.Minute)
	err = drainAll(r.Policy(func(ex *proxy.Exchange) (proxy.Replies, error) {
		n++
		if len(ex.Msg.Edits) != 0 || ex.Headers != nil {
			t.Errorf("attempt %d begins with what the one before has left", n)
		}
		ex.Msg.Replace(ex.Msg.ID, []byte("2"))
		ex.Headers = []proxy.Header{{Name: "Mcp-Param-A", Value: "b"}}
		if n > len(failures) {
			return &script{messages: []string{rawResult}, err: io.EOF}, nil
		}
		s := &script{err: failures[n-1]}
		if first == "" {
			return nil, s.err
		}
		if first != "-" {
			s.messages = []string{first}
		}
		return s, nil
	})(ex))
	return n, err
}

// What is made again: what was not written, and what has no effects; nothing of which the client has seen anything.
func TestRetry(t *testing.T) {
	lost := proxy.Errf(proxy.Lost, "broke off")
	bad := proxy.Errf(proxy.BadAnswer, "nonsense")
	busy := proxy.Errf(proxy.Overloaded, "it answered %w", statusErr(503))
	later := proxy.Errf(proxy.Overloaded, "it answered %w", statusErr(503))
	later.RetryAfter = 60
	soon := proxy.Errf(proxy.Overloaded, "it answered %w", statusErr(503))
	soon.RetryAfter = 2
	fatal := errors.Join(era.ErrFatal, unreachable())
	const listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`
	const read = `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}`
	for _, c := range []struct {
		name, raw, first string
		err              error
		again            bool
	}{
		{"not written", callOf("t"), "", unreachable(), true},
		{"not written, found later", callOf("t"), "-", unreachable(), true},
		{"after a notification", callOf("t"), rawNote, unreachable(), false},
		{"no such command", callOf("t"), "", fatal, false},
		{"a call is lost", callOf("t"), "-", lost, false},
		{"a call that reads is lost", callOf("look"), "-", lost, true},
		{"one that may run twice", callOf("put"), "-", lost, true},
		{"its answer is nonsense", callOf("put"), "-", bad, false},
		{"it fails with 502", callOf("put"), "-", answer5xx(), true},
		{"it may run twice, but was heard of", callOf("put"), rawNote, lost, false},
		{"an unknown tool", callOf("new"), "-", lost, false},
		{"a list is lost", rawList, "-", lost, true},
		{"a resource is lost", read, "-", lost, true},
		{"initialize is lost", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, "-", lost, false},
		{"a listen", listen, "", unreachable(), false},
		{"a timeout", rawList, "-", proxy.Errf(proxy.UpstreamTimeout, "slow"), false},
		{"a 404", rawList, "-", proxy.Errf(proxy.HTTPStatus, "it answered %w", statusErr(404)), false},
		{"not now", callOf("put"), "-", busy, true},
		{"not now, and it may have run", callOf("t"), "-", busy, false},
		{"not sent for our own limit", callOf("t"), "-", proxy.Errf(proxy.Overloaded, "too many connections"), true},
		{"not for long", callOf("put"), "-", later, false},
		{"in two seconds", callOf("put"), "-", soon, true},
		{"too often", callOf("t"), "-", proxy.Errf(proxy.Overloaded, "it answered %w", statusErr(429)), false},
		{"our own limit", rawList, "", proxy.Errf(proxy.TooManySessions, "full"), false},
		{"a lost session", rawList, "-", proxy.Errf(proxy.SessionLost, "gone"), false},
		{"an upstream in error", callOf("t"), "", proxy.Errf(proxy.UpstreamDown, "down"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hints := NewHints(nil)
				m, err := wire.Scan([]byte(annotated))
				if err != nil {
					t.Fatal(err)
				}
				hints.Learn(&m)
				r := NewRetry(RetryOptions{Server: "up", Most: 2, Backoff: 100 * time.Millisecond, Budget: 20, Hints: hints})
				began := time.Now()
				n, err := attempts(t, r, c.raw, c.first, c.err)
				seen := c.first == rawNote // then the reply has been read, and that is all
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

// Attempts end: after so many, when the budget is spent, with the request's time, and when its client leaves.
func TestRetryBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		metrics, err := NewRetryMetrics(reg)
		if err != nil {
			t.Fatal(err)
		}
		r := NewRetry(RetryOptions{Server: "up", Most: 2, Backoff: time.Second, Budget: 20, Metrics: metrics})
		down := []error{unreachable(), unreachable(), unreachable(), unreachable()}
		if n, err := attempts(t, r, rawCall, "", down...); n != 3 || errName(err) != proxy.Unreachable.Name {
			t.Errorf("%d attempts, %v", n, err)
		}
		n := 0
		for range 100 { // 20 % of them
			made, _ := attempts(t, r, rawCall, "", down...)
			n += made - 1
			time.Sleep(time.Millisecond)
		}
		if n < 15 || n > 60 { // the window moves on while they are waited for
			t.Errorf("%d retries of 100 requests", n)
		}
		if got := metric(t, reg, "dragoman_retries_total"); got < float64(n) {
			t.Errorf("%v counted", got)
		}
		time.Sleep(time.Minute) // the budget is that of the last requests
		if n, err := attempts(t, r, rawCall, "", down[0]); n != 2 || err != nil {
			t.Errorf("%d attempts, %v", n, err)
		}

		ex := request(t, rawCall)
		replies, err := r.Policy(func(*proxy.Exchange) (proxy.Replies, error) { return nil, unreachable() })(ex)
		if err != nil {
			t.Fatal(err)
		}
		ex.Cancel(proxy.ErrCancelled)
		if err := drainAll(replies, nil); !errors.Is(err, proxy.ErrCancelled) {
			t.Error(err)
		}
		ex = request(t, rawCall)
		ex.GiveUp(time.Nanosecond)
		time.Sleep(time.Millisecond)
		if _, err := r.Policy(func(*proxy.Exchange) (proxy.Replies, error) { return nil, unreachable() })(ex); errName(err) != proxy.Unreachable.Name {
			t.Error(err)
		}
	})
}

// A reader that does not wait so long is told that nothing has come yet, and the pause goes on.
func TestRetryNotYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := proxy.Errf(proxy.Overloaded, "it answered %w", statusErr(503))
		failure.RetryAfter = 3
		r, n := NewRetry(RetryOptions{Most: 1, Backoff: time.Second, Budget: 20}), 0
		replies, err := r.Policy(func(*proxy.Exchange) (proxy.Replies, error) {
			if n++; n == 1 {
				return nil, failure
			}
			return &script{messages: []string{rawResult}}, nil
		})(request(t, rawList))
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

// Who finds the upstream in error after its own attempt has failed is told of that, and when to come back.
func TestRetryTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := proxy.Errf(proxy.UpstreamDown, "down")
		down.RetryAfter = 7
		r := NewRetry(RetryOptions{Most: 2, Backoff: time.Second, Budget: 20})
		n, err := attempts(t, r, rawCall, "", unreachable(), down)
		var e *proxy.Error
		if n != 2 || !errors.As(err, &e) || e.Name != proxy.Unreachable.Name || e.RetryAfter != 7 {
			t.Errorf("%d attempts, %+v", n, err)
		}
	})
}

// What tools say of themselves is asked for when a failure needs to know, once in a while.
func TestHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		h := NewHints(func(_ context.Context, _ *proxy.Exchange, see func(m *wire.Message)) {
			asked++
			m, err := wire.Scan([]byte(annotated))
			if err != nil {
				t.Fatal(err)
			}
			see(&m)
		})
		for tool, want := range map[string]bool{"look": true, "put": true, "t": false, "other": false} {
			if got := h.Harmless(request(t, callOf(tool))); got != want {
				t.Errorf("%s: %v", tool, got)
			}
		}
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
		time.Sleep(hintsPause)
		if h.Harmless(request(t, callOf("other"))) || asked != 2 {
			t.Errorf("asked %d times", asked)
		}
		if (*Hints)(nil).Harmless(request(t, callOf("look"))) {
			t.Error("nobody knows anything, and it is harmless")
		}
		// A list that passes is learnt, also what it says anew.
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"look"}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		h.Learn(&m)
		if h.Harmless(request(t, callOf("look"))) {
			t.Error("it has taken that back")
		}
	})
}
