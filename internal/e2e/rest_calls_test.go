package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// restTools scripts a list of tools in pages of ten.
func restTools(u *upstream, n int) {
	u.on("tools/list", func(c *call) {
		from := 0
		_, _ = fmt.Sscanf(textAfter(c.body, `"cursor":"p`), "%d", &from)
		var tools []string
		for i := from; i < min(n, from+10); i++ {
			tools = append(tools, fmt.Sprintf(`{"name":"tool%d","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}`, i))
		}
		next := ""
		if from+10 < n {
			next = fmt.Sprintf(`,"nextCursor":"p%d"`, from+10)
		}
		c.result(`{"resultType":"complete","ttlMs":60000,"cacheScope":"private","tools":[` + strings.Join(tools, ",") + `]` + next + `}`)
	})
	u.on("tools/call", func(c *call) {
		c.result(fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}]}`, textAfter(c.body, `"name":"`)))
	})
}

// All pages of a list are one answer, and a tool of the last page can be called.
func TestRestPages(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			restTools(u, 95)
			r := startRig(t, u.toml(""), true)
			u.forget()
			res := r.must("GET", "/tools", "")
			if n := strings.Count(res.body, `{"name":"tool`); res.status != 200 || n != 95 {
				t.Errorf("%d, %d tools", res.status, n)
			}
			mentions(t, res.body, `{"service":"dragoman","version":"0.0.0","tools":[{"name":"tool0","description":"Tool tool0","input_schema":{`)
			mentions(t, r.call(200, "tool94", `{"n":1}`), `"text":"tool94"`)
			mentions(t, r.call(400, "tool94", `{"n":1.5}`), "INVALID_ARGUMENTS", "/n")
			mentions(t, r.call(404, "tool95", `{}`), "TOOL_NOT_FOUND")
			if n := len(u.all("tools/call")); n != 1 {
				t.Errorf("%d calls reached the server", n)
			}
		})
	}
}

// Several servers: each below its name, and all as one on a path without a name.
func TestRestServers(t *testing.T) {
	a, b := newUpstream(t, "modern"), newUpstream(t, "legacy")
	restTools(a, 1)
	restTools(b, 2)
	r := startRig(t, strings.Replace(a.toml(""), "default", "a", 1)+strings.Replace(b.toml(""), "default", "b", 1), true)
	for server, n := range map[string]int{"a": 1, "b": 2} {
		if got := strings.Count(r.must("GET", "/servers/"+server+"/tools", "").body, `"input_schema"`); got != n {
			t.Errorf("%s: %d tools", server, got)
		}
	}
	if status, e := r.post("/servers/b/tools/tool1", `{}`); status != 200 || !strings.Contains(string(e.Data), "tool1") {
		t.Errorf("%d %+v", status, e)
	}
	if status, e := r.post("/servers/c/call-tool", `{"tool":"tool0","arguments":{}}`); status != 404 || e.Code != "TOOL_NOT_FOUND" || !strings.Contains(e.Error, "a, b") {
		t.Errorf("%d %+v", status, e)
	}
	if got := strings.Count(r.must("GET", "/tools", "").body, `"input_schema"`); got != 3 {
		t.Errorf("%d tools of both", got)
	}
	for body, wants := range map[string]string{
		`{"tool":"b.tool0","arguments":{}}`:                 "200 tool0",
		`{"tool":"tool1","arguments":{}}`:                   "200 tool1",
		`{"tool":"tool0","arguments":{}}`:                   "400 several servers have tool0; name one: a.tool0, b.tool0",
		`{"tool":"tool9","arguments":{}}`:                   "404 Tool not found: tool9",
		`{"tool":"a.tool0","arguments":{"n":1.5}}`:          "400 /n",
		`{"tool":"tool0","server_id":"b","arguments":{}}`:   "200 tool0",
		`{"tool":"b.tool0","server_id":"b","arguments":{}}`: "200 tool0",
		`{"tool":"tool0","server_id":"c","arguments":{}}`:   `404 no server "c" is behind this endpoint; there is a, b`,
		`{"tool":"tool0","server_id":["b"],"arguments":{}}`: `400 "server_id"`,
	} {
		status, e := r.post("/call-tool", body)
		want, text, _ := strings.Cut(wants, " ")
		if fmt.Sprint(status) != want || !strings.Contains(string(e.Data)+e.Error, text) {
			t.Errorf("%s: %d %s %s, want %s", body, status, e.Data, e.Error, wants)
		}
	}
	if status, e := r.post("/servers/a/call-tool", `{"tool":"tool0","server_id":"a","arguments":{}}`); status != 200 {
		t.Errorf("the server of the path: %d %+v", status, e)
	}
	if status, e := r.post("/servers/a/call-tool", `{"tool":"tool0","server_id":"b","arguments":{}}`); status != 404 || !strings.Contains(e.Error, `no server "b" is behind this endpoint; there is a`) {
		t.Errorf("another server than the path's: %d %+v", status, e)
	}
	if status, e := r.post("/tools/tool1?server_id=b", `{}`); status != 200 {
		t.Errorf("in the query: %d %+v", status, e)
	}
}

