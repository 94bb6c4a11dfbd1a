package sessions

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// of returns an exchange of a client with the given capabilities.
func of(t *testing.T, principal, caps, raw string) *proxy.Exchange {
	return &proxy.Exchange{Msg: *fakeserver.Scan(t, raw), Caller: proxy.Caller{Principal: principal}, Client: proxy.Client{Info: []byte(`{"name":"n"}`), Caps: []byte(caps)}}
}

const (
	aCall   = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`
	aListen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`
)

// acquire returns the number of the session that an exchange gets, which is released at once.
func (r rig) acquire(t *testing.T, ex *proxy.Exchange, page uint64) uint64 {
	t.Helper()
	s, err := r.Acquire(ex, page)
	if err != nil {
		t.Fatal(err)
	}
	s.Release()
	return s.Number()
}

// A listen gets the session of its client's last calls, one page of a list that of the page before. Neither gets that of another client.
func TestPreferredSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(&fakeserver.Server{})
		expect := func(what string, got, want uint64) {
			t.Helper()
			if got != want {
				t.Errorf("%s: session %d, want %d", what, got, want)
			}
		}
		expect("another client", r.acquire(t, of(t, "q", `{}`, aCall), 0), 1)
		expect("a listen without calls before", r.acquire(t, of(t, "p", `{}`, aListen), 0), 2)
		expect("a call with other capabilities", r.acquire(t, of(t, "p", `{"roots":{}}`, aCall), 0), 3)
		time.Sleep(time.Second)
		expect("a listen with its own capabilities", r.acquire(t, of(t, "p", `{}`, aListen), 0), 2)
		expect("a listen of a client with other capabilities", r.acquire(t, of(t, "p", `{"sampling":{}}`, aListen), 0), 2)
		r.acquire(t, of(t, "p", `{"roots":{}}`, aCall), 0)
		time.Sleep(time.Second)
		expect("a page", r.acquire(t, of(t, "p", `{}`, aCall), 3), 3)
		expect("a page of another client's list", r.acquire(t, of(t, "q", `{}`, aCall), 3), 1)
		expect("a page of a session that has ended", r.acquire(t, of(t, "q", `{}`, aCall), 99), 1)
		if uses, _, _ := r.Sessions()[0].Usage(); uses != 0 {
			t.Errorf("%d uses", uses)
		}
		r.close(t)
	})
}

// The session that has been idle for longest gives way to another client, and its idle time does not begin anew when it is lent.
func TestSessionsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeserver.Server{}
		r := newRig(server)
		r.opt.Max = 2
		own, release, err := r.Lend(t.Context()) // in Dragoman's own name, since there is none
		if err != nil || own.Number() != 1 {
			t.Fatalf("%v, %v", own, err)
		}
		if s, _ := r.Unused("", false); s != nil {
			t.Errorf("session %d is in use", s.Number())
		}
		release()
		began := time.Now()
		time.Sleep(time.Second)
		s, release, err := r.Lend(t.Context())
		if err != nil || s != own {
			t.Fatalf("%v, %v", s, err)
		}
		release()
		if s, since := r.Unused("", false); s != own || !since.Equal(began) {
			t.Errorf("%v unused since %s, want since %s", s, since, began)
		}
		r.acquire(t, of(t, "p", `{}`, aCall), 0)
		if s, _ := r.Unused("p", true); s == nil || s.Number() != 2 {
			t.Errorf("%v of its principal is unused", s)
		}
		r.acquire(t, of(t, "q", `{}`, aCall), 0)
		synctest.Wait()
		if all, _ := r.Size(); all != 2 || server.Open() != 2 || !own.Gone() || len(r.sessions) != 2 {
			t.Errorf("%d sessions of %d clients, %d links are open", all, len(r.sessions), server.Open())
		}
		r.Settle() // its links know of no cancellations
		held, _ := r.Acquire(of(t, "p", `{}`, aCall), 0)
		other, _ := r.Acquire(of(t, "q", `{}`, aCall), 0)
		waits := make(chan error, 1)
		r.opt.LeaseWait = time.Minute
		go func() { _, err := r.Acquire(of(t, "x", `{}`, aCall), 0); waits <- err }()
		synctest.Wait()
		if len(waits) != 0 {
			t.Errorf("beyond the limit: %v", <-waits)
		}
		held.Release()
		other.Release()
		if err := <-waits; err != nil {
			t.Error(err)
		}
		r.close(t)
	})
}

