package era

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/input"
	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// newProcesses returns an upstream whose links are processes.
func newProcesses(t *testing.T, s *fakeServer, opt Options) *Upstream {
	t.Helper()
	store, err := input.NewStore(input.Options{LeaseWait: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	opt.Store, opt.Sessions.Max = store, 100
	opt.Server = transport.Server{Name: "up", Self: []byte(`{"name":"dragoman","version":"1"}`), Timeout: 5 * time.Second,
		Wires: transport.Wires{Legacy: s.Dial, Modern: s.Dial, Stdio: true}}
	u := NewUpstream(opt)
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
		if n, left := s.Open(), u.Processes(); n != 0 || left != 0 {
			t.Errorf("%d processes left, %d counted", n, left)
		}
	})
	if _, err := u.Profile(t.Context()); err != nil {
		t.Fatal(err)
	}
	return u
}

// With isolation by principal, all clients of a principal share a session, and two principals share nothing.
func TestPrincipalsAreApart(t *testing.T) {
	for _, modern := range []bool{false, true} {
		s := &fakeServer{Modern: modern}
		u := newProcesses(t, s, Options{Sessions: sessions.Options{Isolation: sessions.Isolation{Sharing: sessions.ByPrincipal}}})
		alice := conversationOf(t, u, modernExchange(t, "alice", `{"name":"a","version":"1"}`, `{}`))
		if again := conversationOf(t, u, modernExchange(t, "alice", `{"name":"b","version":"1"}`, `{"roots":{}}`)); again != alice {
			t.Errorf("modern %v: one principal has two processes", modern)
		}
		if bob := conversationOf(t, u, modernExchange(t, "bob", `{"name":"a","version":"1"}`, `{}`)); bob == alice {
			t.Errorf("modern %v: two principals have one process", modern)
		}
	}
}

// Concurrent calls start a modern server's process once.
func TestModernProcessIsStartedOnce(t *testing.T) {
	s := &fakeServer{Modern: true}
	u := newProcesses(t, s, Options{Sessions: sessions.Options{Isolation: sessions.Isolation{Sharing: sessions.ByPrincipal}}})
	before := len(s.Links)
	var group sync.WaitGroup
	for range 50 {
		ex := modernExchange(t, "p", `{}`, `{}`)
		group.Go(func() { conversationOf(t, u, ex) })
	}
	group.Wait()
	if n := len(s.Links) - before; n != 1 {
		t.Errorf("%d processes were started", n)
	}
}

// legacyClient is a legacy client's session at an upstream.
type legacyClient struct {
	t    *testing.T
	u    *Upstream
	sess *proxy.Session
}

func newLegacyClient(t *testing.T, u *Upstream, who string) *legacyClient {
	t.Helper()
	c := &legacyClient{t, u, proxy.NewSession("session-of-"+who, "test", "", proxy.Caller{Principal: who}, time.Now())}
	replies, err := c.begin("initialize", `{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replies.Next(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	c.sess.Initialize(proxy.Client{Era: proxy.Legacy, Version: rules.LegacyVersion})
	_ = replies.Close()
	if _, err := u.Do(c.exchange(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *legacyClient) exchange(raw string) *proxy.Exchange {
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		c.t.Error(err)
	}
	return &proxy.Exchange{Msg: m, Caller: c.sess.Caller, Session: c.sess, Client: proxy.Client{Era: proxy.Legacy, Version: rules.LegacyVersion}}
}

func (c *legacyClient) begin(method, params string) (proxy.Replies, error) {
	return c.u.Do(c.exchange(fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params)))
}

func (c *legacyClient) call(method, params string) (string, error) {
	replies, err := c.begin(method, params)
	if err != nil {
		return "", err
	}
	m, err := proxy.Response(replies, time.Now().Add(5*time.Second))
	return string(m.Append(nil)), err
}

// suspending runs a test with a legacy client whose process is suspended after an idle minute.
func suspending(t *testing.T, f func(t *testing.T, s *fakeServer, c *legacyClient)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{}
		u := newProcesses(t, s, Options{Probe: probe.Options{TTL: time.Hour}, Sessions: sessions.Options{Processes: sessions.Processes{Max: 10, IdleExit: time.Minute}}})
		f(t, s, newLegacyClient(t, u, "p"))
	})
}

// A session's idle process is stopped. Concurrent requests restart it once, with the client's own handshake.
func TestNap(t *testing.T) {
	suspending(t, func(t *testing.T, s *fakeServer, c *legacyClient) {
		if _, err := c.call("logging/setLevel", `{"level":"error"}`); err != nil {
			t.Fatal(err)
		}
		first := s.Links[len(s.Links)-1]
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if s.Open() != 1 {
			t.Fatal("it ended too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s.Open() != 0 || c.u.Processes() != 0 {
			t.Fatal("it goes on")
		}
		if replies, err := c.u.Do(c.exchange(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)); replies != nil || err != nil || s.Open() != 0 {
			t.Error("a notification has woken it, or failed", err)
		}
		before := len(s.Links)
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				if got, err := c.call("tools/call", `{"name":"a","arguments":{}}`); err != nil || got != fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"result":{"link":%d}}`, before) {
					t.Error(got, err)
				}
			})
		}
		group.Wait()
		if len(s.Links) != before+1 {
			t.Errorf("%d processes were started", len(s.Links)-before)
		}
		if second := s.Links[before]; !slices.Equal(first.Said[:3], second.Said[:3]) {
			t.Errorf("it was told\n%q\nthe one before\n%q", second.Said[:3], first.Said[:3])
		}
		first.Sink.Lost(errors.New("late")) // of a process that was given up
		if c.sess.State() != proxy.Initialized {
			t.Error("the end of the sleeping process ended the session")
		}
	})
}

