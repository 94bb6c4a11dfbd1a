package era

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeServer is a legacy server behind links of its own; it counts conversations.
type fakeServer struct {
	mu      sync.Mutex
	links   []*fakeLink
	refuse  bool // initialize is answered with an error
	modern  bool
	version string // that a handshake settles on; empty: 2025-11-25
}

// fakeLink is one conversation.
type fakeLink struct {
	s      *fakeServer
	n      int
	sink   Sink
	mu     sync.Mutex
	said   []string
	closed bool
	lost   bool
}

func (s *fakeServer) dial(_ context.Context, sink Sink) (Link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &fakeLink{s: s, n: len(s.links), sink: sink}
	s.links = append(s.links, l)
	return l, nil
}

func (s *fakeServer) open() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		l.mu.Lock()
		if !l.closed {
			n++
		}
		l.mu.Unlock()
	}
	return n
}

func (l *fakeLink) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	l.mu.Lock()
	l.said = append(l.said, string(m.Append(nil)))
	lost := l.lost
	l.mu.Unlock()
	l.s.mu.Lock()
	refuse, modern, version := l.s.refuse, l.s.modern, l.s.version
	l.s.mu.Unlock()
	if version == "" {
		version = LegacyVersion
	}
	id := m.Of(m.ID)
	switch {
	case lost:
		return nil, proxy.Errf(proxy.SessionLost, "forgotten")
	case m.Is("server/discover") && modern:
		return proxy.Reply(proxy.ResultMessage(id, []byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`))), nil
	case m.Is("initialize") && (refuse || modern):
		return proxy.Reply(proxy.ErrorMessage(id, proxy.Errf(proxy.InvalidParams, "no"))), nil
	case m.Is("initialize"):
		return proxy.Reply(proxy.ResultMessage(id, []byte(`{"protocolVersion":"`+version+`","capabilities":{"logging":{}},"serverInfo":{"name":"f","version":"1"}}`))), nil
	}
	return proxy.Reply(proxy.ResultMessage(id, []byte(`{"link":`+strconv.Itoa(l.n)+`}`))), nil
}

func (l *fakeLink) Send(_ context.Context, msg []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, string(msg))
	return nil
}

func (l *fakeLink) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}

func newPooled(t *testing.T, s *fakeServer, most int, idle time.Duration) *Upstream {
	t.Helper()
	lot, err := NewLot(Questions{LeaseWait: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	u := NewUpstream(Options{Name: "up", Lot: lot, Wires: Wires{Legacy: s.dial}, Self: []byte(`{"name":"dragoman","version":"1"}`),
		ProbeTimeout: 5 * time.Second, VerdictTTL: time.Hour, MaxSessions: most, IdleTTL: idle})
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
		if n := s.open(); n != 0 {
			t.Errorf("%d conversations left", n)
		}
	})
	if _, err := u.Verdict(t.Context()); err != nil {
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
		Client: proxy.Client{Era: proxy.Modern, Version: ModernVersion, Info: m.Of(m.Info), Caps: m.Of(m.Caps)}}
}

// conversationOf runs an exchange and answers the number of the conversation that served it.
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

// A conversation belongs to one principal, one clientInfo, one set of capabilities (vector 60).
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
	// what lets a server ask is fixed by the handshake too; roots.listChanged promises what nobody keeps
	asking := of("alice", one, `{"elicitation":{},"sampling":{},"roots":{"listChanged":true}}`)
	if _, dup := seen[asking]; dup {
		t.Error("a call that may be asked shares the conversation of one that may not")
	}
	if of("alice", one, `{"elicitation":{},"sampling":{},"roots":{}}`) != asking {
		t.Error("one call after the other, in two conversations")
	}
	if said := strings.Join(s.links[asking].said, "\n"); !strings.Contains(said, `"capabilities":{"elicitation":{},"sampling":{},"roots":{}}`) {
		t.Errorf("declared: %s", said)
	}
}

// Many at once wait for one handshake; other principals have theirs.
func TestPoolHandshakesOnce(t *testing.T) {
	s := &fakeServer{}
	u := newPooled(t, s, 10, time.Hour)
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() { conversationOf(t, u, modernExchange(t, fmt.Sprint("p", i%4), `{"name":"n"}`, "{}")) })
	}
	group.Wait()
	if n := len(s.links); n != 5 { // one probed
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
	for s.open() > 0 && time.Now().Before(end) {
		time.Sleep(time.Millisecond) // polled
	}
	if n := s.open(); n != 0 {
		t.Errorf("%d conversations after the idle time", n)
	}
}

// A lost conversation is opened anew once, unseen by the client; for ever it is not.
func TestPoolSessionLost(t *testing.T) {
	s := &fakeServer{}
	u := newPooled(t, s, 10, time.Hour)
	first := conversationOf(t, u, modernExchange(t, "", `{"name":"n"}`, "{}"))
	s.links[first].mu.Lock()
	s.links[first].lost = true
	s.links[first].mu.Unlock()
	if again := conversationOf(t, u, modernExchange(t, "", `{"name":"n"}`, "{}")); again == first {
		t.Error("the dead conversation serves")
	}
	s.mu.Lock()
	s.refuse = true
	last := s.links[len(s.links)-1]
	s.mu.Unlock()
	last.mu.Lock()
	last.lost = true
	last.mu.Unlock()
	if _, err := u.Do(modernExchange(t, "", `{"name":"n"}`, "{}")); err == nil {
		t.Error("served by nobody")
	}
}

// A client that leaves while the handshake runs waits no longer; the handshake serves the next one.
func TestPoolClientLeavesDuringHandshake(t *testing.T) {
	s := &fakeServer{}
	u := newPooled(t, s, 10, time.Hour)
	ex := modernExchange(t, "", `{"name":"n"}`, "{}")
	ex.Cancel(proxy.ErrCancelled)
	if replies, err := u.Do(ex); err == nil { // it may be there at once
		_ = replies.Close()
	} else if !errors.Is(err, proxy.ErrCancelled) {
		t.Errorf("%v", err)
	}
	conversationOf(t, u, modernExchange(t, "", `{"name":"n"}`, "{}"))
	if n := len(s.links); n != 2 {
		t.Errorf("%d conversations", n)
	}
}

// muxSink records what belongs to no call.
type muxSink struct{ got []string }

func (s *muxSink) Message(m *wire.Message) bool {
	s.got = append(s.got, string(m.Append(nil)))
	return true
}
func (s *muxSink) Lost(error) {}

// Several callers share a channel: ids and tokens are minted and restored, whatever their type; what belongs to no call
// goes to the sink; garbage that names a call ends that one only.
func TestMuxRouting(t *testing.T) {
	var out bytes.Buffer
	sink := &muxSink{}
	x := NewMux(proxy.Modern, func(_ context.Context, msg []byte) error { out.Write(append(msg, '\n')); return nil }, sink)
	call := func(id string) proxy.Replies {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"m","params":{"_meta":{"progressToken":` + id + `}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r, err := x.Call(&proxy.Exchange{Msg: m})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b, c := call(`12`), call(`"12"`), call(`"c"`)
	if want := `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":"p1"}}}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"m","params":{"_meta":{"progressToken":"p2"}}}` + "\n" +
		`{"jsonrpc":"2.0","id":3,"method":"m","params":{"_meta":{"progressToken":"p3"}}}` + "\n"; out.String() != want {
		t.Errorf("%s", out.String())
	}
	deliver := func(raw string) {
		_ = x.Deliver([]byte(raw))
	}
	deliver(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p2","progress":1}}`)
	deliver(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p9","progress":1}}`)
	deliver(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}`)
	deliver(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	deliver(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	deliver(`{"jsonrpc":"2.0","id":2,"result":{"again":1}}`)
	deliver(`{"jsonrpc":"2.0","id":3,"result":{},"error":{}}`)
	deliver(`{"level":"info","id":1,"msg":"a log line"}`)
	deliver(`{"jsonrpc":"2.0","id":"1","result":{"a string":1}}`) // all ids are ours: it can mean no other
	deliver(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	next := func(r proxy.Replies) string {
		m, err := r.Next(time.Now().Add(time.Second))
		if err != nil {
			return err.Error()
		}
		return string(m.Append(nil))
	}
	f := func(r proxy.Replies, want string) {
		t.Helper()
		if got := next(r); !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	f(b, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"12","progress":1}}`)
	f(b, `{"jsonrpc":"2.0","id":"12","result":{}}`)
	f(b, "EOF")
	f(a, `{"jsonrpc":"2.0","id":12,"result":{"a string":1}}`)
	f(c, "upstream_bad_answer")
	if len(sink.got) != 1 || sink.got[0] != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
		t.Errorf("%v", sink.got)
	}
	for _, r := range []proxy.Replies{a, b, c} {
		_ = r.Close()
	}
	if x.InFlight() != 0 {
		t.Errorf("%d in flight", x.InFlight())
	}
	d := call("1")
	x.Fail(proxy.Errf(proxy.Lost, "gone"))
	f(d, "upstream_lost")
	_ = d.Close()
	m, _ := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"m"}`))
	if _, err := x.Call(&proxy.Exchange{Msg: m}); err == nil {
		t.Error("a dead channel takes calls")
	}
}

// A request that its client cancels while it is being written may have reached the server: it is told.
func TestMuxCancelledWhileWriting(t *testing.T) {
	said := make(chan string, 4)
	var ex *proxy.Exchange
	x := NewMux(proxy.Legacy, func(_ context.Context, msg []byte) error {
		said <- string(msg)
		if strings.Contains(string(msg), `"method":"m"`) {
			ex.Cancel(proxy.ErrCancelled)
			return ex.Err()
		}
		return nil
	}, &muxSink{})
	m, _ := wire.Scan([]byte(`{"jsonrpc":"2.0","id":"k","method":"m"}`))
	ex = &proxy.Exchange{Msg: m}
	if _, err := x.Call(ex); err == nil {
		t.Error("no error")
	}
	<-said
	if got := <-said; got != `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` {
		t.Errorf("%s", got)
	}
}
