package sessions

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/era/work"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// linksRig is the links to a modern server, whose calls the test counts.
type linksRig struct {
	*Links
	t         *testing.T
	server    fakeserver.Server
	fails     error // of the next dial
	lost      int
	cancelled int
}

// channel is a link with a number of open calls.
type channel struct {
	*fakeserver.Link
	calls atomic.Int32
}

func (c *channel) InFlight() int { return int(c.calls.Load()) }

func newLinksRig(t *testing.T, wires transport.Wires, opt Options) *linksRig {
	r := &linksRig{t: t, server: fakeserver.Server{Modern: true}}
	wires.Modern = func(ctx context.Context, sink transport.Sink) (transport.Link, error) {
		if err := r.fails; err != nil {
			r.fails = nil
			return nil, err
		}
		l, err := r.server.Dial(ctx, sink)
		return &channel{Link: l.(*fakeserver.Link)}, err
	}
	server := &transport.Server{Name: "up", Wires: wires, Timeout: time.Second}
	quota := NewQuota(server, opt, func(string, bool) bool { return false })
	events := Events{Lost: func() { r.lost++ }, Cancelled: func(*wire.Message) { r.cancelled++ }}
	r.Links = NewLinks(server, opt, events, work.New(nil), quota)
	return r
}

// get returns the link of a caller's next call.
func (r *linksRig) get(principal string) *channel {
	r.t.Helper()
	l, err := r.Get(r.t.Context(), proxy.Identity{Principal: principal})
	if err != nil {
		r.t.Fatal(err)
	}
	return under(l)
}

func under(l transport.Link) *channel {
	c, _ := transport.As[*channel](l)
	return c
}

func (r *linksRig) close() {
	r.t.Helper()
	r.work.Close()
	r.work.Cancel()
	if err := r.Close(); err != nil {
		r.t.Error(err)
	}
	r.work.Wait()
	if n := r.server.Open(); n != 0 {
		r.t.Errorf("%d links are left", n)
	}
}

// The isolation says which callers share a process. Over HTTP all share one link.
func TestWhoSharesALink(t *testing.T) {
	for _, c := range []struct {
		name    string
		stdio   bool
		sharing Sharing
		want    []int // the link of p, of q, and of p again, while each has a call open
	}{
		{"processes", true, BySession, []int{0, 0, 0}},
		{"processes by principal", true, ByPrincipal, []int{0, 1, 0}},
		{"a pool of two", true, Pooled, []int{0, 1, 0}},
		{"one process", true, Shared, []int{0, 0, 0}},
		{"HTTP by principal", false, ByPrincipal, []int{0, 0, 0}},
		{"HTTP and a pool", false, Pooled, []int{0, 0, 0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newLinksRig(t, transport.Wires{Stdio: c.stdio}, Options{Isolation: Isolation{Sharing: c.sharing, Size: 2}})
			if r.Any() {
				t.Errorf("%s: a link is open before the first call", c.name)
			}
			for i, principal := range []string{"p", "q", "p"} {
				l := r.get(principal)
				l.calls.Add(1)
				if got := slices.Index(r.server.Links, l.Link); got != c.want[i] {
					t.Errorf("%s: call %d has link %d, want %d", c.name, i, got, c.want[i])
				}
			}
			if !r.Any() {
				t.Errorf("%s: no link is open", c.name)
			}
			r.close()
		})
	}
}

