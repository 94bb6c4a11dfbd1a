package limits

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// countingHandler is a policy in front of a handler that counts concurrent requests.
type countingHandler struct {
	t      *testing.T
	handle proxy.Handler

	mu           sync.Mutex
	within, most int
	order        []string
}

func newCountingHandler(t *testing.T, p proxy.Policy) *countingHandler {
	x := &countingHandler{t: t}
	x.handle = p(func(ex *proxy.Exchange) (proxy.Replies, error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if ex.RequestID == "fails" {
			return nil, errors.New("no")
		}
		x.within++
		x.most = max(x.most, x.within)
		x.order = append(x.order, ex.RequestID)
		return countedReplies{proxy.Reply(wire.Message{}), x}, nil
	})
	return x
}

type countedReplies struct {
	proxy.Replies
	x *countingHandler
}

func (l countedReplies) Close() error {
	l.x.mu.Lock()
	defer l.x.mu.Unlock()
	l.x.within--
	return nil
}

// begin sends a request; its result is sent to the returned channel.
func (x *countingHandler) begin(name, body string) (*proxy.Exchange, <-chan any) {
	x.t.Helper()
	ex, out := &proxy.Exchange{Msg: policytest.Scan(x.t, body), RequestID: name}, make(chan any, 1)
	go func() {
		if r, err := x.handle(ex); err != nil {
			out <- err
		} else {
			out <- r
		}
	}()
	return ex, out
}

