package sessions

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// said returns what the server was sent on its last link.
func said(s *fakeserver.Server) []string {
	synctest.Wait()
	s.Lock()
	defer s.Unlock()
	l := s.Links[len(s.Links)-1]
	l.Lock()
	defer l.Unlock()
	return append([]string(nil), l.Said...)
}

// A pooled session without calls is closed after the idle time of its process, or of the pool. Calls begin that time anew.
func TestIdleSessionIsClosed(t *testing.T) {
	for name, c := range map[string]struct {
		ttl, exit, want time.Duration // 0: never
	}{
		"the pool's":    {time.Hour, 0, time.Hour},
		"the process's": {time.Hour, time.Minute, time.Minute},
		"never":         {0, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := &fakeserver.Server{}
			r := newRig(server)
			r.opt.IdleTTL, r.opt.Processes.IdleExit = c.ttl, c.exit
			open := func(what string, want bool) {
				t.Helper()
				if synctest.Wait(); (server.Open() == 1) != want {
					t.Errorf("%s: %s: %d sessions are open", name, what, server.Open())
				}
			}
			s, err := r.Acquire(of(t, "p", `{}`, aCall), 0)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Hour)
			open("in use", true)
			s.Release()
			if c.want == 0 {
				time.Sleep(1000 * time.Hour)
				open("without a limit", true)
				r.close(t)
				return
			}
			time.Sleep(c.want / 2)
			r.acquire(t, of(t, "p", `{}`, aCall), 0)
			time.Sleep(c.want * 3 / 4)
			open("used since", true)
			held, _ := r.Acquire(of(t, "p", `{}`, aCall), 0)
			time.Sleep(c.want)
			open("in use when the time is over", true)
			held.Release()
			time.Sleep(c.want - 1)
			open("before the time", true)
			time.Sleep(time.Nanosecond)
			open("at the time", false)
			if all, _ := r.Size(); all != 0 || !s.Gone() {
				t.Errorf("%s: %d sessions", name, all)
			}
			r.close(t)
		})
	}
}

// A client gets at most a session more than half of all for calls in which the server may ask; others share those.
func TestSessionsOfOneClientAreHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(&fakeserver.Server{})
		r.opt.Max = 4
		var turns []*Turn
		for range 3 {
			turn, _ := r.turn(t, caller("p", ""))
			turns = append(turns, turn)
		}
		_, err := r.Turn(caller("p", ""), true, 0)
		if e := proxy.AsError(err); e == nil || !proxy.IsFault(err, proxy.TooManySessions) || !strings.Contains(e.Message, "half of the sessions") || !strings.Contains(e.Message, "upstreams.up.max_sessions, now 4") || e.RetryAfter != 5 {
			t.Errorf("%v", err)
		}
		if s, err := r.Acquire(caller("p", ""), 0); err != nil {
			t.Errorf("a call in which the server may not ask: %v", err)
		} else {
			s.Release()
		}
		if other, _ := r.turn(t, caller("q", "")); other.Session().Number() != 4 {
			t.Errorf("another client has session %d", other.Session().Number())
		}
		if _, err := r.Turn(caller("x", ""), true, 0); !proxy.IsFault(err, proxy.TooManySessions) || !strings.Contains(err.Error(), "all sessions") {
			t.Errorf("beyond the limit: %v", err)
		}
		for _, turn := range turns {
			turn.End()
		}
		r.close(t)
	})
}

// A call that prefers a session, as a further page of a list or a listen does, shares it with the call that has leased it.
func TestTurnInAPreferredSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(&fakeserver.Server{})
		leased, _ := r.turn(t, of(t, "p", `{"roots":{}}`, aCall))
		for what, c := range map[string]struct {
			raw  string
			page uint64
		}{"a page": {aCall, 1}, "a listen": {aListen, 0}} {
			turn, err := r.Turn(of(t, "p", `{"roots":{}}`, c.raw), true, c.page)
			if err != nil {
				t.Fatal(err)
			}
			if turn.Session() != leased.Session() || turn.Leased() {
				t.Errorf("%s: session %d, leased %v", what, turn.Session().Number(), turn.Leased())
			}
			turn.Suspend() // of no effect without a lease
			turn.End()
			if uses, _, _ := leased.Session().Usage(); uses != 1 {
				t.Errorf("%s: %d uses are left", what, uses)
			}
		}
		leased.End()
		r.close(t)
	})
}

