package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"dragoman/adapters/stdio/downstream"
	"dragoman/internal/testkit"
)

const (
	serverSpan = tracepb.Span_SPAN_KIND_SERVER
	clientSpan = tracepb.Span_SPAN_KIND_CLIENT
)

func answering(u *upstream) {
	u.on("tools/list", func(c *call) {
		c.result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"a","inputSchema":{"type":"object"}}]}`)
	})
	u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
}

// For every client and server: a span of the call with a child span for the server, whose context the server gets in _meta and, if there
// are any, in headers.
func TestTraceOfEveryPair(t *testing.T) {
	for client, ask := range clientKinds {
		for _, kind := range kinds {
			t.Run(client+" client, "+kind+" server", func(t *testing.T) {
				t.Parallel()
				c, u := newCollector(t), newUpstream(t, kind)
				answering(u)
				r := startRig(t, c.toml("")+u.toml(""), true)
				if _, body := ask(r, "a"); !strings.Contains(body, "content") {
					t.Fatal(body)
				}
				server, span := c.pair("tools/call a")
				if len(server.ParentSpanId) != 0 {
					t.Errorf("the server span has a parent: %x", server.ParentSpanId)
				}
				calls := u.all("tools/call")
				meta, headers := traceOf(calls[len(calls)-1])
				if meta != [3]string{parentOf(span)} {
					t.Errorf("the server got %q, want %s", meta, parentOf(span))
				}
				carried := "pipe"
				if !strings.HasSuffix(kind, "stdio") {
					carried = "tcp"
					if headers != [3]string{parentOf(span)} {
						t.Errorf("its headers are %q, want %s", headers, parentOf(span))
					}
				}
				has(t, span, "mcp.method.name", "tools/call", "gen_ai.tool.name", "a", "gen_ai.operation.name", "execute_tool", "dragoman.upstream", "default",
					"network.transport", carried, "error.type", "", "jsonrpc.protocol.version", "")
				has(t, server, "mcp.method.name", "tools/call", "gen_ai.tool.name", "a", "gen_ai.operation.name", "execute_tool", "dragoman.upstream", "default",
					"network.transport", "tcp", "network.protocol.name", "http", "client.address", "127.0.0.1", "error.type", "")
				if server.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET || server.EndTimeUnixNano < span.StartTimeUnixNano {
					t.Errorf("status %v, %d to %d", server.Status, server.StartTimeUnixNano, server.EndTimeUnixNano)
				}
			})
		}
	}
}

// The attributes of the resource, and those of a legacy client's session.
func TestTraceAttributes(t *testing.T) {
	c, u := newCollector(t), newUpstream(t, "legacy")
	u.on("resources/read", func(c *call) { c.result(`{"contents":[]}`) })
	r := startRig(t, "[service]\nname = \"box\"\nversion = \"1.2.3\"\n"+c.toml("headers = { X-Key = \"shh\" }")+u.toml(""), true)
	session := r.open("2025-06-18", "{}")
	res := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":"x","method":"resources/read","params":{"uri":"file:///a"}}`, append(legacyHeaders(session), "X-Request-Id", "mine")...)
	if res.header.Get("X-Request-Id") != "mine" || res.status != 200 {
		t.Errorf("%d %v", res.status, res.header)
	}
	server, span := c.pair("resources/read")
	has(t, server, "mcp.resource.uri", "file:///a", "mcp.session.id", session[:6], "mcp.protocol.version", "2025-06-18", "jsonrpc.request.id", "x",
		"dragoman.request_id", "mine", "dragoman.client.era", "legacy", "gen_ai.operation.name", "")
	has(t, span, "mcp.resource.uri", "file:///a", "server.address", "127.0.0.1", "server.port", u.url[strings.LastIndexByte(u.url, ':')+1:len(u.url)-len("/mcp")],
		"jsonrpc.request.id", u.all("resources/read")[0].id, "mcp.protocol.version", "2025-11-25")
	hello, _ := c.pair("initialize")
	has(t, hello, "mcp.protocol.version", "2025-06-18")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resource["service.name"] != "box" || c.resource["service.version"] != "1.2.3" || c.resource["service.instance.id"] == "" || c.header.Get("X-Key") != "shh" {
		t.Errorf("%v %v", c.resource, c.header)
	}
	if strings.Contains(r.logs.String(), "shh") {
		t.Error("the header is in the log")
	}
}

