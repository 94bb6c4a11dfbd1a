package rest

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rest/catalog"
	"dragoman/adapters/rest/schema"
	"dragoman/internal/testkit"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp's clock for Date headers: one for the process, from the first answer on; it cannot be stopped
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// script is the server, as a Handler.
type script struct {
	mu   sync.Mutex
	seen []*proxy.Exchange
	on   map[string]func(ex *proxy.Exchange) (proxy.Replies, error)
}

// handle is the proxy.Handler.
func (s *script) handle(ex *proxy.Exchange) (proxy.Replies, error) {
	s.mu.Lock()
	s.seen = append(s.seen, ex)
	f := s.on[string(ex.Msg.Text(ex.Msg.Method))]
	s.mu.Unlock()
	if f == nil {
		return failed(ex, `{"code":-32601,"message":"unknown method"}`), nil
	}
	return f(ex)
}

// set scripts a method.
func (s *script) set(method string, f func(ex *proxy.Exchange) (proxy.Replies, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on[method] = f
}

// result scripts a method's result.
func (s *script) result(method, result string) {
	s.set(method, func(ex *proxy.Exchange) (proxy.Replies, error) { return replied(ex, result), nil })
}

// all returns the requests of a method.
func (s *script) all(method string) (out []*proxy.Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ex := range s.seen {
		if ex.Msg.Is(method) {
			out = append(out, ex)
		}
	}
	return out
}

func replied(ex *proxy.Exchange, result string) proxy.Replies {
	return proxy.Reply(proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), []byte(result)))
}

func failed(ex *proxy.Exchange, object string) proxy.Replies {
	m, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":%s}`, ex.Msg.Of(ex.Msg.ID), object))
	if err != nil {
		panic(err)
	}
	return proxy.Reply(m)
}

// scriptedReplies are replies that come one after the other; an empty message waits until the exchange ends.
type scriptedReplies struct {
	ex     *proxy.Exchange
	msgs   []string
	closed chan struct{}
}

func (k *scriptedReplies) Next(until time.Time) (*wire.Message, error) {
	if len(k.msgs) == 0 {
		return nil, io.EOF
	}
	next := k.msgs[0]
	if next == "" {
		late := time.NewTimer(time.Until(until))
		defer late.Stop()
		select {
		case <-k.ex.Done():
			return nil, k.ex.Err()
		case <-late.C:
			return nil, proxy.ErrNotYet
		}
	}
	k.msgs = k.msgs[1:]
	return proxy.Scanned([]byte(strings.NewReplacer("$ID", string(k.ex.Msg.Of(k.ex.Msg.ID)), "$TOKEN", string(k.ex.Msg.Of(k.ex.Msg.Token))).Replace(next)))
}

func (k *scriptedReplies) Close() error { close(k.closed); return nil }

// rig is the REST endpoint in front of a script, on a loopback port.
type rig struct {
	t      *testing.T
	s      *script
	d      *Downstream
	base   string
	http   *http.Client
	mu     sync.Mutex
	now    time.Time
	logged []string
}

// clock is the start of the rig's clock.
var clock = time.Date(2025, 12, 9, 12, 34, 56, 789e6, time.UTC)

const stamp = `"timestamp":"2025-12-09T12:34:56.789Z","meta":{"execution_time_ms":0`

// demo is the tool list of the rig.
const demo = `{"tools":[{"name":"query_callers","description":"Find all functions","inputSchema":{"type":"object","properties":{"function_name":{"type":"string"},` +
	`"max_depth":{"type":"integer","minimum":1,"maximum":10}},"required":["function_name"]},"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}},` +
	`{"name":"plain"}],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"up","version":"0.0.24"}}}`

func newRig(t *testing.T, change func(o *Options)) *rig {
	t.Helper()
	r := &rig{t: t, now: clock, s: &script{on: map[string]func(*proxy.Exchange) (proxy.Replies, error){}}}
	r.s.result("tools/list", demo)
	opt := Options{Service: "code-graph-rag", Info: []byte(`{"name":"REST client","version":"1"}`), Caps: []byte(`{"sampling":{}}`), Cap: testkit.Patient, KeepAlive: time.Second,
		MaxBody: 4096, MaxHead: 4096}
	opt.Options = catalog.Options{TTL: 30 * time.Second, Check: schema.NewCache(), Now: r.clock,
		Log: func(level, msg string, err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.logged = append(r.logged, fmt.Sprint(level, " ", msg, " ", err))
		}}
	if change != nil {
		change(&opt)
	}
	r.d = NewDownstream(r.s.handle, opt)
	gate := func(h *proxy.Head) *proxy.Error {
		if string(h.Origin) == "http://evil.example" {
			return proxy.Errf(proxy.ForbiddenOrigin, "no")
		}
		return nil
	}
	srv, err := httpserver.NewServer(httpserver.Options{MaxBody: opt.MaxBody, MaxHeader: opt.MaxHead, HandlerOptions: httpserver.HandlerOptions{
		Gates: []func(*fasthttp.RequestCtx) bool{mcphttp.Gates(r.d.Refuse(mcphttp.Refuse), gate)}, Refused: r.d.Refused(mcphttp.Refused(1, 1)),
		NotFound: r.d.NotFound(mcphttp.NotFound), MethodNotAllowed: r.d.MethodNotAllowed(mcphttp.MethodNotAllowed)}})
	if err != nil {
		t.Fatal(err)
	}
	r.d.Register(srv)
	srv.Handle(fasthttp.MethodGet, "/mcp/sse", func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("sse") })
	transport := &http.Transport{DisableCompression: true}
	r.base, r.http = "http://"+testkit.Serve(t, srv), &http.Client{Transport: transport, Timeout: testkit.Patient}
	t.Cleanup(transport.CloseIdleConnections)
	return r
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// advance moves the clock on.
func (r *rig) advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// send sends a request; headers are Name, value, …
func (r *rig) send(verb, path, body string, headers ...string) *http.Response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), verb, r.base+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := r.http.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

// readAll reads the body of an answer, and closes it.
func readAll(t *testing.T, res *http.Response) string {
	t.Helper()
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var madeID = regexp.MustCompile(`"request_id":"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"`)

// got returns the answer to a request; a new request_id is replaced by ID.
func (r *rig) got(verb, path, body string, headers ...string) (status int, answer string) {
	r.t.Helper()
	res := r.send(verb, path, body, headers...)
	return res.StatusCode, madeID.ReplaceAllStringFunc(readAll(r.t, res), func(id string) string {
		if strings.Contains(id, callerID) {
			return id
		}
		return `"request_id":"ID"`
	})
}

// want compares an answer. Of an envelope, $S stands for what follows the request_id of a success or failure without more meta.
func (r *rig) want(status int, answer, verb, path, body string, headers ...string) {
	r.t.Helper()
	answer = strings.NewReplacer(`$S}`, stamp+`}}`, `$S`, stamp).Replace(answer)
	if gotStatus, got := r.got(verb, path, body, headers...); gotStatus != status || got != answer {
		r.t.Errorf("%s %s %s:\n%d %s\nwant\n%d %s", verb, path, body, gotStatus, got, status, answer)
	}
}
