package era

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// TestRoundTrip tests that messages which are upgraded and downgraded again, or the reverse, stay the same: random requests,
// answers, errors, notifications, questions and their answers cross two Upstreams, one behind the other, with either kind of
// link between them. The only allowed differences are those of property_model_test.go.
//
//	legacy client → upgrade → modern wire → downgrade → legacy server
//	modern client → downgrade → legacy wire → upgrade → modern server
//
// Each seed is a pair of Upstreams and twenty exchanges. DRAGOMAN_TEST_SEED=n runs one again, DRAGOMAN_TEST_RUNS=n runs n.
func TestRoundTrip(t *testing.T) {
	seeds(t, 300, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			c := newChain(t, seed)
			defer c.close()
			for range 20 {
				if c.exchange(); t.Failed() {
					return
				}
			}
		})
	})
}

// chain is a client, two Upstreams and a server.
type chain struct {
	t          *testing.T
	g          *gen
	seed       uint64
	modern     bool // eras of client and server; the link between the Upstreams has the other era
	version    string
	level      string // the lowest log level that the client wants
	caps       string // the client's capabilities
	carried    string // the same as the server sees them
	server     *endpoint
	near, away *Upstream
	mirrors    bool
	client     *downstream
	received   chan string     // messages for the client
	count      int             // sessions between the Upstreams
	pages      map[string]page // cursors that the client received, by method
}

const (
	serverInfo         = `{"version":"1","name":"ünd \"s\"","x":[9007199254740993]}`
	clientInfo         = `{"x":{"b":1,"a":2},"name":"cl\u0069ent","version":"0"}`
	serverInstructions = `"use \u0077ith care"`
	serverCaps         = `{"tools":{},"x-caps":{"b":[1,{}],"a":null},"logging":{},"prompts":{},"resources":{},"completions":{},"experimental":{"e":{}}}`
)

func newChain(t *testing.T, seed uint64) *chain {
	g := newGen(seed)
	c := &chain{t: t, g: g, seed: seed, modern: g.chance(50), version: rules.LegacyVersion, received: make(chan string, 64), pages: map[string]page{}}
	c.level = pick(g, "", "debug", "warning")
	c.caps, c.carried = pick(g, "{}", `{"roots":{"listChanged":true},"sampling":{"tools":{},"x":1},"elicitation":{"url":{},"form":{}},"x-c":{"z":0}}`), "{}"
	if c.caps != "{}" {
		c.carried = `{"roots":{},"sampling":{"tools":{},"x":1},"elicitation":{"url":{},"form":{}},"x-c":{"z":0}}`
	} else if !c.modern {
		c.version = pick(g, (rules.Allowed{}).Legacy()...)
	}
	c.server = &endpoint{c: c, modern: c.modern}
	serves, between := proxy.Legacy, proxy.Modern
	if c.modern {
		serves, between = between, serves
	}
	c.mirrors = between == proxy.Modern && g.chance(30)
	c.away = c.upstream("away", serves, g.chance(50), false, func() (peer, func(transport.Sink)) { return &endpoint{c: c, modern: c.modern, of: c.server}, nil })
	c.near = c.upstream("near", between, g.chance(50) && !c.mirrors, c.mirrors, c.between)
	c.client = &downstream{handle: c.near.Do, bad: c.bad, flying: make(map[string]*proxy.Exchange)}
	if !c.modern {
		c.client.sess = proxy.NewSession("client", "test", "", proxy.Caller{Principal: "p"}, time.Now())
	}
	c.handshake()
	return c
}

// upstream makes an Upstream in front of what far makes, over a pipe or streams.
func (c *chain) upstream(name string, server proxy.Era, piped, mirrors bool, far func() (peer, func(transport.Sink))) *Upstream {
	dial := func(_ context.Context, sink transport.Sink) (transport.Link, error) {
		p, tell := far()
		if tell != nil {
			tell(sink)
		}
		if piped {
			return newPipe(server, p, sink), nil
		}
		return newStreams(server, p, sink), nil
	}
	wires := transport.Wires{Legacy: dial}
	if server == proxy.Modern {
		wires = transport.Wires{Modern: dial, Mirrors: mirrors}
	}
	store, err := input.NewStore(input.Options{Settle: time.Millisecond, LeaseWait: 30 * time.Second})
	if err != nil {
		c.t.Fatal(err)
	}
	return NewUpstream(Options{Server: transport.Server{Name: name, Wires: wires, Self: []byte(`{"name":"dragoman","version":"1"}`), Timeout: 5 * time.Second},
		Probe: probe.Options{TTL: time.Hour}, Sessions: sessions.Options{Max: 8, IdleTTL: time.Hour}, Store: store})
}

// between is the downstream of the second Upstream, as the server of the first.
func (c *chain) between() (peer, func(transport.Sink)) {
	f := &downstream{handle: c.away.Do, bad: c.bad, flying: make(map[string]*proxy.Exchange)}
	if !c.modern {
		return f, nil
	}
	c.count++
	f.sess = proxy.NewSession("between-"+strconv.Itoa(c.count), "test", "", proxy.Caller{Principal: "p"}, time.Now())
	return f, func(sink transport.Sink) { f.sess.SetOutlet(toSink{sink}) }
}