// The parent comes from the message, else from the HTTP request; if both have one, the latter becomes a link. A malformed one is ignored.
func TestTraceParents(t *testing.T) {
	both := `"traceparent":"` + aParent + `","tracestate":"v=1","baggage":"k=meta"`
	for name, x := range map[string]struct {
		meta             string
		headers          []string
		trace, link      string
		state, baggage   string
		fresh, unsampled bool
	}{
		"none":                  {fresh: true},
		"_meta":                 {meta: both, trace: aTrace, state: "v=1", baggage: "k=meta"},
		"headers":               {headers: []string{"traceparent", aParent, "tracestate", "v=1", "tracestate", "w=2", "baggage", "k=head"}, trace: aTrace, state: "v=1,w=2", baggage: "k=head"},
		"both":                  {meta: both, headers: []string{"traceparent", bParent, "baggage", "k=head"}, trace: aTrace, link: bTrace, state: "v=1", baggage: "k=meta"},
		"bad in _meta":          {meta: `"traceparent":"00-zz","tracestate":"v=1"`, fresh: true},
		"bad _meta, good head":  {meta: `"traceparent":7,"tracestate":"v=1"`, headers: []string{"traceparent", bParent}, trace: bTrace},
		"two in the head":       {headers: []string{"traceparent", aParent, "traceparent", bParent}, fresh: true},
		"baggage alone":         {meta: `"baggage":"k=meta"`, fresh: true, baggage: "k=meta"},
		"baggage, and a parent": {meta: `"baggage":"k=meta"`, headers: []string{"traceparent", bParent, "baggage", "k=head"}, trace: bTrace, baggage: "k=meta"},
		"escaped":               {meta: `"\u0074raceparent":"\u0030` + aParent[1:] + `"`, trace: aTrace},
		"unsampled":             {meta: `"traceparent":"` + aParent[:54] + `0"`, trace: aTrace, unsampled: true},
	} {
		for _, era := range []string{"modern", "legacy"} {
			for _, kind := range []string{"modern", "legacy", "legacy-stdio"} {
				t.Run(name+", "+era+" client, "+kind+" server", func(t *testing.T) {
					t.Parallel()
					c, u := newCollector(t), newUpstream(t, kind)
					answering(u)
					r := startRig(t, c.toml("")+u.toml(""), true)
					headers := modernHeaders("tools/call", "a")
					if era == "legacy" {
						headers = legacyHeaders(r.open("2025-11-25", "{}"))
					}
					if res := r.must("POST", "/mcp", tracedCall(era, "1", x.meta), append(headers, x.headers...)...); res.status != 200 || !strings.Contains(res.body, "content") {
						t.Fatalf("%d %s", res.status, res.body)
					}
					meta, _ := traceOf(u.all("tools/call")[0])
					if n := strings.Count(u.all("tools/call")[0].body, "raceparent"); n != 1 {
						t.Errorf("%d traceparents in %s", n, u.all("tools/call")[0].body)
					}
					if x.unsampled {
						if !strings.HasPrefix(meta[0], "00-"+aTrace+"-") || !strings.HasSuffix(meta[0], "-00") || strings.Contains(meta[0], aSpan) {
							t.Errorf("the server got %q", meta)
						}
						return
					}
					server, span := c.pair("tools/call a")
					if want := [3]string{parentOf(span), x.state, x.baggage}; meta != want {
						t.Errorf("the server got %q, want %q", meta, want)
					}
					if got := fmt.Sprintf("%x", server.TraceId); x.fresh == (got == aTrace || got == bTrace) || !x.fresh && (got != x.trace || len(server.ParentSpanId) == 0) {
						t.Errorf("trace %s, parent %x", got, server.ParentSpanId)
					}
					link := ""
					for _, l := range server.Links {
						link += fmt.Sprintf("%x", l.TraceId)
					}
					if link != x.link {
						t.Errorf("links to %q, want %q", link, x.link)
					}
				})
			}
		}
	}
}

// Without a parent the ratio decides; an unsampled context is passed on nevertheless, and causes no work at the collector.
func TestTraceRatio(t *testing.T) {
	c, u := newCollector(t), newUpstream(t, "modern")
	answering(u)
	r := startRig(t, c.toml("sample_ratio = 0.0")+u.toml(""), true)
	for range 5 {
		_ = r.callModern()
	}
	for _, s := range u.all("tools/call") {
		if meta, headers := traceOf(s); len(meta[0]) != 55 || !strings.HasSuffix(meta[0], "-00") || meta != headers {
			t.Errorf("the server got %q and %q", meta, headers)
		}
	}
	res := r.must("POST", "/mcp", tracedCall("modern", "1", `"traceparent":"`+aParent+`"`), modernHeaders("tools/call", "a")...)
	if server, _ := c.pair("tools/call a"); fmt.Sprintf("%x", server.TraceId) != aTrace || res.header.Get("X-Request-Id") != aTrace {
		t.Errorf("a sampled parent: trace %x, %v", server.TraceId, res.header)
	}
}

