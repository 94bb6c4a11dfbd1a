package era

import (
	"fmt"
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
