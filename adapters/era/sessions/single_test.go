package sessions

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/work"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// use is a session in use by a call.
type use struct {
	*Session
	end func()
}

func acquire(p *Pool, ex *proxy.Exchange, lease bool) (use, error) {
	if !lease {
		s, err := p.Acquire(ex, 0)
		if err != nil {
			return use{}, err
		}
		return use{s, s.Release}, nil
	}
	t, err := p.Turn(ex, true, 0)
	if err != nil {
		return use{}, err
	}
	ex.Detach(t)
	return use{t.Session(), t.End}, nil
}

// singleRig is a pool at a legacy server, with calls of several clients.
type singleRig struct {
	t      *testing.T
	pool   *Pool
	server *fakeserver.Server
	others int
}

func newSingleRig(t *testing.T) *singleRig {
	s := &fakeserver.Server{}
	r := &singleRig{t: t, server: s}
	server := &transport.Server{Name: "up", Wires: transport.Wires{Legacy: s.Dial}, Timeout: time.Second, Self: []byte(`{"name":"d","version":"1"}`)}
	opt := Options{Max: 8, IdleTTL: time.Hour, LeaseWait: 5 * time.Second, Others: func() int { return r.others }}
	group := work.New(nil)
	quota := NewQuota(server, opt, func(string, bool) bool { return false })
	r.pool = NewPool(server, opt, group, probe.NewKeeper(server, probe.Options{TTL: time.Hour}, fakeserver.NoLinks{}, group), quota)
	return r
}

func (r *singleRig) close() {
	r.pool.work.Close()
	_ = r.pool.Close()
	r.pool.work.Cancel()
	r.pool.work.Wait()
}

func (r *singleRig) acquire(who string, lease bool) (use, error) {
	ex, err := transport.NewExchange(proxy.Modern, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`))
	if err != nil {
		r.t.Fatal(err)
	}
	ex.Caller.Principal = who
	return acquire(r.pool, ex, lease)
}

func (r *singleRig) mustAcquire(who string, lease bool) use {
	r.t.Helper()
	s, err := r.acquire(who, lease)
	if err != nil {
		r.t.Fatalf("%s: %v", who, err)
	}
	return s
}

func (r *singleRig) count(want int) {
	r.t.Helper()
	synctest.Wait()
	if all, _ := r.pool.Size(); all != want {
		r.t.Errorf("%d sessions, want %d", all, want)
	}
}

// One session is open: surplus ones close once unused, an unused one gives way, and a used one is waited for.
func TestSingle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSingleRig(t)
		defer r.close()
		a, b, c := r.mustAcquire("a", false), r.mustAcquire("b", false), r.mustAcquire("c", false)
		c.end()
		r.count(3)
		if r.pool.Single() || r.pool.crowded() {
			t.Error("one session before there is a reason")
		}
		r.pool.MakeSingle()
		r.count(2) // the unused one has gone
		if !r.pool.crowded() || !c.Gone() {
			t.Error("two sessions are no crowd")
		}
		a.end()
		r.count(1)
		if r.pool.crowded() || a.Gone() == b.Gone() {
			t.Error("one session is a crowd")
		}
		again := r.mustAcquire("b", true) // its own, which is in use
		if again.Session != b.Session {
			t.Error("another session of the same client")
		}
		began := time.Now()
		if _, err := r.acquire("a", false); err == nil || time.Since(began) != 5*time.Second || !strings.Contains(proxy.AsError(err).Message, "one session at a time") ||
			!strings.Contains(proxy.AsError(err).Message, "upstreams.up.isolation") || proxy.AsError(err).RetryAfter != 5 {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		got := make(chan use, 1)
		go func() { got <- r.mustAcquire("a", false) }()
		synctest.Wait()
		b.end()
		synctest.Wait()
		if len(got) != 0 {
			t.Error("a session while a call goes on")
		}
		again.end()
		next := <-got
		r.count(1)
		if !b.Gone() || next.Gone() {
			t.Error("the session of the last call stays")
		}
		next.end()
	})
}

// Sessions that are not the pool's count too, and a listen does not keep a session from giving way.
func TestSingleAmongOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSingleRig(t)
		defer r.close()
		r.pool.MakeSingle()
		r.others = 1
		got := make(chan use, 1)
		go func() { got <- r.mustAcquire("a", false) }()
		synctest.Wait()
		r.count(0)
		if r.pool.crowded() {
			t.Error("one session is a crowd")
		}
		r.others = 0
		r.pool.Wake()
		a := <-got
		r.others = 1
		if !r.pool.crowded() {
			t.Error("two sessions are no crowd")
		}
		r.others = 0
		a.mu.Lock()
		a.listens++ // its use is a listen's
		a.mu.Unlock()
		b := r.mustAcquire("b", false)
		r.count(1)
		if !a.Gone() {
			t.Error("the listen keeps its session")
		}
		b.end()
	})
}
