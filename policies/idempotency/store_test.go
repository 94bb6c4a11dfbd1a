package idempotency

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A duplicate that has waited may read the response after it has expired.
func TestWaitingDuplicateKeepsResponse(t *testing.T) {
	p, err := New(Options{Mode: Replay, Window: time.Hour, Max: 4, Bytes: 1 << 20}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	enter := func(key string) (*entry, *duplicate) {
		m := policytest.Scan(t, aCall)
		first, w, err := p.enter(&proxy.Exchange{Msg: m, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		return first, w
	}
	finish := func(e *entry) { p.store.finish(e, response{raw: []byte(aResult)}, true) }
	m, _ := enter("first")
	_, w := enter("first")
	finish(m)
	for i := range 20 {
		other, _ := enter(fmt.Sprint(i))
		finish(other)
	}
	got, err := w.Next(time.Time{})
	if err != nil || "again "+string(got.Append(nil)) != aReplay {
		t.Error(got, err)
	}
	_ = w.Close()
}

// remembered is a request in the model of TestStoreMatchesModel.
type remembered struct {
	key     string
	session *proxy.Session
	ex      *proxy.Exchange
	entry   *entry
	over    time.Time
	size    int
}

// rememberModel is the store in its simplest form.
type rememberModel struct {
	opt  Options
	now  time.Time
	runs []*remembered
	kept [kinds][]*remembered
}

func (x *rememberModel) total() (n, bytes int) {
	for _, entries := range x.kept {
		n += len(entries)
		bytes += sizes(entries)
	}
	return n, bytes
}

func sizes(all []*remembered) (n int) {
	for _, r := range all {
		n += r.size
	}
	return n
}

func (x *rememberModel) expire() {
	for i := range x.kept {
		x.kept[i] = slices.DeleteFunc(x.kept[i], func(r *remembered) bool { return x.now.Sub(r.over) >= x.opt.Window })
	}
}

func (x *rememberModel) keep(r *remembered) {
	kind := bySession
	if r.session == nil {
		kind = byKey
	}
	r.over = x.now
	x.kept[kind] = append(x.kept[kind], r)
	x.expire()
	for {
		n, bytes := x.total()
		a, b := x.kept[bySession], x.kept[byKey]
		switch {
		case n > x.opt.Max && len(a) >= len(b), bytes > x.opt.Bytes && sizes(a) >= sizes(b):
			x.kept[bySession] = a[1:]
		case n > x.opt.Max, bytes > x.opt.Bytes:
			x.kept[byKey] = b[1:]
		default:
			return
		}
	}
}

func (x *rememberModel) forget(s *proxy.Session) {
	gone := func(r *remembered) bool { return r.session == s }
	x.runs, x.kept[bySession] = slices.DeleteFunc(x.runs, gone), slices.DeleteFunc(x.kept[bySession], gone)
}

func (x *rememberModel) knows(ex *proxy.Exchange, id string) *remembered {
	for _, all := range [][]*remembered{x.runs, x.kept[bySession], x.kept[byKey]} {
		for _, r := range all {
			if r.session == ex.Session && r.key == id {
				return r
			}
		}
	}
	return nil
}

// The store behaves like its model: it has the same requests, in the same number of bytes, for the same time, and nothing of ended
// sessions. Every response is the one that was cached.
func TestStoreMatchesModel(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(3, seed))
		x := &rememberModel{now: time.Unix(1e9, 0)}
		x.opt = Options{Mode: Replay, Window: time.Hour, Max: 30 + 100*int(seed), Bytes: 120 << 10, Now: func() time.Time { return x.now }}
		p, err := New(x.opt, prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		var sessions [5]*proxy.Session
		for step := range 20000 {
			i := r.IntN(len(sessions) + 2)
			switch k := r.IntN(1000); {
			case k == 0:
				p.store.endSession(sessions[i%len(sessions)])
				x.forget(sessions[i%len(sessions)])
				sessions[i%len(sessions)] = nil
			case k < 100:
				x.now = x.now.Add(time.Duration(r.IntN(180)) * time.Second)
			case k < 550:
				ex, id := &proxy.Exchange{}, fmt.Sprint(r.IntN(600))
				if i >= len(sessions) {
					ex.Key = id
				} else {
					if sessions[i] == nil {
						sessions[i] = proxy.NewSession("s", "http", "", proxy.Caller{}, time.Now())
					}
					ex.Session = sessions[i]
				}
				if ex.Msg, err = wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{}}`, id)); err != nil {
					t.Fatal(err)
				}
				x.ask(t, p, ex, id)
			case len(x.runs) > 0:
				x.settle(p, r)
			}
			if step%50 == 0 {
				p.store.mu.Lock()
				p.store.expire(x.now)
				p.store.mu.Unlock()
				x.expire()
			}
			n, bytes := p.Kept()
			if wantN, want := x.total(); n != wantN || bytes != want || p.runs() != len(x.runs) {
				t.Fatalf("step %d: %d are kept in %d bytes, want %d in %d; %d run, want %d", step, n, bytes, wantN, want, p.runs(), len(x.runs))
			}
		}
		p.Close()
		if n, bytes := p.Kept(); n != 0 || bytes != 0 || p.runs() != len(x.runs) {
			t.Errorf("closed: %d in %d bytes; %d run of %d", n, bytes, p.runs(), len(x.runs))
		}
	}
}

func (x *rememberModel) ask(t *testing.T, p *Policy, ex *proxy.Exchange, id string) {
	t.Helper()
	known := x.knows(ex, id)
	if known != nil && known.entry.over && x.now.Sub(known.over) >= x.opt.Window { // only this one: nothing was swept
		for i := range x.kept {
			x.kept[i] = slices.DeleteFunc(x.kept[i], func(r *remembered) bool { return r == known })
		}
		known = nil
	}
	m, w, err := p.enter(ex)
	switch {
	case err != nil:
		t.Fatal(err)
	case known == nil:
		if w != nil || m.over {
			t.Fatalf("%s is known", id)
		}
		x.runs = append(x.runs, &remembered{key: id, session: ex.Session, ex: ex, entry: m})
	case m != known.entry || (w == nil) != known.entry.over || w == nil && string(m.raw[:len(id)]) != id:
		t.Fatalf("%s has another response", id)
	case w != nil:
		_ = w.Close()
	}
}

// settle ends one of the running requests in one of the ways in which calls end.
func (x *rememberModel) settle(p *Policy, r *rand.Rand) {
	i := r.IntN(len(x.runs))
	it := x.runs[i]
	x.runs = slices.Delete(x.runs, i, i+1)
	switch r.IntN(8) {
	case 0:
		p.store.abandon(it.entry)
		return
	case 1:
		p.store.finish(it.entry, response{err: proxy.Errf(proxy.Lost, "lost")}, false)
		return
	}
	size := 100 + r.IntN(300)
	if r.IntN(50) == 0 {
		size = 30 << 10
	}
	raw := append(make([]byte, 0, size), it.key...)
	raw = append(raw, make([]byte, size-len(it.key))...)
	it.size = entryCost + cap(raw)
	p.store.finish(it.entry, response{raw: raw}, true)
	x.keep(it)
}
