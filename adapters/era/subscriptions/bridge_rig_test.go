package subscriptions

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/mux"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

const (
	allCaps  = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true}}`
	someCaps = `{"tools":{"listChanged":true},"resources":{"subscribe":true}}`
	onlySubs = `{"tools":{},"resources":{"subscribe":true}}`
)

// modernServer is a fake modern server, over HTTP or as a process, whose listens the test controls.
type modernServer struct {
	mu       sync.Mutex
	caps     string
	log      []string // what happened at the server, in order
	links    []*modernLink
	listens  []*serverListen
	silent   bool                  // listens are not acknowledged
	ackAll   func(uri string) bool // which resources are; nil: all
	then     string                // sent after each acknowledgement, ID in place of the subscription
	answers  bool                  // a process answers a listen that is cancelled
	onListen func(a *serverListen) // instead of all that
}

// modernLink is one link to it; mux is nil over HTTP.
type modernLink struct {
	sink transport.Sink // of a process
	*mux.Mux
	s *modernServer
}

// serverListen is one subscriptions/listen at the server.
type serverListen struct {
	s    *modernServer
	n    int
	ex   *proxy.Exchange
	id   string
	uris []string
	in   chan string // over HTTP: what the server sends
	gone chan struct{}
	once sync.Once
	mux  *mux.Mux
}

func (s *modernServer) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *modernServer) events() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, "\n")
}

func (s *modernServer) last() *serverListen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listens[len(s.listens)-1]
}

func (s *modernServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.listens)
}

// dialHTTP makes a link that has a stream for each call.
func (s *modernServer) dialHTTP(context.Context, transport.Sink) (transport.Link, error) {
	return &modernLink{s: s}, nil
}

// dialProcess makes a link on which all calls share a channel.
func (s *modernServer) dialProcess(_ context.Context, sink transport.Sink) (transport.Link, error) {
	l := &modernLink{s: s, sink: sink}
	l.Mux = mux.New(proxy.Modern, func(_ context.Context, _ uint64, msg []byte) error { return l.line(msg) }, sink)
	s.mu.Lock()
	s.links = append(s.links, l)
	s.mu.Unlock()
	return l, nil
}

func (l *modernLink) Close() error {
	if l.Mux != nil {
		l.Fail(proxy.Errf(proxy.Lost, "closed"))
	}
	return nil
}

// die ends a process.
func (l *modernLink) die() {
	l.Fail(proxy.Errf(proxy.Lost, "died"))
	l.sink.Lost(proxy.Errf(proxy.Lost, "died"))
}

func (l *modernLink) Send(context.Context, []byte) error { return nil }

func (l *modernLink) discoverResult(id []byte) wire.Message {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return proxy.ResultMessage(id, []byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+l.s.caps+
		`,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"f","version":"1"}}}`))
}

func (l *modernLink) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	if l.Mux != nil {
		return l.Mux.Call(ex)
	}
	m := &ex.Msg
	switch {
	case m.Is("server/discover"):
		return proxy.Reply(l.discoverResult(m.Of(m.ID))), nil
	case !m.Is("subscriptions/listen"):
		return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), []byte(`{"resultType":"complete"}`))), nil
	}
	if ex.Session == nil {
		return nil, proxy.Errf(proxy.Internal, "the link cannot know that the id must be minted")
	}
	a := l.s.listen(m, nil)
	a.ex = ex
	ex.Attach(a)
	a.acknowledge()
	return a, nil
}

// line is what a process reads.
func (l *modernLink) line(raw []byte) error {
	m, err := wire.Scan(slices.Clone(raw))
	if err != nil {
		return err
	}
	switch {
	case m.Is("server/discover"):
		discoverResult := l.discoverResult(m.Of(m.ID))
		go func() { _ = l.Deliver(discoverResult.Raw) }()
	case m.Is("notifications/cancelled"):
		l.s.note("cancelled %d", l.s.number(string(m.Of(m.RequestID))))
		if l.s.answers {
			go func() { _ = l.Deliver([]byte(`{"jsonrpc":"2.0","id":` + string(m.Of(m.RequestID)) + `,"result":{}}`)) }()
		}
	case m.Is("subscriptions/listen"):
		a := l.s.listen(&m, l.Mux)
		go a.acknowledge()
	}
	return nil
}

// number returns the number of the listen with an id.
func (s *modernServer) number(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 1 + slices.IndexFunc(s.listens, func(a *serverListen) bool { return a.id == id })
}

func (s *modernServer) listen(m *wire.Message, x *mux.Mux) *serverListen {
	a := &serverListen{s: s, in: make(chan string, 64), gone: make(chan struct{}), mux: x, id: string(m.Of(m.ID))}
	for _, at := range wire.Items(m.Raw, wire.Get(m.Raw, m.Notifications, "resourceSubscriptions")) {
		a.uris = append(a.uris, string(at.Text(m.Raw)))
	}
	s.mu.Lock()
	s.listens = append(s.listens, a)
	a.n = len(s.listens)
	s.mu.Unlock()
	s.note("open %d %s", a.n, m.Of(m.Notifications))
	return a
}

// acknowledge acknowledges, as the server is set.
func (a *serverListen) acknowledge() {
	a.s.mu.Lock()
	silent, all, then, onListen := a.s.silent, a.s.ackAll, a.s.then, a.s.onListen
	a.s.mu.Unlock()
	switch {
	case onListen != nil:
		onListen(a)
		return
	case silent:
		return
	}
	var uris []string
	for _, u := range a.uris {
		if all == nil || all(u) {
			uris = append(uris, `"`+u+`"`)
		}
	}
	a.s.note("acknowledge %d", a.n)
	a.send("notifications/subscriptions/acknowledged", `"notifications":{"toolsListChanged":true,"resourceSubscriptions":[`+strings.Join(uris, ",")+`]}`)
	if then != "" {
		a.raw(strings.ReplaceAll(then, "ID", a.id))
	}
}

func (a *serverListen) send(method, params string) {
	if params != "" {
		params = "," + params
	}
	a.raw(`{"jsonrpc":"2.0","method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + a.id + `}` + params + `}}`)
}

