package rest

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Seed 001, HTTP Implementation: POST /mcp/{method}. (GET /mcp/sse belongs to HTTP+SSE: TestRulesEventStream of the end-to-end tests.)
func TestRulesTransport(t *testing.T) {
	t.Run("rule S.1 each method is a POST endpoint", func(t *testing.T) {
		r := newRig(t, nil)
		for _, method := range []string{"server/discover", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get",
			"completion/complete", "tasks/get", "vendor/of/its/own"} {
			r.s.result(method, `{"of":"`+method+`"}`)
			if method == "tools/list" {
				r.s.result(method, demo)
			}
			a := r.ask("POST", "/mcp/"+method, `{"name":"plain"}`)
			if all := r.s.all(method); a.status != 200 || len(all) == 0 || a.m["success"] != nil {
				t.Errorf("%s: %d %s", method, a.status, a.body)
			}
			if got := r.ask("POST", "/servers/x/mcp/"+method, `{"name":"plain"}`); got.status != 200 {
				t.Errorf("%s: %d %s", method, got.status, got.body)
			}
			if got := r.ask("GET", "/mcp/"+method, ""); got.status != 405 || !strings.Contains(got.header.Get("Allow"), "POST") {
				t.Errorf("%s: %d %v", method, got.status, got.header)
			}
		}
		for _, method := range []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "notifications/cancelled"} { // they need a session
			if a := r.ask("POST", "/mcp/"+method, `{}`); a.status != 404 || len(r.s.all(method)) > 0 {
				t.Errorf("%s: %d %s", method, a.status, a.body)
			}
		}
	})
	t.Run("rule S.2 the body is the params, the answer the result", func(t *testing.T) {
		r := newRig(t, nil)
		r.s.result("prompts/get", `{"messages":[],"n":9007199254740993}`)
		a := r.ask("POST", "/mcp/prompts/get", `{"name":"p","arguments":{"n":"1"},"x":[1.0]}`)
		if a.status != 200 || a.body != `{"messages":[],"n":9007199254740993}` {
			t.Errorf("%d %s", a.status, a.body)
		}
		m := &r.s.all("prompts/get")[0].Msg
		if got := string(m.Of(m.Params)); !strings.HasPrefix(got, `{"name":"p","arguments":{"n":"1"},"x":[1.0],"_meta":{`) {
			t.Error(got)
		}
	})
	t.Run("rule S.3 what reaches the server is JSON-RPC 2.0", func(t *testing.T) {
		r := newRig(t, nil)
		r.scripted()
		r.answers(goodRequests)
		for _, ex := range r.s.seen {
			raw := ex.Msg.Of(ex.Msg.Whole())
			if m, err := wire.Scan(raw); err != nil || m.Kind != wire.Request || !strings.HasPrefix(string(raw), `{"jsonrpc":"2.0","id":`) {
				t.Errorf("%v: %s", err, raw)
			}
		}
	})
	t.Run("rule S.4 each request has an id of its own", func(t *testing.T) {
		r := newRig(t, nil)
		r.scripted()
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for range 10 {
					r.ask("POST", "/call-tool", `{"tool":"plain","arguments":{},"request_id":"`+callerID+`"}`)
				}
			})
		}
		group.Wait()
		ids := map[string]bool{}
		for _, ex := range r.s.seen {
			ids[string(ex.Msg.Of(ex.Msg.ID))] = true
		}
		if len(ids) != len(r.s.seen) || len(ids) < 80 {
			t.Errorf("%d ids of %d requests", len(ids), len(r.s.seen))
		}
	})
	t.Run("rule S.5 the JSON-RPC codes are in meta.cause", func(t *testing.T) { ruleCodes(t) })
}

// ruleCodes checks the error codes of seed 001, MCPError, and their envelope codes.
func ruleCodes(t *testing.T) {
	r := newRig(t, nil)
	f := func(path, body string, status int, code string, number int) {
		t.Helper()
		a := r.ask("POST", path, body)
		if got, _ := a.text("code"); a.status != status || got != code || !strings.HasPrefix(string(a.meta("cause")), fmt.Sprintf(`{"code":%d`, number)) {
			t.Errorf("%s %s: %d %s", path, body, a.status, a.body)
		}
	}
	f("/mcp/prompts/get", `{`, 400, "INVALID_ARGUMENTS", -32700)
	f("/mcp/prompts/get", `[]`, 400, "INVALID_ARGUMENTS", -32600)
	f("/mcp/no/such", `{}`, 404, "TOOL_NOT_FOUND", -32601)
	f("/mcp/prompts/get", `{"_meta":1}`, 400, "INVALID_ARGUMENTS", -32602)
	r.s.set("prompts/get", func(*proxy.Exchange) (proxy.Replies, error) { return nil, proxy.Errf(proxy.Internal, "oh") })
	f("/mcp/prompts/get", `{}`, 500, "INTERNAL_ERROR", -32603)
	for _, number := range []int{-32000, -32050, -32099} {
		r.s.set("prompts/get", func(ex *proxy.Exchange) (proxy.Replies, error) {
			return failed(ex, fmt.Sprintf(`{"code":%d,"message":"m"}`, number)), nil
		})
		f("/mcp/prompts/get", `{}`, 500, "EXECUTION_ERROR", number)
		f("/get-prompt", `{"name":"p"}`, 500, "EXECUTION_ERROR", number)
	}
}
