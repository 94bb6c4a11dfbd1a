package limits

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/internal/testkit"
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
		if x.within != 2 || s.now().running != 2 || s.now().waiting != 3 {
			t.Fatalf("%d within, %d running, %d waiting", x.within, s.now().running, s.now().waiting)
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
		if got := strings.Join(x.order, " "); got != "0 1 a listen 2 4" || s.now().running != 0 || s.now().waiting != 0 {
			t.Errorf("order %q, %d running, %d waiting", got, s.now().running, s.now().waiting)
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
		_, runs := x.begin("frail", policytest.CallOf("frail"))
		synctest.Wait()
		ex, out := x.begin("frail", policytest.CallOf("frail"))
		synctest.Wait()
		ex.Cancel(proxy.ErrCancelled) // it waits for the tool, and has nothing to release
		if err, _ := (<-out).(error); !errors.Is(err, proxy.ErrCancelled) {
			t.Fatal(err)
		}
		_ = (<-runs).(proxy.Replies).Close()
	})
	synctest.Test(t, func(t *testing.T) { // only tools have a bound
		x := newCountingHandler(t, Concurrency(0, map[string]int{"frail": 1}))
		var outs []<-chan any
		for range 3 {
			_, out := x.begin("other", policytest.CallOf("other"))
			outs = append(outs, out)
		}
		synctest.Wait()
		if x.within != 3 {
			t.Errorf("%d within, want 3", x.within)
		}
		for _, out := range outs {
			_ = (<-out).(proxy.Replies).Close()
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
	for _, l := range []*listens{{all: 2}, {each: 1}} { // one bound alone
		l.of = make(map[string]int)
		for n := range 3 {
			if err, most := l.enter("ann"), max(l.all, l.each); (err == nil) != (n < most) {
				t.Errorf("%+v: %v after %d", l, err, n)
			}
		}
		for range max(l.all, l.each) {
			l.leave("ann")
		}
		if l.n != 0 || len(l.of) != 0 {
			t.Errorf("%d open, %v", l.n, l.of)
		}
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

// One client neither takes all slots nor the whole queue, and what waits for its share does not hold up others.
func TestSlotsOfOneClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(t, SlotOptions{Requests: 4, Queue: 4})
		x := newCountingHandler(t, s.Policy())
		from := func(name, principal, addr string) <-chan any {
			t.Helper()
			ex, out := &proxy.Exchange{Msg: policytest.Scan(t, listRequest), RequestID: name}, make(chan any, 1)
			ex.Caller.Principal = principal
			if addr != "" {
				ex.Arrival = &proxy.Arrival{Address: netip.MustParseAddr(addr)}
			}
			go func() {
				if r, err := x.handle(ex); err != nil {
					out <- err
				} else {
					out <- r
				}
			}()
			synctest.Wait()
			return out
		}
		var greedy []<-chan any
		for i := range 6 { // three run, three wait
			greedy = append(greedy, from(fmt.Sprint("g", i), "greedy", "192.0.2.1"))
		}
		if got := s.now(); got.running != 3 || got.waiting != 3 {
			t.Fatalf("%+v", got)
		}
		var e *proxy.Error
		if err, _ := (<-from("g6", "greedy", "192.0.2.2")).(error); !errors.As(err, &e) || e.Name != proxy.Busy.Name || !strings.Contains(e.Message, "limits.in_flight_per_principal, 3") || !strings.Contains(e.Message, "of this caller") {
			t.Fatal(err)
		}
		other := from("o", "", "192.0.2.1")
		if s.now().running != 4 {
			t.Fatal("another caller waits for the share of the greedy one")
		}
		second := from("o2", "", "192.0.2.1") // all four are taken
		if got := s.now(); got.running != 4 || got.waiting != 4 {
			t.Fatalf("%+v", got)
		}
		if err, _ := (<-from("p", "p", "")).(error); !errors.As(err, &e) || !strings.Contains(e.Message, "limits.in_flight, 4") {
			t.Fatal(err)
		}
		_ = (<-other).(proxy.Replies).Close() // its slot of the other goes to the other, who came last
		_ = (<-second).(proxy.Replies).Close()
		if got := s.now(); got.running != 3 || got.waiting != 3 {
			t.Fatalf("%+v", got)
		}
		for _, out := range greedy {
			_ = (<-out).(proxy.Replies).Close()
			synctest.Wait() // one at a time, as above
		}
		if got := s.now(); got != (share{}) || strings.Join(x.order, " ") != "g0 g1 g2 o o2 g3 g4 g5" {
			t.Errorf("%+v, %v", got, x.order)
		}
	})
}

// A large request is not passed by small ones for ever, and who has nothing running may run one of any size.
func TestSlotsForLargeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large, small := policytest.CallOf(strings.Repeat("x", 900)), listRequest
		s := newSlots(t, SlotOptions{Requests: 10, Each: 10, Queue: 10, Bytes: 1000})
		x := newCountingHandler(t, s.Policy())
		_, first := x.begin("first", small)
		synctest.Wait()
		_, second := x.begin("large", large)
		synctest.Wait()
		_, third := x.begin("third", small)
		synctest.Wait()
		if got := s.now(); got.running != 1 || got.waiting != 2 {
			t.Fatalf("%+v", got)
		}
		_ = (<-first).(proxy.Replies).Close()
		_ = (<-second).(proxy.Replies).Close()
		_ = (<-third).(proxy.Replies).Close()
		if strings.Join(x.order, " ") != "first large third" {
			t.Error(x.order)
		}
	})
}

