package resilience

import (
	"io"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
)

// Requests go to the other upstream while their own is in error. What belongs to one of them stays there.
func TestFallback(t *testing.T) {
	serves, fails := true, error(nil)
	var at string
	answer := func(name string) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if at += name; name == "x" && fails != nil {
				ex.Msg.Replace(ex.Msg.ID, []byte("2"))
				return nil, fails
			}
			if name == "y" && len(ex.Msg.Edits) != 0 {
				t.Error("the other upstream got an edit for the first one")
			}
			if ex.Msg.Is("notifications/initialized") {
				return nil, nil
			}
			return &policytest.Script{Messages: []string{policytest.Result}, End: io.EOF}, nil
		}
	}
	f := NewFallback("y", func() bool { return serves }, func() proxy.Handler { return answer("y") }, prometheus.NewCounter(prometheus.CounterOpts{}))
	handle := f.Policy(answer("x"))
	send := func(want, raw string, s *proxy.Session) {
		t.Helper()
		ex := policytest.Request(t, raw)
		if ex.Session = s; s != nil {
			ex.Client.Era = proxy.Legacy
		}
		ex.Target, at = "x", ""
		if replies, err := handle(ex); err == nil && replies != nil {
			_ = policytest.Drain(replies, nil)
		}
		if at != want || ex.Target != want[len(want)-1:] {
			t.Errorf("%s went to %s, target %s; want %s", raw, at, ex.Target, want)
		}
	}
	const initialize, initialized = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	before, during := proxy.NewSession("before", "http", "", proxy.Caller{}, time.Now()), proxy.NewSession("during", "http", "", proxy.Caller{}, time.Now())
	send("x", initialize, before)
	send("x", policytest.Call, nil)
	serves = false
	send("y", policytest.Call, nil)
	send("x", policytest.Call, before)
	send("y", initialize, during)
	send("y", initialized, during)
	send("y", policytest.List, during)
	send("x", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{},"requestState":"s"}}`, nil)
	send("x", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{}}`, nil)
	serves = true
	send("x", policytest.Call, nil)
	send("y", policytest.List, during)
	if f.Sessions() != 1 {
		t.Errorf("%d sessions", f.Sessions())
	}
	during.End(proxy.Closed)
	if f.Sessions() != 0 {
		t.Errorf("%d sessions", f.Sessions())
	}

	// The upstream fails during the call: a request that the server has not seen may still go to the other.
	fails = policytest.Unreachable()
	send("x", policytest.Call, nil)
	turned := 0
	f.serves = func() bool { turned++; return turned%2 == 1 }
	send("xy", policytest.Call, nil)
	fails = proxy.Errf(proxy.Lost, "broke off")
	send("x", policytest.Call, nil)

	// The upstream is being retried by another request.
	f.serves, fails = func() bool { return true }, proxy.Errf(proxy.UpstreamDown, "down")
	send("xy", policytest.Call, nil)
}

// The same if the failure comes after the call.
func TestFallbackLate(t *testing.T) {
	turned := 0
	f := NewFallback("y", func() bool { turned++; return turned == 1 },
		func() proxy.Handler {
			return func(*proxy.Exchange) (proxy.Replies, error) {
				return &policytest.Script{Messages: []string{policytest.Result}}, nil
			}
		}, prometheus.NewCounter(prometheus.CounterOpts{}))
	ex := policytest.Request(t, policytest.Call)
	replies, err := f.Policy(func(*proxy.Exchange) (proxy.Replies, error) {
		return &policytest.Script{End: policytest.Unreachable()}, nil
	})(ex)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := replies.Next(time.Time{}); err != nil || !m.IsResponse() || ex.Target != "y" {
		t.Errorf("%v, %v, %s", m.Kind, err, ex.Target)
	}
	_ = replies.Close()
}
