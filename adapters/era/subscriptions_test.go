package era

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

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// herald is a server of either era, spoken to over HTTP or as a process, that the test has in its hands: it answers at
// once but for the methods that are scripted, and writes down what it is told.
type herald struct {
	era   proxy.Era
	mu    sync.Mutex
	caps  string
	tools string // of tools/list
	log   []string
	times []time.Time // of each dial
	links []*heraldLink
	down  bool                             // dialling fails
	brief bool                             // a session ends as soon as it is open
	dumb  bool                             // there is no stream for what belongs to no call
	lose  map[string]bool                  // methods to which the answer is that the session is unknown
	no    func(uri string) bool            // which resources cannot be subscribed to
	on    map[string]func(c *heraldCall)   // scripts
	held  map[string]chan *heraldCall      // calls that wait for the test
	then  func(l *heraldLink, said string) // after each message
}

// heraldLink is one session; its number counts from 1.
type heraldLink struct {
	*Mux   // nil over HTTP
	s      *herald
	n      int
	sink   Sink
	mu     sync.Mutex
	next   uint64
	closed bool
	broken bool // calls cannot be sent
	own    Errands
}

// Settle implements Settler.
func (l *heraldLink) Settle(ctx context.Context) { l.own.Settle(ctx) }

// Begin notes what others send besides.
func (l *heraldLink) Begin() func() { return l.own.Begin() }

// fails makes calls fail before they are sent, or no more.
func (l *heraldLink) fails(broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = broken
}

// quietLink is one whose server says nothing outside calls.
type quietLink struct{ *heraldLink }

func (quietLink) Pushes() bool { return false }

// heraldCall is one request at the server.
type heraldCall struct {
	l         *heraldLink
	id, token string
	msg       wire.Message
	ex        *proxy.Exchange // over HTTP
	minted    *Minted
	in        chan string
	gone      chan struct{}
	once      sync.Once
}

func newHerald(caps string) *herald {
	return &herald{caps: caps, on: map[string]func(*heraldCall){}, held: map[string]chan *heraldCall{}, lose: map[string]bool{}}
}

func (s *herald) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

// said answers what happened since the last time: a line for each message, with the session's number.
func (s *herald) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

func (s *herald) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// hold keeps the calls of a method until the test takes them from the channel and answers them.
func (s *herald) hold(method string) chan *heraldCall {
	came := make(chan *heraldCall, 64)
	s.set(func() {
		s.held[method] = came
		s.on[method] = func(c *heraldCall) { came <- c }
	})
	return came
}

func (s *herald) link(n int) *heraldLink {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		if l.n == n {
			return l
		}
	}
	return nil
}

func (s *herald) open() (n int) {
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

func (s *herald) dial(process bool) Dial {
	return func(_ context.Context, sink Sink) (Link, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.times = append(s.times, time.Now())
		if s.down {
			return nil, proxy.Errf(proxy.Unreachable, "down")
		}
		l := &heraldLink{s: s, n: len(s.links), sink: sink}
		if process {
			l.Mux = NewMux(s.era, func(_ context.Context, msg []byte) error { return l.line(msg) }, sink)
		}
		s.links = append(s.links, l)
		if s.dumb {
			return quietLink{l}, nil
		}
		return l, nil
	}
}

// Call implements Link.
func (l *heraldLink) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	l.mu.Lock()
	broken := l.broken
	l.mu.Unlock()
	if broken {
		return nil, proxy.Errf(proxy.Unreachable, "down")
	}
	if l.Mux != nil {
		return l.Mux.Call(ex)
	}
	l.mu.Lock()
	l.next++
	minted := Mint(&ex.Msg, l.next)
	l.mu.Unlock()
	raw := ex.Msg.Append(nil)
	l.s.mu.Lock()
	lose := l.s.lose[string(ex.Msg.Text(ex.Msg.Method))]
	l.s.mu.Unlock()
	if lose {
		l.s.note("%d lost %s", l.n, ex.Msg.Text(ex.Msg.Method))
		return nil, proxy.Errf(proxy.SessionLost, "unknown session")
	}
	m, err := wire.Scan(raw)
	if err != nil {
		return nil, err
	}
	c := newHeraldCall(l, m)
	c.ex, c.minted = ex, minted
	ex.Attach(c)
	l.s.take(c)
	return c, nil
}

func newHeraldCall(l *heraldLink, m wire.Message) *heraldCall {
	return &heraldCall{l: l, msg: m, id: string(m.Of(m.ID)), token: string(m.Of(m.Token)), in: make(chan string, 4096), gone: make(chan struct{})}
}

// Send implements Link.
func (l *heraldLink) Send(ctx context.Context, msg []byte) error {
	if l.Mux != nil {
		return l.Mux.Send(ctx, msg)
	}
	return l.line(msg)
}

