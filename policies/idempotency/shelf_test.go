package idempotency

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// shelfModel is what a shelf is to be like.
type shelfModel struct {
	t    *testing.T
	s    shelf
	all  map[sum]*memo
	runs []*memo // in no order
	kept []*memo // the oldest first
	of   map[*memo]*memos
}

func (x *shelfModel) begin(n sum, of *memos) {
	i, m := x.s.find(n)
	if want := x.all[n]; m != want {
		x.t.Fatalf("%x: found %p, want %p", n, m, want)
	}
	if m == nil {
		m = &memo{name: n}
		x.s.begin(i, m, of)
		x.all[n], x.of[m] = m, of
		x.runs = append(x.runs, m)
	}
}

func (x *shelfModel) end(i int, keep bool) {
	m := x.runs[i]
	x.runs = slices.Delete(x.runs, i, i+1)
	if keep {
		x.s.keep(m, 0)
		x.kept = append(x.kept, m)
		return
	}
	at, of := x.s.end(m)
	x.s.empty(at)
	if of != x.of[m] {
		x.t.Fatal("it was another session's")
	}
	delete(x.all, m.name)
}

func (x *shelfModel) take(i int) {
	m := x.kept[i]
	x.kept = slices.Delete(x.kept, i, i+1)
	at := x.s.first
	if i > 0 {
		slot, _ := x.s.find(m.name)
		at, _ = x.s.placeOf(x.s.slots[slot])
	}
	if p := x.s.take(at); p.m != m || p.of != x.of[m] || p.tag != tagOf(m.name) || int(p.size) != m.size() {
		x.t.Fatalf("took %+v, want %p", p, m)
	}
	delete(x.all, m.name)
}

// check looks at all there is.
func (x *shelfModel) check() {
	x.t.Helper()
	s := &x.s
	for n, want := range x.all {
		if _, m := s.find(n); m != want {
			x.t.Fatalf("%x: found %p, want %p", n, m, want)
		}
	}
	bytes := 0
	var kept, runs []*memo
	for at := s.first; at < s.next; at++ {
		if m := s.place(at).m; m != nil {
			kept = append(kept, m)
			bytes += m.size()
		}
	}
	for _, r := range s.runners {
		if r.m != nil {
			runs = append(runs, r.m)
		}
	}
	if !slices.Equal(kept, x.kept) || s.count != len(kept) || s.bytes != bytes || len(runs) != len(x.runs) || s.running != len(runs) {
		x.t.Fatalf("%d of %d are kept in %d of %d bytes, %d of %d run", s.count, len(x.kept), s.bytes, bytes, len(runs), len(x.runs))
	}
	holds := 0
	for _, p := range s.places { // what is not kept is let go of
		if p.m != nil || p.of != nil {
			holds++
		}
	}
	used := 0
	for _, x := range s.slots {
		if x != 0 {
			used++
		}
	}
	if holds != len(kept) || used != s.used || used > len(s.slots)/4*3 || len(s.slots) != 2*len(s.places) {
		x.t.Fatalf("%d places hold something, %d are kept; %d slots of %d are used, as counted %d", holds, len(kept), used, len(s.slots), s.used)
	}
	sessions := map[*memos]bool{}
	for _, of := range x.of {
		sessions[of] = of != nil
	}
	for of, is := range sessions {
		if is {
			x.chain(of)
		}
	}
}

// chain checks what is known of a session.
func (x *shelfModel) chain(of *memos) {
	x.t.Helper()
	s := &x.s
	var kept, want []*memo
	for at := of.last; at >= s.first; at -= uint64(s.place(at).before) {
		if m := s.place(at).m; m != nil {
			kept = append(kept, m)
		}
		if s.place(at).before == 0 {
			break
		}
	}
	for _, m := range slices.Backward(x.kept) {
		if x.of[m] == of {
			want = append(want, m)
		}
	}
	if !slices.Equal(kept, want) {
		x.t.Fatalf("a session has %d memos, want %d", len(kept), len(want))
	}
	run := 0
	for i := of.runs; i != 0; i = s.runners[i].next {
		if run++; s.runners[i].of != of || x.of[s.runners[i].m] != of {
			x.t.Fatal("another session's runs in this one")
		}
	}
	for _, m := range x.runs {
		if x.of[m] == of {
			run--
		}
	}
	if run != 0 {
		x.t.Fatalf("%d more than run run in a session", run)
	}
}

