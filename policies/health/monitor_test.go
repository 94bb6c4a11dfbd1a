package health

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
)

// Seed 004, BR-006 and the state machine: checks alone move an upstream from state to state, and it is retried for ever, after 1 s, 2 s, 4
// s … 60 s.
func TestHealthChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newMonitorRig(t, nil)
		k.is(Disconnected)
		time.Sleep(33 * time.Second)
		k.is(Connected)
		if r := k.Now(); r.CheckedAt.IsZero() || r.Failures != 0 {
			t.Errorf("%+v", r)
		}
		k.find(policytest.BadGateway(), false)
		time.Sleep(33 * time.Second)
		k.is(Connected)
		if r := k.Now(); r.Failures != 1 || r.LastError == "" || len(k.warned) != 1 {
			t.Errorf("%+v, warned %q", r, k.warned)
		}
		k.find(nil, true) // silence is a failure
		time.Sleep(38 * time.Second)
		k.is(Degraded)
		if !k.Serves() || k.call(nil) != nil { // it serves, and a good answer ends it
			t.Error("a degraded upstream does not serve")
		}
		k.is(Connected)
		k.find(policytest.BadGateway(), false)
		time.Sleep(3 * 33 * time.Second)
		k.is(Errored)
		if k.Serves() || policytest.Row(k.call(nil)) != proxy.UpstreamDown.Name {
			t.Error("an upstream in error serves")
		}
		k.mu.Lock()
		k.checks = 0
		k.mu.Unlock()
		time.Sleep(10 * time.Minute)
		k.is(Errored)
		if k.checks < 8 || k.checks > 16 {
			t.Errorf("%d attempts in ten minutes", k.checks)
		}
		k.find(nil, false)
		time.Sleep(time.Minute)
		k.is(Connected)
		var told []State
		for _, c := range k.changes {
			if !c.Again {
				told = append(told, c.To)
			}
		}
		if want := []State{Connecting, Connected, Degraded, Connected, Degraded, Errored, Connected}; !slices.Equal(told, want) {
			t.Errorf("%v, want %v", told, want)
		}
		k.Close()
	})
}

// The pauses between attempts: doubled up to a minute, without end (BR-006 takes precedence over EC-005), and with jitter.
func TestHealthPauses(t *testing.T) {
	for n, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		for range 20 {
			if d := pause(n); d > want*time.Second || d < want*time.Second*9/10 {
				t.Errorf("%d: %v", n, d)
			}
		}
	}
	if d := pause(1 << 20); d > time.Minute {
		t.Error(d)
	}
}

// BR-006: an HTTP status below 500 is a warning, logged once. BR-002: an upstream that cannot be reached at first is in error at once.
func TestHealthWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newMonitorRig(t, nil)
		k.find(proxy.Errf(proxy.HTTPStatus, "it answered %w", policytest.StatusError(404)), false)
		time.Sleep(5 * 33 * time.Second)
		k.is(Connected)
		if r := k.Now(); r.Warning == "" || r.Failures != 0 || len(k.warned) != 1 {
			t.Errorf("%+v, warned %q", r, k.warned)
		}
		k.Close()

		k = newMonitorRig(t, nil)
		k.Tried(time.Now(), policytest.Unreachable())
		k.is(Errored)
		k.find(policytest.Unreachable(), false)
		time.Sleep(2600 * time.Millisecond) // after 1 s, and not yet after 2 s more
		synctest.Wait()
		if k.checks != 1 {
			t.Errorf("%d attempts", k.checks)
		}
		k.find(nil, false)
		time.Sleep(time.Second)
		k.is(Connected)
		k.Close()
	})
}