// A closed pool opens nothing, and who waits is told at once.
func TestPoolCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeserver.Server{}
		r := newRig(server)
		r.opt.Max, r.opt.LeaseWait = 1, time.Hour
		if _, err := r.Acquire(of(t, "p", `{}`, aCall), 0); err != nil {
			t.Fatal(err)
		}
		began, waits := time.Now(), make(chan error, 1)
		go func() { _, err := r.Acquire(of(t, "q", `{}`, aCall), 0); waits <- err }()
		synctest.Wait()
		r.close(t)
		if err := <-waits; !proxy.IsFault(err, proxy.ShuttingDown) || time.Since(began) != 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if _, err := r.Acquire(of(t, "p", `{}`, aCall), 0); !proxy.IsFault(err, proxy.ShuttingDown) {
			t.Errorf("%v", err)
		}
		if all, _ := r.Size(); all != 0 || server.Open() != 0 {
			t.Errorf("%d sessions, %d links are open", all, server.Open())
		}
	})
}

// With one session for a principal, calls in which the server may ask run in turn.
func TestOneSessionOfAPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(&fakeserver.Server{})
		r.opt.Isolation.Sharing, r.opt.DeclareAll, r.opt.LeaseWait = ByPrincipal, true, 5*time.Second
		first, _ := r.turn(t, caller("p", ""))
		began := time.Now()
		if _, err := r.Turn(caller("p", ""), true, 0); !proxy.IsFault(err, proxy.TooManySessions) || time.Since(began) != 5*time.Second || !strings.Contains(err.Error(), "questions.lease_wait") {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		time.AfterFunc(time.Second, first.Suspend)
		next, took := r.turn(t, caller("p", ""))
		if next.Session() != first.Session() || took < time.Second || took > time.Second+2*quietTime {
			t.Errorf("session %d after %s", next.Session().Number(), took)
		}
		next.End()
		first.End()
		r.close(t)
	})
}

// inboxCall is a call that keeps what it receives.
type inboxCall struct{ got []string }

func (*inboxCall) Accepts(*wire.Message) bool { return true }
func (c *inboxCall) Receive(m *wire.Message)  { c.got = append(c.got, string(m.Text(m.Method))) }
func (c *inboxCall) GiveWay()                 { c.got = append(c.got, "gave way") }
func (c *inboxCall) Withdraw(*wire.Message)   { c.got = append(c.got, "withdrawn") }

// Questions that came too early go to the first call in which the server may ask. After it, those that no call accepts are refused at once.
func TestEarlyQuestionsAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeserver.Server{}
		r := newRig(server)
		s := r.session(t, `{"roots":{}}`)
		refusals := func() (n int) {
			synctest.Wait()
			l := server.Links[len(server.Links)-1]
			l.Lock()
			defer l.Unlock()
			for _, said := range l.Said {
				if strings.Contains(said, `"error"`) {
					n++
				}
			}
			return n
		}
		ask := func() { s.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)) }
		ask()
		turn, _ := r.turn(t, caller("p", ""))
		silent, asked := &inboxCall{}, &inboxCall{}
		turn.Join(silent, false)
		s.Leave(silent)
		if turn.Session() != s || len(silent.got) != 0 {
			t.Errorf("a call in which the server may not ask receives %v", silent.got)
		}
		turn.Join(asked, true)
		for _, text := range []string{`"method":"notifications/progress","params":{"progressToken":1,"progress":1}`, `"method":"notifications/message","params":{"level":"info","data":1}`,
			`"method":"notifications/cancelled","params":{"requestId":"q"}`} {
			if !s.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0",`+text+`}`)) {
				t.Errorf("%s is left over", text)
			}
		}
		if got := strings.Join(asked.got, ", "); got != "roots/list, notifications/progress, notifications/message, withdrawn" {
			t.Errorf("the call receives %s", got)
		}
		s.Leave(asked)
		turn.End()
		time.Sleep(2 * holdTime)
		if n := refusals(); n != 0 {
			t.Errorf("%d refusals of what was taken", n)
		}
		if s.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)) {
			t.Error("progress of no call has been delivered")
		}
		if s.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","method":"notifications/other"}`)) {
			t.Error("a notification of no kind has been delivered")
		}
		ask()
		if n := refusals(); n != 1 {
			t.Errorf("%d refusals between calls, want one at once", n)
		}
		s.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","id":"p","method":"ping"}`))
		if synctest.Wait(); refusals() != 1 || !strings.Contains(strings.Join(server.Links[len(server.Links)-1].Said, "\n"), `{"jsonrpc":"2.0","id":"p","result":{}}`) {
			t.Error("ping is not answered")
		}
		r.close(t)
	})
}