func (c *chain) close() {
	c.client.end()
	if err := c.near.Close(); err != nil {
		c.bad("near: %v", err)
	}
	if err := c.away.Close(); err != nil {
		c.bad("away: %v", err)
	}
	c.server.group.Wait()
}

func (c *chain) bad(format string, args ...any) {
	c.t.Helper()
	c.t.Errorf("DRAGOMAN_TEST_SEED=%d, modern client %v, %s, mirrors %v: %s", c.seed, c.modern, c.version, c.mirrors, fmt.Sprintf(format, args...))
}

func (c *chain) same(what, got, want string) {
	c.t.Helper()
	if got = compact([]byte(got)); got != want {
		c.bad("%s\n got %s\nwant %s", what, got, want)
	}
}

// handshake does what precedes the first call.
func (c *chain) handshake() {
	const none = `"tools":{},"x-caps":{"b":[1,{}],"a":null},"logging":{},"prompts":{},"resources":{},"completions":{},"experimental":{"e":{}}`
	if c.modern {
		got := c.ask(`{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{"_meta":{` + c.envelope() + `}}}`)
		c.same("discover", got, `{"jsonrpc":"2.0","id":"d","result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{`+none+
			`},"instructions":`+serverInstructions+`,"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":`+compact([]byte(serverInfo))+`}}}`)
		return
	}
	got := c.ask(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"` + c.version + `","capabilities":` + c.caps + `,"clientInfo":` + clientInfo + `}}`)
	c.same("initialize", got, `{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"`+c.version+`","capabilities":{`+none+`},"serverInfo":`+compact([]byte(serverInfo))+`,"instructions":`+serverInstructions+`}}`)
	c.client.take([]byte(rules.Initialized), nil, nil)
	c.same("ping", c.ask(`{"jsonrpc":"2.0","id":0,"method":"ping"}`), `{"jsonrpc":"2.0","id":0,"result":{}}`)
	if c.level != "" {
		c.same("setLevel", c.ask(`{"jsonrpc":"2.0","id":"l","method":"logging/setLevel","params":{"level":"`+c.level+`"}}`), `{"jsonrpc":"2.0","id":"l","result":{}}`)
	}
}

func (c *chain) envelope() string {
	e := `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":` + clientInfo + `,"io.modelcontextprotocol/clientCapabilities":` + c.caps
	if c.level != "" {
		e += `,"io.modelcontextprotocol/logLevel":"` + c.level + `"`
	}
	return e
}

// ask sends a request of the client and returns the next message that it gets.
func (c *chain) ask(raw string) string {
	c.client.take([]byte(raw), nil, func(raw []byte) { c.received <- string(raw) })
	return c.next()
}

func (c *chain) next() string {
	select {
	case raw := <-c.received:
		return raw
	case <-time.After(time.Minute):
		c.bad("the client received nothing")
		return "{}"
	}
}

// exchange runs one request of the client to its end.
func (c *chain) exchange() {
	g := c.g
	q := g.request(pick(g, requestMethods...))
	if g.chance(60) {
		q.token = g.id()
	}
	if p := c.pages[q.method]; p.client != "" && g.chance(60) {
		q.bare, q.params, q.page = false, q.params.with("cursor", p.client), p.server
	}
	d := &modelCall{c: c, q: q, level: c.level}
	d.plan()
	if c.modern || q.token != "" || g.chance(60) {
		g.addMeta(q, d.clientMeta())
	}
	c.server.now(d)
	defer c.server.now(nil)
	c.client.take(g.spaced(q.whole(q.full(), !q.bare).text(), true), nil, func(raw []byte) { c.received <- string(raw) })
	for !c.t.Failed() {
		m := c.message(c.next())
		switch {
		case m.Kind == wire.Request:
			d.answer(m)
			continue
		case m.Kind == wire.Result && m.ResultType.Is(m.Raw, "input_required"):
			d.retry(m)
			continue
		}
		if d.received(m); m.IsResponse() {
			break
		}
	}
	d.done()
}

func (c *chain) message(raw string) *wire.Message {
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		c.bad("%s: %v", raw, err)
	}
	return &m
}

// endpoint is the server at the end, and each of its conversations.
type endpoint struct {
	c      *chain
	modern bool
	of     *endpoint // nil: the server
	group  sync.WaitGroup

	mu   sync.Mutex
	call *modelCall
}

func (e *endpoint) now(d *modelCall) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.call = d
}

func (*endpoint) end() {}