// A preferred session that could not be opened is not waited for again: the call opens one of its own, or gets its error.
func TestPreferredSessionCannotBeOpened(t *testing.T) {
	for _, lease := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server := &fakeserver.Server{}
			r := newRig(server)
			r.session(t, `{}`) // so that the server's era is known
			server.Lock()
			server.Held, server.Refuse = make(chan struct{}), true
			server.Unlock()
			fails := make(chan error, 2)
			begin := func(raw string) {
				_, err := acquire(r.Pool, of(t, "q", `{}`, raw), lease)
				fails <- err
			}
			go begin(aCall)
			synctest.Wait()
			go begin(aListen)
			synctest.Wait()
			close(server.Held)
			for range 2 {
				if err := <-fails; err == nil {
					t.Errorf("lease %v: no error", lease)
				}
			}
			if all, _ := r.Size(); all != 1 {
				t.Errorf("lease %v: %d sessions are left", lease, all)
			}
			r.close(t)
		})
	}
}

// The isolation says whether a server may ask.
func TestIsolationAsks(t *testing.T) {
	for _, c := range []struct {
		sharing           Sharing
		alone, declareAll bool
		mixed, anonymous  bool
	}{{BySession, true, true, false, false}, {ByPrincipal, false, true, true, false}, {Pooled, false, false, true, true}, {Shared, false, false, true, true}} {
		i := Isolation{Sharing: c.sharing}
		if i.Asks(false) != c.alone || i.Asks(true) != c.declareAll || i.Mixed() != c.mixed || i.Anonymous() != c.anonymous {
			t.Errorf("%+v", c)
		}
	}
}

// The level of a session's log messages only falls, and a server without logging is not asked for any.
func TestSessionWantsLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeserver.Server{}
		r := newRig(server)
		s := r.session(t, `{}`)
		want := func(level string, asked bool) {
			t.Helper()
			before := len(said(server))
			if err := s.WantLevel(t.Context(), level); err != nil {
				t.Errorf("%s: %v", level, err)
			}
			news := said(server)[before:]
			if len(news) == 1 != asked || asked && !strings.Contains(news[0], `"method":"logging/setLevel","params":{"level":"`+level+`"}`) {
				t.Errorf("%s: %v", level, news)
			}
		}
		want("", false)
		want("warning", true)
		want("error", false)
		want("debug", true)
		want("warning", false)
		s.result.logging = false
		s.level = ""
		want("debug", false)
		r.close(t)
	})
}