// Failures on the way to the server have the code of the error table, and say whether a retry helps.
func TestRestFailures(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			restTools(u, 1)
			r := startRig(t, u.toml("")+"\n[limits]\nrequest_time = \"1s\"\n", true)
			mentions(t, r.call(200, "tool0", `{}`), "tool0")
			u.on("tools/call", func(c *call) { c.error(200, `{"code":-32000,"message":"sorry","data":{"a":1}}`) })
			status, e := r.post("/call-tool", `{"tool":"tool0","arguments":{}}`)
			if status != 500 || e.Code != "EXECUTION_ERROR" || e.Error != "sorry" || string(e.Meta.Cause) != `{"code":-32000,"data":{"a":1}}` {
				t.Errorf("%d %+v %s", status, e, e.Meta.Cause)
			}
			if kind != "sse" { // whose stream is another connection
				u.on("tools/call", func(c *call) { c.drop() })
				mentions(t, r.call(503, "tool0", `{}`), "SERVICE_UNAVAILABLE") // seed 004, EC-003
			}
			u.on("tools/call", func(c *call) {
				select {
				case <-c.cancelled:
				case <-time.After(testkit.Patient):
				}
			})
			mentions(t, r.call(504, "tool0", `{}`), "TIMEOUT", "limits.request_time")
		})
	}
}

// The settings: a tool's failure as data, results checked, nothing checked, endpoint off.
func TestRestKeys(t *testing.T) {
	u := newUpstream(t, "modern")
	u.on("tools/list", func(c *call) {
		c.result(`{"resultType":"complete","tools":[{"name":"tool0","inputSchema":{"type":"object","required":["x"]},"outputSchema":{"type":"object","required":["y"]}}]}`)
	})
	u.on("tools/call", func(c *call) {
		c.result(`{"resultType":"complete","content":[],"isError":true,"structuredContent":{}}`)
	})
	r := startRig(t, "[rest]\ntool_error = \"data\"\nvalidate = false\n"+u.toml(""), true)
	mentions(t, r.call(200, "tool0", `{}`), `"isError":true`)
	u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[],"structuredContent":{}}`) })
	r = startRig(t, "[rest]\nvalidate_results = true\n"+u.toml(""), true)
	mentions(t, r.call(500, "tool0", `{"x":1}`), "EXECUTION_ERROR", "outputSchema", "required")
	mentions(t, r.call(400, "tool0", `{}`), "INVALID_ARGUMENTS")
	r = startRig(t, "[rest]\nenabled = false\n"+u.toml(""), true)
	if res := r.must("GET", "/tools", ""); res.status != 404 || !strings.HasPrefix(res.body, `{"jsonrpc"`) {
		t.Errorf("%d %s", res.status, res.body)
	}
}

// REST callers have no revision: they are served whatever eras allows for MCP clients.
func TestRestWhateverEras(t *testing.T) {
	for _, eras := range demoEras {
		u := newUpstream(t, "legacy")
		restTools(u, 1)
		r := startRig(t, fmt.Sprintf("eras = [%q]\n", eras)+u.toml(""), true)
		mentions(t, r.call(200, "tool0", `{}`), "tool0")
	}
}

// The gates apply to the REST paths too, and their refusals are envelopes; so are refusals before the gates.
func TestRestGates(t *testing.T) {
	u := newUpstream(t, "modern")
	restTools(u, 1)
	r := startRig(t, u.toml("")+"\n[limits]\nrequest_body = \"1KiB\"\n", true)
	f := func(status int, verb, path, body string, headers ...string) {
		t.Helper()
		res := r.must(verb, path, body, headers...)
		if res.status != status || !strings.HasPrefix(res.body, `{"success":false,"error":"`) || !strings.Contains(res.body, `"code":"INVALID_ARGUMENTS"`) {
			t.Errorf("%s %s: %d %s", verb, path, res.status, res.body)
		}
	}
	f(403, "GET", "/tools", "", "Origin", "http://evil.example")
	f(403, "GET", "/tools", "", "Host", "evil.example")
	f(415, "POST", "/call-tool", "{}", "Content-Type", "text/plain")
	f(413, "POST", "/call-tool", strings.Repeat(" ", 2000), "Content-Type", jsonType)
	f(405, "DELETE", "/tools", "")
	f(400, "POST", "/call-tool", "{", "Content-Type", jsonType)
	if res := r.must("DELETE", "/tools", ""); res.header.Get("Allow") == "" {
		t.Error("no Allow")
	}
	f(403, "GET", "/tools", "", "Origin", "http://localhost:3000")
	f(415, "POST", "/call-tool", "{}", "Origin", r.base)
	if res := r.must("GET", "/tools", "", "Origin", r.base); res.status != 200 {
		t.Errorf("%d %s", res.status, res.body)
	}
	if res := r.must("POST", "/mcp/sse", "{}"); res.status != 405 || !strings.HasPrefix(res.body, `{"jsonrpc"`) {
		t.Errorf("%d %s", res.status, res.body)
	}
}