// Clients that have gone are forgotten.
func TestSlotsForget(t *testing.T) {
	s := newSlots(t, SlotOptions{Requests: 10, Queue: 10})
	handle := s.Policy()(func(*proxy.Exchange) (proxy.Replies, error) { return proxy.Reply(wire.Message{}), nil })
	for i := range 3 * keptShares {
		ex := &proxy.Exchange{Msg: policytest.Scan(t, listRequest)}
		ex.Caller.Principal = fmt.Sprint(i)
		r, err := handle(ex)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
	}
	if n := len(s.of); n != keptShares {
		t.Errorf("%d clients are remembered", n)
	}
	s.used.running = 10 // by others
	ex, out := &proxy.Exchange{Msg: policytest.Scan(t, listRequest)}, make(chan error, 1)
	ex.Caller.Principal = "one more"
	ex.Cancel(proxy.ErrCancelled)
	go func() { _, err := handle(ex); out <- err }()
	if err := testkit.Receive(t, "the end of the wait", out); !errors.Is(err, proxy.ErrCancelled) || len(s.of) != keptShares {
		t.Errorf("%v, %d clients are remembered after one that has left while it waited", err, len(s.of))
	}
}

// Callers whom only headers tell apart that anybody can invent are one client at each address.
func TestSlotsOfInventedCallers(t *testing.T) {
	s := newSlots(t, SlotOptions{Requests: 4, Queue: 4})
	of := func(principal, addr string, alone bool) *clientShare {
		ex := &proxy.Exchange{Arrival: &proxy.Arrival{Address: netip.MustParseAddr(addr)}}
		ex.Caller = proxy.Caller{Principal: principal, Forwarded: &proxy.Forwarded{Alone: alone}}
		return s.shareOf(ex)
	}
	for range 2 {
		a := of("a", "192.0.2.1", true)
		if a != of("b", "192.0.2.1", true) || a != of("", "192.0.2.1", false) || a == of("a", "192.0.2.2", true) {
			t.Error("they have shares of their own")
		}
		b := of("b", "192.0.2.1", false)
		if a == b || b != of("b", "192.0.2.2", false) || b == of("c", "192.0.2.2", false) {
			t.Error("a caller with a credential has no share of its own")
		}
	}
}