func (a *serverListen) raw(msg string) {
	if a.mux != nil {
		_ = a.mux.Deliver([]byte(msg))
		return
	}
	a.in <- msg
}

func (a *serverListen) updated(uri string) { a.send(rules.ResourceUpdated, `"uri":"`+uri+`"`) }

// break ends an HTTP answer without a response.
func (a *serverListen) lose() { close(a.in) }

// Next implements proxy.Replies, over HTTP.
func (a *serverListen) Next(time.Time) (*wire.Message, error) {
	select {
	case raw, ok := <-a.in:
		if !ok {
			return nil, proxy.Errf(proxy.Lost, "broken off")
		}
		return proxy.Scanned([]byte(raw))
	default:
	}
	select {
	case raw, ok := <-a.in:
		if !ok {
			return nil, proxy.Errf(proxy.Lost, "broken off")
		}
		return proxy.Scanned([]byte(raw))
	case <-a.gone:
		return nil, io.ErrClosedPipe
	}
}

// Abort implements proxy.Aborter.
func (a *serverListen) Abort() {
	a.once.Do(func() {
		a.s.note("close %d", a.n)
		close(a.gone)
	})
}

// Close implements proxy.Replies.
func (a *serverListen) Close() error {
	a.ex.Detach(a)
	a.Abort()
	return nil
}

// bridgeRig is a legacy session at the modernServer, in a synctest bubble.
type bridgeRig struct {
	t   *testing.T
	u   *upstream
	s   *proxy.Session
	out *fakeserver.Outlet
	n   int
}

const acknowledgeTime = 2 * time.Second

// newBridgeRig opens a session, up to notifications/initialized. Without stream it has none yet.
func newBridgeRig(t *testing.T, srv *modernServer, process, open bool) *bridgeRig {
	t.Helper()
	wires := transport.Wires{Modern: srv.dialHTTP, Mirrors: true}
	if process {
		wires = transport.Wires{Modern: srv.dialProcess, Stdio: true}
	}
	r := &bridgeRig{t: t, out: &fakeserver.Outlet{}, s: proxy.NewSession("s", "streamable-http", "", proxy.Caller{Principal: "p"}, time.Now()),
		u: newUpstream(&transport.Server{Name: "up", Wires: wires}, Options{Timeout: acknowledgeTime})}
	if open && process {
		r.s.SetOutlet(r.out) // a stdio client has it from the start
	}
	r.start(srv)
	if open && !process {
		r.s.SetOutlet(r.out)
	}
	synctest.Wait()
	return r
}

