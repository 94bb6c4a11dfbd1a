package sessions

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// caller returns an exchange of a client that can be asked.
func caller(principal, address string) *proxy.Exchange {
	ex := &proxy.Exchange{Caller: proxy.Caller{Principal: principal}, Client: proxy.Client{Info: []byte(`{"name":"n"}`), Caps: []byte(`{"roots":{}}`)}}
	if address != "" {
		ex.Arrival = &proxy.Arrival{Address: netip.MustParseAddr(address)}
	}
	return ex
}

// turn begins a leased turn, and returns how long that took.
func (r rig) turn(t *testing.T, ex *proxy.Exchange) (*Turn, time.Duration) {
	t.Helper()
	began := time.Now()
	turn, err := r.Turn(ex, true, 0)
	if err != nil {
		t.Fatal(err)
	}
	ex.Detach(turn)
	return turn, time.Since(began)
}

// A client's next call runs in the session of the one before, however that ended; a call beside one that runs, in another.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(&fakeserver.Server{})
		expect := func(what string, got *Turn, took time.Duration, number uint64, waits time.Duration) {
			t.Helper()
			if got.Session().Number() != number || took != waits || !got.Leased() {
				t.Errorf("%s: session %d after %s", what, got.Session().Number(), took)
			}
		}
		first, took := r.turn(t, caller("p", ""))
		expect("the first", first, took, 1, 0)
		beside, took := r.turn(t, caller("p", ""))
		expect("beside a call that runs", beside, took, 2, 0)
		beside.End()
		beside.End() // once
		first.End()
		if all, leased := r.Size(); all != 2 || leased != 0 {
			t.Errorf("%d sessions, %d leased", all, leased)
		}

		asked, took := r.turn(t, caller("p", ""))
		expect("after an answer", asked, took, 1, 0)
		asked.Suspend()
		next, took := r.turn(t, caller("p", ""))
		expect("after a question", next, took, 1, quietTime)
		asked.Resume(t.Context())
		if all, leased := r.Size(); all != 2 || leased != 1 {
			t.Errorf("%d sessions, %d leased", all, leased)
		}
		next.Suspend()
		beside, took = r.turn(t, caller("p", ""))
		expect("beside a call that was resumed", beside, took, 2, 0)
		beside.End()
		asked.End()
		next.End()

		given, _ := r.turn(t, caller("p", ""))
		given.Abort()
		given.Suspend() // too late
		time.AfterFunc(RestTime, given.End)
		next, took = r.turn(t, caller("p", ""))
		expect("after a call that was given up", next, took, 1, RestTime)
		next.Abort()
		beside, took = r.turn(t, caller("p", ""))
		expect("after a call that does not end", beside, took, 2, restMost)
		next.End()
		beside.End()
		r.close(t)
	})
}

// The turn of a call that is cancelled before it begins is given up at once; its session serves the next call.
func TestTurnCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(chan struct{})
		r := newRig(&fakeserver.Server{Held: held})
		ex := caller("p", "")
		failed := make(chan error)
		go func() {
			_, err := r.Turn(ex, true, 0)
			failed <- err
		}()
		synctest.Wait()
		ex.Cancel(proxy.ErrCancelled)
		if err := <-failed; err != proxy.ErrCancelled {
			t.Errorf("%v", err)
		}
		close(held)
		if next, took := r.turn(t, caller("p", "")); next.Session().Number() != 1 || took != 0 {
			t.Errorf("session %d after %s", next.Session().Number(), took)
		}
		ex = caller("q", "")
		turn, err := r.Turn(ex, true, 0)
		if err != nil {
			t.Fatal(err)
		}
		ex.Cancel(proxy.ErrCancelled) // before the call has begun
		if turn.state != resting {
			t.Errorf("state %d", turn.state)
		}
		turn.End()
		r.close(t)
	})
}

// Before a call is taken for concurrent, the system is asked which clients have left: their calls are given up.
func TestTurnAfterDeparture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(&fakeserver.Server{})
		left, _ := r.turn(t, caller("p", ""))
		looks := 0
		ex := caller("p", "10.0.0.1")
		ex.Arrival.Departures = func() {
			looks++
			left.Abort()
			time.AfterFunc(RestTime, left.End)
		}
		if next, took := r.turn(t, ex); next.Session().Number() != 1 || took != RestTime || looks != 1 {
			t.Errorf("session %d after %s, %d looks", next.Session().Number(), took, looks)
		}
		ex.Arrival.Departures = func() { looks++ }
		if next, took := r.turn(t, ex); next.Session().Number() != 2 || took != 0 || looks != 2 {
			t.Errorf("session %d after %s, %d looks", next.Session().Number(), took, looks)
		}
		r.close(t)
	})
}

// A call that waits for the only session of a server gets it although the time for that ends while the session is quiet.
func TestTurnAfterLeaseWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(&fakeserver.Server{})
		r.opt.LeaseWait = 20 * time.Millisecond
		r.single.Store(true)
		asked, _ := r.turn(t, caller("p", ""))
		time.AfterFunc(15*time.Millisecond, asked.Suspend)
		next, took := r.turn(t, caller("p", ""))
		if next.Session() != asked.Session() || took != 15*time.Millisecond+quietTime {
			t.Errorf("session %d after %s", next.Session().Number(), took)
		}
		next.End()
		asked.End()
		r.close(t)
	})
}