// A REST call is in the trace of its headers, and so is a request to a REST service.
func TestTraceOfREST(t *testing.T) {
	c := newCollector(t)
	var got http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", jsonType)
		if r.URL.Path == "/call-tool" {
			got = r.Header.Clone()
			_, _ = io.WriteString(w, `{"success":true,"data":{"content":[]},"error":null,"error_code":null,"metadata":{},"request_id":"550e8400-e29b-41d4-a716-446655440000","timestamp":"2026-01-01T00:00:00.000Z"}`)
			return
		}
		_, _ = io.WriteString(w, `{"success":true,"data":{"tools":[{"name":"a","description":"d","inputSchema":{"type":"object"}}]},"error":null,"error_code":null,"metadata":{},"request_id":"550e8400-e29b-41d4-a716-446655440000","timestamp":"2026-01-01T00:00:00.000Z"}`)
	}))
	defer srv.Close()
	r := startRig(t, c.toml("")+fmt.Sprintf("[upstreams.default]\nurl = %q\ntransport = \"rest\"\n", srv.URL+"/"), false)
	id := "550e8400-e29b-41d4-a716-44665544000a"
	res := r.must("POST", "/call-tool", `{"tool":"a","arguments":{}}`, "Content-Type", jsonType, "traceparent", aParent, "baggage", "k=v", "X-Request-ID", id)
	if res.status != 200 || res.header.Get("X-Request-Id") != id || !strings.Contains(res.body, id) {
		t.Fatalf("%d %v %s", res.status, res.header, res.body)
	}
	server, span := c.pair("tools/call a")
	if fmt.Sprintf("%x", server.ParentSpanId) != aSpan || got.Get("traceparent") != parentOf(span) || got.Get("baggage") != "k=v" {
		t.Errorf("parent %x; the service got %v", server.ParentSpanId, got)
	}
	has(t, server, "dragoman.request_id", id)
	for _, s := range c.find(tracepb.Span_SPAN_KIND_INTERNAL, "tools/list") { // the endpoint's own requests for the call
		if fmt.Sprintf("%x", s.TraceId) != aTrace {
			t.Errorf("the list of tools is of trace %x", s.TraceId)
		}
	}
}

