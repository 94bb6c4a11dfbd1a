package idempotency

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const timeout = 10 * time.Second

// callsRig is the policy around a scripted handler.
type callsRig struct {
	t       *testing.T
	p       *Policy
	handle  proxy.Handler
	calls   chan *served // each call that reaches the handler
	metrics *prometheus.Registry

	mu     sync.Mutex
	now    time.Time
	looked int // how often the clock was read
}

// served is a call at the handler.
type served struct {
	ex         *proxy.Exchange
	begin      chan error // nil: replies
	say        chan any   // string: a message; error: instead of one
	closed     chan struct{}
	ignoresEnd bool // ignores the end of its exchange
}

func newCallsRig(t *testing.T, change func(*Options)) *callsRig {
	r := &callsRig{t: t, calls: make(chan *served, 64), now: time.Unix(1e9, 0), metrics: prometheus.NewRegistry()}
	opt := Options{Mode: Replay, Window: time.Minute, Max: 100, Bytes: 1 << 20,
		Now: func() time.Time { r.mu.Lock(); defer r.mu.Unlock(); r.looked++; return r.now }}
	if change != nil {
		change(&opt)
	}
	p, err := New(opt, r.metrics)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	r.p = p
	r.handle = p.Wrap(func(ex *proxy.Exchange) (proxy.Replies, error) {
		ex.Target = "target"
		s := &served{ex: ex, begin: make(chan error, 1), say: make(chan any, 8), closed: make(chan struct{})}
		r.calls <- s
		if err := <-s.begin; err != nil {
			return nil, err
		}
		return s, nil
	})
	return r
}

// runs is how many requests run. The caller holds the store's lock.
func (p *Policy) runs() (n int) {
	for i := range p.store.entries {
		n += len(p.store.entries[i].byName) - p.store.entries[i].cached
	}
	return n
}

func (r *callsRig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// Next implements proxy.Replies.
func (s *served) Next(until time.Time) (*wire.Message, error) {
	var late <-chan time.Time
	if !until.IsZero() {
		late = time.After(time.Until(until))
	}
	var done <-chan struct{}
	if !s.ignoresEnd {
		done = s.ex.Done()
	}
	select {
	case v := <-s.say:
		if err, ok := v.(error); ok {
			return nil, err
		}
		return proxy.Scanned([]byte(v.(string)))
	case <-done:
		return nil, s.ex.Err()
	case <-late:
		return nil, proxy.ErrNotYet
	}
}

// Close implements proxy.Replies.
func (s *served) Close() error {
	close(s.closed)
	return nil
}

// asked is a client's request; out receives its outcome.
type asked struct {
	t   *testing.T
	ex  *proxy.Exchange
	out chan string
}

// ask makes a request and reads its replies on a goroutine, as an endpoint does. The outcome is the message, after "again " if it was
// replayed, or "error NAME".
func (r *callsRig) ask(raw string, change func(*proxy.Exchange)) *asked {
	r.t.Helper()
	a := &asked{t: r.t, ex: &proxy.Exchange{Msg: policytest.Scan(r.t, raw), Key: "k", Client: proxy.Client{Version: "v"}}, out: make(chan string, 8)}
	if change != nil {
		change(a.ex)
	}
	go a.run(r.handle)
	return a
}

func (a *asked) run(handle proxy.Handler) {
	defer close(a.out)
	say := func(what string) {
		if a.ex.Replayed {
			what = "again " + what
		}
		a.out <- what
	}
	replies, err := handle(a.ex)
	if err != nil {
		say("error " + proxy.AsError(a.ex.Why(err)).Name)
		return
	}
	defer func() { _ = replies.Close() }()
	for {
		m, err := replies.Next(time.Now().Add(20 * time.Millisecond)) // like a handler that keeps a stream alive
		switch {
		case errors.Is(err, proxy.ErrNotYet) && a.ex.Late():
			say("error " + proxy.UpstreamTimeout.Name)
			return
		case errors.Is(err, proxy.ErrNotYet):
			continue
		case err != nil:
			say("error " + proxy.AsError(a.ex.Why(err)).Name)
			return
		}
		say(string(m.Append(nil)))
		if m.IsResponse() {
			if a.ex.Replayed {
				if _, err := replies.Next(time.Time{}); err != io.EOF {
					say(fmt.Sprint("after the response: ", err))
				}
			}
			return
		}
	}
}

func wait[T any](t *testing.T, what string, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(timeout):
		t.Fatalf("never came: %s", what)
	}
	return v
}

// gets checks the outcome of a request; … matches anything.
func (a *asked) gets(want string) {
	a.t.Helper()
	got := wait(a.t, want, a.out)
	before, after, open := strings.Cut(want, "…")
	if got != want && !(open && strings.HasPrefix(got, before) && strings.HasSuffix(got, after)) {
		a.t.Errorf("got %s\nwant %s", got, want)
	}
}

// served returns the next call at the handler.
func (r *callsRig) served() *served {
	r.t.Helper()
	s := wait(r.t, "a call at the handler", r.calls)
	s.begin <- nil
	return s
}

func (r *callsRig) none() {
	r.t.Helper()
	if len(r.calls) > 0 {
		r.t.Error("the handler was called again")
	}
}

// waiting waits until n duplicates wait.
func (r *callsRig) waiting(n int) {
	r.t.Helper()
	for end := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) { // polled
		got := r.p.Waiting()
		if got == n {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%d duplicates wait, want %d", got, n)
		}
	}
}

func (r *callsRig) counted(outcome string, want float64) {
	r.t.Helper()
	if got := policytest.Labels(r.t, r.metrics, "dragoman_idempotent_requests_total", "outcome")[outcome]; got != want {
		r.t.Errorf("%s: counted %v, want %v", outcome, got, want)
	}
}

const (
	aCall   = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`
	aResult = `{"jsonrpc":"2.0","id":1,"result":{}}`
	aReplay = `again {"jsonrpc":"2.0","id":1,"result":{"_meta":{"io.dragoman/replayed":true}}}`
)
