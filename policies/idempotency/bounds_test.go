package idempotency

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func named(key string) func(*proxy.Exchange) { return func(ex *proxy.Exchange) { ex.Key = key } }

// serve makes a request that is not a duplicate.
func (r *callsRig) serve(change func(*proxy.Exchange), result string) {
	r.t.Helper()
	a := r.ask(aCall, change)
	r.served().say <- result
	a.gets(result)
}

// A request is remembered until the window after its response is over.
func TestWindow(t *testing.T) {
	r := newCallsRig(t, nil)
	a := r.ask(aCall, nil)
	s := r.served()
	r.pass(time.Hour) // a running request does not expire
	b := r.ask(aCall, nil)
	r.waiting(1)
	s.say <- aResult
	a.gets(aResult)
	b.gets(aReplay)
	r.pass(time.Minute - 1)
	r.ask(aCall, nil).gets(aReplay)
	r.pass(1)
	r.serve(nil, aResult)
}

// Expired responses are evicted without any request.
func TestSweep(t *testing.T) {
	r := newCallsRig(t, func(o *Options) { o.Window = 50 * time.Millisecond })
	until := func(what string, cond func() bool) {
		t.Helper()
		for end := time.Now().Add(timeout); !cond(); time.Sleep(time.Millisecond) { // polled
			if time.Now().After(end) {
				t.Fatalf("never happened: %s", what)
			}
		}
	}
	for round := range 2 {
		for i := range 3 {
			r.serve(named(fmt.Sprint(round, "-", i)), aResult)
			r.pass(20 * time.Millisecond)
		}
		for left := range 4 { // 3, which have not expired; then one less each time
			r.mu.Lock()
			before := r.looked
			r.mu.Unlock()
			until("a look at what is kept", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return left == 3 || r.looked > before })
			until("an end", func() bool { n, bytes := r.p.Kept(); return n <= 3-left && (n > 0) == (bytes > 0) })
			r.pass(20 * time.Millisecond)
		}
	}
}

// Beyond Max and Bytes the oldest responses of the larger kind are evicted: many calls in sessions do not evict a key.
func TestBounds(t *testing.T) {
	r := newCallsRig(t, func(o *Options) { o.Max, o.Bytes = 4, 64<<10 })
	sess := proxy.NewSession("s", "http", "", proxy.Caller{}, time.Now())
	r.serve(named("a"), aResult)
	r.serve(named("b"), aResult)
	for i := range 20 {
		a := r.ask(strings.Replace(aCall, `"id":1`, fmt.Sprint(`"id":`, i), 1), func(ex *proxy.Exchange) { ex.Session, ex.Key = sess, "" })
		r.served().say <- aResult
		a.gets(aResult)
	}
	if n, _ := r.p.Kept(); n != 4 {
		t.Errorf("%d kept, want 4", n)
	}
	r.ask(aCall, named("a")).gets(aReplay)
	r.serve(named("c"), aResult)
	r.serve(named("d"), aResult)
	r.serve(named("a"), aResult) // it was the oldest
	large := `{"jsonrpc":"2.0","id":1,"result":{"x":"` + strings.Repeat("x", 40<<10) + `"}}`
	r.serve(named("e"), large)
	r.serve(named("f"), large)
	if n, bytes := r.p.Kept(); bytes > 64<<10 || n == 0 {
		t.Errorf("%d kept in %d bytes", n, bytes)
	}
	r.ask(aCall, named("f")).gets(`again {…`)
	r.serve(named("e"), aResult)
	r.p.Close()
	if n, bytes := r.p.Kept(); n != 0 || bytes != 0 {
		t.Errorf("closed: %d in %d bytes", n, bytes)
	}
	r.serve(named("f"), aResult)
	r.serve(named("f"), aResult)
}

// The number of duplicates that wait is bounded.
func TestTooManyDuplicates(t *testing.T) {
	r := newCallsRig(t, func(o *Options) { o.Max = 2 })
	a := r.ask(aCall, nil)
	s := r.served()
	b, c := r.ask(aCall, nil), r.ask(aCall, nil)
	r.waiting(2)
	r.ask(aCall, nil).gets("error duplicate_request_id")
	r.counted("too_many", 1)
	s.say <- aResult
	a.gets(aResult)
	b.gets(aReplay)
	c.gets(aReplay)
}

