package health

import (
	"context"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
)

// The outcome of a check, as it is counted: what the server refuses is a warning, what it cannot answer a failure, and what Dragoman itself
// does not allow says nothing.
func TestOutcomesOfChecks(t *testing.T) {
	status := func(f proxy.Fault, code int) error {
		return proxy.Errf(f, "it answered %w", policytest.StatusError(code))
	}
	for outcome, errs := range map[string][]error{
		"ok":      {nil},
		"warning": {status(proxy.HTTPStatus, 404), status(proxy.HTTPStatus, 499), status(proxy.Refused, 401)},
		"skipped": {proxy.Errf(proxy.Overloaded, "too many"), proxy.Errf(proxy.TooManySessions, "too many")},
		"failure": {status(proxy.HTTPStatus, 500), status(proxy.Overloaded, 503), policytest.Unreachable(), context.Canceled},
	} {
		for _, err := range errs {
			synctest.Test(t, func(t *testing.T) {
				reg := prometheus.NewRegistry()
				k := newMonitorRig(t, func(o *Options) { o.Metrics = NewMetrics(policies.NewRegistry(reg)) })
				k.find(err, false)
				k.Recheck()
				synctest.Wait()
				if got := policytest.Labels(t, reg, "dragoman_upstream_checks_total", "outcome"); len(got) != 1 || got[outcome] != 1 {
					t.Errorf("%v: %v, want one %s", err, got, outcome)
				}
				k.Close()
			})
		}
	}
}

// A call that the server answers with a status of 500 or more has failed; with a lower one it was refused.
func TestStatusesOfCalls(t *testing.T) {
	for status, failures := range map[int]int{499: 0, 500: 1} {
		synctest.Test(t, func(t *testing.T) {
			k := newMonitorRig(t, nil)
			_ = k.call(nil)
			time.Sleep(time.Millisecond)
			_ = k.call(proxy.Errf(proxy.HTTPStatus, "it answered %w", policytest.StatusError(status)))
			if r := k.Now(); r.Failures != failures {
				t.Errorf("%d: %d failures", status, r.Failures)
			}
			k.Close()
		})
	}
}

// A check that is not answered in time says so, to the operator; and a server that was never reached has failed once.
func TestSilentChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newMonitorRig(t, nil)
		k.find(nil, true)
		k.Recheck()
		synctest.Wait()
		time.Sleep(connectTime)
		k.is(Errored)
		if r := k.Now(); r.Failures != 1 || r.LastError != "no answer to a health check within 30s" {
			t.Errorf("%+v", r)
		}
		k.Close()
	})
}

// Intervals are a tenth longer or shorter, so that servers are not checked in step.
func TestIntervalsAreSpread(t *testing.T) {
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		d := spread(time.Minute)
		least, most = min(least, d), max(most, d)
	}
	if least < 54*time.Second || least > 57*time.Second || most < 63*time.Second || most > 66*time.Second {
		t.Errorf("from %v to %v", least, most)
	}
	if d := spread(5); d != 5 {
		t.Errorf("5 ns became %v", d)
	}
}

// Changes and checks are recorded, in their order; a look that finds nothing new is not.
func TestRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var recorded []string
		k := newMonitorRig(t, func(o *Options) {
			o.Interval = 0
			o.Recorded = func(r Report) { recorded = append(recorded, string(r.State)) }
		})
		is := func(want ...string) {
			t.Helper()
			if got := strings.Join(recorded, " "); got != strings.Join(want, " ") {
				t.Errorf("recorded %q, want %q", got, want)
			}
			recorded = nil
		}
		k.Look()
		is()
		k.Trying()
		is("CONNECTING")
		k.Tried(time.Now(), nil)
		is("CONNECTED")
		k.Trying()
		k.Look()
		is()
		k.runCheck(t.Context())
		is("CONNECTED") // when it was checked is new
	})
}

// A report does not overtake an older one: the last one has the state that stays.
func TestReportsDoNotOvertake(t *testing.T) {
	var k *monitorRig
	var last atomic.Value
	var answered sync.WaitGroup
	k = newMonitorRig(t, func(o *Options) {
		o.Interval = 0
		o.Recorded = func(r Report) {
			if r.State == Connecting { // the answer comes while this is recorded
				answered.Go(func() { k.Tried(time.Now(), nil) })
				for n := 0; n < 10_000 && last.Load() == nil; n++ {
					runtime.Gosched()
				}
			}
			last.Store(r.State)
		}
	})
	k.Trying()
	answered.Wait()
	if got, want := last.Load(), k.Now().State; got != want || want != Connected {
		t.Errorf("recorded %v, and it is %v", got, want)
	}
}

// A call at a server that nobody has tried yet makes it known as being connected while the call runs, and says why.
func TestFirstCallIsAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newMonitorRig(t, func(o *Options) { o.Interval = 0 })
		_, err := k.Policy(func(*proxy.Exchange) (proxy.Replies, error) {
			if len(k.changes) != 1 || k.changes[0] != (Change{From: Disconnected, To: Connecting, Reason: "it is tried"}) {
				t.Errorf("while it runs: %+v", k.changes)
			}
			return nil, policytest.Unreachable()
		})(policytest.Request(t, policytest.Call))
		if policytest.Row(err) != proxy.Unreachable.Name {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		_ = k.call(nil)
		if c := k.changes[2]; c.To != Connecting || c.Reason != "it is tried again" || !c.Again {
			t.Errorf("%+v", c)
		}
		if c := k.changes[3]; len(k.changes) != 4 || c.To != Connected || c.Reason != "it answers" {
			t.Errorf("%+v", k.changes)
		}
	})
}

