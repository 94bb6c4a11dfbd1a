package e2e

import (
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"dragoman/internal/testkit"
)

// collector accepts spans in OTLP's own encoding.
type collector struct {
	t      *testing.T
	srv    *httptest.Server
	status atomic.Int32 // 0: it accepts them
	posts  atomic.Int32
	hold   chan struct{} // not nil: it does not answer until this is closed

	mu       sync.Mutex
	spans    []*tracepb.Span
	resource map[string]string
	header   http.Header
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{t: t, resource: map[string]string{}}
	c.srv = httptest.NewServer(c)
	t.Cleanup(func() { c.srv.CloseClientConnections(); c.srv.Close() })
	return c
}

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.posts.Add(1)
	if c.hold != nil {
		select {
		case <-c.hold:
		case <-r.Context().Done():
		}
	}
	if status := c.status.Load(); status != 0 {
		w.WriteHeader(int(status))
		return
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(r.Body)
	}
	raw, err := io.ReadAll(body)
	var req collectorpb.ExportTraceServiceRequest
	if uerr := proto.Unmarshal(raw, &req); err != nil || uerr != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.t.Errorf("the collector got %s %s: %v, %v", r.URL, r.Header.Get("Content-Type"), err, uerr)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header = r.Header.Clone()
	for _, rs := range req.ResourceSpans {
		for _, a := range rs.Resource.Attributes {
			c.resource[a.Key] = a.Value.GetStringValue()
		}
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
}

// toml is the configuration that sends spans here; extra are further keys, a line each.
func (c *collector) toml(extra string) string {
	return fmt.Sprintf("[tracing]\nendpoint = %q\nwait = \"10ms\"\n%s\n", c.srv.URL, extra)
}

// find returns the received spans of a kind and name.
func (c *collector) find(kind tracepb.Span_SpanKind, name string) (out []*tracepb.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Kind == kind && s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

// all returns the received spans.
func (c *collector) all() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// forget drops the received spans.
func (c *collector) forget() { c.mu.Lock(); defer c.mu.Unlock(); c.spans = nil }

// wait waits for this many spans of a kind and name.
func (c *collector) wait(kind tracepb.Span_SpanKind, name string, n int) []*tracepb.Span {
	c.t.Helper()
	var found []*tracepb.Span
	testkit.Eventually(c.t, fmt.Sprintf("%d spans %s of kind %s", n, name, kind), func() bool { found = c.find(kind, name); return len(found) >= n })
	if len(found) != n {
		c.t.Fatalf("%d spans %s of kind %s, want %d", len(found), name, kind, n)
	}
	return found
}

// pair waits for the one span of each kind of a request.
func (c *collector) pair(name string) (server, client *tracepb.Span) {
	c.t.Helper()
	server, client = c.wait(tracepb.Span_SPAN_KIND_SERVER, name, 1)[0], c.wait(tracepb.Span_SPAN_KIND_CLIENT, name, 1)[0]
	if string(client.TraceId) != string(server.TraceId) || string(client.ParentSpanId) != string(server.SpanId) {
		c.t.Errorf("the client span %x of trace %x has the parent %x; the server span is %x of trace %x", client.SpanId, client.TraceId, client.ParentSpanId, server.SpanId, server.TraceId)
	}
	return server, client
}

// parentOf is the traceparent of a span.
func parentOf(s *tracepb.Span) string {
	return "00-" + hex.EncodeToString(s.TraceId) + "-" + hex.EncodeToString(s.SpanId) + "-01"
}

// has checks attributes of a span: key, value, and so on; an empty value stands for none.
func has(t *testing.T, s *tracepb.Span, want ...string) {
	t.Helper()
	for i := 0; i+1 < len(want); i += 2 {
		if got := attributeOf(s.Attributes, want[i]); got != want[i+1] {
			t.Errorf("%s %s: %s is %q, want %q", s.Kind, s.Name, want[i], got, want[i+1])
		}
	}
}

func attributeOf(all []*commonpb.KeyValue, key string) string {
	for _, a := range all {
		if a.Key == key {
			if n, ok := a.Value.Value.(*commonpb.AnyValue_IntValue); ok {
				return fmt.Sprint(n.IntValue)
			}
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// events returns the names of a span's events.
func events(s *tracepb.Span) string {
	var all []string
	for _, e := range s.Events {
		all = append(all, e.Name)
	}
	return strings.Join(all, " ")
}

// traceOf returns the trace context that a server got: traceparent, tracestate and baggage of _meta and of the headers.
func traceOf(s *seen) (meta, headers [3]string) {
	var m struct {
		Params struct {
			Meta map[string]any `json:"_meta"`
		}
	}
	_ = json.Unmarshal([]byte(s.body), &m)
	for i, key := range []string{"traceparent", "tracestate", "baggage"} {
		meta[i], _ = m.Params.Meta[key].(string)
		headers[i] = s.header.Get(key)
	}
	return meta, headers
}

const (
	aTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	aSpan   = "00f067aa0ba902b7"
	aParent = "00-" + aTrace + "-" + aSpan + "-01"
	bTrace  = "11111111111111111111111111111111"
	bParent = "00-" + bTrace + "-2222222222222222-01"
)

// tracedCall is the body of a call of tool a, of either era, with members in its _meta.
func tracedCall(era, id, meta string) string {
	if era == "legacy" {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"a","arguments":{},"_meta":{%s}}}`, id, meta)
	}
	body := modernCall(id, "a", "")
	if meta == "" {
		return body
	}
	return strings.Replace(body, `"_meta":{`, `"_meta":{`+meta+`,`, 1)
}
