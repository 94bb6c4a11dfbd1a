package era

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/seal"
	"dragoman/proxy"
)

// newParked makes a call that could be parked, of a principal at an upstream.
func newParked(u *Upstream, who string) *dialogue {
	return &dialogue{u: u, principal: who, inner: &proxy.Exchange{}, wake: make(chan struct{}, 1)}
}

// As many calls are parked as may be, of all and of one; each is taken once, and what is taken makes room.
func TestLotBounds(t *testing.T) {
	l, err := NewLot(Questions{MaxParked: 3, MaxPerPrincipal: 2})
	if err != nil {
		t.Fatal(err)
	}
	u := &Upstream{lot: l}
	park := func(who, refusal string) handle {
		t.Helper()
		h, err := l.park(newParked(u, who))
		switch {
		case refusal == "" && err != nil, refusal != "" && err == nil:
			t.Errorf("%s: %v", who, err)
		case err != nil && (err.Name != proxy.TooManyParked.Name || !strings.Contains(err.Message, refusal) || err.Retryable || err.RetryAfter <= 0):
			t.Errorf("%s: %v", who, err)
		}
		return h
	}
	a := park("alice", "")
	park("alice", "")
	park("alice", "questions.max_parked_per_principal")
	park("bob", "")
	park("carol", "questions.max_parked ")
	if l.Parked() != 3 {
		t.Errorf("%d parked", l.Parked())
	}
	if l.find(a) == nil || l.find(a) != l.take(a) || l.take(a) != nil || l.find(a) != nil {
		t.Error("not taken exactly once")
	}
	park("alice", "")
	l.clear(u)
	if len(l.parked)+len(l.of) != 0 {
		t.Errorf("left: %v %v", l.parked, l.of)
	}
	if l.take(handle{}) != nil {
		t.Error("a handle that nobody gave out")
	}
}

// Of many that come with one state at the same time, one gets the call.
func TestLotTakenOnce(t *testing.T) {
	l, _ := NewLot(Questions{})
	for range 50 {
		h, err := l.park(newParked(&Upstream{lot: l}, ""))
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		got := make(chan *dialogue, 8)
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

// Nobody comes back: at its time, not before, the call is given up and its handle is none any more.
func TestLotTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := NewLot(Questions{TTL: time.Minute})
		d := newParked(&Upstream{lot: l}, "p")
		h, err := l.park(d)
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
		if l.find(h) != nil || l.Parked() != 0 || len(l.of) != 0 || !errors.Is(d.inner.Err(), errUnanswered) {
			t.Errorf("still parked; %v", d.inner.Err())
		}
	})
}

// The end of one upstream is nobody else's.
func TestLotClearsItsOwn(t *testing.T) {
	l, _ := NewLot(Questions{})
	one, two := &Upstream{lot: l}, &Upstream{lot: l}
	d := newParked(one, "p")
	h, _ := l.park(d)
	other, _ := l.park(newParked(two, "p"))
	l.clear(one)
	if l.find(h) != nil || l.find(other) == nil || l.of["p"] != 1 {
		t.Error("cleared the wrong ones")
	}
	var e *proxy.Error
	if !errors.As(d.inner.Err(), &e) || e.Name != proxy.ShuttingDown.Name {
		t.Errorf("%v", d.inner.Err())
	}
	l.clear(two)
}

// A state is its principal's: to another it is as good as none, and nothing is said of why (vector 62).
func TestStateOfAnotherPrincipal(t *testing.T) {
	s := &fakeServer{}
	u := newPooled(t, s, 10, time.Hour)
	retry := func(who, sealed string) (string, error) {
		ex := modernExchange(t, who, `{"name":"n"}`, `{"elicitation":{"url":{}}}`)
		state := u.lot.seal.Seal(seal.URLs, []byte("\x01"+`{"u1-1":{"method":"elicitation/create","params":{"mode":"url","url":"x:"}}}`),
			seal.Binding(modernExchange(t, sealed, `{"name":"other"}`, `{}`), "up"), time.Now().Add(time.Hour))
		raw := strings.Replace(string(ex.Msg.Raw), `"arguments":{}`, `"arguments":{},"requestState":"`+state+`"`, 1)
		ex.Msg = *scan(t, raw)
		replies, err := u.Do(ex)
		if err != nil {
			return "", err
		}
		m, err := proxy.Response(replies, time.Now().Add(5*time.Second))
		return string(m.Raw), err
	}
	if got, err := retry("alice", "alice"); err != nil || !strings.Contains(got, `"inputRequests":{"u1-1":`) {
		t.Errorf("%s %v", got, err)
	}
	for _, who := range []string{"bob", "", "alice "} {
		_, err := retry(who, "alice")
		var e *proxy.Error
		if !errors.As(err, &e) || e.Name != proxy.BadState.Name || e.Status != 400 || e.Message != badState().Message {
			t.Errorf("%q: %v", who, err)
		}
	}
}
