package era

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/input"
	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// TestChaos tests that everything ends. Several clients of both eras call one server of a random kind, which asks, is silent, forgets
// sessions and dies. Clients answer correctly, wrongly, late or never, cancel, leave, and come back with used or foreign states; the
// Upstream may be closed meanwhile. In the end every request was answered exactly once or was cancelled by its client, no answer reached
// another question, no tool ran twice, and nothing is left: no goroutine, link, session, suspended call or awaited answer.
//
// Time is that of a synctest bubble, so that minutes pass at once and runs are as reproducible as goroutines allow. DRAGOMAN_TEST_SEED=n
// runs one seed again and prints what happened, DRAGOMAN_TEST_RUNS=n runs n of them.
func TestChaos(t *testing.T) {
	seeds(t, 400, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { newWorld(t, seed).live() })
	})
}

// world is one run.
type world struct {
	t      *testing.T
	seed   uint64
	g      *gen
	srv    *backend
	u      *Upstream
	store  *input.Store
	ttl    time.Duration
	relays int // legacy clients of a legacy server
	began  time.Time
	group  sync.WaitGroup // answers in transit

	mu       sync.Mutex
	log      []string
	failed   bool
	calls    map[string]int // calls in flight
	sessions []*proxy.Session
}

func newWorld(t *testing.T, seed uint64) *world {
	g := newGen(seed)
	w := &world{t: t, seed: seed, g: g, began: time.Now(), calls: map[string]int{}}
	b := &backend{w: w, modern: g.chance(35), piped: g.chance(50), aside: g.chance(40), runs: map[string]int{}}
	w.srv = b
	b.slow = time.Duration(pick(g, 0, 0, 3)) * time.Millisecond
	b.flaky = pick(g, 0, 0, 10)
	w.ttl = pick(g, 20*time.Millisecond, 300*time.Millisecond, 10*time.Minute)
	store, err := input.NewStore(input.Options{TTL: w.ttl, Settle: time.Duration(g.IntN(3)) * time.Millisecond, LeaseWait: pick(g, 10*time.Millisecond, 30*time.Second),
		MaxParked: pick(g, 2, 1000), MaxPerPrincipal: pick(g, 1, 100), Rounds: pick(g, 2, 10)})
	if err != nil {
		t.Fatal(err)
	}
	w.store = store
	opt := Options{Server: transport.Server{Name: "up", Self: []byte(`{"name":"dragoman","version":"1"}`), Timeout: 5 * time.Second},
		Store: store, Probe: probe.Options{TTL: pick(g, time.Hour, 30*time.Millisecond)},
		Sessions: sessions.Options{Max: pick(g, 2, 4, 16), IdleTTL: pick(g, time.Hour, 10*time.Millisecond)}, AsksOnCall: !b.aside && !b.piped && g.chance(50)}
	opt.Sessions.Isolation = sessions.Isolation{Sharing: pick(g, sessions.BySession, sessions.BySession, sessions.BySession, sessions.BySession, sessions.BySession, sessions.BySession, sessions.ByPrincipal, sessions.Pooled, sessions.Shared), Size: 2}
	if b.piped {
		opt.Sessions.Processes = sessions.Processes{Max: pick(g, 0, 2, 16), PerPrincipal: pick(g, 0, 1, 8), IdleExit: pick(g, 0, 0, 20*time.Millisecond)}
	}
	opt.Wires = transport.Wires{Legacy: b.dial, Stdio: b.piped}
	if b.modern {
		opt.Wires = transport.Wires{Modern: b.dial, Stdio: b.piped}
	}
	opt.Note = func(level, msg string, err error) { w.note("%s: %s: %v", level, msg, err) }
	w.u = NewUpstream(opt)
	w.note("modern %v, piped %v, aside %v, slow %v, ttl %v, sessions %d, on call %v, isolation %v", b.modern, b.piped, b.aside, b.slow, w.ttl, opt.Sessions.Max, opt.AsksOnCall, opt.Sessions.Isolation)
	return w
}

// opened counts a session that has to end.
func (w *world) opened(s *proxy.Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions = append(w.sessions, s)
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.log) < 20000 {
		w.log = append(w.log, fmt.Sprintf("%9.3f ", time.Since(w.began).Seconds()*1000)+fmt.Sprintf(format, args...))
	}
}

func (w *world) bad(format string, args ...any) {
	w.note("BAD: "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = true
	w.t.Errorf("DRAGOMAN_TEST_SEED=%d: %s", w.seed, fmt.Sprintf(format, args...))
}

// under counts a call in flight until the returned function is called.
func (w *world) under(tag string) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[tag]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.calls[tag]--; w.calls[tag] == 0 {
			delete(w.calls, tag)
		}
	}
}