// State that a new process would not know of keeps the old one running.
func TestNoNap(t *testing.T) {
	for name, stir := range map[string]func(t *testing.T, c *legacyClient) func(){
		"call": func(t *testing.T, c *legacyClient) func() {
			replies, err := c.begin("tools/call", `{"name":"a","arguments":{}}`)
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = replies.Close() }
		},
		"subscription": func(_ *testing.T, c *legacyClient) func() {
			_, _ = c.call("resources/subscribe", `{"uri":"u"}`)
			return nil
		},
		"task": func(_ *testing.T, c *legacyClient) func() {
			_, _ = c.call("tools/call", `{"name":"a","arguments":{},"task":{}}`)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			suspending(t, func(t *testing.T, s *fakeServer, c *legacyClient) {
				end := stir(t, c)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if s.Open() != 1 {
					t.Error("it was ended")
				}
				if end == nil {
					return
				}
				end()
				time.Sleep(2*time.Minute + time.Second)
				synctest.Wait()
				if s.Open() != 0 {
					t.Error("it goes on after the call")
				}
			})
		})
	}
}

// A server that negotiates another revision after a restart ends the session, since the client relies on the former one.
func TestNapOfAnother(t *testing.T) {
	suspending(t, func(t *testing.T, s *fakeServer, c *legacyClient) {
		time.Sleep(2 * time.Minute)
		s.Lock()
		s.Version = "2025-03-26"
		s.Unlock()
		_, err := c.call("tools/call", `{"name":"a","arguments":{}}`)
		var e *proxy.Error
		if !errors.As(err, &e) || e.Name != proxy.SessionLost.Name {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if c.sess.State() != proxy.Closed || s.Open() != 0 {
			t.Errorf("the session is %v, %d processes", c.sess.State(), s.Open())
		}
	})
}

// A cancelled call stops waiting for the process, which the next call uses.
func TestNapCancelled(t *testing.T) {
	suspending(t, func(t *testing.T, s *fakeServer, c *legacyClient) {
		time.Sleep(2 * time.Minute)
		held := make(chan struct{})
		s.Lock()
		s.Held = held
		s.Unlock()
		ex := c.exchange(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","arguments":{}}}`)
		done := make(chan error, 1)
		go func() {
			_, err := c.u.Do(ex)
			done <- err
		}()
		synctest.Wait()
		ex.Cancel(proxy.ErrCancelled)
		if err := <-done; !errors.Is(err, proxy.ErrCancelled) {
			t.Errorf("got %v", err)
		}
		close(held)
		if got, err := c.call("tools/call", `{"name":"a","arguments":{}}`); err != nil || s.Open() != 1 {
			t.Error(got, err, s.Open())
		}
	})
}

// At the process limit an idle session is ended; a suspended one has no process to release.
func TestRoomFromIdleSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{}
		u := newProcesses(t, s, Options{Probe: probe.Options{TTL: time.Hour}, Sessions: sessions.Options{Processes: sessions.Processes{Max: 2}}})
		first := newLegacyClient(t, u, "p")
		time.Sleep(time.Second)
		second := newLegacyClient(t, u, "q")
		time.Sleep(time.Second)
		first.sess.Touch(time.Now()) // used since
		third := newLegacyClient(t, u, "r")
		if second.sess.State() != proxy.Expired || first.sess.State() != proxy.Initialized || third.sess.State() != proxy.Initialized {
			t.Errorf("the sessions are %v, %v, %v", first.sess.State(), second.sess.State(), third.sess.State())
		}
		synctest.Wait()
		if s.Open() != 2 {
			t.Errorf("%d processes", s.Open())
		}
	})
}