// A question is refused at once if no later call may receive it either.
func TestQuestionsForNobody(t *testing.T) {
	for name, prepare := range map[string]func(rig, *Session){
		"mixed clients": func(r rig, _ *Session) { r.opt.Isolation.Sharing = Shared },
		"it has ended":  func(r rig, s *Session) { r.Discard(s); synctest.Wait() },
		"a call beside": func(_ rig, s *Session) {
			s.inbox.calls = append(s.inbox.calls, attached{&inboxCall{}, &Turn{s: s}}, attached{&inboxCall{}, &Turn{s: s}})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(&fakeserver.Server{})
			s := r.session(t, `{"roots":{}}`)
			prepare(r, s)
			s.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`))
			if _, _, waits := s.Usage(); waits != 0 {
				t.Errorf("%s: the question waits", name)
			}
			r.close(t)
		})
	}
}

// A session whose handshake fails is not kept, and its error is that of the call.
func TestSessionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeserver.Server{}
		r := newRig(server)
		r.session(t, `{}`)
		server.Lock()
		server.Refuse = true
		server.Unlock()
		_, err := r.Turn(caller("q", ""), true, 0)
		var known *proxy.Error
		if !errors.As(err, &known) || known.Blame != "upstream" {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		if all, leased := r.Size(); all != 1 || leased != 0 {
			t.Errorf("%d sessions, %d leased", all, leased)
		}
		r.close(t)
	})
}

// A pool of sessions grows while all are in use, then spreads the calls, and uses the last used of the idle ones.
func TestPooledSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(&fakeserver.Server{})
		r.opt.Isolation = Isolation{Sharing: Pooled, Size: 3}
		uses := map[uint64][]*Session{}
		use := func(want uint64) {
			t.Helper()
			s, err := r.Acquire(of(t, "p", `{}`, aCall), 0)
			if err != nil {
				t.Fatal(err)
			}
			if s.Number() != want {
				t.Errorf("session %d, want %d", s.Number(), want)
			}
			uses[s.Number()] = append(uses[s.Number()], s)
			synctest.Wait()
		}
		release := func(number uint64) {
			time.Sleep(time.Second)
			uses[number][0].Release()
			uses[number] = uses[number][1:]
		}
		for _, want := range []uint64{1, 2, 3, 1, 2, 3} {
			use(want)
		}
		release(2)
		use(2) // the one with the fewest calls
		for range 2 {
			release(1)
			release(3)
			release(2)
		}
		use(2) // the last used
		use(3)
		use(1)
		for number := range uint64(3) {
			release(number + 1)
		}
		r.close(t)
	})
}

// A client opens a few sessions at a time: a further call shares one, or waits for one.
func TestSessionsThatOpenAreFew(t *testing.T) {
	for _, pooled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server := &fakeserver.Server{Held: make(chan struct{})}
			r := newRig(server)
			r.opt.LeaseWait = time.Minute
			if pooled {
				r.opt.Isolation = Isolation{Sharing: Pooled, Size: 10}
			}
			type got struct {
				u   use
				err error
			}
			all := make(chan got, maxOpening+1)
			for range maxOpening + 1 {
				go func() {
					u, err := acquire(r.Pool, caller("p", ""), !pooled)
					all <- got{u, err}
				}()
				synctest.Wait()
			}
			if n, _ := r.Size(); n != maxOpening {
				t.Errorf("pooled %v: %d sessions are being opened", pooled, n)
			}
			if r.awaited.Load() == pooled {
				t.Errorf("pooled %v: a call waits: %v", pooled, !pooled)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			began := time.Now()
			if _, _, err := r.Lend(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Millisecond {
				t.Errorf("pooled %v: lent after %s: %v", pooled, time.Since(began), err)
			}
			close(server.Held)
			for range maxOpening + 1 {
				one := <-all
				if one.err != nil {
					t.Error(one.err)
					continue
				}
				one.u.end()
			}
			r.close(t)
		})
	}
}

// A call runs in the session that has a listen, since the server announces there what it changes; else in the one used last.
func TestCallsRunWhereTheListenIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(&fakeserver.Server{})
		first, _ := r.turn(t, caller("p", ""))
		second, _ := r.turn(t, caller("p", ""))
		first.End()
		time.Sleep(time.Second)
		second.End()
		for _, c := range []struct {
			first, second int // listens
			want          uint64
		}{{0, 0, 2}, {1, 0, 1}, {0, 1, 2}, {1, 1, 2}} {
			for s, n := range map[*Session]int{first.Session(): c.first, second.Session(): c.second} {
				s.mu.Lock()
				s.listens = n
				s.mu.Unlock()
			}
			turn, _ := r.turn(t, caller("p", ""))
			if got := turn.Session().Number(); got != c.want {
				t.Errorf("%+v: session %d", c, got)
			}
			turn.End()
			for s, ago := range map[*Session]time.Duration{first.Session(): time.Minute, second.Session(): time.Second} {
				s.mu.Lock()
				s.last = time.Now().Add(-ago)
				s.mu.Unlock()
			}
		}
		r.close(t)
	})
}
