package era

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/seal"
	"dragoman/adapters/transport"
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

// earlyRig is a pooled session of a client with the given capabilities, in which nothing runs.
func earlyRig(t *testing.T, s *fakeServer, caps string) (u *Upstream, p *pooled) {
	t.Helper()
	u = NewUpstream(Options{Name: "up", Wires: transport.Wires{Legacy: s.dial}, Self: []byte(`{"name":"dragoman","version":"1"}`),
		ProbeTimeout: time.Second, ProfileTTL: time.Hour, MaxSessions: 10, IdleTTL: time.Hour})
	ex := modernExchange(t, "p", `{"name":"n"}`, caps)
	ex.Msg = *scan(t, strings.Replace(string(ex.Msg.Raw), "tools/call", "prompts/list", 1)) // in which nothing may be asked
	conversationOf(t, u, ex)
	for _, all := range u.pool.sessions {
		p = all[0]
	}
	return u, p
}

// What a server asks while no call is there that could bring it to the client waits for one, a while and not too many; then
// it is refused, for the server may answer nothing before.
func TestEarlyQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{}
		u, p := earlyRig(t, s, `{"roots":{}}`)
		said := func() string {
			synctest.Wait()
			l := p.link.Get().(*fakeLink)
			l.mu.Lock()
			defer l.mu.Unlock()
			all := ""
			for _, m := range l.said {
				if strings.Contains(m, `"error"`) {
					all += m + "\n"
				}
			}
			return all
		}
		for i := range heldQuestions {
			p.Message(scan(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, i)))
		}
		p.Message(scan(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`))
		p.Message(scan(t, `{"jsonrpc":"2.0","id":"3","method":"roots/list"}`)) // in its place
		if got := said(); got != "" {
			t.Errorf("refused at once: %s", got)
		}
		p.Message(scan(t, `{"jsonrpc":"2.0","id":"more","method":"roots/list"}`))
		if got := said(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":"more","error":{"code":-32601,`) {
			t.Errorf("the one too many: %s", got)
		}
		time.Sleep(holdTime - time.Millisecond)
		if n := strings.Count(said(), "\n"); n != 1 {
			t.Errorf("%d refusals before the time", n)
		}
		time.Sleep(time.Millisecond)
		if n := strings.Count(said(), "\n"); n != heldQuestions+1 || strings.Contains(said(), `"id":3,`) { // one was withdrawn
			t.Errorf("%d refusals", n)
		}
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
}

// What the session's capabilities do not allow can be asked of no call to come: the server is told at once.
func TestEarlyUndeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, p := earlyRig(t, &fakeServer{}, `{}`)
		p.Message(scan(t, `{"jsonrpc":"2.0","id":7,"method":"roots/list"}`))
		synctest.Wait()
		l := p.link.Get().(*fakeLink)
		l.mu.Lock()
		if got := l.said[len(l.said)-1]; !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,`) {
			t.Errorf("%s", got)
		}
		l.mu.Unlock()
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
}