// Close implements Link.
func (l *heraldLink) Close() error {
	l.mu.Lock()
	was := l.closed
	l.closed = true
	l.mu.Unlock()
	if was {
		return nil
	}
	l.s.note("%d end", l.n)
	if l.Mux != nil {
		l.Fail(proxy.Errf(proxy.Lost, "closed"))
	}
	return nil
}

// die loses the session from the server's side.
func (l *heraldLink) die() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	if l.Mux != nil {
		l.Fail(proxy.Errf(proxy.Lost, "died"))
	}
	l.sink.Lost(proxy.Errf(proxy.SessionLost, "died"))
}

// line is what comes outside calls over HTTP, and all of it at a process.
func (l *heraldLink) line(raw []byte) error {
	m, err := wire.Scan(slices.Clone(raw))
	if err != nil {
		return err
	}
	switch m.Kind {
	case wire.Request:
		l.s.take(newHeraldCall(l, m))
	case wire.Notification:
		l.s.note("%d %s", l.n, strings.TrimSpace(string(m.Text(m.Method))+" "+string(m.Of(m.RequestID))))
		l.s.after(l, string(m.Text(m.Method)))
	default:
		l.s.note("%d answer %s", l.n, m.Raw)
	}
	return nil
}

func (s *herald) after(l *heraldLink, said string) {
	s.mu.Lock()
	then := s.then
	s.mu.Unlock()
	if then != nil {
		then(l, said)
	}
}

// take answers one request.
func (s *herald) take(c *heraldCall) {
	m := &c.msg
	method, about := string(m.Text(m.Method)), ""
	switch {
	case m.Is("tools/call"):
		about = " " + string(m.Of(m.Params))
	case m.Is("initialize"):
		about = " " + string(wire.Get(m.Raw, m.Params, "capabilities").Of(m.Raw))
	case m.Params.Present():
		if m.Is("tasks/update") {
			about = " " + string(m.Of(m.InputResponses))
		} else if text := string(m.Text(m.URI)) + string(m.Text(m.Level)) + string(wire.Get(m.Raw, m.Params, "taskId").Text(m.Raw)); text != "" {
			about = " " + text
		}
	}
	s.note("%d %s%s", c.l.n, method, about)
	s.mu.Lock()
	script, caps, tools, no, brief := s.on[method], s.caps, s.tools, s.no, s.brief
	s.mu.Unlock()
	switch {
	case script != nil:
		script(c)
	case m.Is("server/discover") && s.era == proxy.Legacy:
		c.say(`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"unknown method"}}`)
	case m.Is("server/discover"):
		c.result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + caps +
			`,"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"f","version":"1"}}}`)
	case s.era == proxy.Modern && m.Is("tools/call"):
		c.result(`{"resultType":"complete","content":[]}`)
	case m.Is("initialize"):
		c.result(`{"protocolVersion":"2025-11-25","capabilities":` + caps + `,"serverInfo":{"name":"f","version":"1"}}`)
		if brief {
			go c.l.die()
		}
	case m.Is("resources/subscribe") && no != nil && no(string(m.Text(m.URI))):
		c.say(`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"not this one"}}`)
	case m.Is("tools/list"):
		c.result(`{"tools":[` + tools + `]}`)
	case m.Is("tools/call"):
		c.result(`{"content":[]}`)
	default:
		c.result("{}")
	}
	s.after(c.l, method)
}

// say sends a message in the call: on its stream, or on the channel.
func (c *heraldCall) say(msg string) {
	msg = strings.NewReplacer("$ID", c.id, "$TOKEN", c.token).Replace(msg)
	if c.l.Mux != nil {
		_ = c.l.Deliver([]byte(msg))
		return
	}
	c.in <- msg
}

func (c *heraldCall) result(result string) {
	c.say(`{"jsonrpc":"2.0","id":$ID,"result":` + result + `}`)
}

// away sends what belongs to no call.
func (l *heraldLink) away(msg string) {
	if l.Mux != nil {
		_ = l.Deliver([]byte(msg))
		return
	}
	m, err := wire.Scan([]byte(msg))
	if err == nil {
		l.sink.Message(&m)
	}
}

// Next implements proxy.Replies, over HTTP.
func (c *heraldCall) Next(until time.Time) (wire.Message, error) {
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-c.gone:
		return wire.Message{}, proxy.ErrCancelled
	case raw := <-c.in:
		switch raw {
		case "":
			return wire.Message{}, io.EOF
		case "broken":
			c.once.Do(func() { close(c.gone) })
			return wire.Message{}, proxy.Errf(proxy.Lost, "broken off")
		}
		m, err := wire.Scan([]byte(raw))
		if err == nil {
			c.minted.Restore(&m)
			if m.IsResponse() {
				c.once.Do(func() {}) // no more to be cancelled
				c.in <- ""
			}
		}
		return m, err
	case <-late:
		return wire.Message{}, proxy.ErrNotYet
	}
}