// A share that is forgotten is not used again: its client gets another one, which is counted.
func TestSlotsForgetTheLast(t *testing.T) {
	s := newSlots(t, SlotOptions{Requests: 10, Queue: 10})
	for i := range keptShares {
		s.of[client{principal: fmt.Sprint(i)}] = new(clientShare)
	}
	ex := policytest.Request(t, listRequest)
	for range 2 {
		taken, err := s.enter(ex)
		if err != nil || s.of[client{}] != taken.of || taken.of.running != 1 {
			t.Fatalf("%v, %+v", err, taken.of)
		}
		s.leave(taken)
		if s.of[client{}] != nil {
			t.Error("it is remembered")
		}
	}
}

// A request that is cancelled as its turn comes gives its slot to the next.
func TestSlotsOfWhoLeavesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(t, SlotOptions{Requests: 1, Queue: 2})
		x := newCountingHandler(t, s.Policy())
		running, err := s.enter(policytest.Request(t, listRequest))
		if err != nil {
			t.Fatal(err)
		}
		ex, out := x.begin("leaves", listRequest)
		synctest.Wait()
		_, next := x.begin("next", listRequest)
		synctest.Wait()
		s.mu.Lock()
		ex.Cancel(proxy.ErrCancelled)
		for _, use := range []*share{&s.used, &running.of.share} { // as leave does
			use.running--
			use.bytes -= running.size
		}
		s.grant()
		s.mu.Unlock()
		if err, _ := (<-out).(error); !errors.Is(err, proxy.ErrCancelled) {
			t.Errorf("%v", err)
		}
		r, ok := (<-next).(proxy.Replies)
		if !ok {
			t.Fatal("the next one does not run")
		}
		_ = r.Close()
		if got := s.now(); got != (share{}) {
			t.Errorf("%+v", got)
		}
	})
}

// The clock of a request that has waited is read again, and the metrics count what runs, waits and is refused.
func TestSlotsTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		s, err := NewSlots(SlotOptions{Requests: 1, Queue: 1, Bytes: 10_000}, reg)
		if err != nil {
			t.Fatal(err)
		}
		x := newCountingHandler(t, s.Policy())
		_, first := x.begin("first", listRequest)
		synctest.Wait()
		ex, second := x.begin("second", listRequest)
		ex.Clock.Now()
		synctest.Wait()
		for body, want := range map[string]string{listRequest: "limits.in_flight, 1", policytest.CallOf(strings.Repeat("x", 10_000)): "limits.in_flight_bytes"} {
			_, out := x.begin("refused", body)
			if err, _ := (<-out).(error); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		for name, want := range map[string]float64{"dragoman_requests_running": 1, "dragoman_requests_queued": 1, "dragoman_requests_refused_busy_total": 2} {
			if got := policytest.Metric(t, reg, name); got != want {
				t.Errorf("%s %v, want %v", name, got, want)
			}
		}
		time.Sleep(time.Minute) // virtual time
		_ = (<-first).(proxy.Replies).Close()
		_ = (<-second).(proxy.Replies).Close()
		if got := ex.Clock.Now(); !got.Equal(time.Now()) {
			t.Errorf("it is %s for a request that has waited until %s", got, time.Now())
		}
	})
	synctest.Test(t, func(t *testing.T) { // without a bound on their number
		x := newCountingHandler(t, newSlots(t, SlotOptions{Bytes: 1000, Queue: 1}).Policy())
		large := policytest.CallOf(strings.Repeat("x", 700))
		var outs []<-chan any
		for range 2 {
			_, out := x.begin("", large)
			synctest.Wait()
			outs = append(outs, out)
		}
		_, out := x.begin("refused", large)
		if err, _ := (<-out).(error); err == nil || !strings.Contains(err.Error(), "limits.in_flight_bytes, 1000") {
			t.Errorf("%v", err)
		}
		for _, out := range outs {
			_ = (<-out).(proxy.Replies).Close()
		}
	})
}