// A question of a legacy server in a call, over every legacy transport, with a suspended call at a server that has only one.
func TestRestAsked(t *testing.T) {
	for _, kind := range legacyKinds {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			u.getOpen = true
			restTools(u, 1)
			r := startRig(t, u.toml(""), true)
			echoing(u)
			got := r.call(200, "tool0", `{}`)
			mentions(t, got, `{"result_type":"input_required","input_requests":{"r1-1":{"method":"elicitation/create","params":{"message":"tool0"`, `"request_state":"v1.`)
			state := textAfter(got, `"request_state":"`)
			retry := fmt.Sprintf(`{"tool":"tool0","arguments":{},"input_responses":{"r1-1":{"action":"accept","content":{"text":"yes"}}},"request_state":%q}`, state)
			if status, e := r.post("/call-tool", retry); status != 200 || !strings.Contains(string(e.Data), `"text":"tool0 yes"`) {
				t.Errorf("%d %+v", status, e)
			}
			if status, e := r.post("/call-tool", retry); status != 400 || e.Code != "INVALID_ARGUMENTS" {
				t.Errorf("a state was accepted twice: %d %+v", status, e)
			}
			if n := len(u.all("tools/call")); n != 1 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// A request_id and an Idempotency-Key identify one call: a duplicate is replayed, and another call under it is refused.
func TestRestRepeats(t *testing.T) {
	u := newUpstream(t, "modern")
	restTools(u, 2)
	r := startRig(t, u.toml(""), true)
	const id = "550e8400-e29b-41d4-a716-446655440000"
	for i := range 3 {
		res := r.must("POST", "/call-tool", `{"tool":"tool0","arguments":{},"request_id":"`+id+`"}`)
		if again := i > 0; res.status != 200 || strings.Contains(res.body, `"replayed":true,`) || strings.Contains(res.body, `"replayed":true}`) != again ||
			(res.header.Get("Idempotent-Replayed") == "true") != again || !strings.Contains(res.body, id) {
			t.Errorf("%d %s %v", res.status, res.body, res.header)
		}
	}
	if status, e := r.post("/call-tool", `{"tool":"tool1","arguments":{},"request_id":"`+id+`"}`); status != 400 || e.Code != "INVALID_ARGUMENTS" {
		t.Errorf("%d %+v", status, e)
	}
	for range 2 {
		if status, e := r.post("/tools/tool0", `{}`, "Idempotency-Key", `"k"`); status != 200 || !strings.Contains(string(e.Data), "tool0") {
			t.Errorf("%d %+v", status, e)
		}
	}
	if n := len(u.all("tools/call")); n != 2 {
		t.Errorf("%d calls", n)
	}
}
