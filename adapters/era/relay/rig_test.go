package relay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a fake legacy server that the test controls.
type server struct {
	t       *testing.T
	mu      sync.Mutex
	links   []*link
	version string              // on which a handshake settles; empty: the one asked for
	on      map[string][]string // messages of the answer by method, $ID in place of the id; missing: a result with the link's number
	fails   map[string]error    // errors of Call by method
	down    error               // of Dial
	held    chan struct{}       // if not nil, links may be opened once it is closed
	channel bool                // calls share a channel
	busy    int                 // calls in flight on the channel
}

// link is one conversation with a server.
type link struct {
	*server
	n      int
	sse    bool
	sink   transport.Sink
	sent   []string // guarded by server.mu
	closed bool
}

// channelLink is a link whose calls share a channel.
type channelLink struct{ *link }

func (l channelLink) InFlight() int { l.mu.Lock(); defer l.mu.Unlock(); return l.busy }

func (s *server) dial(sse bool) transport.Dial {
	return func(_ context.Context, sink transport.Sink) (transport.Link, error) {
		s.mu.Lock()
		held := s.held
		s.mu.Unlock()
		if held != nil {
			<-held
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.down != nil {
			return nil, s.down
		}
		l := &link{server: s, n: len(s.links), sse: sse, sink: sink}
		s.links = append(s.links, l)
		if s.channel {
			return channelLink{l}, nil
		}
		return l, nil
	}
}

// open returns the number of links that are not closed.
func (s *server) open() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		if !l.closed {
			n++
		}
	}
	return n
}

func (s *server) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *server) link(n int) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links[n]
}

// received returns what a link was sent since the last time.
func (l *link) received() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	sent := l.sent
	l.sent = nil
	return sent
}

func (l *link) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	raw := ex.Msg.Append(nil)
	m := fakeserver.Scan(l.t, string(raw))
	method := string(m.Text(m.Method))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, string(raw))
	if err := l.fails[method]; err != nil {
		return nil, err
	}
	version := l.version
	if version == "" {
		version = string(m.Text(m.ParamsVersion))
	}
	lines, scripted := l.on[method]
	switch {
	case scripted:
	case method == "initialize":
		lines = []string{`{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"` + version + `","capabilities":{}}}`}
	default:
		lines = []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":$ID,"result":{"link":%d}}`, l.n)}
	}
	r := &replies{l: l, ex: ex, in: make(chan string, 100)}
	for _, line := range lines {
		r.in <- strings.ReplaceAll(line, "$ID", string(m.Of(m.ID)))
	}
	return r, nil
}

// Send implements transport.Link. A message must be a line, as links to processes need it.
func (l *link) Send(_ context.Context, msg []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, strings.TrimSuffix(string(msg), "\n"))
	return nil
}

func (l *link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		l.t.Error("closed twice")
	}
	l.closed = true
	return nil
}

// replies are the answer to one call. A line "broken" breaks it off, "lost" says that the session is unknown.
type replies struct {
	l  *link
	ex *proxy.Exchange
	in chan string
}

func (r *replies) Next(until time.Time) (*wire.Message, error) {
	select {
	case raw := <-r.in:
		switch raw {
		case "broken":
			return nil, proxy.Errf(proxy.Lost, "broken off")
		case "lost":
			return nil, proxy.Errf(proxy.SessionLost, "unknown session")
		case "status":
			return nil, &transport.StatusError{Status: 404, Text: "no"}
		}
		return fakeserver.Scan(r.l.t, raw), nil
	default:
	}
	var late <-chan time.Time
	if !until.IsZero() {
		late = time.After(time.Until(until))
	}
	select {
	case <-late:
		return nil, proxy.ErrNotYet
	case <-r.ex.Done():
		return nil, r.ex.Err()
	}
}

func (r *replies) Close() error { return nil }

// rig is the relays of one server, in a bubble.
type rig struct {
	t        *testing.T
	s        *server
	group    *work.Group
	keeper   *probe.Keeper
	x        *Relays
	noted    []string
	forgot   int // how often the server profile was forgotten
	settings transport.Server
}