// Calls count as checks do. The third failure that may be the call's own triggers a check; failures at the same time count once.
func TestHealthCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newMonitorRig(t, nil)
		later := func() { time.Sleep(time.Millisecond) }
		if err := k.call(nil); err != nil {
			t.Fatal(err)
		}
		k.is(Connected)
		for range 3 {
			k.is(map[bool]State{false: Connected, true: Degraded}[k.Now().Failures >= 2])
			later()
			_ = k.call(policytest.Unreachable())
		}
		k.is(Errored)
		err := k.call(nil)
		var e *proxy.Error
		if !errors.As(err, &e) || e.Name != proxy.UpstreamDown.Name || e.RetryAfter != 1 {
			t.Fatal(err)
		}
		for _, part := range []string{`"up"`, "upstream_unreachable, connection refused; it is tried", "down since 2000-", "tried again in "} {
			if !strings.Contains(e.Message, part) {
				t.Errorf("no %q in %q", part, e.Message)
			}
		}
		if r := k.Now(); strings.Contains(e.Message, "no way") || !strings.Contains(r.LastError, "no way") || strings.Contains(r.Gist, "no way") {
			t.Errorf("what a call was told goes to the operator, and to no other caller: %q, %+v", e.Message, r)
		}
		time.Sleep(time.Second)
		k.is(Connected)

		// A tool that makes the server fail: the server is checked, and is healthy.
		checks := k.checks
		for range 10 {
			later()
			_ = k.call(policytest.BadGateway())
		}
		time.Sleep(2 * suspectPause)
		k.is(Connected)
		if k.checks != checks+1 {
			t.Errorf("%d checks", k.checks-checks)
		}
		// The same at a server that is not healthy.
		k.find(nil, true)
		for range 3 {
			later()
			_ = k.call(proxy.Errf(proxy.UpstreamTimeout, "too slow"))
		}
		k.is(Degraded)
		time.Sleep(suspectPause + 5*time.Second)
		if r := k.Now(); r.State != Errored && r.State != Connecting || k.Serves() {
			t.Errorf("%+v", r)
		}
		k.Close()
	})
}

// Results that say nothing about the server change nothing: client errors, our limits, cancellation, errors of tools.
func TestHealthNeutral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newMonitorRig(t, func(o *Options) { o.Breaker = BreakerOptions{Failures: 2, Pause: time.Minute, Trials: 1} })
		_ = k.call(nil)
		for range 5 {
			time.Sleep(time.Millisecond)
			for _, f := range []proxy.Fault{proxy.InvalidParams, proxy.TooManySessions, proxy.Refused, proxy.Overloaded, proxy.UpstreamLimited,
				proxy.SessionLost, proxy.ResponseTooLarge, proxy.ShuttingDown, proxy.Question} {
				_ = k.call(proxy.Errf(f, "no"))
			}
			_ = k.call(proxy.Errf(proxy.HTTPStatus, "it answered %w", policytest.StatusError(404)))
			if err := policytest.Drain(k.Policy(func(*proxy.Exchange) (proxy.Replies, error) {
				return &policytest.Script{Messages: []string{policytest.Failure}}, nil
			})(policytest.Request(t, policytest.Call))); err != nil {
				t.Fatal(err)
			}
			gone := policytest.Request(t, policytest.Call) // its client leaves, and the abort looks like a loss
			_ = policytest.Drain(k.Policy(func(ex *proxy.Exchange) (proxy.Replies, error) {
				ex.Cancel(proxy.ErrCancelled)
				return nil, proxy.Errf(proxy.Lost, "broke off")
			})(gone))
		}
		k.is(Connected)
		if r := k.Now(); r.Failures != 0 || r.Breaker != "closed" || k.calls.First() != nil {
			t.Errorf("%+v, in flight: %+v", r, k.calls.First())
		}
		late := policytest.Request(t, policytest.Call) // but a request without an answer in time does
		late.GiveUp(0)
		replies, err := k.Policy(func(*proxy.Exchange) (proxy.Replies, error) { return &policytest.Script{End: proxy.ErrNotYet}, nil })(late)
		if err != nil {
			t.Fatal(err)
		}
		_ = replies.Close()
		if r := k.Now(); r.Failures != 1 {
			t.Errorf("%+v", r)
		}
		k.Close()
	})
}