func TestModeReject(t *testing.T) {
	r := newCallsRig(t, func(o *Options) { o.Mode = Reject })
	a := r.ask(aCall, nil)
	s := r.served()
	r.ask(aCall, nil).gets("error duplicate_request_id")
	s.say <- aResult
	a.gets(aResult)
	r.ask(aCall, nil).gets("error duplicate_request_id")
	r.counted("repeat", 2)
	if _, bytes := r.p.Kept(); bytes > entryCost+8 {
		t.Errorf("%d bytes are kept of an answer without a reader", bytes)
	}
}

func TestModeOff(t *testing.T) {
	r := newCallsRig(t, func(o *Options) { o.Mode = Off })
	r.serve(nil, aResult)
	r.serve(nil, aResult)
	r.serve(named("no key"), aResult)
	if n, _ := r.p.Kept(); n != 0 {
		t.Errorf("%d kept", n)
	}
}

// Many clients share keys and cancel at random: two calls of one key never run at a time, no call follows a response, and every client gets
// the response or has cancelled.
func TestManyDuplicates(t *testing.T) {
	const keys, clients = 20, 2000
	p, err := New(Options{Mode: Replay, Window: time.Minute, Max: clients, Bytes: 1 << 20}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var running, answered [keys]atomic.Int32
	handle := p.Wrap(func(ex *proxy.Exchange) (proxy.Replies, error) {
		var k int
		_, _ = fmt.Sscan(ex.Key, &k)
		if running[k].Add(1) != 1 {
			t.Errorf("two concurrent calls of key %d", k)
		}
		if answered[k].Load() != 0 {
			t.Errorf("%d was answered before", k)
		}
		return &delayedReplies{ex: ex, running: &running[k], answered: &answered[k]}, nil
	})
	m := policytest.Scan(t, aCall)
	var group sync.WaitGroup
	var got atomic.Int32
	for i := range clients {
		group.Go(func() {
			ex := &proxy.Exchange{Msg: m, Key: fmt.Sprint(i % keys)}
			ex.GiveUp(timeout)
			defer ex.Release()
			if rand.IntN(3) == 0 {
				timer := time.AfterFunc(time.Duration(rand.IntN(4000))*time.Microsecond, ex.Leave)
				defer timer.Stop()
			}
			replies, err := handle(ex)
			for err == nil {
				var m *wire.Message
				if m, err = replies.Next(time.Now().Add(time.Duration(rand.IntN(3000)) * time.Microsecond)); err == proxy.ErrNotYet && !ex.Late() {
					err = nil
				} else if err == nil && m.IsResponse() {
					got.Add(1)
					break
				}
			}
			if err != nil && ex.Err() != proxy.ErrCancelled {
				t.Errorf("%v, %v", err, ex.Err())
			}
			if replies != nil {
				_ = replies.Close()
			}
		})
	}
	group.Wait()
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	if n, _ := p.store.total(); n > keys || p.runs() != 0 || p.store.waiting != 0 || got.Load() < clients/2 {
		t.Errorf("%d kept, %d running, %d wait, %d answered", n, p.runs(), p.store.waiting, got.Load())
	}
}

// delayedReplies is replies that come after a moment.
type delayedReplies struct {
	ex                *proxy.Exchange
	running, answered *atomic.Int32
	said              bool
}

func (b *delayedReplies) Next(until time.Time) (*wire.Message, error) {
	select {
	case <-b.ex.Done():
		return nil, b.ex.Err()
	case <-time.After(time.Millisecond):
	}
	if time.Now().After(until) || rand.IntN(3) > 0 {
		return nil, proxy.ErrNotYet
	}
	b.said = true
	b.answered.Add(1)
	return proxy.Scanned([]byte(aResult))
}

func (b *delayedReplies) Close() error {
	if b.running.Add(-1) != 0 {
		panic("closed twice")
	}
	return nil
}