// A shelf finds what a map would, whatever comes and goes: with names of few tags, and of many; as it grows and shrinks; and when the
// part of a place's number that is in the index begins anew.
func TestShelfIsAMap(t *testing.T) {
	many := func(r *rand.Rand) sum { return sum{r.Uint64(), r.Uint64()} }
	for _, c := range []struct {
		name  string
		of    func(*rand.Rand) sum
		first uint64
	}{
		{"many", many, 0},
		{"few names", func(r *rand.Rand) sum { return sum{r.Uint64N(400) << 50, 0} }, 0},
		{"few tags", func(r *rand.Rand) sum { return sum{r.Uint64N(4) << 62, r.Uint64N(300)} }, 0},
		{"few homes, the last and the first", func(r *rand.Rand) sum { return sum{(r.Uint64N(8) - 4) << 33, r.Uint64N(100)} }, 0},
		{"numbers begin anew", many, 1<<31 - 5000},
		{"and again", func(r *rand.Rand) sum { return sum{r.Uint64N(400) << 50, 0} }, 1<<33 - 5000},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			x := &shelfModel{t: t, all: map[sum]*memo{}, of: map[*memo]*memos{}}
			x.s.first, x.s.next = c.first, c.first
			sessions := []*memos{nil, {}, {}, {}}
			for step := range 20000 {
				most := 20 + 500*(step/4000%2) // it grows and shrinks
				switch k := r.IntN(20); {
				case k < 9:
					x.begin(c.of(r), sessions[r.IntN(len(sessions))])
				case k < 17 && len(x.runs) > 0:
					x.end(r.IntN(len(x.runs)), k > 9)
				case k == 17 && len(x.kept) > 0:
					x.take(r.IntN(len(x.kept)))
				}
				for len(x.kept) > most {
					x.take(0)
				}
				if step%101 == 0 {
					x.check()
					x.forgetGone()
				}
			}
			for len(x.kept) > 0 {
				x.take(0)
			}
			for len(x.runs) > 0 {
				x.end(0, false)
			}
			x.s.letGo()
			x.check()
			if len(x.s.places) != leastPlaces {
				t.Errorf("there are still %d places", len(x.s.places))
			}
		})
	}
}

func (x *shelfModel) forgetGone() {
	for m := range x.of {
		if x.all[m.name] != m {
			delete(x.of, m)
		}
	}
}

// However many memos come and go, the shelf is as large as what is on it, and is not rebuilt while as many come as go.
func TestShelfGoesRound(t *testing.T) {
	for _, most := range []int{1, 40, 10000, 16000} {
		x := &shelfModel{t: t, all: map[sum]*memo{}, of: map[*memo]*memos{}}
		r := rand.New(rand.NewPCG(1, uint64(most)))
		round := func() {
			x.begin(sum{r.Uint64(), r.Uint64()}, nil)
			x.end(0, true)
			if len(x.kept) > most {
				x.take(0)
			}
			if len(x.of) > 2*most {
				x.forgetGone()
			}
		}
		for range 3 * most {
			round()
		}
		next, used := x.s.next, 0
		const rounds = 40000
		for range rounds {
			round()
			used = max(used, x.s.used)
		}
		if got := len(x.s.places); got > max(leastPlaces, 4*most) {
			t.Errorf("%d places for %d", got, most)
		}
		if most > 1000 && x.s.next != next+rounds { // small ones are, now and then
			t.Errorf("%d: it was rebuilt with %d of %d slots used", most, used, len(x.s.slots))
		}
		x.check()
	}
}

// One that stays, as that of a session which lasts among many that do not, keeps no place from being filled again.
func TestShelfWithOneThatStays(t *testing.T) {
	of := &memos{}
	x := &shelfModel{t: t, all: map[sum]*memo{}, of: map[*memo]*memos{}}
	for i := range uint64(1000) {
		x.begin(sum{i * 0x9e3779b97f4a7c15, i}, of)
		x.end(0, true)
		if i > 1 {
			x.take(1)
		}
		x.check()
		x.forgetGone()
	}
	if len(x.s.places) != leastPlaces {
		t.Errorf("%d places for 2", len(x.s.places))
	}
}

