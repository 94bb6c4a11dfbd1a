package supervisor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/proxy"
)

// newTestCircuit makes a circuit without jitter, in a synctest bubble, where the clock moves only while all goroutines wait.
func newTestCircuit(limit int, pause time.Duration) (*circuit, chan struct{}) {
	quit := make(chan struct{})
	s := newCircuit(&Options{Name: "files", CrashLimit: limit, CrashPause: pause}, quit)
	s.jitter = func(d time.Duration) time.Duration { return d }
	return s, quit
}

// begun begins a start and returns how long it had to wait.
func begun(t *testing.T, s *circuit) (*ticket, time.Duration) {
	t.Helper()
	from := time.Now()
	k, err := s.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return k, time.Since(from)
}

func failed(t *testing.T, s *circuit, times int) {
	t.Helper()
	for range times {
		k, _ := begun(t, s)
		k.fail("exited with code 1")
	}
}

func refused(t *testing.T, s *circuit) *proxy.Error {
	t.Helper()
	from := time.Now()
	_, err := s.begin(t.Context())
	var e *proxy.Error
	if !errors.As(err, &e) || time.Since(from) != 0 {
		t.Fatalf("begin: %v after %v", err, time.Since(from))
	}
	return e
}

func isState(t *testing.T, s *circuit, want string) Health {
	t.Helper()
	h := s.health()
	if h.State != want {
		t.Fatalf("the circuit is %s, want %s: %+v", h.State, want, h)
	}
	return h
}

func TestRestartsAreDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestCircuit(1000, time.Minute)
		for n, want := range []time.Duration{0, 250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000} {
			k, waited := begun(t, s)
			if waited != want*time.Millisecond {
				t.Errorf("after %d failures: waited %v, want %v", n, waited, want*time.Millisecond)
			}
			k.fail("exited with code 1")
		}
		if h := isState(t, s, "closed"); h.Failures != 10 || h.Last != "exited with code 1" || !h.LastAt.Equal(time.Now()) || !h.RetryAt.IsZero() {
			t.Errorf("%+v", h)
		}
		k, _ := begun(t, s)
		k.succeed()
		k, waited := begun(t, s)
		if waited != 0 || s.health().Failures != 0 {
			t.Errorf("after a good start: waited %v, %+v", waited, s.health())
		}
		k.fail("exited with code 1")
		if k, waited = begun(t, s); waited != backoffFirst {
			t.Errorf("after the first failure again: waited %v", waited)
		}
		k.drop()
		if got := backoff(1 << 40); got != backoffMost {
			t.Errorf("backoff: %v", got)
		}
	})
}

// Failures at the same time, as of all sessions of a server whose database is down, count once for the pause.
func TestFailuresOfOneWaveCountOnceForThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestCircuit(1000, time.Minute)
		var wave []*ticket
		for range 20 {
			k, _ := begun(t, s)
			wave = append(wave, k)
		}
		time.Sleep(time.Second)
		for _, k := range wave {
			k.fail("exited with code 1")
		}
		k, waited := begun(t, s)
		if waited != backoffFirst || s.health().Failures != 20 {
			t.Errorf("waited %v: %+v", waited, s.health())
		}
		k.drop()
	})
}

func TestHalfJitter(t *testing.T) {
	for range 1000 {
		if d := halfJitter(time.Second); d < time.Second/2 || d > time.Second+1 {
			t.Fatal(d)
		}
	}
}

func TestCrashLoopOpensTheCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestCircuit(5, 30*time.Second)
		var told []string
		s.changed = func(h Health) { told = append(told, h.State) }
		failed(t, s, 4)
		isState(t, s, "closed")
		failed(t, s, 1)
		opened := time.Now()
		if h := isState(t, s, "open"); !h.RetryAt.Equal(opened.Add(30*time.Second)) || h.Failures != 5 {
			t.Errorf("%+v", h)
		}
		time.Sleep(1500 * time.Millisecond)
		e := refused(t, s)
		if e.Name != proxy.Unreachable.Name || e.RetryAfter != 29 {
			t.Errorf("%s, retry after %d", e.Name, e.RetryAfter)
		}
		for _, part := range []string{`"files"`, "keeps crashing", "5 starts in a row failed", "1.5s ago", "exited with code 1", "28.5s", "upstreams.files.crash_pause"} {
			if !strings.Contains(e.Message, part) {
				t.Errorf("no %q in: %s", part, e.Message)
			}
		}
		time.Sleep(28501 * time.Millisecond)
		isState(t, s, "half-open")
		k, waited := begun(t, s)
		if waited != 0 || !k.trial {
			t.Errorf("the trial: waited %v, %+v", waited, k)
		}
		k.fail("exited with code 2") // one is enough
		if e := refused(t, s); !strings.Contains(e.Message, "code 2") || e.RetryAfter != 30 {
			t.Errorf("%d %s", e.RetryAfter, e.Message)
		}
		time.Sleep(30001 * time.Millisecond)
		k, _ = begun(t, s)
		k.succeed()
		isState(t, s, "closed")
		if k, waited = begun(t, s); waited != 0 || k.trial {
			t.Errorf("after a good trial: waited %v, %+v", waited, k)
		}
		k.succeed()
		if got := strings.Join(told, " "); got != "open half-open open half-open closed" {
			t.Errorf("told: %s", got)
		}
	})
}