// Who is refused is told when the server is tried again, to a tenth of a second, or that it is being tried.
func TestRefusalsSayWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newMonitorRig(t, nil)
		k.find(nil, true)
		k.Tried(time.Now(), policytest.Unreachable())
		time.Sleep(123456789)
		if err := k.call(nil); !regexp.MustCompile(`it is tried again in (0\.\d|[1-9])\d?0?(ms|s)$`).MatchString(err.Error()) {
			t.Error(err)
		}
		time.Sleep(time.Second)
		k.is(Connecting)
		if err := k.call(nil); !strings.HasSuffix(err.Error(), "it is being tried again now") || proxy.AsError(err).RetryAfter != 1 {
			t.Error(err)
		}
		k.Close()
	})
}

// The first failure in a row is told the operator, the second degrades the server, which needs no word. An answer ends both: who waits is
// notified. A failure after an answer counts again, even if the call began before the last failure.
func TestFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		restored := 0
		k := newMonitorRig(t, func(o *Options) { o.Restored = func(context.Context) { restored++ } })
		_ = k.call(nil)
		early, err := k.Policy(func(*proxy.Exchange) (proxy.Replies, error) {
			return &policytest.Script{End: proxy.Errf(proxy.Lost, "broke off")}, nil
		})(policytest.Request(t, policytest.Call))
		if err != nil {
			t.Fatal(err)
		}
		for n, state := range []State{Connected, Degraded} {
			time.Sleep(time.Millisecond)
			_ = k.call(proxy.Errf(proxy.Lost, "broke off"))
			k.is(state)
			if len(k.warned) != 1 || restored != 0 {
				t.Errorf("after %d failures: warned %q, restored %d times", n+1, k.warned, restored)
			}
		}
		_ = k.call(nil)
		if k.is(Connected); restored != 1 {
			t.Errorf("restored %d times", restored)
		}
		_ = policytest.Drain(early, nil)
		if r := k.Now(); r.Failures != 1 || len(k.warned) != 2 {
			t.Errorf("%+v, warned %q", r, k.warned)
		}
		k.Close()
	})
}

// The gauges show the state, and the circuit of a server that has a breaker.
func TestGauges(t *testing.T) {
	for failures, circuits := range map[int]map[string]float64{0: {}, 1: {"closed": 0, "open": 1, "half-open": 0}} {
		synctest.Test(t, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			k := newMonitorRig(t, func(o *Options) { o.Breaker = BreakerOptions{Failures: failures, Pause: time.Minute, Trials: 1} })
			if err := k.Register(reg); err != nil {
				t.Fatal(err)
			}
			k.Tried(time.Now(), nil)
			time.Sleep(time.Millisecond)
			_ = k.call(proxy.Errf(proxy.Lost, "broke off"))
			want := map[State]float64{Connected: 1}
			if failures > 0 {
				want = map[State]float64{Errored: 1}
			}
			states := policytest.Labels(t, reg, "dragoman_upstream_state", "state")
			for _, s := range allStates {
				if states[string(s)] != want[s] {
					t.Errorf("%d: %s is %v", failures, s, states[string(s)])
				}
			}
			got := policytest.Labels(t, reg, "dragoman_upstream_breaker", "state")
			for circuit, value := range circuits {
				if got[circuit] != value {
					t.Errorf("%d: %s is %v", failures, circuit, got[circuit])
				}
			}
			if len(got) != len(circuits) {
				t.Errorf("%d: circuits %v", failures, got)
			}
			k.Close()
		})
	}
}

// Good calls through the policy weigh against failures, and each trial at a half-open circuit that closes it is announced at once.
func TestBreakerAndGoodCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newMonitorRig(t, func(o *Options) {
			o.Interval, o.Breaker = 0, BreakerOptions{Failures: 2, Pause: time.Minute, Trials: 2}
		})
		calls := func(n int, err error) {
			for range n {
				time.Sleep(time.Millisecond)
				_ = k.call(nil) // so that failures are never in a row
				time.Sleep(time.Millisecond)
				_ = k.call(err)
			}
		}
		_ = k.call(nil)
		time.Sleep(2 * breakerWindow)
		calls(5, nil)
		calls(5, proxy.Errf(proxy.Lost, "broke off"))
		if r := k.Now(); r.Breaker != "closed" || r.State != Connected {
			t.Errorf("after 5 failures of 20 calls within a minute: %+v", r)
		}
		k.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		k := newMonitorRig(t, func(o *Options) { o.Breaker = BreakerOptions{Failures: 1, Pause: time.Second, Trials: 2} })
		_ = k.call(nil)
		time.Sleep(time.Millisecond)
		_ = k.call(proxy.Errf(proxy.Lost, "broke off"))
		k.is(Errored)
		time.Sleep(time.Second + time.Millisecond)
		for n, want := range []State{Connecting, Connected} {
			_ = k.call(nil)
			if last := k.changes[len(k.changes)-1]; last.To != want {
				t.Errorf("after %d trials it is announced as %s", n+1, last.To)
			}
		}
		k.Close()
	})
}