// The circuit breaker opens after half of the calls have failed, refuses, admits one call when half-open, and is closed by it.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		k := newMonitorRig(t, func(o *Options) {
			o.Breaker, o.Metrics = BreakerOptions{Failures: 4, Pause: 30 * time.Second, Trials: 1}, NewMetrics(policies.NewRegistry(reg))
		})
		if err := k.Register(reg); err != nil {
			t.Fatal(err)
		}
		for range 4 { // never more than one in a row
			k.is(map[bool]State{true: Disconnected, false: Connected}[len(k.changes) == 0])
			time.Sleep(time.Millisecond)
			_ = k.call(nil)
			time.Sleep(time.Millisecond)
			_ = k.call(proxy.Errf(proxy.Lost, "broke off"))
		}
		k.is(Errored)
		err := k.call(nil)
		var e *proxy.Error
		if !errors.As(err, &e) || e.Name != proxy.UpstreamDown.Name || e.RetryAfter != 30 || !strings.Contains(e.Message, "upstreams.up.breaker_pause") ||
			!strings.Contains(e.Message, "half of the calls") {
			t.Error(err)
		}
		time.Sleep(29 * time.Second) // a good check does not close it
		k.is(Errored)
		time.Sleep(1100 * time.Millisecond)
		k.is(Connecting)
		if !k.Serves() {
			t.Error("no call is admitted")
		}
		trial, err := k.Policy(func(*proxy.Exchange) (proxy.Replies, error) {
			return &policytest.Script{Messages: []string{policytest.Notification, policytest.Result}}, nil
		})(policytest.Request(t, policytest.Call))
		if err != nil {
			t.Fatal(err)
		}
		if err := k.call(nil); policytest.Row(err) != proxy.UpstreamDown.Name {
			t.Errorf("a second call besides the trial: %v", err)
		}
		if err := policytest.Drain(trial, nil); err != nil {
			t.Fatal(err)
		}
		k.is(Connected)
		if n := policytest.Metric(t, reg, "dragoman_upstream_refused_total"); n != 2 {
			t.Errorf("%v refused", n)
		}
		if n := policytest.Metric(t, reg, "dragoman_upstream_state_changes_total"); n != float64(len(k.changes)) {
			t.Errorf("%v changes, %d reported", n, len(k.changes))
		}
		k.Close()
	})
}

// Many calls that fail at once are one failure: a restarted server is not a server that fails all the time.
func TestHealthTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newMonitorRig(t, func(o *Options) { o.Breaker = BreakerOptions{Failures: 2, Pause: time.Minute, Trials: 1} })
		_ = k.call(nil)
		var open []proxy.Replies
		for range 50 {
			time.Sleep(time.Millisecond)
			replies, err := k.Policy(func(*proxy.Exchange) (proxy.Replies, error) {
				return &policytest.Script{End: proxy.Errf(proxy.Lost, "broke off")}, nil
			})(policytest.Request(t, policytest.Call))
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, replies)
		}
		for _, replies := range open {
			_ = policytest.Drain(replies, nil)
		}
		k.is(Connected)
		if r := k.Now(); r.Failures != 1 || r.Breaker != "closed" {
			t.Errorf("%+v", r)
		}
		k.Close()
	})
}