// While one start shows whether the server has recovered, the others wait for it.
func TestTheTrialIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		settle func(*ticket)
		state  string
		err    bool
	}{
		{(*ticket).succeed, "closed", false},
		{func(k *ticket) { k.fail("exited with code 1") }, "open", true},
		{(*ticket).drop, "half-open", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newTestCircuit(1, time.Second)
			failed(t, s, 1)
			time.Sleep(1001 * time.Millisecond)
			trial, _ := begun(t, s)
			from, done := time.Now(), make(chan error)
			go func() {
				k, err := s.begin(t.Context())
				if err == nil {
					k.drop()
				}
				done <- err
			}()
			time.Sleep(3 * time.Second)
			c.settle(trial)
			if err := <-done; (err != nil) != c.err || time.Since(from) != 3*time.Second {
				t.Errorf("%s: %v after %v", c.state, err, time.Since(from))
			}
			isState(t, s, c.state)
		})
	}
}

func TestTheCircuitNeedsHalfOfAllStartsOfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestCircuit(5, time.Second)
		for range 6 {
			k, _ := begun(t, s)
			k.succeed()
		}
		failed(t, s, 5)
		isState(t, s, "closed") // 5 of 11
		failed(t, s, 1)
		isState(t, s, "open") // 6 of 12

		s, _ = newTestCircuit(5, time.Second)
		for range 20 {
			failed(t, s, 1)
			time.Sleep(16 * time.Second) // never 5 in a minute
		}
		isState(t, s, "closed")
	})
}

func TestLateFailuresCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestCircuit(2, time.Minute)
		slow, _ := begun(t, s)
		spare, _ := begun(t, s)
		time.Sleep(10 * time.Second)
		spare.succeed()
		time.Sleep(2 * time.Minute) // longer than the window
		slow.fail("did not answer")
		isState(t, s, "closed")
		spare.fail("exited with code 1")
		isState(t, s, "open")
	})
}

func TestBeginEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, quit := newTestCircuit(1000, time.Minute)
		failed(t, s, 6)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		from := time.Now()
		_, err := s.begin(short) // it would have to wait 8 s
		var e *proxy.Error
		if !errors.As(err, &e) || e.Name != proxy.Unreachable.Name || e.RetryAfter != 8 || !strings.Contains(e.Message, "exited with code 1") || time.Since(from) != 0 {
			t.Errorf("%v after %v", err, time.Since(from))
		}
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		if _, err = s.begin(gone); !errors.Is(err, context.Canceled) || time.Since(from) != time.Second {
			t.Errorf("%v after %v", err, time.Since(from))
		}
		time.AfterFunc(time.Second, func() { close(quit) })
		if _, err = s.begin(t.Context()); !errors.As(err, &e) || e.Name != proxy.ShuttingDown.Name || time.Since(from) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(from))
		}
		isState(t, s, "closed")

		s, _ = newTestCircuit(1, time.Second) // also during a trial
		failed(t, s, 1)
		time.Sleep(2 * time.Second)
		trial, _ := begun(t, s)
		short, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = s.begin(short); !errors.As(err, &e) || e.Name != proxy.Unreachable.Name || e.RetryAfter < 1 || !strings.Contains(e.Message, "under way") {
			t.Errorf("%v", err)
		}
		trial.drop()
	})
}

func TestMissingCommandsDelayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestCircuit(2, time.Second)
		for range 10 {
			k, waited := begun(t, s)
			k.impossible("could not be started: not found")
			if waited != 0 {
				t.Fatalf("waited %v", waited)
			}
		}
		if h := isState(t, s, "closed"); h.Last == "" || s.failed.Load() != 10 {
			t.Errorf("%+v, %d failed", h, s.failed.Load())
		}
	})
}

func TestLimiter(t *testing.T) {
	now := time.Unix(1000, 0)
	l := newLimiter(now)
	pass := func(after time.Duration, lines, want, wantDropped int) {
		t.Helper()
		now = now.Add(after)
		passed, dropped := 0, 0
		for range lines {
			if ok, n := l.take(now); ok {
				passed++
				dropped += n
			}
		}
		if passed != want || dropped != wantDropped {
			t.Errorf("%d of %d lines passed, want %d; %d reported, want %d", passed, lines, want, dropped, wantDropped)
		}
	}
	pass(0, 60, 50, 0)                          // the burst
	pass(900*time.Millisecond, 3, 0, 0)         // silent for a second
	pass(100*time.Millisecond, 20, 10, 13)      // then ten lines, and the report with the first
	pass(time.Second, 5, 5, 10)                 // below the rate
	pass(200*time.Millisecond, 7, 7, 0)         // nothing was lost
	pass(time.Hour, 50, 50, 0)                  // and no more than the burst is saved
	pass(0, 7, 0, 0)                            //
	if n := l.rest(); n != 7 || l.rest() != 0 { // what is left at the end
		t.Errorf("%d left", n)
	}
}

func TestWords(t *testing.T) {
	long := strings.Repeat("ä", 300) // 600 bytes
	for _, c := range []struct {
		tail []string
		want string
	}{
		{nil, ""},
		{[]string{"a"}, "; last on stderr: a"},
		{[]string{"a", "b", "c", "d"}, "; last on stderr: b | c | d"},
		{[]string{"a", "b", long}, "; last on stderr: " + long[:500] + "…"},
		{[]string{long, "b"}, "; last on stderr: " + long[:496] + "… | b"},
	} {
		if got := words(c.tail); got != c.want {
			t.Errorf("%q: %q", c.tail, got)
		}
	}
}
