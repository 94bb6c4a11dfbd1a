package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/service"
	"dragoman/internal/app"
)

// requests returns dragoman_requests_total of tools/call, by server and outcome.
func (r *rig) requests() map[string]float64 {
	r.t.Helper()
	families, err := r.h.Metrics.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "dragoman_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			l := map[string]string{}
			for _, pair := range m.GetLabel() {
				l[pair.GetName()] = pair.GetValue()
			}
			if l["method"] == "tools/call" {
				out[l["server"]+" "+l["outcome"]] += m.GetCounter().GetValue()
			}
		}
	}
	return out
}

// Refusals of the endpoint itself are in the audit log and the metrics like refused exchanges: with their row of the error table as outcome
// and the request's id. A corrected request may be sent again under the same key.
func TestRestRefusalsAreSeen(t *testing.T) {
	u := newUpstream(t, "modern")
	u.on("tools/list", func(c *call) {
		c.result(`{"resultType":"complete","ttlMs":60000,"cacheScope":"private","tools":[{"name":"tool0","inputSchema":{"type":"object","required":["x"]},"outputSchema":{"type":"object","required":["y"]}}]}`)
	})
	u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[],"structuredContent":{"z":1}}`) })
	r := startRig(t, "[rest]\nvalidate_results = true\n"+u.toml(""), true)
	const id = "550e8400-e29b-41d4-a716-44665544000"
	n := 0
	f := func(status int, outcome, server, level, path, body string) {
		t.Helper()
		n++
		before, mine := r.requests(), fmt.Sprint(id, n)
		if got, e := r.post(path, body, "X-Request-ID", mine, "Idempotency-Key", "one"); got != status || !strings.Contains(string(e.Meta.Cause), `"code":"`+outcome+`"`) {
			t.Errorf("%s %s: %d %+v %s", path, body, got, e, e.Meta.Cause)
		}
		lines := slices.DeleteFunc(strings.Split(r.logs.String(), "\n"), func(l string) bool {
			return !strings.Contains(l, mine) || !strings.Contains(l, `"method":"tools/call"`)
		})
		if len(lines) != 1 || !strings.Contains(lines[0], `"outcome":"`+outcome+`"`) || !strings.Contains(lines[0], `"level":"`+level+`"`) {
			t.Errorf("%s %s: %q", path, body, lines)
		}
		after := r.requests()
		want := maps.Clone(before)
		want[server+" "+outcome]++
		if !maps.Equal(after, want) {
			t.Errorf("%s %s: %v, want %v", path, body, after, want)
		}
	}
	f(404, "tool_not_found", "default", "info", "/call-tool", `{"tool":"none","arguments":{}}`)
	f(404, "tool_not_found", "default", "info", "/mcp/tools/call", `{"name":"none"}`)
	f(400, "arguments_invalid", "default", "info", "/call-tool", `{"tool":"tool0","arguments":{}}`)
	f(400, "arguments_invalid", "default", "info", "/tools/tool0", `{}`)
	f(400, "invalid_params", "", "info", "/call-tool", `{"tool":"tool0"}`)
	f(400, "parse_error", "", "info", "/mcp/tools/call", `{`)
	f(404, "server_unknown", "", "info", "/servers/none/call-tool", `{"tool":"tool0","arguments":{}}`)
	if n := len(u.all("tools/call")); n != 0 {
		t.Errorf("%d calls have reached the server", n)
	}
	f(500, "result_invalid", "default", "warn", "/tools/tool0", `{"x":1}`)
	f(500, "result_invalid", "default", "warn", "/mcp/tools/call", `{"name":"tool0","arguments":{"x":1}}`)
	_, e := r.post("/tools/tool0", `{"x":1}`)
	mentions(t, string(e.Meta.Cause), `"code":"result_invalid"`, `"path":""`, `"rule":"required"`)
	if string(e.Meta.Result) != `{"resultType":"complete","content":[],"structuredContent":{"z":1}}` {
		t.Errorf("%s", e.Meta.Result)
	}
	if n := len(u.all("tools/call")); n != 2 { // the same arguments under the same key are one
		t.Errorf("%d calls have reached the server", n)
	}
}

// Refusals before any handler have a row of their own, on the endpoint's paths and in the error table.
func TestRestRows(t *testing.T) {
	u := newUpstream(t, "modern")
	restTools(u, 1)
	r := startRig(t, u.toml(""), true)
	f := func(status int, row, verb, path string, headers ...string) {
		t.Helper()
		res := r.must(verb, path, "", headers...)
		if res.status != status || !strings.Contains(res.body, `"data":{`+row+`}`) {
			t.Errorf("%s %s: %d %s", verb, path, res.status, res.body)
		}
	}
	f(404, `"code":"path_not_found","retryable":false`, "GET", "/resources/x")
	f(405, `"code":"http_method_not_allowed","retryable":false`, "DELETE", "/tools")
	f(404, `"code":"server_unknown","retryable":false,"servers":["default"]`, "GET", "/servers/none/health")
}

// Every path that can be read answers HEAD with the head of GET (RFC 9110, 9.3.2); other methods are refused with Allow (15.5.6).
func TestRestMethods(t *testing.T) {
	u := newUpstream(t, "modern")
	restTools(u, 3)
	r := startRig(t, u.toml(""), true)
	for _, base := range []string{"", "/servers/default"} {
		for _, path := range []string{"/tools", "/resources", "/prompts", "/health", "/openapi.json", "/docs", "/servers/none/health"} {
			if base != "" && strings.HasPrefix(path, "/servers") {
				continue
			}
			get, head := r.must("GET", base+path, ""), r.must("HEAD", base+path, "")
			for _, h := range []*response{get, head} {
				h.header.Del("Date")
				h.header.Del("X-Request-Id") // made again
			}
			var length int // the envelope contains its own time, with one or two digits more
			_, _ = fmt.Sscan(head.header.Get("Content-Length"), &length)
			fits := length == len(get.body) || strings.Contains(get.body, "execution_time_ms") && max(length, len(get.body))-min(length, len(get.body)) <= 4
			head.header.Del("Content-Length")
			get.header.Del("Content-Length")
			if head.status != get.status || head.body != "" || len(get.body) == 0 || !fits ||
				!maps.EqualFunc(head.header, get.header, slices.Equal) {
				t.Errorf("%s: %d %v %q, GET has %d %v", base+path, head.status, head.header, head.body, get.status, get.header)
			}
		}
		for path, want := range map[string]string{"/tools": "GET, HEAD", "/openapi.json": "GET, HEAD", "/health": "GET, HEAD", "/docs": "GET, HEAD",
			"/call-tool": "POST", "/tools/tool0": "POST", "/mcp/tools/call": "POST", "/complete": "POST"} {
			for _, verb := range []string{"DELETE", "PATCH", "PUT", "OPTIONS"} {
				res := r.must(verb, base+path, "")
				allow := strings.Split(res.header.Get("Allow"), ", ")
				slices.Sort(allow)
				if res.status != 405 || strings.Join(allow, ", ") != want || !strings.HasPrefix(res.body, `{"success":false`) {
					t.Errorf("%s %s: %d, Allow %q, want %q: %s", verb, base+path, res.status, allow, want, res.body)
				}
			}
		}
	}
}

// The state of the service is read once for all of its gauges.
func TestStateIsReadOnce(t *testing.T) {
	looks := 0
	s := service.New(service.Options{Upstreams: func() []service.Dependency {
		looks++
		return []service.Dependency{{Name: "up", Connected: true, Upstream: true}}
	}})
	reg := prometheus.NewRegistry()
	reg.MustRegister(app.StateGauge(s))
	families, err := reg.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != len(service.States()) || looks != 1 {
		t.Fatalf("%v, %v, read %d times", families, err, looks)
	}
	for _, m := range families[0].GetMetric() {
		want := 0.0
		if m.GetLabel()[0].GetValue() == string(service.Healthy) {
			want = 1
		}
		if got := m.GetGauge().GetValue(); got != want {
			t.Errorf("%v: %v", m.GetLabel(), got)
		}
	}
}
