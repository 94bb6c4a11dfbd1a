package era

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// serverRig is an upstream in front of a scriptedServer, in a synctest bubble.
type serverRig struct {
	t *testing.T
	s *scriptedServer
	u *Upstream
}

// bothWires runs a test with each kind of link.
func bothWires(t *testing.T, caps string, f func(t *testing.T, r *serverRig)) {
	t.Helper()
	for _, process := range []bool{false, true} {
		t.Run(map[bool]string{false: "http", true: "stdio"}[process], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newServerRig(t, newScriptedServer(caps), process, nil)
				f(t, r)
				r.close()
			})
		})
	}
}

func newServerRig(t *testing.T, s *scriptedServer, process bool, set func(o *Options)) *serverRig {
	t.Helper()
	wires := transport.Wires{Legacy: s.dial(process), Stdio: process}
	if s.era == proxy.Modern {
		wires = transport.Wires{Modern: s.dial(process), Stdio: process, Mirrors: !process}
	}
	opt := Options{Server: transport.Server{Name: "up", Self: []byte(`{"name":"dragoman","version":"1"}`), Wires: wires, Timeout: 5 * time.Second},
		Probe: probe.Options{TTL: 1000 * time.Hour}, Sessions: sessions.Options{Max: 10}}
	if set != nil {
		set(&opt)
	}
	r := &serverRig{t: t, s: s, u: NewUpstream(opt)}
	if _, err := r.u.Profile(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.received()
	return r
}

// close checks that everything has been released.
func (r *serverRig) close() {
	r.t.Helper()
	if err := r.u.Close(); err != nil {
		r.t.Error(err)
	}
	synctest.Wait()
	if n := r.s.open(); n != 0 {
		r.t.Errorf("%d sessions left", n)
	}
	if n := r.u.Listens(); n != 0 {
		r.t.Errorf("%d listens left", n)
	}
}

// clientRequest is a modern client's request and the messages received for it.
type clientRequest struct {
	t    *testing.T
	ex   *proxy.Exchange
	mu   sync.Mutex
	got  []string
	over bool
	err  error
	stop chan struct{} // closed: it reads no more
	read chan struct{} // one for each message that it may read; nil: as they come
}

// legacy returns a session of a legacy client of 2025-11-25 with the given capabilities.
func (r *serverRig) legacy(caps string) *proxy.Session {
	s := proxy.NewSession("s", "stdio", "", proxy.Caller{Principal: "p"}, time.Now())
	s.Initialize(proxy.Client{Version: rules.LegacyVersion, Info: []byte(`{"name":"c","version":"1"}`), Caps: []byte(caps)})
	return s
}

// ask runs a legacy client's request in its session.
func (r *serverRig) ask(s *proxy.Session, id, method, params string) *clientRequest {
	r.t.Helper()
	m := fakeserver.Scan(r.t, `{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":{`+params+`}}`)
	e := &clientRequest{t: r.t, ex: &proxy.Exchange{Msg: *m, Session: s, Caller: s.Caller, Client: s.Client()}, stop: make(chan struct{})}
	go e.run(r.u)
	synctest.Wait()
	return e
}

// client is the client of a request.
type client struct{ who, name, caps, extra string }

func (r *serverRig) exchange(c client, id, method, params string) *proxy.Exchange {
	r.t.Helper()
	if c.name == "" {
		c.name = "c"
	}
	if c.caps == "" {
		c.caps = "{}"
	}
	m := fakeserver.Scan(r.t, `{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":{`+params+`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"`+
		c.name+`","version":"1"},"io.modelcontextprotocol/clientCapabilities":`+c.caps+c.extra+`}}}`)
	return &proxy.Exchange{Msg: *m, Caller: proxy.Caller{Principal: c.who}, Client: proxy.Client{Era: proxy.Modern, Version: rules.ModernVersion,
		Info: m.Of(m.Info), Caps: m.Of(m.Caps), LogLevel: string(m.Text(m.LogLevel))}}
}

// request runs a request; its client reads what comes.
func (r *serverRig) request(c client, id, method, params string) *clientRequest {
	r.t.Helper()
	e := &clientRequest{t: r.t, ex: r.exchange(c, id, method, params), stop: make(chan struct{})}
	go e.run(r.u)
	synctest.Wait()
	return e
}

func (r *serverRig) listen(c client, id, filter string) *clientRequest {
	r.t.Helper()
	return r.request(c, id, "subscriptions/listen", `"notifications":{`+filter+`}`)
}

// call runs a tools/call of a tool.
func (r *serverRig) call(c client, id, tool string) *clientRequest {
	r.t.Helper()
	return r.request(c, id, "tools/call", `"name":"`+tool+`","arguments":{}`)
}

func (e *clientRequest) run(u *Upstream) {
	replies, err := u.Do(e.ex)
	for err == nil {
		if e.read != nil {
			select {
			case <-e.read:
			case <-e.stop:
			}
		}
		var m *wire.Message
		if m, err = replies.Next(time.Time{}); err == nil {
			e.mu.Lock()
			e.got = append(e.got, string(m.Append(nil)))
			e.mu.Unlock()
			if m.IsResponse() {
				break
			}
		}
	}
	if replies != nil {
		_ = replies.Close()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over, e.err = true, err
}

// received checks the messages received since the last check.
func (e *clientRequest) received(want ...string) {
	e.t.Helper()
	synctest.Wait()
	e.mu.Lock()
	got := e.got
	e.got = nil
	e.mu.Unlock()
	if !slices.Equal(got, want) {
		e.t.Errorf("received\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// forget drops the messages received.
func (e *clientRequest) forget() {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got = nil
}

// ended checks that the request has ended with an error of the given name; "" means a response.
func (e *clientRequest) ended(name string) {
	e.t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	got := ""
	if e.err != nil {
		got = proxy.AsError(e.err).Name
	}
	if !e.over || got != name {
		e.t.Errorf("over: %v, error %v, want %q", e.over, e.err, name)
	}
}

func (e *clientRequest) leave() {
	e.ex.Cancel(proxy.ErrCancelled)
	synctest.Wait()
}

// serverReceived checks what the server received since the last check, handshakes excepted.
func (r *serverRig) serverReceived(want ...string) {
	r.t.Helper()
	synctest.Wait()
	got := slices.DeleteFunc(r.s.received(), func(line string) bool {
		return strings.Contains(line, " initialize ") || strings.HasSuffix(line, "notifications/initialized")
	})
	if !slices.Equal(got, want) {
		r.t.Errorf("the server received\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// ackOf returns the acknowledgement of a listen; id is raw JSON.
func ackOf(id, honoured string) string {
	return `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id +
		`},"notifications":{` + honoured + `}}}`
}

func taggedList(id, list string) string {
	return `{"jsonrpc":"2.0","method":"notifications/` + list + `/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`
}

func taggedUpdate(id, uri string) string {
	return `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri + `","_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`
}

func endOf(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`
}

const (
	allCaps  = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true}}`
	someCaps = `{"tools":{"listChanged":true},"resources":{"subscribe":true}}`
)

func updatedNotice(uri string) string {
	return `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri + `"}}`
}

func changedNotice(list string) string {
	return `{"jsonrpc":"2.0","method":"notifications/` + list + `/list_changed"}`
}