// Who waited for an answer may read it for longer than it is kept.
func TestWhoWaitedKeepsTheAnswer(t *testing.T) {
	p, err := New(Options{Mode: Replay, Window: time.Hour, Max: 4, Bytes: 1 << 20}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	enter := func(key string) (*memo, *repeat) {
		m, err := wire.Scan([]byte(aCall))
		if err != nil {
			t.Fatal(err)
		}
		first, w, err := p.enter(&proxy.Exchange{Msg: m, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		return first, w
	}
	settle := func(m *memo) { p.settle(m, outcomeOf{raw: append(m.room(len(aResult)), aResult...)}, true) }
	m, _ := enter("first")
	_, w := enter("first")
	settle(m)
	for i := range 20 {
		other, _ := enter(fmt.Sprint(i))
		if other == m {
			t.Fatal("what somebody waited for is another's")
		}
		settle(other)
	}
	got, err := w.Next(time.Time{})
	if err != nil || "again "+string(got.Append(nil)) != aReplay {
		t.Error(got, err)
	}
	_ = w.Close()
}

// What lies in how many cache lines is what the layout is for.
func TestSizesOfShelves(t *testing.T) {
	if got := unsafe.Sizeof(memo{}); got != 128 {
		t.Errorf("a memo takes %d bytes", got)
	}
	if got := unsafe.Sizeof(place{}); got > 40 {
		t.Errorf("a place takes %d bytes", got)
	}
}

// remembered is a request in the model of TestIdempotencyRemembers.
type remembered struct {
	key     string
	session *proxy.Session
	ex      *proxy.Exchange
	memo    *memo
	over    time.Time
	size    int
}

// rememberModel does what the policy is to do, in the plainest way.
type rememberModel struct {
	opt  Options
	now  time.Time
	runs []*remembered
	kept [kinds][]*remembered
}

func (x *rememberModel) total() (n, bytes int) {
	for _, shelf := range x.kept {
		n += len(shelf)
		bytes += sizes(shelf)
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
	kind := ofSessions
	if r.session == nil {
		kind = ofKeys
	}
	r.over = x.now
	x.kept[kind] = append(x.kept[kind], r)
	x.expire()
	for {
		n, bytes := x.total()
		a, b := x.kept[ofSessions], x.kept[ofKeys]
		switch {
		case n > x.opt.Max && len(a) >= len(b), bytes > x.opt.Bytes && sizes(a) >= sizes(b):
			x.kept[ofSessions] = a[1:]
		case n > x.opt.Max, bytes > x.opt.Bytes:
			x.kept[ofKeys] = b[1:]
		default:
			return
		}
	}
}

func (x *rememberModel) forget(s *proxy.Session) {
	gone := func(r *remembered) bool { return r.session == s }
	x.runs, x.kept[ofSessions] = slices.DeleteFunc(x.runs, gone), slices.DeleteFunc(x.kept[ofSessions], gone)
}

func (x *rememberModel) knows(ex *proxy.Exchange, id string) *remembered {
	for _, all := range [][]*remembered{x.runs, x.kept[ofSessions], x.kept[ofKeys]} {
		for _, r := range all {
			if r.session == ex.Session && r.key == id {
				return r
			}
		}
	}
	return nil
}

// What is remembered is what the plainest policy would remember: exactly so many, in exactly so many bytes, exactly so long, and
// nothing of sessions that have ended. Every answer is the one that was kept.
func TestIdempotencyRemembers(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(3, seed))
		x := &rememberModel{now: time.Unix(1e9, 0)}
		x.opt = Options{Mode: Replay, Window: time.Second, Max: 30 + 100*int(seed), Bytes: 120 << 10, Now: func() time.Time { return x.now }}
		p, err := New(x.opt, prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		var sessions [5]*proxy.Session
		for step := range 20000 {
			i := r.IntN(len(sessions) + 2)
			switch k := r.IntN(1000); {
			case k == 0:
				p.forget(sessions[i%len(sessions)])
				x.forget(sessions[i%len(sessions)])
				sessions[i%len(sessions)] = nil
			case k < 100:
				x.now = x.now.Add(time.Duration(r.IntN(50)) * time.Millisecond)
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
				p.mu.Lock()
				p.expire(p.now())
				p.mu.Unlock()
				x.expire()
			}
			n, bytes := p.Kept()
			if wantN, want := x.total(); n != wantN || bytes != want || p.runs() != len(x.runs) || p.spare.count > mostSpare || p.spare.bytes > spareBytes {
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
	if known != nil && known.memo.over && x.now.Sub(known.over) >= x.opt.Window { // only what is asked for: nobody has swept
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
		x.runs = append(x.runs, &remembered{key: id, session: ex.Session, ex: ex, memo: m})
	case m != known.memo || (w == nil) != known.memo.over || w == nil && string(m.raw[:len(id)]) != id:
		t.Fatalf("%s is another's", id)
	case w != nil:
		_ = w.Close()
	}
}

// settle ends one of those that run, as calls end.
func (x *rememberModel) settle(p *Policy, r *rand.Rand) {
	i := r.IntN(len(x.runs))
	it := x.runs[i]
	x.runs = slices.Delete(x.runs, i, i+1)
	switch r.IntN(8) {
	case 0:
		p.abandon(it.memo)
		return
	case 1:
		p.settle(it.memo, outcomeOf{err: proxy.Errf(proxy.Lost, "lost")}, false)
		return
	}
	size := 100 + r.IntN(300)
	if r.IntN(50) == 0 {
		size = 30 << 10
	}
	raw := append(it.memo.room(size), it.key...)
	raw = append(raw, make([]byte, size-len(it.key))...)
	it.size = memoCost + cap(raw)
	p.settle(it.memo, outcomeOf{raw: raw}, true)
	x.keep(it)
}
