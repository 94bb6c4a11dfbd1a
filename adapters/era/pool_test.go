package era

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/adapters/era/input"
	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fakeServer = fakeserver.Server

func newPooled(t *testing.T, s *fakeServer, most int, idle time.Duration) *Upstream {
	t.Helper()
	store, err := input.NewStore(input.Options{LeaseWait: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	u := NewUpstream(Options{Server: transport.Server{Name: "up", Self: []byte(`{"name":"dragoman","version":"1"}`), Wires: transport.Wires{Legacy: s.Dial}, Timeout: 5 * time.Second},
		Store: store, Probe: probe.Options{TTL: time.Hour}, Sessions: sessions.Options{Max: most, IdleTTL: idle}})
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
		if n := s.Open(); n != 0 {
			t.Errorf("%d conversations left", n)
		}
	})
	if _, err := u.Profile(t.Context()); err != nil {
		t.Fatal(err)
	}
	return u
}

func modernExchange(t *testing.T, who, info, caps string) *proxy.Exchange {
	t.Helper()
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":` + info + `,"io.modelcontextprotocol/clientCapabilities":` + caps + `}}}`))
	if err != nil {
		t.Fatal(err)
	}
	return &proxy.Exchange{Msg: m, Caller: proxy.Caller{Principal: who},
		Client: proxy.Client{Era: proxy.Modern, Version: rules.ModernVersion, Info: m.Of(m.Info), Caps: m.Of(m.Caps)}}
}

// conversationOf runs an exchange and returns the number of the session that served it.
func conversationOf(t *testing.T, u *Upstream, ex *proxy.Exchange) int {
	t.Helper()
	replies, err := u.Do(ex)
	if err != nil {
		t.Fatal(err)
	}
	m, err := proxy.Response(replies, time.Now().Add(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(string(wire.Get(m.Raw, m.Result, "link").Of(m.Raw)))
	if err != nil {
		t.Fatalf("%s", m.Raw)
	}
	return n
}

// A session belongs to one principal, one clientInfo and one set of capabilities (vector 60).
func TestPoolIsolation(t *testing.T) {
	s := &fakeServer{}
	u := newPooled(t, s, 10, time.Hour)
	of := func(who, info, caps string) int { return conversationOf(t, u, modernExchange(t, who, info, caps)) }
	one, two := `{"name":"one","version":"1"}`, `{"name":"two","version":"1"}`
	alice := of("alice", one, "{}")
	if of("alice", one, "{}") != alice {
		t.Error("equal requests in two conversations")
	}
	seen := map[int]string{alice: "alice"}
	for _, c := range [][3]string{{"bob", one, "{}"}, {"", one, "{}"}, {"alice", two, "{}"}, {"alice", one, `{"experimental":{"a":{}}}`},
		// lengths are part of the key: nothing can be moved from one member to the next
		{"alic", `{"name":"eone","version":"1"}`, "{}"}} {
		n := of(c[0], c[1], c[2])
		if before, dup := seen[n]; dup {
			t.Errorf("%v shares the conversation of %s", c, before)
		}
		seen[n] = c[0]
	}
	// the handshake also fixes what the server may ask; roots.listChanged would be a false promise
	asking := of("alice", one, `{"elicitation":{},"sampling":{},"roots":{"listChanged":true}}`)
	if _, dup := seen[asking]; dup {
		t.Error("a call that may be asked shares the conversation of one that may not")
	}
	if of("alice", one, `{"elicitation":{},"sampling":{},"roots":{}}`) != asking {
		t.Error("one call after the other, in two conversations")
	}
	if said := strings.Join(s.Links[asking].Said, "\n"); !strings.Contains(said, `"capabilities":{"elicitation":{},"sampling":{},"roots":{}}`) {
		t.Errorf("declared: %s", said)
	}
}

// Concurrent calls wait for one handshake; other principals have their own.
func TestPoolHandshakesOnce(t *testing.T) {
	s := &fakeServer{}
	u := newPooled(t, s, 10, time.Hour)
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() { conversationOf(t, u, modernExchange(t, fmt.Sprint("p", i%4), `{"name":"n"}`, "{}")) })
	}
	group.Wait()
	if n := len(s.Links); n != 5 { // one probed
		t.Errorf("%d conversations", n)
	}
}

func TestPoolMaximumAndIdleEnd(t *testing.T) {
	s := &fakeServer{}
	u := newPooled(t, s, 1, 50*time.Millisecond)
	ex := modernExchange(t, "alice", `{"name":"n"}`, "{}")
	held, err := u.Do(ex)
	if err != nil {
		t.Fatal(err)
	}
	_, err = u.Do(modernExchange(t, "bob", `{"name":"n"}`, "{}"))
	var e *proxy.Error
	if !errors.As(err, &e) || e.Name != proxy.TooManySessions.Name || !strings.Contains(e.Message, "upstreams.up.max_sessions") {
		t.Errorf("%v", err)
	}
	_ = held.Close()
	conversationOf(t, u, modernExchange(t, "bob", `{"name":"n"}`, "{}")) // alice's makes room
	end := time.Now().Add(5 * time.Second)
	for s.Open() > 0 && time.Now().Before(end) {
		time.Sleep(time.Millisecond) // polled
	}
	if n := s.Open(); n != 0 {
		t.Errorf("%d conversations after the idle time", n)
	}
}

// A lost session is reopened once without the client noticing, but not indefinitely.
func TestPoolSessionLost(t *testing.T) {
	s := &fakeServer{}
	u := newPooled(t, s, 10, time.Hour)
	first := conversationOf(t, u, modernExchange(t, "", `{"name":"n"}`, "{}"))
	s.Links[first].Lock()
	s.Links[first].Forgotten = true
	s.Links[first].Unlock()
	if again := conversationOf(t, u, modernExchange(t, "", `{"name":"n"}`, "{}")); again == first {
		t.Error("the dead conversation serves")
	}
	s.Lock()
	s.Refuse = true
	last := s.Links[len(s.Links)-1]
	s.Unlock()
	last.Lock()
	last.Forgotten = true
	last.Unlock()
	if _, err := u.Do(modernExchange(t, "", `{"name":"n"}`, "{}")); err == nil {
		t.Error("not served")
	}
}

// A client that leaves during the handshake stops waiting; the handshake serves the next client.
func TestPoolClientLeavesDuringHandshake(t *testing.T) {
	s := &fakeServer{}
	u := newPooled(t, s, 10, time.Hour)
	ex := modernExchange(t, "", `{"name":"n"}`, "{}")
	ex.Cancel(proxy.ErrCancelled)
	if replies, err := u.Do(ex); err == nil { // it may exist at once
		_ = replies.Close()
	} else if !errors.Is(err, proxy.ErrCancelled) {
		t.Errorf("%v", err)
	}
	conversationOf(t, u, modernExchange(t, "", `{"name":"n"}`, "{}"))
	if n := len(s.Links); n != 2 {
		t.Errorf("%d conversations", n)
	}
}