// relaying runs a test. Links are processes if idleExit is not 0.
func relaying(t *testing.T, idleExit time.Duration, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, s: &server{t: t, on: map[string][]string{}, fails: map[string]error{}}}
		r.group = work.New(func(level, msg string, _ error) { r.noted = append(r.noted, level+" "+msg) })
		r.settings = transport.Server{Name: "up", Timeout: 5 * time.Second, Wires: transport.Wires{Legacy: r.s.dial(false), SSE: r.s.dial(true), Stdio: idleExit > 0, Remote: true}}
		opt := sessions.Options{Processes: sessions.Processes{Max: 10, IdleExit: idleExit}}
		quota := sessions.NewQuota(&r.settings, opt, func(string, bool) bool { return false })
		r.keeper = probe.NewKeeper(&r.settings, probe.Options{Forgotten: func() { r.forgot++ }}, fakeserver.NoLinks{}, r.group)
		r.x = New(&r.settings, Options{IdleExit: idleExit, Notice: func(proxy.Caller, *wire.Message) bool { return true }, Ended: func() {}}, r.group, r.keeper, quota)
		f(t, r)
		r.group.Close()
		for _, l := range r.x.Take() {
			_ = l.Close()
		}
		r.group.Cancel()
		r.group.Wait()
		if n := r.s.open(); n != 0 || r.x.Len() != 0 {
			t.Errorf("%d links, %d relays left", n, r.x.Len())
		}
	})
}

// client is a legacy client's session.
type client struct {
	*rig
	session *proxy.Session
	version string
	out     *fakeserver.Outlet
}

// newClient returns a client that has sent nothing yet.
func (r *rig) newClient(who, version string) *client {
	return &client{rig: r, out: &fakeserver.Outlet{}, version: version, session: proxy.NewSession("session-of-"+who, "test", "", proxy.Caller{Principal: who}, time.Now())}
}

// connect opens a client's session, up to notifications/initialized.
func (r *rig) connect(who, version string) *client {
	r.t.Helper()
	c := r.newClient(who, version)
	replies, err := r.x.Open(c.initialize(), r.x.server.Wires.Legacy)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := replies.Next(time.Time{}); err != nil {
		r.t.Fatal(err)
	}
	c.session.Initialize(proxy.Client{Era: proxy.Legacy, Version: version})
	_ = replies.Close()
	c.sends(rules.Initialized)
	return c
}

func (c *client) initialize() *proxy.Exchange {
	return c.exchange(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + c.version + `","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}`)
}

func (c *client) exchange(raw string) *proxy.Exchange {
	c.t.Helper()
	return &proxy.Exchange{Msg: *fakeserver.Scan(c.t, raw), Caller: c.session.Caller, Session: c.session, Client: proxy.Client{Era: proxy.Legacy, Version: c.version}}
}

// begin begins a request with id 7.
func (c *client) begin(method, params string) (*proxy.Exchange, proxy.Replies, error) {
	c.t.Helper()
	ex := c.exchange(`{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":` + params + `}`)
	replies, ok, err := c.x.Do(ex)
	if !ok {
		c.t.Fatal("the session has no relay")
	}
	return ex, replies, err
}

// call runs a request to its end and returns the response, or the name of the error.
func (c *client) call(method, params string) string {
	c.t.Helper()
	_, replies, err := c.begin(method, params)
	if err != nil {
		return proxy.AsError(err).Name
	}
	m, err := proxy.Response(replies, time.Now().Add(time.Minute))
	if err != nil {
		return proxy.AsError(err).Name
	}
	return string(m.Append(nil))
}

// sends sends a notification or an answer, which has no replies.
func (c *client) sends(raw string) {
	c.t.Helper()
	if replies, ok, err := c.x.Do(c.exchange(raw)); !ok || replies != nil || err != nil {
		c.t.Errorf("%s: %v, %v", raw, ok, err)
	}
}

// next returns what the client reads until nothing is left, and the name of the error after it.
func next(replies proxy.Replies) (got []string, name string) {
	for {
		m, err := replies.Next(time.Now().Add(time.Microsecond))
		if err != nil {
			return got, proxy.AsError(err).Name
		}
		got = append(got, string(m.Append(nil)))
	}
}

func (r *rig) is(what string, got, want []string) {
	r.t.Helper()
	if !slices.Equal(got, want) {
		r.t.Errorf("%s %q, want %q", what, got, want)
	}
}

// received returns what the client received on its stream since the last time.
func (c *client) received() []string {
	synctest.Wait()
	return c.out.Take()
}