// live runs the world to its end.
func (w *world) live() {
	defer w.print()
	var clients sync.WaitGroup
	g := w.g
	shared := w.u.opt.Sessions.Isolation.Mixed()
	var lives []func()
	for i := range 1 + g.IntN(5) {
		a := &actor{w: w, g: newGen(w.seed<<8 + uint64(i)), who: pick(g, "p", "q"), asks: g.chance(75) && !shared}
		begin := a.modern
		if a.name = fmt.Sprintf("m%d", i); g.chance(40) {
			a.name, begin = fmt.Sprintf("l%d", i), a.legacy
			if !w.srv.modern && !shared {
				w.relays++
			}
		}
		delay := time.Duration(g.IntN(20)) * time.Millisecond
		lives = append(lives, func() {
			time.Sleep(delay) // virtual time
			begin()
		})
	}
	for _, life := range lives {
		clients.Go(life)
	}
	w.trouble(&clients)
	abrupt := g.chance(30)
	if abrupt {
		time.Sleep(time.Duration(g.IntN(200)) * time.Millisecond) // virtual time
		w.note("the upstream is closed")
		w.close()
	}
	w.wait("the clients", clients.Wait)
	if !abrupt {
		w.quiesce()
		w.close()
	}
	w.ended()
}

// trouble makes the server fail outside of calls.
func (w *world) trouble(clients *sync.WaitGroup) {
	for range w.g.IntN(3) {
		g := newGen(w.g.Uint64())
		clients.Go(func() {
			time.Sleep(time.Duration(g.IntN(150)) * time.Millisecond) // virtual time
			w.srv.mu.Lock()
			var c *conversation
			if n := len(w.srv.conversations); n > 0 {
				c = w.srv.conversations[g.IntN(n)]
			}
			w.srv.mu.Unlock()
			if c == nil || c.kill == nil || c.isOver() {
				return
			}
			switch g.IntN(3) {
			case 0:
				w.note("server %d dies", c.n)
				c.kill(proxy.Errf(proxy.Lost, "the server has died"))
			case 1:
				c.aside([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
			default:
				if c.canAsk() {
					c.loose(g)
				}
			}
		})
	}
}

// wait waits for something that must end; minutes of the bubble's time take no real time.
func (w *world) wait(what string, f func()) {
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Hour):
		w.bad("%s: no end; in flight are %v", what, w.calls)
		w.print()
		buf := make([]byte, 1<<20)
		fmt.Fprintf(os.Stderr, "%s\n", buf[:runtime.Stack(buf, true)])
		os.Exit(1) // nothing else ends what has no end
	}
}

func (w *world) close() {
	w.wait("closing", func() {
		if err := w.u.Close(); err != nil {
			w.bad("closing: %v", err)
		}
	})
}

// quiesce checks a world in which all clients are done: suspended calls expire in time, and nothing is held.
func (w *world) quiesce() {
	for _, s := range w.sessions {
		s.End(proxy.Expired)
	}
	time.Sleep(w.ttl + time.Minute) // longer than a question can wait for its call
	if n := w.store.Suspended(); n != 0 {
		w.bad("%d calls are suspended for ever", n)
	}
	if _, leased := w.u.pool.Size(); leased != 0 {
		w.bad("%d sessions are leased, and no call is in flight", leased)
	}
	for _, s := range w.u.pool.Sessions() {
		if uses, calls, questions := s.Usage(); uses != 0 || calls != 0 || questions != 0 {
			w.bad("a session is held: %d uses, %d calls, %d questions", uses, calls, questions)
		}
	}
	w.srv.mu.Lock()
	live := w.srv.live
	w.srv.mu.Unlock()
	if live != 0 {
		w.bad("%d calls run at the server, and nobody waits for them", live)
	}
	if w.relays > 0 {
		return // a legacy client need not answer
	}
	for _, c := range w.srv.conversations {
		c.mu.Lock()
		for id, q := range c.asked {
			if !q.answered && !q.moot && !c.ended {
				w.bad("server %d waits for the answer to %s", c.n, id)
			}
		}
		c.mu.Unlock()
	}
}

// ended checks what is left after everything was closed.
func (w *world) ended() {
	w.srv.mu.Lock()
	conversations := w.srv.conversations
	if w.srv.open != 0 {
		w.bad("%d links are open", w.srv.open)
	}
	w.srv.mu.Unlock()
	for _, c := range conversations {
		w.wait("the server", c.group.Wait)
	}
	w.wait("the clients' answers", w.group.Wait)
	if n := w.store.Suspended(); n != 0 {
		w.bad("%d calls are suspended", n)
	}
	if all, leased := w.u.pool.Size(); all != 0 || leased != 0 {
		w.bad("%d sessions are left, %d leased", all, leased)
	}
	if n := w.u.relays.Len(); n != 0 {
		w.bad("%d relays are left", n)
	}
	if n := w.u.BridgeListens(); n != 0 {
		w.bad("%d listens are left", n)
	}
}

// print prints the events of a failed run.
func (w *world) print() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed {
		fmt.Fprintf(os.Stderr, "DRAGOMAN_TEST_SEED=%d\n%s\n", w.seed, strings.Join(w.log, "\n"))
		w.failed = false
	}
}

func (c *conversation) canAsk() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asks && !c.ended
}

// loose asks something outside of calls. During a call it is taken for a question of that call and ends with it, possibly unanswered: they
// cannot be distinguished.
func (c *conversation) loose(g *gen) {
	c.mu.Lock()
	busy := len(c.jobs) > 0
	c.mu.Unlock()
	_, q := c.ask(g, "", c.aside)
	c.mu.Lock()
	defer c.mu.Unlock()
	q.moot = q.moot || busy
}
