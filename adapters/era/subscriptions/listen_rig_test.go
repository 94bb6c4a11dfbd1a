package subscriptions

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// legacyServer is a fake legacy server that the test controls.
type legacyServer struct {
	mu      sync.Mutex
	caps    string
	links   []*legacyLink
	log     []string          // requests about subscriptions, with the number of their session
	dials   []time.Time       // when sessions were opened
	down    bool              // no session can be opened
	quiet   bool              // it sends nothing outside calls
	quietly chan struct{}     // if not nil, closed when that is known
	refuses map[string]bool   // resources that cannot be subscribed to
	forgets bool              // resources/subscribe ends the session
	holds   chan struct{}     // if not nil, resources/subscribe waits for it
	content map[string]string // results by method, and URI if there is one; missing: an error
	reads   int               // requests for content
}

// legacyLink is one session with a legacyServer. Numbers count from 0; number 0 is that of the probe.
type legacyLink struct {
	s      *legacyServer
	n      int
	sink   transport.Sink
	closed bool // guarded by s.mu
}

func (s *legacyServer) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *legacyServer) dial(_ context.Context, sink transport.Sink) (transport.Link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials = append(s.dials, time.Now())
	if s.down {
		return nil, proxy.Errf(proxy.Unreachable, "down")
	}
	l := &legacyLink{s: s, n: len(s.links), sink: sink}
	s.links = append(s.links, l)
	return l, nil
}

func (s *legacyServer) link(n int) *legacyLink {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links[n]
}

// events returns the log since the last time.
func (s *legacyServer) events() string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return strings.Join(log, "; ")
}

// dialled returns when sessions were opened.
func (s *legacyServer) dialled() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.dials)
}

// readCount returns the number of requests for content.
func (s *legacyServer) readCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func (s *legacyServer) open() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		if !l.closed {
			n++
		}
	}
	return n
}

func (l *legacyLink) Pushes() bool {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return !l.s.quiet
}

func (l *legacyLink) Answered() <-chan struct{} {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.s.quietly
}

func (l *legacyLink) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	s, m := l.s, &ex.Msg
	method, uri := string(m.Text(m.Method)), string(m.Text(m.URI))
	s.mu.Lock()
	holds := s.holds
	s.mu.Unlock()
	if method == "resources/subscribe" && holds != nil {
		<-holds
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	result := "{}"
	switch method {
	case "initialize":
		result = `{"protocolVersion":"2025-11-25","capabilities":` + s.caps + `,"serverInfo":{"name":"f","version":"1"}}`
	case "resources/subscribe", "resources/unsubscribe":
		s.log = append(s.log, fmt.Sprint(l.n, " ", strings.TrimPrefix(method, "resources/"), " ", uri))
		if s.forgets && method == "resources/subscribe" {
			return nil, proxy.Errf(proxy.SessionLost, "unknown session")
		}
		if s.refuses[uri] {
			return proxy.Reply(proxy.ErrorMessage(m.Of(m.ID), proxy.Errf(proxy.InvalidParams, "no"))), nil
		}
	default:
		s.reads++
		var known bool
		if result, known = s.content[strings.TrimSpace(method+" "+uri+string(m.Text(m.Cursor)))]; !known {
			return proxy.Reply(proxy.ErrorMessage(m.Of(m.ID), proxy.Errf(proxy.InvalidParams, "no"))), nil
		}
	}
	return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), []byte(result))), nil
}

func (l *legacyLink) Send(context.Context, []byte) error { return nil }

func (l *legacyLink) Close() error {
	l.s.set(func() { l.closed = true })
	return nil
}

// says sends a message outside calls.
func (l *legacyLink) says(t *testing.T, msg string) {
	t.Helper()
	l.sink.Message(fakeserver.Scan(t, msg))
}

func (l *legacyLink) die() { l.sink.Lost(proxy.Errf(proxy.Lost, "died")) }

// listenRig is Listens at a legacyServer, in a synctest bubble.
type listenRig struct {
	t       *testing.T
	s       *legacyServer
	group   *work.Group
	pool    *sessions.Pool
	listens *Listens
}