// A modern server's request is refused over a pipe, its ping answered; over HTTP it is left.
func TestModernServerThatAsks(t *testing.T) {
	for _, stdio := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newLinksRig(t, transport.Wires{Stdio: stdio}, Options{})
			link, sink := r.get("").Link, r.of[proxy.Identity{}][0]
			for _, asked := range []string{`"id":1,"method":"ping"`, `"id":"r","method":"roots/list"`} {
				if taken := sink.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0",`+asked+`}`)); taken != stdio {
					t.Errorf("pipe: %t: %s is taken: %t", stdio, asked, taken)
				}
			}
			synctest.Wait()
			said := strings.Join(link.Said, "\n")
			if got := strings.Contains(said, `{"jsonrpc":"2.0","id":1,"result":{}}`); got != stdio {
				t.Errorf("pipe: %t: ping is answered: %t", stdio, got)
			}
			if got := strings.Contains(said, `"id":"r","error":{"code":-32601`); got != stdio {
				t.Errorf("pipe: %t: roots/list is refused: %t", stdio, got)
			}
			r.close()
		})
	}
}

// A pool prefers the process with the fewest calls, and grows only while all have some. One that is being opened has a call.
func TestPoolOfProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLinksRig(t, transport.Wires{Stdio: true}, Options{Isolation: Isolation{Sharing: Pooled, Size: 3}})
		r.server.Held = make(chan struct{})
		got := make(chan *channel, 2)
		for range 2 {
			go func() { got <- r.get("p") }()
			synctest.Wait()
		}
		close(r.server.Held)
		first, second := <-got, <-got
		if first == second {
			t.Error("two calls wait for one process")
		}
		if first != r.get("p") && second != r.get("p") || len(r.server.Links) != 2 {
			t.Errorf("%d processes, two of them idle", len(r.server.Links))
		}
		first.calls.Store(2)
		second.calls.Store(1)
		third := r.get("p")
		if third == first || third == second {
			t.Error("the pool does not grow to its size")
		}
		for _, calls := range [][3]int32{{2, 1, 3}, {3, 1, 1}, {1, 2, 2}, {2, 3, 1}} {
			for i, l := range []*channel{first, second, third} {
				l.calls.Store(calls[i])
			}
			if l := r.get("p"); l.InFlight() != 1 {
				t.Errorf("%v: the one with %d calls", calls, l.InFlight())
			}
		}
		r.close()
	})
}

// A process without calls is stopped when it was last used IdleExit ago; the next call starts another. Links that are no processes stay.
func TestIdleProcessIsStopped(t *testing.T) {
	for _, adopted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newLinksRig(t, transport.Wires{Stdio: true}, Options{Processes: Processes{IdleExit: time.Minute}})
			expect := func(what string, open int) {
				t.Helper()
				if synctest.Wait(); r.server.Open() != open || r.Any() != (open > 0) {
					t.Errorf("adopted %v: %s: %d processes are open", adopted, what, r.server.Open())
				}
			}
			if adopted {
				r.adoptOne()
			}
			l := r.get("p")
			time.Sleep(40 * time.Second)
			if r.get("p") != l {
				t.Error("a second process is started")
			}
			time.Sleep(59 * time.Second)
			expect("used 59 seconds ago", 1)
			l.calls.Store(1)
			time.Sleep(2 * time.Second)
			expect("a call is open", 1)
			l.calls.Store(0)
			time.Sleep(57 * time.Second)
			expect("before the next look", 1)
			time.Sleep(2 * time.Second)
			expect("unused", 0)
			if r.get("p") == l {
				t.Error("a stopped process is used")
			}
			r.close()
		})
	}
	synctest.Test(t, func(t *testing.T) { // one that was used at its start only
		r := newLinksRig(t, transport.Wires{Stdio: true}, Options{Processes: Processes{IdleExit: time.Minute}})
		r.get("p")
		time.Sleep(time.Minute)
		if synctest.Wait(); r.server.Open() != 0 {
			t.Error("it runs on")
		}
		r.close()
	})
	for name, c := range map[string]struct {
		wires transport.Wires
		idle  time.Duration
	}{"no limit": {transport.Wires{Stdio: true}, 0}, "HTTP": {transport.Wires{}, time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			r := newLinksRig(t, c.wires, Options{Processes: Processes{IdleExit: c.idle}})
			l := r.get("p")
			time.Sleep(time.Hour)
			if r.server.Open() != 1 || r.get("p") != l {
				t.Errorf("%s: the link is closed", name)
			}
			r.close()
		})
	}
}

