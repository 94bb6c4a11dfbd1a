package telemetry

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// allReplies sends a request through a chain and reads all its replies.
func allReplies(t *testing.T, handle proxy.Handler, ex *proxy.Exchange) {
	t.Helper()
	replies, err := handle(ex)
	if err != nil {
		return
	}
	for err == nil {
		_, err = replies.Next(time.Time{})
	}
	if err := replies.Close(); err != nil {
		t.Error(err)
	}
}

// aRequest is a modern client's request.
func aRequest(t *testing.T, method, params string) *proxy.Exchange {
	t.Helper()
	return &proxy.Exchange{Msg: policytest.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`), Client: proxy.Client{Era: proxy.Modern}}
}

// toolRig is metrics by tool around a server with tools and a name given by the test.
type toolRig struct {
	t      *testing.T
	reg    *prometheus.Registry
	m      *Metrics
	handle proxy.Handler
	server string
	result string
	answer string // in the place of the result; empty: the result
}

func newToolRig(t *testing.T) *toolRig {
	t.Helper()
	h := &toolRig{t: t, reg: prometheus.NewRegistry(), server: "up"}
	var err error
	if h.m, err = NewMetrics(h.reg); err != nil {
		t.Fatal(err)
	}
	h.handle = h.m.ByTool(func(ex *proxy.Exchange) (proxy.Replies, error) {
		ex.Target = h.server
		ex.UpstreamEra.In(proxy.Legacy)
		return &policytest.Script{Messages: []string{`{"jsonrpc":"2.0","id":1,` + cmp.Or(h.answer, `"result":`+h.result) + `}`}, End: io.EOF}, nil
	})
	return h
}

// list lists the tools, of which the server returns these; next says that there are more pages.
func (h *toolRig) list(cursor string, next bool, names ...string) {
	h.t.Helper()
	entries := make([]string, len(names))
	for i, n := range names {
		entries[i] = string(append(wire.AppendText([]byte(`{"name":`), n), '}'))
	}
	h.result = `{"tools":[` + strings.Join(entries, ",") + `]`
	if next {
		h.result += `,"nextCursor":"c"`
	}
	h.result += "}"
	allReplies(h.t, h.handle, aRequest(h.t, "tools/list", `{`+cursor+`}`))
}

func (h *toolRig) call(name string) {
	h.t.Helper()
	h.result = `{"content":[]}`
	allReplies(h.t, h.handle, aRequest(h.t, "tools/call", string(append(wire.AppendText([]byte(`{"name":`), name), '}'))))
}

// refuse calls a tool that the server does not have, which servers answer in one of two ways.
func (h *toolRig) refuse(name string) {
	h.t.Helper()
	for _, h.answer = range []string{`"error":{"code":-32602,"message":"Unknown tool"}`, `"result":{"content":[],"isError":true}`} {
		h.call(name)
	}
	h.answer = ""
}

// labels returns the values of a metric's label and their counts.
func (h *toolRig) labels(metric, label string) map[string]float64 {
	h.t.Helper()
	return policytest.Labels(h.t, h.reg, metric, label)
}

// Before a list was seen, a tool that has answered a call is known: it counts for itself, from that call on. What has failed is not.
func TestMetricsBeforeTheFirstList(t *testing.T) {
	h := newToolRig(t)
	h.call("a")
	h.call("a")
	h.refuse("b")
	h.call("b")
	for _, odd := range []string{"", otherLabel, "\n", strings.Repeat("n", maxToolName+1)} {
		h.call(odd)
	}
	h.refuse("c")
	want := map[string]float64{"a": 2, "b": 1, "other": 8}
	for _, metric := range []string{"dragoman_tool_calls_total", "dragoman_tool_duration_seconds"} {
		if got := h.labels(metric, "tool"); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", metric, got, want)
		}
	}
	h.list("", false, "x")
	h.call("a") // lists may differ between callers
	h.call("d") // once there is a list, it says which tools there are
	if got := h.labels("dragoman_tool_calls_total", "tool"); got["a"] != 3 || got["other"] != 9 {
		t.Errorf("%v", got)
	}
}

// Calls count for their tool if the server has listed it.
func TestMetricsByTool(t *testing.T) {
	h := newToolRig(t)
	h.call("a")
	h.list("", true, "a")
	h.list(`"cursor":"c"`, false, "b", "other")
	for _, name := range []string{"a", "b", "b", "c", "other", ""} {
		h.call(name)
	}
	want := map[string]float64{"a": 2, "b": 2, "other": 3}
	for _, metric := range []string{"dragoman_tool_calls_total", "dragoman_tool_duration_seconds"} {
		if got := h.labels(metric, "tool"); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", metric, got, want)
		}
	}
	if got := h.labels("dragoman_requests_total", "upstream_era"); got["legacy"] != 9 || len(got) != 1 {
		t.Errorf("%v", got)
	}
	h.m.Forget("up")
	if got := h.labels("dragoman_tool_calls_total", "tool"); len(got) != 0 {
		t.Errorf("cleared, but %v", got)
	}
	if got := h.labels("dragoman_requests_total", "method"); len(got) != 0 {
		t.Errorf("cleared, but %v", got)
	}
	h.call("a")
	if got := h.labels("dragoman_tool_calls_total", "tool"); got["a"] != 1 || got["other"] != 0 {
		t.Errorf("%v", got)
	}
}

// Each server has at most 200 tool names and one more, whatever clients call and servers list.
func TestMetricsOfHostileNames(t *testing.T) {
	h := newToolRig(t)
	for i := range 1500 {
		h.refuse(fmt.Sprintf("x%d", i))
	}
	if got := h.labels("dragoman_tool_calls_total", "tool"); len(got) != 1 || got["other"] != 3000 {
		t.Errorf("%d labels from calls only", len(got))
	}
	tolerant := newToolRig(t) // a server that answers any name
	for i := range 3000 {
		tolerant.call(fmt.Sprintf("x%d", i))
	}
	if got := tolerant.labels("dragoman_tool_calls_total", "tool"); len(got) != maxTools+1 || got["other"] != 3000-maxTools {
		t.Errorf("%d labels from calls that succeed", len(got))
	}
	tolerant.list("", false, "listed")
	tolerant.call("listed")
	if got := tolerant.labels("dragoman_tool_calls_total", "tool"); got["listed"] != 1 {
		t.Error("names from calls keep a listed tool out")
	}
	for round := range 5 {
		names := make([]string, 1000)
		for i := range names {
			names[i] = fmt.Sprintf("%d-%d", round, i)
		}
		h.list("", false, names...)
		if got := h.labels("dragoman_tool_calls_total", "tool"); len(got) != maxTools+1 {
			t.Fatalf("%d labels", len(got))
		}
		h.call(names[0])
		if got := h.labels("dragoman_tool_calls_total", "tool"); got[names[0]] != 1 {
			t.Errorf("a tool of the last list has no label of its own: %v", got[names[0]])
		}
		if round > 0 { // a tool of the list before, which was called last, has lost its place
			h.call(fmt.Sprintf("%d-0", round-1))
			if got := h.labels("dragoman_tool_calls_total", "tool"); got["other"] != float64(3000+round) {
				t.Errorf("a removed tool does not count as other: %v", got["other"])
			}
		}
	}
	odd := []string{strings.Repeat("n", maxToolName+1), "\xff\xfe", "", "a\u0000b", `"} 1`, "\n"}
	h.m.Forget("up")
	h.list("", false, odd...)
	for _, name := range odd {
		h.call(name)
	}
	for name := range h.labels("dragoman_tool_calls_total", "tool") {
		if len(name) > maxToolName {
			t.Errorf("%q is a label", name)
		}
	}
	for _, method := range []string{"x/y", "tools/call ", "TOOLS/CALL", strings.Repeat("m", 5000)} {
		h.result = "{}"
		allReplies(t, h.handle, aRequest(t, method, "{}"))
	}
	for method := range h.labels("dragoman_requests_total", "method") {
		if method != "other" && method != "tools/call" && method != "tools/list" {
			t.Errorf("%q is a label", method)
		}
	}
}

// oneResult returns one result without allocating.
type oneResult struct {
	m    wire.Message
	over bool
}

func (s *oneResult) Next(time.Time) (*wire.Message, error) {
	if s.over {
		return nil, io.EOF
	}
	s.over = true
	return &s.m, nil
}

func (s *oneResult) Close() error { s.over = false; return nil }

// Each observer of a call costs one allocation.
func TestObserversAllocateLittle(t *testing.T) {
	once := observedCall(t)
	if n := testing.AllocsPerRun(200, once); n > 2 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkObservers(b *testing.B) {
	once := observedCall(b)
	b.ReportAllocs()
	for b.Loop() {
		once()
	}
}

// observedCall makes one call through the access log and the metrics by tool, in the order of the chain.
func observedCall(t testing.TB) func() {
	t.Helper()
	m, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	list := policytest.Scan(t, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t"}]}}`)
	m.tools.learn("up", &list, true)
	reply := &oneResult{m: policytest.Scan(t, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)}
	log := NewLevel(zerolog.InfoLevel).Logger(zerolog.New(io.Discard))
	handle := AccessLog(log, LogErrors, nil)(m.ByTool(func(ex *proxy.Exchange) (proxy.Replies, error) {
		ex.Target = "up"
		return reply, nil
	}))
	ex := &proxy.Exchange{Msg: policytest.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}`), Client: proxy.Client{Era: proxy.Modern}}
	once := func() {
		replies, err := handle(ex)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = replies.Next(time.Time{})
		_ = replies.Close()
	}
	once()
	return once
}