// listening runs a test in a bubble, with a server of the given capabilities; poll is the interval of polling.
func listening(t *testing.T, caps string, poll time.Duration, f func(t *testing.T, r *listenRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &legacyServer{caps: caps, refuses: map[string]bool{}, content: map[string]string{}}
		server := &transport.Server{Name: "up", Self: []byte(`{"name":"dragoman","version":"1"}`), Wires: transport.Wires{Legacy: s.dial}, Timeout: 5 * time.Second}
		opt := sessions.Options{Max: 10}
		r := &listenRig{t: t, s: s, group: work.New(nil)}
		keeper := probe.NewKeeper(server, probe.Options{TTL: 1000 * time.Hour}, fakeserver.NoLinks{}, r.group)
		if _, err := keeper.Profile(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.pool = sessions.NewPool(server, opt, r.group, keeper, sessions.NewQuota(server, opt, func(string, bool) bool { return false }))
		r.listens = NewListens(Options{Poll: poll, Timeout: 5 * time.Second}, r.group, r.pool)
		f(t, r)
		r.close()
	})
}

// close ends the upstream and checks that nothing is left.
func (r *listenRig) close() {
	r.t.Helper()
	r.group.Close()
	r.group.Cancel()
	_ = r.pool.Close()
	r.group.Wait()
	if n := r.s.open(); n != 0 {
		r.t.Errorf("%d sessions left", n)
	}
	if n := r.pool.Listens(); n != 0 {
		r.t.Errorf("%d listens left", n)
	}
}

// modernListen is a listen of a modern client.
type modernListen struct {
	r       *listenRig
	ex      *proxy.Exchange
	replies proxy.Replies
}

func (r *listenRig) exchange(id, method, params string) *proxy.Exchange {
	r.t.Helper()
	return &proxy.Exchange{Msg: *fakeserver.Scan(r.t, `{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":`+params+`}`), Caller: proxy.Caller{Principal: "p"},
		Client: proxy.Client{Era: proxy.Modern, Version: rules.ModernVersion, Info: []byte(`{"name":"c","version":"1"}`), Caps: []byte(`{}`)}}
}

// listen begins a listen, which must succeed; the test reads its replies.
func (r *listenRig) listen(id, filter string) *modernListen {
	r.t.Helper()
	l := &modernListen{r: r, ex: r.exchange(id, "subscriptions/listen", `{"notifications":{`+filter+`}}`)}
	var err error
	if l.replies, err = r.listens.Listen(l.ex); err != nil {
		r.t.Fatal(err)
	}
	return l
}

// session opens another session of the same client, in which its calls may run, and returns its link.
func (r *listenRig) session() *legacyLink {
	r.t.Helper()
	if _, err := r.pool.Turn(r.exchange("1", "tools/call", `{"name":"a"}`), true, 0); err != nil {
		r.t.Fatal(err)
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.s.links[len(r.s.links)-1]
}

// next returns what the client reads until nothing is left, in short, and the error after it.
func (l *modernListen) next() (got []string, err error) {
	for {
		synctest.Wait()
		m, err := l.replies.Next(time.Now().Add(time.Microsecond))
		if err != nil {
			return got, err
		}
		got = append(got, short(m, string(l.ex.Msg.Of(l.ex.Msg.ID))))
	}
}

// short abbreviates a message of a listen, and marks a tag of another listen.
func short(m *wire.Message, id string) (out string) {
	if tag := string(m.Of(m.Subscription)); m.Kind == wire.Notification && tag != id {
		out = "tagged " + tag + ": "
	}
	switch {
	case m.Is("notifications/subscriptions/acknowledged"):
		return out + "ack " + string(m.Of(m.Notifications))
	case m.Is(rules.ResourceUpdated):
		return out + "updated " + string(m.Text(m.URI))
	case m.Kind == wire.Notification:
		return out + string(m.Text(m.Method))
	}
	return fmt.Sprintf("%s %s", m.Kind, m.Of(m.ID))
}

// received checks what the client has received since the last time.
func (l *modernListen) received(want ...string) {
	l.r.t.Helper()
	got, err := l.next()
	if err != proxy.ErrNotYet || !slices.Equal(got, want) {
		l.r.t.Errorf("received %q, %v, want %q", got, err, want)
	}
}

// ended checks that the listen has ended, with an error of the given name.
func (l *modernListen) ended(name string) {
	l.r.t.Helper()
	if got, err := l.next(); len(got) != 0 || err == nil || proxy.AsError(err).Name != name {
		l.r.t.Errorf("received %q, %v", got, err)
	}
}

func (l *modernListen) close() {
	l.r.t.Helper()
	if err := l.replies.Close(); err != nil {
		l.r.t.Error(err)
	}
	synctest.Wait()
}