// Anonymous callers of other addresses may be other people: a question that comes late must not reach them.
func TestTurnsOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(&fakeserver.Server{})
		f := func(what string, ex *proxy.Exchange, number uint64, waits time.Duration) {
			t.Helper()
			turn, took := r.turn(t, ex)
			if turn.Session().Number() != number || took != waits {
				t.Errorf("%s: session %d after %s", what, turn.Session().Number(), took)
			}
			turn.End()
		}
		asked, _ := r.turn(t, caller("", "10.0.0.1"))
		asked.Suspend()
		f("another address", caller("", "10.0.0.2"), 2, 0)
		f("the same address", caller("", "10.0.0.1"), 1, quietTime)
		asked.Abort()
		f("another address, while the session rests", caller("", "10.0.0.2"), 2, 0)
		asked.End()
		known, _ := r.turn(t, caller("p", "10.0.0.1"))
		known.Suspend()
		f("one person, two addresses", caller("p", "10.0.0.2"), 3, quietTime)
		known.End()
		r.close(t)
	})
}

// fickle is a call that accepts questions.
type fickle struct{ name string }

func (*fickle) Accepts(m *wire.Message) bool { return m.Kind == wire.Request }
func (*fickle) Receive(*wire.Message)        {}
func (*fickle) Withdraw(*wire.Message)       {}

// A question that names no call belongs to the leased call that began to run last; to a suspended one only if none runs.
func TestAskedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(&fakeserver.Server{})
		m := fakeserver.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		var s *Session
		expect := func(what, name string, count int) {
			t.Helper()
			got := ""
			found, n, _ := s.asked(m)
			if c, ok := found.(*fickle); ok {
				got = c.name
			}
			if got != name || n != count {
				t.Errorf("%s: %q of %d", what, got, n)
			}
		}
		a, _ := r.turn(t, caller("p", ""))
		s = a.Session()
		expect("nobody", "", 0)
		a.Join(&fickle{"a"}, false)
		expect("one", "a", 1)
		a.Suspend()
		expect("a suspended one", "a", 1)
		b, _ := r.turn(t, caller("p", ""))
		b.Join(&fickle{"b"}, false)
		expect("one runs", "b", 2)
		a.Resume(t.Context())
		expect("both run", "a", 2)
		a.Suspend()
		b.Suspend()
		expect("none runs", "b", 2)
		b.Resume(t.Context())
		expect("one runs again", "b", 2)
		a.Abort()
		expect("one runs beside one that was given up after its client had been asked", "b", 2)
		b.Suspend()
		expect("none runs beside it", "", 2)
		a.End()
		c, _ := r.turn(t, caller("p", ""))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		b.Resume(gone) // at once
		expect("two run", "b", 2)
		c.Abort()
		expect("one runs beside one that was given up while it ran", "", 2)
		for _, turn := range []*Turn{b, c} {
			turn.End()
		}
		for _, c := range slices.Clone(s.inbox.calls) {
			s.Leave(c.Receiver)
		}
		expect("nobody again", "", 0)
		for _, name := range []string{"c", "d"} { // without a lease, as with asks_on_call
			turn, err := r.Turn(caller("p", ""), false, 0)
			if err != nil {
				t.Fatal(err)
			}
			turn.Suspend()
			turn.Join(&fickle{name}, false)
			defer turn.End()
			if name == "c" {
				expect("one without a lease", "c", 1)
			}
		}
		expect("two without a lease", "", 2)
		leased, _ := r.turn(t, caller("p", ""))
		leased.Join(&fickle{"e"}, false)
		expect("one runs beside two without a lease", "e", 3)
		leased.Suspend()
		expect("one is suspended beside two without a lease", "e", 3)
		leased.End()
		r.close(t)
	})
}

// A turn that resumes waits for the one that has begun meanwhile, but not for ever, and not for a client that has left.
func TestTurnResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(&fakeserver.Server{})
		resume := func(ctx context.Context, turn *Turn) time.Duration {
			began := time.Now()
			turn.Resume(ctx)
			return time.Since(began)
		}
		a, _ := r.turn(t, caller("p", ""))
		for what, c := range map[string]struct {
			leave func(*Turn)
			quiet time.Duration
		}{"suspended": {(*Turn).Suspend, quietTime}, "over": {(*Turn).End, 0}, "given up": {func(b *Turn) {
			b.Abort()
			time.AfterFunc(RestTime, b.End)
		}, RestTime}} {
			a.Suspend()
			b, _ := r.turn(t, caller("p", ""))
			time.AfterFunc(100*time.Millisecond, func() { c.leave(b) })
			if took := resume(t.Context(), a); took != 100*time.Millisecond+c.quiet || a.state != running {
				t.Errorf("the other is %s: %v, state %d", what, took, a.state)
			}
			b.End()
		}
		a.Suspend()
		b, _ := r.turn(t, caller("p", ""))
		if took := resume(t.Context(), a); took != resumeMost || a.state != running || b.state != running {
			t.Errorf("the other runs on: %v", took)
		}
		a.Suspend()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if took := resume(ctx, a); took != time.Millisecond {
			t.Errorf("the client has left: %v", took)
		}
		a.Abort()
		if took := resume(t.Context(), a); took != 0 || a.state != resting {
			t.Errorf("a call that was given up: %v, state %d", took, a.state)
		}
		a.End()
		b.End()
		r.close(t)
	})
}