// InitializeResult is read for what it declares; modern clients get the server's name with each result.
func TestInitResult(t *testing.T) {
	bare := newInitResult([]byte(`{}`))
	if bare.Info != nil || bare.Caps != nil || bare.Members != nil || bare.logging || bare.Can("tools", "listChanged") || bare.RunsTasks() {
		t.Errorf("%+v", bare)
	}
	full := newInitResult([]byte(`{"serverInfo":{"name":"s"},"capabilities":{"logging":{},"tools":{"listChanged":true},"prompts":{"listChanged":false},"tasks":{"requests":{"tools":{"call":{}}}}},"instructions":"do"}`))
	if !full.logging || !full.Can("tools", "listChanged") || full.Can("prompts", "listChanged") || full.Can("resources", "subscribe") || !full.RunsTasks() || string(full.Instructions) != `"do"` {
		t.Errorf("%+v", full)
	}
	if got, want := string(full.Members), `,"resultType":"complete","_meta":{"`+wire.MetaPrefix+`serverInfo":{"name":"s"}}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if tools := newInitResult([]byte(`{"capabilities":{"tasks":{"requests":{}}}}`)); tools.RunsTasks() || tools.logging {
		t.Errorf("%+v", tools)
	}
}

// The first listener that needs a resource subscribes, and the last unsubscribes.
func TestSubscriptionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeserver.Server{}
		r := newRig(server)
		s, err := r.Acquire(of(t, "p", `{}`, aListen), 0)
		if err != nil {
			t.Fatal(err)
		}
		tell := func(what string, f func(ctx context.Context, uri string) error, method string) {
			t.Helper()
			before := len(said(server))
			if err := f(t.Context(), "a:b"); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			news := said(server)[before:]
			if len(news) == 1 != (method != "") || method != "" && !strings.Contains(news[0], fmt.Sprintf(`"method":%q,"params":{"uri":"a:b"}`, method)) {
				t.Errorf("%s: %v", what, news)
			}
		}
		for range 2 { // the second time as the first
			tell("the first", s.Subscribe, "resources/subscribe")
			tell("the second", s.Subscribe, "")
			tell("one of two ends", s.unsubscribe, "")
			tell("the last ends", s.unsubscribe, "resources/unsubscribe")
		}
		if len(s.subscribed) != 0 {
			t.Errorf("%v is left", s.subscribed)
		}
		s.subscribing <- struct{}{} // another change runs
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Subscribe(ctx, "a:b"); err != context.DeadlineExceeded {
			t.Errorf("behind another change: %v", err)
		}
		<-s.subscribing
		r.Discard(s)
		synctest.Wait()
		tell("a session that has ended", s.Subscribe, "")
		s.Release()
		r.close(t)
	})
}

// A server's refusal of a subscription is the error of the request, and a later one is sent again.
func TestSubscriptionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeserver.Server{}
		r := newRig(server)
		s := r.session(t, `{}`)
		if err := s.Subscribe(t.Context(), "c:d"); err != nil {
			t.Error(err)
		}
		s.link.Set(refusing{s.Link()})
		if err := s.unsubscribe(t.Context(), "c:d"); err != nil || len(s.subscribed) != 0 {
			t.Errorf("a refusal of the end: %v, %v is left", err, s.subscribed)
		}
		for range 2 {
			if err := s.Subscribe(t.Context(), "a:b"); !proxy.IsFault(err, proxy.InvalidParams) || proxy.AsError(err).Message != "not this one" {
				t.Errorf("%v", err)
			}
		}
		if len(s.subscribed) != 0 {
			t.Errorf("%v is subscribed", s.subscribed)
		}
		s.link.Set(failing{&channel{Link: s.Link().(refusing).Link.(*fakeserver.Link)}})
		if err := s.Subscribe(t.Context(), "a:b"); err == nil || err.Error() != "broken" {
			t.Errorf("%v", err)
		}
		r.close(t)
	})
}

// refusing is a link whose server refuses every call.
type refusing struct{ transport.Link }

func (refusing) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	return proxy.Reply(proxy.ErrorMessage(ex.Msg.Of(ex.Msg.ID), proxy.Errf(proxy.InvalidParams, "not this one"))), nil
}

// listener is a listen that keeps what it receives.
type listener struct {
	got   []string
	ended int
}

func (l *listener) Notify(_ *Session, m *wire.Message) {
	l.got = append(l.got, string(m.Text(m.Method)))
}
func (l *listener) SessionEnded(*Session) { l.ended++ }
func (*listener) Names(uri string) bool   { return uri == "a:b" }

// A client's listens receive the change notices of all of its sessions, others none, and hold their session until they end.
func TestListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeserver.Server{}
		r := newRig(server)
		s, err := r.Acquire(of(t, "p", `{}`, aListen), 0)
		if err != nil {
			t.Fatal(err)
		}
		other := r.session(t, `{}`) // of the same client
		one, two := &listener{}, &listener{}
		s.AddListener(one)
		s.hold()
		s.AddListener(two)
		s.hold()
		s.AddListener(two) // again, after its session was lost
		stranger, _ := r.Acquire(of(t, "q", `{}`, aCall), 0)
		notice := fakeserver.Scan(t, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		for _, from := range []*Session{s, other, stranger} {
			if !from.Message(notice) {
				t.Error("a change notice is left over")
			}
		}
		if len(one.got) != 2 || len(two.got) != 2 || r.Listens() != 2 {
			t.Errorf("%v, %v, %d listens", one.got, two.got, r.Listens())
		}
		if group := s.Client(); !r.Listened(group, "a:b") || r.Listened(group, "a:c") || r.Listened(stranger.Client(), "a:b") {
			t.Error("what listens name")
		}
		if uses, _, _ := s.Usage(); uses != 3 {
			t.Errorf("%d uses", uses)
		}
		if err := s.Subscribe(t.Context(), "a:b"); err != nil {
			t.Error(err)
		}
		link := s.Link().(*fakeserver.Link)
		before := len(link.Said)
		s.EndListener(two, []string{"a:b"})
		s.Message(notice)
		if len(one.got) != 3 || len(two.got) != 2 {
			t.Errorf("one of two has ended: %v, %v", one.got, two.got)
		}
		s.EndListener(two, nil)
		s.EndListener(one, nil)
		synctest.Wait()
		if uses, _, _ := s.Usage(); uses != 0 || r.Listens() != 0 || len(r.listeners) != 0 {
			t.Errorf("%d uses, %d listens", uses, r.Listens())
		}
		if listens, _ := s.usedBy(); listens {
			t.Error("calls are drawn to a session without listens")
		}
		if news := link.Said[before:]; len(news) != 1 || !strings.Contains(news[0], "resources/unsubscribe") {
			t.Errorf("%v", news)
		}
		stranger.Release()
		r.close(t)
	})
}
