package input

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"dragoman/adapters/era/sessions"
	"dragoman/adapters/era/work"
	"dragoman/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newCall returns a call of a principal at a server that can be suspended.
func newCall(x *Calls, who string) *Call {
	return &Call{x: x, inner: &proxy.Exchange{Caller: proxy.Caller{Principal: who}}, wake: make(chan struct{}, 1), turn: new(sessions.Turn)}
}

// The store is bounded in total and per principal. Each call is taken once, which makes room.
func TestStoreBounds(t *testing.T) {
	l, err := NewStore(Options{MaxParked: 3, MaxPerPrincipal: 2})
	if err != nil {
		t.Fatal(err)
	}
	u := NewCalls("up", false, l, work.New(nil))
	suspend := func(who, refusal string) Handle {
		t.Helper()
		h, err := l.suspend(newCall(u, who))
		switch {
		case refusal == "" && err != nil, refusal != "" && err == nil:
			t.Errorf("%s: %v", who, err)
		case err != nil && (err.Name != proxy.TooManyParked.Name || !strings.Contains(err.Message, refusal) || err.Retryable || err.RetryAfter <= 0):
			t.Errorf("%s: %v", who, err)
		}
		return h
	}
	a := suspend("alice", "")
	suspend("alice", "")
	suspend("alice", "questions.max_parked_per_principal")
	suspend("bob", "")
	suspend("carol", "questions.max_parked ")
	if l.Suspended() != 3 {
		t.Errorf("%d suspended", l.Suspended())
	}
	if l.find(a) == nil || l.find(a) != l.take(a) || l.take(a) != nil || l.find(a) != nil {
		t.Error("not taken exactly once")
	}
	suspend("alice", "")
	u.Close()
	if len(l.suspended)+len(l.perPrincipal) != 0 {
		t.Errorf("left: %v %v", l.suspended, l.perPrincipal)
	}
	if l.take(Handle{}) != nil {
		t.Error("an unknown Handle")
	}
}

// Of many concurrent retries with one state, one obtains the call.
func TestStoreTakenOnce(t *testing.T) {
	l, _ := NewStore(Options{})
	for range 50 {
		h, err := l.suspend(newCall(NewCalls("up", false, l, work.New(nil)), ""))
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		got := make(chan *Call, 8)
		for range cap(got) {
			group.Go(func() {
				if d := l.take(h); d != nil {
					got <- d
				}
			})
		}
		group.Wait()
		if len(got) != 1 {
			t.Fatalf("%d got it", len(got))
		}
	}
}

// A call is given up when its TTL expires, not before, and its handle becomes invalid.
func TestStoreTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := NewStore(Options{TTL: time.Minute})
		d := newCall(NewCalls("up", false, l, work.New(nil)), "p")
		h, err := l.suspend(d)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute - time.Nanosecond) // of the bubble's clock
		synctest.Wait()
		if l.find(h) != d || d.inner.Err() != nil {
			t.Error("given up too soon")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if l.find(h) != nil || l.Suspended() != 0 || len(l.perPrincipal) != 0 || !errors.Is(d.inner.Err(), errUnanswered) {
			t.Errorf("still suspended; %v", d.inner.Err())
		}
	})
}

// Closing one upstream leaves the calls of others suspended.
func TestStoreClearsItsOwn(t *testing.T) {
	l, _ := NewStore(Options{})
	one, two := NewCalls("up", false, l, work.New(nil)), NewCalls("up", false, l, work.New(nil))
	d := newCall(one, "p")
	h, _ := l.suspend(d)
	other, _ := l.suspend(newCall(two, "p"))
	one.Close()
	if l.find(h) != nil || l.find(other) == nil || l.perPrincipal["p"] != 1 {
		t.Error("cleared the wrong ones")
	}
	var e *proxy.Error
	if !errors.As(d.inner.Err(), &e) || e.Name != proxy.ShuttingDown.Name {
		t.Errorf("%v", d.inner.Err())
	}
	two.Close()
}