// A failure is the status of both spans, with the error's own text.
func TestTraceErrors(t *testing.T) {
	c, m := newCollector(t), newRestartable(t, "modern")
	r := startRig(t, c.toml("")+m.toml("retries = 0\nbreaker_failures = 0"), true)
	try := func() (server, client *tracepb.Span) {
		t.Helper()
		c.forget()
		_ = r.callModern()
		return c.pair("tools/call a")
	}
	failed := tracepb.Status_STATUS_CODE_ERROR
	m.on("tools/call", func(c *call) { c.error(200, `{"code":-32602,"message":"no such thing"}`) })
	for _, s := range bothSpans(try()) {
		has(t, s, "rpc.response.status_code", "-32602", "error.type", "-32602", "dragoman.outcome", "server_error")
		if s.Status.GetCode() != failed || s.Status.GetMessage() != "no such thing" {
			t.Errorf("%s: %v", s.Kind, s.Status)
		}
	}
	m.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[],"isError":true}`) })
	for _, s := range bothSpans(try()) {
		has(t, s, "error.type", "tool_error", "rpc.response.status_code", "")
		if s.Status.GetCode() != failed {
			t.Errorf("%s: %v", s.Kind, s.Status)
		}
	}
	m.on("tools/call", func(c *call) { c.drop() })
	server, client := try()
	has(t, server, "error.type", "-32603", "rpc.response.status_code", "-32603", "dragoman.outcome", "upstream_lost")
	has(t, client, "error.type", "upstream_lost", "rpc.response.status_code", "")
	if server.Status.GetCode() != failed || client.Status.GetCode() != failed {
		t.Errorf("%v, %v", server.Status, client.Status)
	}
	c.forget()
	_ = r.must("POST", "/mcp", strings.Replace(modernCall("1", "a", ""), "tools/call", "made/up\\ud800", 1), modernHeaders("made/up", "")...)
	_ = r.must("POST", "/mcp", strings.Replace(modernCall("1", "a", ""), "tools/call", "made/up", 1), modernHeaders("made/up", "")...)
	s := c.wait(serverSpan, "other", 1)[0] // what is no text is refused before
	has(t, s, "mcp.method.name", "made/up")
}

func bothSpans(a, b *tracepb.Span) []*tracepb.Span { return []*tracepb.Span{a, b} }

// A client that leaves ends its spans, as cancelled, at once.
func TestTraceOfALeavingClient(t *testing.T) {
	for _, kind := range []string{"modern", "legacy-stdio"} {
		t.Run(kind, func(t *testing.T) {
			c, u := newCollector(t), newUpstream(t, kind)
			r := startRig(t, c.toml("")+u.toml(""), true)
			started := hanging(u, 0)
			ctx, leave := context.WithCancel(t.Context())
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				_, _ = r.do(ctx, "POST", "/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...)
			}()
			testkit.Receive(t, "the call", started)
			leave()
			testkit.Receive(t, "the client's end", gone)
			server, client := c.pair("tools/call a")
			for _, s := range bothSpans(server, client) {
				has(t, s, "error.type", "cancelled", "rpc.response.status_code", "")
				if s.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR {
					t.Errorf("%s: %v", s.Kind, s.Status)
				}
			}
		})
	}
}

// Each attempt has a span, and its server gets that span's context.
func TestTraceOfRetries(t *testing.T) {
	for _, kind := range []string{"modern", "legacy"} {
		t.Run(kind, func(t *testing.T) {
			c, m := newCollector(t), newRestartable(t, kind)
			m.on("tools/list", func(c *call) {
				c.result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"a","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}}]}`)
			})
			r := startRig(t, c.toml("")+m.toml("retry_backoff = \"1ms\""), true)
			m.on("tools/call", func(c *call) { c.drop() }, func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
			if res := r.callModern(); !strings.Contains(res.body, "content") {
				t.Fatal(res.body)
			}
			server := c.wait(serverSpan, "tools/call a", 1)[0]
			attempts, calls := c.wait(clientSpan, "tools/call a", 2), m.all("tools/call")
			if len(calls) != 2 || server.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET {
				t.Fatalf("%d calls, %v", len(calls), server.Status)
			}
			failures := 0
			for _, s := range attempts {
				if string(s.ParentSpanId) != string(server.SpanId) {
					t.Errorf("the parent of an attempt is %x, want %x", s.ParentSpanId, server.SpanId)
				}
				if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
					failures++
				}
				at := 0
				if s.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR {
					at = 1
				}
				if meta, headers := traceOf(calls[at]); meta[0] != parentOf(s) || headers[0] != parentOf(s) {
					t.Errorf("attempt %d got %q and %q, its span is %s", at, meta, headers, parentOf(s))
				}
			}
			if failures != 1 {
				t.Errorf("%d attempts have failed", failures)
			}
		})
	}
}

// A question that ends a request shows in its spans, and the request that continues links to the one before.
func TestTraceOfQuestions(t *testing.T) {
	c, u := newCollector(t), newUpstream(t, "legacy")
	u.getOpen = true
	echoing(u)
	r := startRig(t, c.toml("")+u.toml(""), true)
	res := r.must("POST", "/mcp", asksCall("1", "a", ""), modernHeaders("tools/call", "a")...)
	server, parked := c.pair("tools/call a")
	if events(server) != "dragoman.input_required" || events(parked) != "dragoman.input_required" || server.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("%q, %q, %v", events(server), events(parked), server.Status)
	}
	c.forget()
	if res = r.must("POST", "/mcp", answerTo(t, "2", "a", res, "yes"), modernHeaders("tools/call", "a")...); !strings.Contains(res.body, "a yes") {
		t.Fatal(res.body)
	}
	server, resumed := c.pair("tools/call a")
	if events(server) != "dragoman.input_responses" || len(resumed.Links) != 1 || string(resumed.Links[0].SpanId) != string(parked.SpanId) {
		t.Errorf("%q, %v; want a link to %x", events(server), resumed.Links, parked.SpanId)
	}
	if calls := u.all("tools/call"); len(calls) != 1 {
		t.Errorf("%d calls", len(calls))
	} else if meta, _ := traceOf(calls[0]); meta[0] != parentOf(parked) {
		t.Errorf("the server got %q, want %s", meta, parentOf(parked))
	}
}