func newSlots(t *testing.T, opt SlotOptions) *Slots {
	t.Helper()
	s, err := NewSlots(opt, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(t, SlotOptions{Requests: 2, Queue: 3})
		x := newCountingHandler(t, s.Policy())
		var outs []<-chan any
		var exs []*proxy.Exchange
		for i := range 5 {
			ex, out := x.begin(fmt.Sprint(i), listRequest)
			synctest.Wait() // so that they arrive in this order
			exs, outs = append(exs, ex), append(outs, out)
		}
		if x.within != 2 || s.running.Load() != 2 || s.waiting.Load() != 3 {
			t.Fatalf("%d within, %d running, %d waiting", x.within, s.running.Load(), s.waiting.Load())
		}
		_, out := x.begin("too many", listRequest)
		var e *proxy.Error
		if err, _ := (<-out).(error); !errors.As(err, &e) || e.Name != proxy.Busy.Name || e.RetryAfter == 0 || !strings.Contains(e.Message, "limits.queue") {
			t.Fatal(err)
		}
		_, out = x.begin("a listen", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`)
		if r, ok := (<-out).(proxy.Replies); !ok {
			t.Error("a listen waits")
		} else {
			_ = r.Close()
		}
		exs[3].Cancel(proxy.ErrCancelled)
		if err, _ := (<-outs[3]).(error); !errors.Is(err, proxy.ErrCancelled) {
			t.Errorf("cancelled while it waits: %v", err)
		}
		for _, i := range []int{0, 1, 2, 4} {
			r, ok := (<-outs[i]).(proxy.Replies)
			if !ok {
				t.Fatalf("%d not admitted", i)
			}
			_ = r.Close()
			synctest.Wait() // one at a time, so that they run in the order in which they waited
		}
		if got := strings.Join(x.order, " "); got != "0 1 a listen 2 4" || s.running.Load() != 0 || s.waiting.Load() != 0 {
			t.Errorf("order %q, %d running, %d waiting", got, s.running.Load(), s.waiting.Load())
		}
		for range 5 { // a failed request holds no slot
			_, out := x.begin("fails", listRequest)
			if err, _ := (<-out).(error); err == nil || err.Error() != "no" {
				t.Fatal(err)
			}
		}
	})
}

func TestSlotsCountBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(t, SlotOptions{Bytes: 1000, Queue: 1})
		x := newCountingHandler(t, s.Policy())
		large := policytest.CallOf(strings.Repeat("x", 500))
		_, out := x.begin("beyond", policytest.CallOf(strings.Repeat("x", 1000)))
		var e *proxy.Error
		if err, _ := (<-out).(error); !errors.As(err, &e) || e.Name != proxy.Busy.Name || !strings.Contains(e.Message, "limits.in_flight_bytes") {
			t.Fatal(err)
		}
		_, first := x.begin("first", large)
		synctest.Wait()
		_, second := x.begin("second", large)
		synctest.Wait()
		if x.within != 1 {
			t.Fatalf("%d within", x.within)
		}
		_ = (<-first).(proxy.Replies).Close()
		_ = (<-second).(proxy.Replies).Close()
	})
	if newSlots(t, SlotOptions{}).Policy() != nil {
		t.Error("there is a policy without limits")
	}
}

func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newCountingHandler(t, Concurrency(2, map[string]int{"frail": 1}))
		var outs []<-chan any
		for _, name := range []string{"frail", "frail", "other", "another"} {
			_, out := x.begin(name, policytest.CallOf(name))
			synctest.Wait()
			outs = append(outs, out)
		}
		if got := strings.Join(x.order, " "); got != "frail other" {
			t.Fatalf("%q are running: one of frail, two in total", got)
		}
		for _, i := range []int{0, 2, 1, 3} {
			r, ok := (<-outs[i]).(proxy.Replies)
			if !ok {
				t.Fatalf("%d not admitted", i)
			}
			synctest.Wait()
			_ = r.Close()
			synctest.Wait()
		}
		if x.most != 2 || x.within != 0 {
			t.Errorf("at most %d, at the end %d", x.most, x.within)
		}
		for range 3 { // a client that leaves while it waits for the server releases the tool's slot
			_, a := x.begin("a", policytest.CallOf("a"))
			_, b := x.begin("b", policytest.CallOf("b"))
			synctest.Wait()
			ex, out := x.begin("frail", policytest.CallOf("frail"))
			synctest.Wait()
			ex.Cancel(proxy.ErrCancelled)
			if err, _ := (<-out).(error); !errors.Is(err, proxy.ErrCancelled) {
				t.Fatal(err)
			}
			_ = (<-a).(proxy.Replies).Close()
			_ = (<-b).(proxy.Replies).Close()
		}
	})
	if Concurrency(0, nil) != nil {
		t.Error("there is a policy without limits")
	}
}

func TestListens(t *testing.T) {
	const listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`
	p := Listens(4, 2)(func(*proxy.Exchange) (proxy.Replies, error) { return proxy.Reply(wire.Message{}), nil })
	open := func(who string) (proxy.Replies, error) {
		return p(&proxy.Exchange{Msg: policytest.Scan(t, listen), Caller: proxy.Caller{Principal: who}})
	}
	var all []proxy.Replies
	for _, c := range []struct{ who, fails string }{{"ann", ""}, {"ann", ""}, {"ann", "listens_per_principal"}, {"", ""}, {"", ""}, {"", "limits.listens "}, {"bob", "limits.listens "}} {
		r, err := open(c.who)
		if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%q: %v, want %q", c.who, err, c.fails)
		}
		if err == nil {
			all = append(all, r)
		}
	}
	for _, r := range all {
		_ = r.Close()
	}
	if r, err := open("ann"); err != nil {
		t.Error(err)
	} else {
		_ = r.Close()
	}
	if Listens(0, 0) != nil {
		t.Error("there is a policy without limits")
	}
}

// A listen ends with the credential of its client, in the way a drain ends it. Without an expiry it goes on, and so do other requests.
func TestListensExpire(t *testing.T) {
	const rawListen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`
	synctest.Test(t, func(t *testing.T) {
		h := Listens(10, 10)(func(*proxy.Exchange) (proxy.Replies, error) { return &policytest.Script{End: proxy.ErrNotYet}, nil })
		open := func(raw string, ends time.Time, own bool) (*proxy.Exchange, proxy.Replies) {
			ex := policytest.Request(t, raw)
			ex.Caller, ex.Own = proxy.Caller{Principal: "a", Rights: &proxy.Rights{Kind: "jwt", Expires: ends}}, own
			replies, err := h(ex)
			if err != nil {
				t.Fatal(err)
			}
			return ex, replies
		}
		soon := time.Now().Add(time.Minute)
		ends, _ := open(rawListen, soon, false)
		closed, replies := open(rawListen, soon, false)
		_ = replies.Close()
		var stay []*proxy.Exchange
		for _, s := range []struct {
			raw  string
			ends time.Time
			own  bool
		}{{rawListen, time.Time{}, false}, {rawListen, soon.Add(time.Hour), false}, {rawListen, soon, true}, {policytest.Call, soon, false}} {
			ex, _ := open(s.raw, s.ends, s.own)
			stay = append(stay, ex)
		}
		time.Sleep(time.Minute - 1)
		if synctest.Wait(); ends.Err() != nil {
			t.Error("too early")
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); !errors.Is(ends.Err(), proxy.ErrDraining) {
			t.Errorf("%v", ends.Err())
		}
		for i, ex := range append(stay, closed) {
			if ex.Err() != nil {
				t.Errorf("%d: %v", i, ex.Err())
			}
		}
	})
}