// Calls in flight end when nothing answers at the server's address, but not when the server only accepts no new connections, as one that is
// being stopped, or is only busy.
func TestHealthInFlight(t *testing.T) {
	silence := proxy.Errf(proxy.Unreachable, "connect: %w", &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded})
	for name, c := range map[string]struct {
		err   error
		ended bool
	}{"refused": {policytest.Unreachable(), false}, "silence": {silence, true}, "busy": {nil, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newMonitorRig(t, nil)
				_ = k.call(nil)
				ex, listen := policytest.Request(t, policytest.Call), policytest.Request(t, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`)
				var call proxy.Replies
				for _, ex := range []*proxy.Exchange{listen, ex} {
					var err error
					call, err = k.Policy(func(*proxy.Exchange) (proxy.Replies, error) {
						return &policytest.Script{End: proxy.Errf(proxy.Lost, "httpd: aborted")}, nil
					})(ex)
					if err != nil {
						t.Fatal(err)
					}
				}
				k.find(c.err, c.err == nil)
				time.Sleep(4 * 38 * time.Second)
				if r := k.Now(); r.State != Errored && r.State != Connecting {
					t.Fatalf("%+v", r)
				}
				if got := policytest.Row(ex.Err()) == proxy.Lost.Name; got != c.ended || listen.Err() != nil {
					t.Errorf("ended with %v, %v", ex.Err(), listen.Err())
				}
				// The client gets the reason of the abort, not the connection error that follows it.
				if _, err := call.Next(time.Time{}); c.ended && (strings.Contains(err.Error(), "aborted") || !strings.Contains(err.Error(), `"up" cannot be reached any more`) ||
					!strings.Contains(err.Error(), "tools/call of t had been under way for ")) {
					t.Error(err)
				}
				k.Close()
			})
		})
	}
}

// Without checks the first request after the pause shows whether the server is back.
func TestHealthUnchecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newMonitorRig(t, func(o *Options) { o.Interval = 0 })
		if err := k.call(policytest.Unreachable()); policytest.Row(err) != proxy.Unreachable.Name {
			t.Fatal(err)
		}
		k.is(Errored)
		if policytest.Row(k.call(nil)) != proxy.UpstreamDown.Name || k.Serves() {
			t.Error("it is checked at once")
		}
		time.Sleep(time.Second)
		if !k.Serves() {
			t.Error("no call is admitted")
		}
		_ = k.call(policytest.Unreachable())
		time.Sleep(time.Second)
		if policytest.Row(k.call(nil)) != proxy.UpstreamDown.Name {
			t.Error("the second pause is not longer than the first")
		}
		time.Sleep(time.Second)
		if err := k.call(nil); err != nil {
			t.Error(err)
		}
		k.is(Connected)
		if k.checks != 0 {
			t.Errorf("%d checks", k.checks)
		}

		// A refusal shows it too: only a running server can refuse.
		for range 3 {
			time.Sleep(time.Millisecond)
			_ = k.call(policytest.Unreachable())
		}
		k.is(Errored)
		time.Sleep(time.Second)
		_ = k.call(proxy.Errf(proxy.Refused, "it answered %w", policytest.StatusError(401)))
		k.is(Connected)

		// A circuit that has opened meanwhile does not prevent the attempt.
		k = newMonitorRig(t, func(o *Options) {
			o.Interval, o.Breaker = 0, BreakerOptions{Failures: 3, Pause: time.Hour, Trials: 1}
		})
		_ = k.call(nil)
		for range 3 {
			time.Sleep(time.Millisecond)
			_ = k.call(policytest.Unreachable())
		}
		if r := k.Now(); r.State != Errored || r.Breaker != "open" {
			t.Fatalf("%+v", r)
		}
		time.Sleep(time.Second)
		if err := k.call(nil); !k.Serves() || err != nil {
			t.Error(err)
		}
		if r := k.Now(); r.State != Connected || r.Breaker != "closed" {
			t.Errorf("%+v", r)
		}
	})
}

// A child is judged by its starts and never checked. Its own circuit decides when it is not started.
func TestHealthStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Starts{Circuit: "closed"}
		k := newMonitorRig(t, func(o *Options) { o.Starts = func() Starts { return s } })
		k.is(Disconnected)
		time.Sleep(time.Hour)
		k.is(Disconnected)
		k.Tried(time.Now(), nil)
		k.is(Connected)
		time.Sleep(time.Hour)
		k.is(Connected) // idle is not down
		for range 5 {
			time.Sleep(time.Millisecond)
			_ = k.call(policytest.Unreachable())
		}
		k.is(Connected)
		silent := proxy.Errf(proxy.UpstreamTimeout, "silent")
		_ = k.call(silent)
		k.is(Connected)
		for range 5 { // it is replaced by its supervisor when it must be: no call is refused
			time.Sleep(time.Millisecond)
			if err := k.call(silent); !proxy.IsFault(err, proxy.UpstreamTimeout) {
				t.Fatal(err)
			}
			k.is(Degraded)
		}
		if r := k.Now(); r.LastError != "silent" || !k.Serves() {
			t.Errorf("%+v", r)
		}
		_ = k.call(nil)
		k.is(Connected)
		s.Failures, s.Last = 2, "exited with code 1"
		k.is(Degraded)
		_ = k.call(nil)
		s.Failures = 0
		if r := k.Now(); r.State != Connected || r.LastError != "silent" {
			t.Errorf("a start of long ago is no failure: %+v", r)
		}
		s.Failures = 2
		s.Circuit, s.RetryAt = "open", time.Now().Add(time.Minute)
		if k.Serves() {
			t.Error("a child that is not started serves")
		}
		k.is(Errored)
		if r := k.Now(); r.RetryAt != s.RetryAt || !strings.Contains(r.LastError, "exited with code 1") || k.Serves() {
			t.Errorf("%+v", r)
		}
		if err := k.call(nil); err != nil {
			t.Errorf("a running child is not called: %v", err)
		}
		s = Starts{Circuit: "half-open", Failures: 2, Last: s.Last}
		k.is(Connecting)
		s = Starts{Circuit: "closed"}
		k.is(Connected)
		if k.checks != 0 {
			t.Errorf("%d checks", k.checks)
		}
	})
}

// When an error is over, waiting requests are notified, whatever ended it.
func TestHealthRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		restored := make(chan struct{}, 10)
		k := newMonitorRig(t, func(o *Options) { o.Restored = func(context.Context) { restored <- struct{}{} } })
		_ = k.call(nil)
		slow, err := k.Policy(func(*proxy.Exchange) (proxy.Replies, error) {
			return &policytest.Script{Messages: []string{policytest.Result}}, nil
		})(policytest.Request(t, policytest.Call))
		if err != nil {
			t.Fatal(err)
		}
		k.find(nil, true)
		time.Sleep(4 * 38 * time.Second)
		k.Recheck()
		synctest.Wait()
		if len(restored) != 0 {
			t.Fatal("too early")
		}
		if err := policytest.Drain(slow, nil); err != nil { // a busy server is done
			t.Fatal(err)
		}
		k.is(Connected)
		time.Sleep(time.Minute)
		if len(restored) != 1 {
			t.Errorf("notified %d times", len(restored))
		}
		k.Close()
	})
}

// Calls are cut that have no response yet; listens end otherwise (Running.Retire), and those that follow are not cut.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newMonitorRig(t, nil)
		cause := proxy.Errf(proxy.Lost, "cut")
		open := func(method string) (*proxy.Exchange, proxy.Replies) {
			ex := policytest.Request(t, `{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`)
			replies, err := k.Policy(func(*proxy.Exchange) (proxy.Replies, error) { return &policytest.Script{End: proxy.ErrNotYet}, nil })(ex)
			if err != nil {
				t.Fatal(err)
			}
			return ex, replies
		}
		call, first := open("tools/call")
		listen, second := open("subscriptions/listen")
		over, third := open("tools/call")
		_ = third.Close()
		k.Cut(cause)
		later, fourth := open("tools/call")
		if call.Err() != cause || listen.Err() != nil || over.Err() != nil || later.Err() != nil {
			t.Errorf("cut: %v, %v; over %v, later %v", call.Err(), listen.Err(), over.Err(), later.Err())
		}
		for _, r := range []proxy.Replies{first, second, fourth} {
			_ = r.Close()
		}
	})
}

// A server that is down is tried at once when that is asked for, however long the pause would be.
func TestRecheckOfAServerThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newMonitorRig(t, nil)
		k.find(policytest.Unreachable(), false)
		time.Sleep(5 * time.Minute) // pauses are a minute by now
		k.is(Errored)
		k.find(nil, false)
		k.is(Errored)
		k.Recheck()
		k.is(Connected)
	})
}