// A collector that is down or refuses everything does no harm: calls are as fast, lost spans are counted and logged once, and the shutdown
// is in time.
func TestTraceWithoutCollector(t *testing.T) {
	for _, how := range []string{"away", "failing", "silent"} {
		t.Run(how, func(t *testing.T) {
			c, u := newCollector(t), newUpstream(t, "modern")
			answering(u)
			switch how {
			case "away":
				c.srv.Close()
			case "failing":
				c.status.Store(400)
			case "silent":
				c.hold = make(chan struct{})
				defer close(c.hold)
			}
			r := startRig(t, c.toml("queue = 8\nbatch = 4\ntimeout = \"300ms\"")+u.toml(""), true)
			for range 20 {
				if res := r.callModern(); !strings.Contains(res.body, "content") {
					t.Fatal(res.body)
				}
			}
			testkit.Eventually(t, "spans are given up", func() bool { return r.sum("dragoman_trace_spans_total", "outcome", "failed") > 0 })
			testkit.Eventually(t, "it is told", func() bool { return strings.Contains(r.logs.String(), "spans cannot be sent to tracing.endpoint") })
			began := time.Now()
			r.h.CloseTracing()
			if took := time.Since(began); took > testkit.Patient {
				t.Errorf("the end took %s", took)
			}
			if n := strings.Count(r.logs.String(), "spans cannot be sent"); n != 1 {
				t.Errorf("logged %d times", n)
			}
			if how == "silent" && r.sum("dragoman_trace_spans_total", "outcome", "dropped") == 0 {
				t.Error("nothing was dropped at a full queue")
			}
			if r.sum("dragoman_trace_spans_total", "outcome", "exported") != 0 {
				t.Errorf("%v exported", r.sum("dragoman_trace_spans_total", "outcome", "exported"))
			}
		})
	}
}

// Waiting spans are sent at the shutdown.
func TestTraceFlushedAtTheEnd(t *testing.T) {
	c, u := newCollector(t), newUpstream(t, "modern")
	answering(u)
	r := startRig(t, strings.Replace(c.toml(""), `"10ms"`, `"1m"`, 1)+u.toml(""), true)
	_ = r.callModern()
	if n := c.posts.Load(); n != 0 {
		t.Errorf("%d posts before the end", n)
	}
	r.h.CloseTracing()
	_, _ = c.pair("tools/call a")
}

// Further requests of a call, a repeated handshake and the result of a task, are in its trace.
func TestTraceOfTheWorkForACall(t *testing.T) {
	c, u := newCollector(t), newUpstream(t, "modern")
	answering(u)
	u.on("tools/call", func(c *call) {
		c.result(`{"resultType":"task","taskId":"t","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":60000,"pollIntervalMs":1}`)
	})
	u.on("tasks/get", func(c *call) {
		c.result(`{"resultType":"complete","taskId":"t","status":"completed","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":60000,"result":{"content":[]}}`)
	})
	r := startRig(t, c.toml("")+u.toml("tasks = \"drive\""), true)
	u.forget()
	session := r.open("2025-11-25", "{}")
	if res := r.callLegacy(session); !strings.Contains(res.body, "content") {
		t.Fatal(res.body)
	}
	_, span := c.pair("tools/call a")
	_, hello := c.pair("initialize")
	for method, want := range map[string]*tracepb.Span{"tools/call": span, "tasks/get": span, "server/discover": hello} {
		all := u.all(method)
		if len(all) == 0 {
			t.Errorf("no %s", method)
			continue
		}
		if meta, headers := traceOf(all[len(all)-1]); meta[0] != parentOf(want) || headers[0] != parentOf(want) {
			t.Errorf("%s got %q and %q, want %s", method, meta, headers, parentOf(want))
		}
	}
}

// A stdio client of ours has spans too, without HTTP attributes.
func TestTraceOfStdioClients(t *testing.T) {
	c, u := newCollector(t), newUpstream(t, "legacy-stdio")
	answering(u)
	r := startRig(t, c.toml("")+u.toml(""), true)
	ours, theirs := net.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- (&downstream.Server{Handle: r.h.Handle, Store: r.h.Sessions(), In: theirs, Out: theirs, MaxLine: 1 << 20, Cap: testkit.Patient, InFlight: 4}).Serve(t.Context())
	}()
	_ = ours.SetDeadline(time.Now().Add(testkit.Patient))
	if _, err := io.WriteString(ours, tracedCall("modern", "1", `"traceparent":"`+aParent+`"`)+"\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(ours).ReadString('\n'); err != nil || !strings.Contains(line, "content") {
		t.Fatalf("%q, %v", line, err)
	}
	server, _ := c.pair("tools/call a")
	has(t, server, "network.transport", "pipe", "network.protocol.name", "", "client.address", "", "dragoman.request_id", aTrace, "mcp.protocol.version", "2026-07-28")
	if id := r.last("tools/call", 1); id != aTrace {
		t.Errorf("the log has %q", id)
	}
	_ = ours.Close()
	_ = testkit.Receive(t, "the end", served)
}