// adoptOne hands the link of a probe over.
func (r *linksRig) adoptOne() (*channel, transport.Sink) {
	sink, adopt := r.Adopting()
	l, err := r.server.Dial(r.t.Context(), sink)
	if err != nil {
		r.t.Fatal(err)
	}
	c := &channel{Link: l.(*fakeserver.Link)}
	adopt(c)
	synctest.Wait()
	return c, sink
}

// The link of a probe serves the calls. Those from before, and one that nobody can use, are closed.
func TestLinkOfAProbe(t *testing.T) {
	for _, c := range []struct {
		name    string
		sharing Sharing
		before  func(r *linksRig)
		kept    bool
		open    int
	}{
		{"the first", BySession, func(*linksRig) {}, true, 1},
		{"after another", BySession, func(r *linksRig) { r.get("p") }, true, 1},
		{"by principal", ByPrincipal, func(*linksRig) {}, false, 0},
		{"once closed", BySession, func(r *linksRig) { _ = r.Close() }, false, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newLinksRig(t, transport.Wires{Stdio: true}, Options{Isolation: Isolation{Sharing: c.sharing}, Processes: Processes{Max: 5}})
			c.before(r)
			probed, _ := r.adoptOne()
			if r.server.Open() != c.open || r.Any() != c.kept || r.quota.Processes() != c.open {
				t.Errorf("%s: %d processes are open, %d counted, any %v", c.name, r.server.Open(), r.quota.Processes(), r.Any())
			}
			if c.kept && r.get("p") != probed {
				t.Errorf("%s: the call has another process", c.name)
			}
			r.close()
		})
	}
}

// A link of a probe that is lost before it has been adopted is closed.
func TestLinkOfAProbeIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLinksRig(t, transport.Wires{Stdio: true}, Options{})
		sink, adopt := r.Adopting()
		l, _ := r.server.Dial(t.Context(), sink)
		sink.Lost(errors.New("gone"))
		adopt(l)
		if r.Any() || r.server.Open() != 0 || r.lost != 1 {
			t.Errorf("%d open, %d lost", r.server.Open(), r.lost)
		}
		r.close()
	})
}

// After the loss of a link the next call opens another. The loss of one that has been replaced takes nothing away.
func TestLinkIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLinksRig(t, transport.Wires{Stdio: true}, Options{})
		first := r.get("p")
		first.Sink.Lost(errors.New("gone"))
		if r.Any() {
			t.Error("a lost link serves calls")
		}
		next := r.get("p")
		first.Sink.Lost(errors.New("gone again"))
		if next == first || r.get("p") != next || r.lost != 2 {
			t.Errorf("%d losses", r.lost)
		}
		if synctest.Wait(); r.server.Open() != 1 {
			t.Errorf("%d links are open", r.server.Open())
		}
		r.close()
	})
}

// A link that is lost, or no longer wanted, while it is being opened is closed; its call still gets it and fails there.
func TestLinkIsLostWhileItOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLinksRig(t, transport.Wires{Stdio: true}, Options{})
		r.server.Held = make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { _, err := r.Get(ctx, proxy.Identity{}); failed <- err }()
		synctest.Wait()
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("a call that is cancelled: %v", err)
		}
		go func() { _, err := r.Get(t.Context(), proxy.Identity{}); failed <- err }()
		synctest.Wait()
		r.mu.Lock()
		opening := r.of[proxy.Identity{}][0]
		r.mu.Unlock()
		opening.Lost(errors.New("gone"))
		close(r.server.Held)
		if err := <-failed; err != nil {
			t.Error(err)
		}
		if synctest.Wait(); r.server.Open() != 0 {
			t.Errorf("%d links are open", r.server.Open())
		}
		r.close()
	})
}