// secondClient is a second client that has sent nothing yet.
func (r *bridgeRig) secondClient() *bridgeRig {
	b := &bridgeRig{t: r.t, u: r.u, out: &fakeserver.Outlet{}, s: proxy.NewSession("t", "stdio", "", proxy.Caller{Principal: "q"}, time.Now())}
	b.s.SetOutlet(b.out)
	return b
}

// another opens a second session, with a stream, at the same upstream.
func (r *bridgeRig) another(srv *modernServer) *bridgeRig {
	r.t.Helper()
	b := r.secondClient()
	b.start(srv)
	synctest.Wait()
	return b
}

func (r *bridgeRig) start(srv *modernServer) {
	r.t.Helper()
	n := srv.count()
	r.initialize()
	synctest.Wait()
	if srv.count() != n {
		r.t.Error("a listen before the handshake is over")
	}
	if _, err := r.u.Do(&proxy.Exchange{Msg: *fakeserver.Scan(r.t, rules.Initialized), Session: r.s, Client: r.s.Client()}); err != nil {
		r.t.Fatal(err)
	}
}

// initialize is the handshake but for its end.
func (r *bridgeRig) initialize() {
	r.t.Helper()
	client := proxy.Client{Version: rules.LegacyVersion, Info: []byte(`{"name":"c","version":"1"}`), Caps: []byte(`{"elicitation":{}}`)}
	m := fakeserver.Scan(r.t, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`)
	replies, err := r.u.Do(&proxy.Exchange{Msg: *m, Session: r.s, Caller: r.s.Caller, Client: client})
	if err != nil {
		r.t.Fatal(err)
	}
	got, err := proxy.Response(replies, time.Time{})
	if err != nil {
		r.t.Fatal(err)
	}
	if got.Kind != wire.Result {
		r.t.Errorf("%s", got.Raw)
	}
	r.s.Initialize(client)
}

func (r *bridgeRig) close() {
	r.t.Helper()
	r.s.End(proxy.Closed)
	synctest.Wait()
	if err := r.u.Close(); err != nil {
		r.t.Error(err)
	}
	synctest.Wait()
	if n := r.u.bridges.Count(); n != 0 {
		r.t.Errorf("%d listens left", n)
	}
}

// request runs a request of the client's; what it is answered arrives in the channel: the result, or the error's code and
// name.
func (r *bridgeRig) request(method, params string) (*proxy.Exchange, chan string) {
	r.n++
	m := fakeserver.Scan(r.t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"%s","params":{%s}}`, r.n, method, params))
	ex := &proxy.Exchange{Msg: *m, Session: r.s, Caller: r.s.Caller, Client: r.s.Client()}
	done := make(chan string, 1)
	go func() {
		replies, err := r.u.Do(ex)
		var got wire.Message
		if err == nil {
			got, err = proxy.Response(replies, time.Time{})
		}
		if err != nil {
			e := proxy.AsError(err)
			done <- fmt.Sprint(e.Code, " ", e.Name)
			return
		}
		done <- string(got.Of(got.Result))
	}()
	return ex, done
}

func (r *bridgeRig) subscribe(uri string) chan string {
	_, done := r.request("resources/subscribe", `"uri":"`+uri+`"`)
	return done
}

// is runs a request to its end.
func (r *bridgeRig) requests(method, uri, want string) {
	r.t.Helper()
	_, done := r.request(method, `"uri":"`+uri+`"`)
	r.answered(done, want)
}

func (r *bridgeRig) answered(done chan string, want string) {
	r.t.Helper()
	select {
	case got := <-done:
		if got != want {
			r.t.Errorf("answered %s, want %s", got, want)
		}
	case <-time.After(time.Minute):
		r.t.Fatal("no answer")
	}
}

// sees checks what the client received since the last time.
func (r *bridgeRig) received(want ...string) {
	r.t.Helper()
	synctest.Wait()
	got := r.out.Take()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Errorf("the client got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func logIs(t *testing.T, s *modernServer, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := s.events(); got != strings.Join(want, "\n") {
		t.Errorf("at the server:\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func updatedNotice(uri string) string {
	return `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri + `"}}`
}

func changedNotice(list string) string {
	return `{"jsonrpc":"2.0","method":"notifications/` + list + `/list_changed"}`
}

func taggedChange(list string) string { // what is left of one that came with a tag
	return `{"jsonrpc":"2.0","method":"notifications/` + list + `/list_changed","params":{}}`
}

// sessions returns the number of sessions that have a bridge.
func (x *Bridges) sessions() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.bySession)
}