func (e *endpoint) take(raw []byte, _ []proxy.Header, say func(raw []byte)) func() {
	s := e.of
	m := e.c.message(string(raw))
	s.mu.Lock()
	d := s.call
	s.mu.Unlock()
	reply := func(result string) func() {
		say(proxy.ResultMessage(m.Of(m.ID), []byte(result)).Raw)
		return func() {}
	}
	switch {
	case m.IsResponse() && d != nil:
		d.answers <- string(raw)
	case m.Kind != wire.Request:
	case m.Is("initialize") && !e.modern:
		return reply(`{"protocolVersion":"2025-11-25","capabilities":` + serverCaps + `,"serverInfo":` + serverInfo + `,"instructions":` + serverInstructions + `}`)
	case m.Is("server/discover") && e.modern:
		return reply(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + serverCaps + `,"instructions":` + serverInstructions +
			`,"ttlMs":60000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":` + serverInfo + `}}`)
	case (m.Is("ping") || m.Is("logging/setLevel")) && !e.modern:
		return reply(`{}`)
	case m.Is("tools/list") && (d == nil || d.q.method != "tools/list"): // as the schemas require
		return reply(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"t","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]}`)
	case d == nil:
		e.c.bad("nobody asked: %s", raw)
	default:
		s.group.Go(func() { d.serve(m, say) })
	}
	return func() {}
}

// minted are the ids and tokens that a link generates.
var minted = regexp.MustCompile(`^([0-9]+|"p[0-9]+")$`)

// seen compares a request at the server with the one that was sent.
func (d *modelCall) seen(m *wire.Message) {
	c, q := d.c, *d.q
	if id := string(m.Of(m.ID)); id == q.id || minted.MatchString(id) {
		q.id = id
	} else {
		c.bad("id %s became %s", q.id, id)
	}
	if q.page != "" {
		q.params = q.params.with("cursor", q.page)
	}
	d.token = ""
	if q.token != "" {
		if d.token = string(m.Of(m.Token)); d.token != q.token && !minted.MatchString(d.token) {
			c.bad("token %s became %s", q.token, d.token)
		}
		q.meta = q.meta.with("progressToken", d.token)
	}
	if c.modern {
		d.seenUp(m, &q)
		return
	}
	params := q.params.without("task", "inputResponses", "requestState")
	if kept := q.meta.without(withPrefix(reserved...)...); len(kept) > 0 {
		before := len(q.params[:q.at].without("task", "inputResponses", "requestState"))
		params = slices.Insert(params, before, mem("_meta", kept.text()))
	}
	if q.method == "tools/call" {
		params = params.filled("arguments", "{}")
	}
	want := q.whole(params, !q.bare)
	if q.bare {
		want = want.with("params", params.text())
	}
	c.same("the request", string(m.Raw), want.text())
}

// seenUp does so at a modern server: _meta has the client's own members in their order, at any position.
func (d *modelCall) seenUp(m *wire.Message, q *request) {
	c := d.c
	params := q.params.without("task", "inputResponses", "requestState")
	if q.method == "tools/call" {
		params = params.filled("arguments", "{}")
	}
	if d.state != "" || d.given != "" {
		params = d.retried(m, params)
	}
	meta := string(m.Of(m.Meta))
	got := wire.Message{Raw: bytes.Clone(m.Of(m.Params))}
	got.EditObject(got.Whole(), []wire.Change{{Key: "_meta"}})
	c.same("the params", string(got.Append(nil)), params.text())
	want := q.meta.without(withPrefix(reserved...)...).with(withPrefix("protocolVersion")[0], `"2026-07-28"`).with(withPrefix("clientInfo")[0], compact([]byte(clientInfo))).
		with(withPrefix("clientCapabilities")[0], c.carried)
	if c.level != "" {
		want = want.with(withPrefix("logLevel")[0], quote(c.level))
	}
	c.same("_meta", meta, want.text())
	rest := wire.Message{Raw: m.Raw}
	rest.EditObject(rest.Whole(), []wire.Change{{Key: "params"}})
	c.same("the request", string(rest.Append(nil)), q.whole(nil, true).without("params").text())
}

// retried compares a retry, whose answers may be at any position.
func (d *modelCall) retried(m *wire.Message, params obj) obj {
	c := d.c
	state := string(m.Of(m.ReqState))
	if state != d.state {
		c.bad("requestState %s became %s", d.state, state)
	}
	c.same("the answers", string(m.Of(m.InputResponses)), d.given)
	for k := range wire.Members(m.Raw, m.Params) {
		if key := string(k.Text(m.Raw)); key == "inputResponses" || key == "requestState" {
			params = params.without(key).with(key, compact(wire.Get(m.Raw, m.Params, key).Of(m.Raw)))
		}
	}
	return params
}

// received compares a message that the client gets with the next expected one.
func (d *modelCall) received(m *wire.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.due) == 0 {
		d.c.bad("the client gets %s, and nothing was to come", m.Raw)
		return
	}
	want := d.due[0]
	d.due = d.due[1:]
	if at := strings.Index(want, visited); at >= 0 { // the id was generated on the way
		want = strings.Replace(want, visited, string(wire.Get(m.Raw, m.Params, "elicitationId").Of(m.Raw)), 1)
	}
	if strings.Contains(want, sealed) {
		cursor := string(wire.Get(m.Raw, m.Result, "nextCursor").Of(m.Raw))
		want = strings.Replace(want, sealed, cursor, 1)
		d.c.pages[d.q.method] = page{cursor, d.next}
	}
	d.c.same("what the client gets", string(m.Raw), want)
}