// A failed dial is its call's error, and the next call dials anew. While the proxy shuts down, the error says so.
func TestLinkCannotBeOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLinksRig(t, transport.Wires{}, Options{})
		r.fails = errors.New("refused")
		if _, err := r.Get(t.Context(), proxy.Identity{}); err == nil || err.Error() != "refused" || r.Any() {
			t.Errorf("%v, any %v", err, r.Any())
		}
		r.get("p")
		first := r.server.Links[0]
		first.Sink.Lost(errors.New("gone"))
		r.fails = errors.New("context canceled")
		r.work.Cancel()
		if _, err := r.Get(t.Context(), proxy.Identity{}); !proxy.IsFault(err, proxy.ShuttingDown) {
			t.Errorf("while it shuts down: %v", err)
		}
		r.close()
		if _, err := r.Get(t.Context(), proxy.Identity{}); !proxy.IsFault(err, proxy.ShuttingDown) {
			t.Errorf("closed: %v", err)
		}
	})
}

// A call that a process had not received, since it had ended, is sent once more over a new link. One over HTTP is not.
func TestCallAtAProcessThatHasEnded(t *testing.T) {
	for _, c := range []struct {
		name  string
		stdio bool
		fails error // of the second dial
		again bool
	}{{"process", true, nil, true}, {"HTTP", false, nil, false}, {"process that does not start", true, errors.New("no such file"), false}} {
		synctest.Test(t, func(t *testing.T) {
			r := newLinksRig(t, transport.Wires{Stdio: c.stdio}, Options{})
			first := r.get("p")
			link, _ := r.Get(t.Context(), proxy.Identity{})
			first.Forgotten = true // as that of a process that has ended
			r.fails = c.fails
			replies, used, err := r.Call(of(t, "p", `{}`, aCall), link)
			switch {
			case c.again && (err != nil || replies == nil || under(used) == first || r.get("p") != under(used)):
				t.Errorf("%s: %v", c.name, err)
			case !c.again && (err == nil || c.fails != nil && !errors.Is(err, c.fails) || c.fails == nil && used != link):
				t.Errorf("%s: %v", c.name, err)
			}
			r.close()
		})
	}
}

// A process that is in use by other calls is not given up for the failure of one, and other errors are those of the call.
func TestCallFailsForAnotherReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLinksRig(t, transport.Wires{Stdio: true}, Options{})
		first := r.get("p")
		if replies, used, err := r.Call(of(t, "p", `{}`, aCall), failing{first}); replies != nil || err == nil || err.Error() != "broken" || used != (failing{first}) {
			t.Errorf("%v, %v", used, err)
		}
		if r.get("p") != first {
			t.Error("the process has been given up")
		}
		other := proxy.Errf(proxy.SessionLost, "of another link")
		if _, used, err := r.Call(of(t, "p", `{}`, aCall), lostLink{first, other}); err != nil || under(used) != first {
			t.Errorf("a link that was replaced: %v", err)
		}
		r.close()
	})
}

// failing is a link whose calls fail.
type failing struct{ *channel }

func (failing) Call(*proxy.Exchange) (proxy.Replies, error) { return nil, errors.New("broken") }

// lostLink is a link that has been replaced since it was chosen.
type lostLink struct {
	*channel
	err error
}

func (l lostLink) Call(*proxy.Exchange) (proxy.Replies, error) { return nil, l.err }

// Outside calls a modern server may only end a listen.
func TestMessageOutsideCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLinksRig(t, transport.Wires{}, Options{})
		sink := r.get("p").Sink
		for _, method := range []string{"notifications/cancelled", "notifications/message"} {
			if sink.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","method":"`+method+`","params":{"requestId":1}}`)) {
				t.Errorf("%s belongs to a call", method)
			}
		}
		if r.cancelled != 1 {
			t.Errorf("%d listens have ended", r.cancelled)
		}
		r.close()
	})
}