// Abort implements proxy.Aborter.
func (c *heraldCall) Abort() {
	c.once.Do(func() {
		close(c.gone)
		c.l.s.note("%d notifications/cancelled %s", c.l.n, c.id)
	})
}

// Close implements proxy.Replies.
func (c *heraldCall) Close() error {
	c.ex.Detach(c)
	select {
	case raw := <-c.in:
		if raw == "" { // the response has been read
			return nil
		}
	default:
	}
	c.Abort()
	return nil
}

// heraldRig is an upstream before a herald, in a bubble with a clock of its own.
type heraldRig struct {
	t *testing.T
	s *herald
	u *Upstream
	n int
}

// bothWires runs a test with each kind of link.
func bothWires(t *testing.T, caps string, f func(t *testing.T, r *heraldRig)) {
	t.Helper()
	for _, process := range []bool{false, true} {
		t.Run(map[bool]string{false: "http", true: "stdio"}[process], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHeraldRig(t, newHerald(caps), process, nil)
				f(t, r)
				r.close()
			})
		})
	}
}

func newHeraldRig(t *testing.T, s *herald, process bool, set func(o *Options)) *heraldRig {
	t.Helper()
	wires := Wires{Legacy: s.dial(process), Stdio: process}
	if s.era == proxy.Modern {
		wires = Wires{Modern: s.dial(process), Stdio: process, Mirrors: !process}
	}
	opt := Options{Name: "up", Wires: wires, Self: []byte(`{"name":"dragoman","version":"1"}`),
		ProbeTimeout: 5 * time.Second, VerdictTTL: 1000 * time.Hour, MaxSessions: 10}
	if set != nil {
		set(&opt)
	}
	r := &heraldRig{t: t, s: s, u: NewUpstream(opt)}
	if _, err := r.u.Verdict(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.said()
	return r
}

// close wants everything given back.
func (r *heraldRig) close() {
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

// ear is a modern client's request, and what it hears of it.
type ear struct {
	t    *testing.T
	ex   *proxy.Exchange
	mu   sync.Mutex
	got  []string
	over bool
	err  error
	stop chan struct{} // closed: it reads no more
	read chan struct{} // one for each message that it may read; nil: as they come
}

// legacy makes a session of a legacy client of 2025-11-25 with the given capabilities.
func (r *heraldRig) legacy(caps string) *proxy.Session {
	s := proxy.NewSession("s", "stdio", "", proxy.Caller{Principal: "p"}, time.Now())
	s.Initialize(proxy.Client{Version: LegacyVersion, Info: []byte(`{"name":"c","version":"1"}`), Caps: []byte(caps)})
	return s
}

// ask runs a legacy client's request in its session.
func (r *heraldRig) ask(s *proxy.Session, id, method, params string) *ear {
	r.t.Helper()
	m := scan(r.t, `{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":{`+params+`}}`)
	e := &ear{t: r.t, ex: &proxy.Exchange{Msg: *m, Session: s, Caller: s.Caller, Client: s.Client()}, stop: make(chan struct{})}
	go e.run(r.u)
	synctest.Wait()
	return e
}

// client is who asks.
type client struct{ who, name, caps, extra string }

func (r *heraldRig) exchange(c client, id, method, params string) *proxy.Exchange {
	r.t.Helper()
	if c.name == "" {
		c.name = "c"
	}
	if c.caps == "" {
		c.caps = "{}"
	}
	m := scan(r.t, `{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":{`+params+`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"`+
		c.name+`","version":"1"},"io.modelcontextprotocol/clientCapabilities":`+c.caps+c.extra+`}}}`)
	return &proxy.Exchange{Msg: *m, Caller: proxy.Caller{Principal: c.who}, Client: proxy.Client{Era: proxy.Modern, Version: ModernVersion,
		Info: m.Of(m.Info), Caps: m.Of(m.Caps), LogLevel: string(m.Text(m.LogLevel))}}
}

// request runs a request; its client reads what comes.
func (r *heraldRig) request(c client, id, method, params string) *ear {
	r.t.Helper()
	e := &ear{t: r.t, ex: r.exchange(c, id, method, params), stop: make(chan struct{})}
	go e.run(r.u)
	synctest.Wait()
	return e
}

func (r *heraldRig) listen(c client, id, filter string) *ear {
	r.t.Helper()
	return r.request(c, id, "subscriptions/listen", `"notifications":{`+filter+`}`)
}

// call runs a tools/call of a tool.
func (r *heraldRig) call(c client, id, tool string) *ear {
	r.t.Helper()
	return r.request(c, id, "tools/call", `"name":"`+tool+`","arguments":{}`)
}

func (e *ear) run(u *Upstream) {
	replies, err := u.Do(e.ex)
	for err == nil {
		if e.read != nil {
			select {
			case <-e.read:
			case <-e.stop:
			}
		}
		var m wire.Message
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

// hears checks what came since the last time.
func (e *ear) hears(want ...string) {
	e.t.Helper()
	synctest.Wait()
	e.mu.Lock()
	got := e.got
	e.got = nil
	e.mu.Unlock()
	if !slices.Equal(got, want) {
		e.t.Errorf("heard\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// forget forgets what came.
func (e *ear) forget() {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got = nil
}

// ended wants the request to be over, with an error of the given name; "": with a response.
func (e *ear) ended(name string) {
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

func (e *ear) leave() {
	e.ex.Cancel(proxy.ErrCancelled)
	synctest.Wait()
}

// told checks what the server was told since the last time, but for handshakes.
func (r *heraldRig) told(want ...string) {
	r.t.Helper()
	synctest.Wait()
	got := slices.DeleteFunc(r.s.said(), func(line string) bool {
		return strings.Contains(line, " initialize ") || strings.HasSuffix(line, "notifications/initialized")
	})
	if !slices.Equal(got, want) {
		r.t.Errorf("the server was told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// ackOf is the acknowledgement of a listen with an id, raw JSON.
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

// Subscriptions are counted in a session: the first asks the server, the last tells it (vector 77).
func TestSubscriptionsAreCounted(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *heraldRig) {
		a := r.listen(client{}, "1", `"resourceSubscriptions":["u","v"]`)
		r.told("1 resources/subscribe u", "1 resources/subscribe v")
		b := r.listen(client{}, "2", `"resourceSubscriptions":["u","w","u"]`)
		r.told("1 resources/subscribe w")
		b.hears(ackOf("2", `"resourceSubscriptions":["u","w"]`))
		a.leave()
		r.told("1 resources/unsubscribe v")
		c := r.listen(client{}, "3", `"resourceSubscriptions":["u"]`)
		r.told()
		b.leave()
		r.told("1 resources/unsubscribe w")
		c.leave()
		r.told("1 resources/unsubscribe u")
		// what was given back is asked for again
		d := r.listen(client{}, "4", `"resourceSubscriptions":["u"]`)
		r.told("1 resources/subscribe u")
		d.leave()
		r.told("1 resources/unsubscribe u")
	})
}

// An unsubscribe that fails does not leave the count behind: the next listen asks the server anew.
func TestSubscriptionsAfterFailedUnsubscribe(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *heraldRig) {
		r.s.on["resources/unsubscribe"] = func(*heraldCall) {} // no answer at all
		a := r.listen(client{}, "1", `"resourceSubscriptions":["u"]`)
		a.leave()
		time.Sleep(time.Minute)
		synctest.Wait()
		r.s.said()
		r.s.set(func() { delete(r.s.on, "resources/unsubscribe") })
		b := r.listen(client{}, "2", `"resourceSubscriptions":["u"]`)
		r.told("1 resources/subscribe u")
		b.hears(ackOf("2", `"resourceSubscriptions":["u"]`))
		b.leave()
	})
}

// Each principal, and each client of one, has subscriptions and notices of its own.
func TestSubscriptionsOfOthers(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *heraldRig) {
		const filter = `"toolsListChanged":true,"resourceSubscriptions":["u"]`
		const honoured = `"toolsListChanged":true,"resourceSubscriptions":["u"]`
		a := r.listen(client{who: "alice"}, "1", filter)
		b := r.listen(client{who: "bob"}, "1", filter)
		c := r.listen(client{who: "alice", name: "other"}, "1", filter)
		r.told("1 resources/subscribe u", "2 resources/subscribe u", "3 resources/subscribe u")
		for _, e := range []*ear{a, b, c} {
			e.hears(ackOf("1", honoured))
		}
		r.s.link(1).away(changedNotice("tools"))
		a.hears(taggedList("1", "tools"))
		r.s.link(2).away(updatedNotice("u"))
		b.hears(taggedUpdate("1", "u"))
		time.Sleep(time.Second)
		for _, e := range []*ear{a, b, c} {
			e.hears()
		}
		// an update of what only another principal names is no less one for who hears it
		d := r.listen(client{who: "bob"}, "2", `"resourceSubscriptions":["odd"]`)
		d.hears(ackOf("2", `"resourceSubscriptions":["odd"]`))
		r.s.link(1).away(updatedNotice("odd"))
		a.hears(taggedUpdate("1", "odd"))
		for _, e := range []*ear{a, b, c, d} {
			e.leave()
		}
	})
}
