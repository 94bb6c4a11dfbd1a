package rest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dragoman/proxy"
)

const callerID = "550e8400-e29b-41d4-a716-446655440002"

// Seed 000, ToolRequest and ResponseEnvelope: the example is called, its result is data, its request_id is returned.
func TestCallTool(t *testing.T) {
	r := newRig(t, nil)
	r.s.result("tools/call", `{"content":[],"structuredContent":{"callers":["function_a","function_b"]},"resultType":"complete"}`)
	const data = `"data":{"content":[],"structuredContent":{"callers":["function_a","function_b"]},"resultType":"complete"}`
	const args = `"arguments":{"function_name":"my_module.my_function","max_depth":5}`
	for _, named := range []string{`"tool":"query_callers"`, `"name":"query_callers"`, `"tool":"query_callers","name":"query_callers"`, `"tool":null,"name":"query_callers"`} {
		r.want(200, `{"success":true,`+data+`,"request_id":"`+callerID+`",$S}`, "POST", "/call-tool", `{`+named+`,`+args+`,"request_id":"`+callerID+`"}`)
	}
	// a missing request_id is made; a valid one of the header is used
	r.want(200, `{"success":true,`+data+`,"request_id":"ID",$S}`, "POST", "/call-tool", `{"tool":"query_callers",`+args+`}`)
	r.want(200, `{"success":true,`+data+`,"request_id":"`+callerID+`",$S}`, "POST", "/call-tool", `{"tool":"query_callers",`+args+`}`, "X-Request-ID", callerID)
	r.want(200, `{"success":true,`+data+`,"request_id":"ID",$S}`, "POST", "/call-tool", `{"tool":"query_callers",`+args+`}`, "X-Request-ID", "0af7651916cd43dd8448eb211c80319c")
	// below a server, with the arguments as the body
	r.want(200, `{"success":true,`+data+`,"request_id":"ID",$S}`, "POST", "/servers/x/tools/query_callers", `{"function_name":"f"}`)
	all := r.s.all("tools/call")
	if ex := all[len(all)-1]; ex.Server != "x" || ex.Client.Era != proxy.Modern || string(ex.Client.Caps) != `{"sampling":{}}` {
		t.Errorf("%+v", ex)
	}
	if p := string(all[0].Msg.Of(all[0].Msg.Params)); !strings.HasPrefix(p, `{"name":"query_callers","arguments":{"function_name":"my_module.my_function","max_depth":5},"_meta":{`) {
		t.Error(p)
	}
	if all[0].RequestID != callerID || all[0].Key != callerID || all[4].Key != "" {
		t.Errorf("%q %q %q", all[0].RequestID, all[0].Key, all[4].Key)
	}
}

// Seed 000, ToolRequest: an invalid request is refused, with a new request_id or the caller's, and nothing is called.
func TestCallToolRefuses(t *testing.T) {
	r := newRig(t, nil)
	bad := func(why, cause, body string) {
		t.Helper()
		id := "ID"
		if strings.Contains(body, callerID) {
			id = callerID
		}
		r.want(400, fmt.Sprintf(`{"success":false,"error":%q,"code":"INVALID_ARGUMENTS","request_id":"%s",$S,"cause":%s}}`, why, id, cause), "POST", "/call-tool", body)
	}
	const params, parse = `{"code":-32602,"data":{"code":"invalid_params","retryable":false}}`, `{"code":-32700,"data":{"code":"parse_error","retryable":false}}`
	bad(`member "tool" is missing; name one of GET /tools`, params, `{"arguments":{}}`)
	bad(`member "tool" must be a string`, params, `{"tool":1,"arguments":{}}`)
	bad(`members "tool" and "name" differ; give one of them`, params, `{"tool":"plain","name":"other","arguments":{}}`)
	bad(`member "arguments" is missing; give an object, {} for no arguments`, params, `{"tool":"plain","request_id":"`+callerID+`"}`)
	bad(`member "arguments" must be an object`, params, `{"tool":"plain","arguments":[]}`)
	bad(`member "request_id" must be a UUID of version 4`, params, `{"tool":"plain","arguments":{},"request_id":"1"}`)
	bad(`member "request_id" must be a UUID of version 4`, params, `{"tool":"plain","arguments":{},"request_id":7}`)
	bad(`member "tool" occurs twice`, params, `{"tool":"plain","tool":"other","arguments":{}}`)
	bad(`member "input_responses" must be an object with the keys of input_requests`, params, `{"tool":"plain","arguments":{},"input_responses":[]}`)
	bad(`member "request_state" must be the string that came with input_requests`, params, `{"tool":"plain","arguments":{},"request_state":{}}`)
	bad(`member "client_capabilities" must be an object`, params, `{"tool":"plain","arguments":{},"client_capabilities":true}`)
	bad(`the body is empty; send a JSON object`, parse, ``)
	bad(`the body is no JSON: expected a value at byte 8`, parse, `{"tool":}`)
	bad(`the body is no JSON: text after the end of the value at byte 2`, parse, `{},"c":{}`)
	bad(`the body is no JSON: text after the end of the value at byte 1`, parse, `1},"id":{"x":1`)
	bad(`the body is JSON, but no object`, `{"code":-32600,"data":{"code":"invalid_request","retryable":false}}`, `[]`)
	if n := len(r.s.all("tools/call")); n > 0 {
		t.Errorf("%d calls", n)
	}
}

// Seed 000, ErrorCode: each code with its status, from Dragoman's own failures and from the server's.
func TestErrorCodes(t *testing.T) {
	r := newRig(t, nil)
	f := func(status int, code, meta string, answer func(ex *proxy.Exchange) (proxy.Replies, error)) {
		t.Helper()
		r.s.set("tools/call", answer)
		r.want(status, `{"success":false,"error":"why","code":"`+code+`","request_id":"ID",$S`+meta+`}}`, "POST", "/call-tool", `{"tool":"plain","arguments":{}}`)
	}
	own := func(fault proxy.Fault) func(ex *proxy.Exchange) (proxy.Replies, error) {
		return func(*proxy.Exchange) (proxy.Replies, error) { return nil, proxy.Errf(fault, "why") }
	}
	server := func(object string) func(ex *proxy.Exchange) (proxy.Replies, error) {
		return func(ex *proxy.Exchange) (proxy.Replies, error) { return failed(ex, object), nil }
	}
	cause := func(code int, name string, again bool) string {
		s := fmt.Sprintf(`,"cause":{"code":%d,"data":{"code":"%s","retryable":%v}}`, code, name, again)
		if again {
			s += `,"retryable":true`
		}
		return s
	}
	f(404, "TOOL_NOT_FOUND", cause(-32600, "server_unknown", false), own(proxy.ServerUnknown))
	f(400, "INVALID_ARGUMENTS", cause(-32602, "invalid_params", false), own(proxy.InvalidParams))
	f(500, "EXECUTION_ERROR", cause(-32603, "upstream_bad_answer", false), own(proxy.BadAnswer))
	f(500, "INTERNAL_ERROR", cause(-32603, "internal", false), own(proxy.Internal))
	f(504, "TIMEOUT", cause(-32603, "upstream_timeout", false), own(proxy.UpstreamTimeout))
	f(503, "SERVICE_UNAVAILABLE", cause(-32603, "upstream_unreachable", true), own(proxy.Unreachable))
	limited := proxy.Fault{Name: "limited", Code: -32000, Envelope: proxy.RateLimited, Retryable: true}
	f(429, "RATE_LIMITED", cause(-32000, "limited", true)+`,"retry_after":7`, func(*proxy.Exchange) (proxy.Replies, error) {
		e := proxy.Errf(limited, "why")
		e.RetryAfter = 7
		return nil, e
	})
	f(400, "INVALID_ARGUMENTS", `,"cause":{"code":-32602}`, server(`{"code":-32602,"message":"why"}`))
	f(404, "TOOL_NOT_FOUND", `,"cause":{"code":-32601,"data":{"a":1}}`, server(`{"code":-32601,"message":"why","data":{"a":1}}`))
	f(500, "EXECUTION_ERROR", `,"cause":{"code":-32000,"data":"x"}`, server(`{"code":-32000,"message":"why","data":"x"}`))
	r.s.set("tools/call", func(*proxy.Exchange) (proxy.Replies, error) { return nil, errors.New("secret") })
	if status, got := r.got("POST", "/call-tool", `{"tool":"plain","arguments":{}}`); status != 500 || !strings.Contains(got, `"code":"INTERNAL_ERROR"`) || strings.Contains(got, "secret") {
		t.Errorf("%d %s", status, got)
	}
}

// Seed 000, ErrorCode TOOL_NOT_FOUND: a tool that is not in the list. An old list is fetched again first.
func TestUnknownTool(t *testing.T) {
	r := newRig(t, nil)
	const no = `{"success":false,"error":"Tool not found: invalid_tool_name","code":"TOOL_NOT_FOUND","request_id":"ID",`
	ask := func(want string) {
		t.Helper()
		if _, got := r.got("POST", "/call-tool", `{"tool":"invalid_tool_name","arguments":{}}`); !strings.HasPrefix(got, want) {
			t.Error(got)
		}
	}
	lists := func(want int) {
		t.Helper()
		if n := len(r.s.all("tools/list")); n != want {
			t.Errorf("%d lists, want %d", n, want)
		}
	}
	ask(no)
	lists(1) // it is fresh
	ask(no)
	lists(1)
	r.advance(2 * time.Second)
	ask(no)
	lists(2)
	r.advance(2 * time.Second)
	r.s.result("tools/list", `{"tools":[{"name":"invalid_tool_name"}]}`)
	r.s.result("tools/call", `{"content":[]}`)
	ask(`{"success":true,"data":{"content":[]},`)
	lists(3)
	r.s.result("tools/list", `{"tools":[{"name":"a/b c"},{"name":"tools/x"},{"name":"e%41"}]}`)
	r.advance(2 * time.Second)
	for _, path := range []string{"/tools/a%2Fb%20c", "/tools/a/b%20c", "/servers/tools/tools/a%2fb%20c", "/servers/tools/tools/tools/x", "/tools/tools/x", "/tools/e%2541"} {
		if status, got := r.got("POST", path, "{}"); status != 200 {
			t.Errorf("%s: %d %s", path, status, got)
		}
	}
	if status, got := r.got("POST", "/tools/no%2Fsuch%20tool", "{}"); status != 404 || !strings.Contains(got, `"Tool not found: no/such tool"`) {
		t.Errorf("%d %s", status, got)
	}
}

// Seed 000, INVALID_ARGUMENTS names path and rule. An old list refuses nothing.
func TestInvalidArguments(t *testing.T) {
	r := newRig(t, nil)
	r.s.result("tools/call", `{"content":[]}`)
	status, got := r.got("POST", "/call-tool", `{"tool":"query_callers","arguments":{"function_name":"f","max_depth":11}}`)
	if status != 400 || !strings.Contains(got, `"error":"arguments: /max_depth: `) || !strings.Contains(got, `"code":"INVALID_ARGUMENTS"`) ||
		!strings.Contains(got, `"cause":{"code":-32602,"data":{"code":"arguments_invalid","retryable":false,"path":"/max_depth","rule":"maximum"}}`) {
		t.Errorf("%d %s", status, got)
	}
	if _, got = r.got("POST", "/tools/query_callers", ``); !strings.Contains(got, `"retryable":false,"path":"","rule":"required"}`) {
		t.Error(got)
	}
	if n := len(r.s.all("tools/call")); n > 0 {
		t.Errorf("%d calls", n)
	}
	r.advance(2 * time.Second) // the server accepts more now
	r.s.result("tools/list", strings.Replace(demo, `"maximum":10`, `"maximum":20`, 1))
	if status, got = r.got("POST", "/call-tool", `{"tool":"query_callers","arguments":{"function_name":"f","max_depth":11}}`); status != 200 {
		t.Errorf("%d %s", status, got)
	}
	if n := len(r.s.all("tools/list")); n != 2 {
		t.Errorf("%d lists", n)
	}
}

// A schema that cannot be used refuses nothing and is logged once. With rest.validate = false nothing is checked.
func TestUnusableSchema(t *testing.T) {
	r := newRig(t, nil)
	r.s.result("tools/list", `{"tools":[{"name":"odd","inputSchema":{"type":"object","$ref":"http://nowhere.example/x"}}]}`)
	r.s.result("tools/call", `{"content":[]}`)
	for range 3 {
		if status, got := r.got("POST", "/call-tool", `{"tool":"odd","arguments":{}}`); status != 200 {
			t.Errorf("%d %s", status, got)
		}
	}
	if len(r.logged) != 1 || !strings.HasPrefix(r.logged[0], `warn the inputSchema of tool "odd" cannot be used`) {
		t.Errorf("%q", r.logged)
	}
	r = newRig(t, func(o *Options) { o.SkipArguments = true })
	r.s.result("tools/call", `{"content":[]}`)
	if status, got := r.got("POST", "/call-tool", `{"tool":"query_callers","arguments":{}}`); status != 200 {
		t.Errorf("%d %s", status, got)
	}
}

// A tool's own failure: its text is the error and its result is in meta, or all of it is data.
func TestToolError(t *testing.T) {
	const result = `{"content":[{"type":"text","text":"no \"x\""},{"type":"image","data":""},{"type":"text","text":"sorry"}],"isError":true}`
	for _, asData := range []bool{false, true} {
		r := newRig(t, func(o *Options) { o.ToolErrorAsData = asData })
		r.s.result("tools/call", result)
		if asData {
			r.want(200, `{"success":true,"data":`+result+`,"request_id":"ID",$S}`, "POST", "/call-tool", `{"tool":"plain","arguments":{}}`)
			continue
		}
		r.want(500, `{"success":false,"error":"no \"x\"\nsorry","code":"EXECUTION_ERROR","request_id":"ID",$S,"result":`+result+`}}`,
			"POST", "/call-tool", `{"tool":"plain","arguments":{}}`)
		r.s.result("tools/call", `{"content":[],"isError":true}`)
		if _, got := r.got("POST", "/call-tool", `{"tool":"plain","arguments":{}}`); !strings.Contains(got, `"error":"the tool failed and said nothing`) {
			t.Error(got)
		}
		// the path of seed 001 returns the MCP result
		r.want(200, `{"content":[],"isError":true}`, "POST", "/mcp/tools/call", `{"name":"plain","arguments":{}}`)
	}
}

// rest.validate_results: a structured result that does not fit is a failure of the tool.
func TestResultValidation(t *testing.T) {
	r := newRig(t, func(o *Options) { o.CheckResults = true })
	f := func(status int, result, part string) {
		t.Helper()
		r.s.result("tools/call", result)
		if s, got := r.got("POST", "/tools/query_callers", `{"function_name":"f"}`); s != status || !strings.Contains(got, part) {
			t.Errorf("%d %s", s, got)
		}
	}
	f(200, `{"content":[],"structuredContent":{"n":1}}`, `"data":`)
	f(500, `{"content":[],"structuredContent":{"n":"1"}}`, `"error":"the tool's structuredContent does not fit its outputSchema at \"/n\": `)
	f(500, `{"content":[],"structuredContent":{"n":"1"}}`, `"code":"EXECUTION_ERROR"`)
	f(500, `{"content":[],"structuredContent":{"n":"1"}}`, `"result":{"content":[],"structuredContent":{"n":"1"}}`)
	f(500, `{"content":[]}`, `has no structuredContent`)
	f(500, `{"content":[],"isError":true}`, `said nothing`)
	f(200, `{"resultType":"input_required","requestState":"s"}`, `"input_required"`)
	// neither the path of seed 001 nor a stream evades it
	r.s.result("tools/call", `{"content":[],"structuredContent":{"n":"1"}}`)
	for _, accept := range []string{"application/json", stream200} {
		status := map[string]int{"application/json": 500, stream200: 200}[accept]
		for path, body := range map[string]string{"/mcp/tools/call": `{"name":"query_callers","arguments":{"function_name":"f"}}`, "/tools/query_callers": `{"function_name":"f"}`} {
			if s, got := r.got("POST", path, body, "Accept", accept); s != status || !strings.Contains(got, `"code":"result_invalid"`) || !strings.Contains(got, `"result":{"content":[],"structuredContent":{"n":"1"}}`) {
				t.Errorf("%s: %d %s", path, s, got)
			}
		}
	}
}

// A question ends a call as data; the next call passes the answers on (2026-07-28 multi-round-trip requests).
func TestQuestionData(t *testing.T) {
	r := newRig(t, nil)
	r.s.result("tools/call", `{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"st","content":null}`)
	r.want(200, `{"success":true,"data":{"result_type":"input_required","input_requests":{"a":{"method":"roots/list"}},"request_state":"st"},"request_id":"ID",$S}`,
		"POST", "/call-tool", `{"tool":"plain","arguments":{},"client_capabilities":{"roots":{}}}`)
	r.s.result("tools/call", `{"content":[]}`)
	r.want(200, `{"success":true,"data":{"content":[]},"request_id":"ID",$S}`,
		"POST", "/call-tool", `{"tool":"plain","arguments":{},"input_responses":{"a":{"roots":[]}},"request_state":"st"}`)
	all := r.s.all("tools/call")
	if got := string(all[0].Client.Caps); got != `{"roots":{}}` {
		t.Error(got)
	}
	m := &all[1].Msg
	if got := string(m.Of(m.InputResponses)) + string(m.Of(m.ReqState)); got != `{"a":{"roots":[]}}"st"` {
		t.Error(got)
	}
	for path, body := range map[string]string{"/read-resource": `{"uri":"u"`, "/get-prompt": `{"name":"p"`} {
		r.s.result("resources/read", `{"resultType":"input_required","requestState":"s"}`)
		r.s.result("prompts/get", `{"resultType":"input_required","requestState":"s"}`)
		r.want(200, `{"success":true,"data":{"result_type":"input_required","request_state":"s"},"request_id":"ID",$S}`, "POST", path, body+`,"request_state":"x"}`)
	}
}

// A refusal before a handler is an envelope too, on the REST endpoints' paths only.
func TestRefusals(t *testing.T) {
	r := newRig(t, nil)
	f := func(status int, part, verb, path, body string, headers ...string) {
		t.Helper()
		s, got := r.got(verb, path, body, headers...)
		if s != status || !strings.HasPrefix(got, `{"success":false,"error":"`+part) || !strings.Contains(got, `"code":"INVALID_ARGUMENTS","request_id":"ID","timestamp":"2025-12-09T12:34:56.789Z"`) {
			t.Errorf("%s %s: %d %s", verb, path, s, got)
		}
	}
	f(415, `Content-Type is \"text/plain\"; send application/json`, "POST", "/call-tool", "{}", "Content-Type", "text/plain")
	f(413, `the request body is larger than limits.request_body, 4096 bytes`, "POST", "/call-tool", strings.Repeat(" ", 5000))
	f(405, `method POST is not served here`, "POST", "/tools", "{}")
	f(405, `method GET is not served here`, "GET", "/servers/x/call-tool", "")
	f(405, `method GET is not served here`, "GET", "/mcp/tools/list", "")
	f(404, `nothing is served at /servers/x/health; `, "GET", "/servers/x/health", "")
	f(404, `nothing is served at /health; `, "GET", "/health", "")
	f(403, `no`, "GET", "/tools", "", "Origin", "http://evil.example")
	for _, path := range []string{"/nothing", "/servers/x", "/mcp"} {
		if status, got := r.got("GET", path, ""); status != 404 || !strings.HasPrefix(got, `{"jsonrpc":"2.0","error":`) {
			t.Errorf("%s: %d %s", path, status, got)
		}
	}
	if status, got := r.got("GET", "/mcp/sse", ""); status != 200 || got != "sse" {
		t.Errorf("%d %s", status, got)
	}
	if status, got := r.got("POST", "/mcp/sse", "{}"); status != 405 || !strings.HasPrefix(got, `{"jsonrpc":`) {
		t.Errorf("%d %s", status, got)
	}
}

// Seed 001, HTTP Implementation: POST /mcp/{method} takes params and returns the bare result; errors are enveloped.
func TestMethodPath(t *testing.T) {
	r := newRig(t, nil)
	r.s.result("tools/call", `{"content":[],"x":1}`)
	r.want(200, `{"content":[],"x":1}`, "POST", "/mcp/tools/call", `{"name":"plain","arguments":{"a":1},"vendor":2,"_meta":{"traceparent":"t","io.modelcontextprotocol/clientCapabilities":{"roots":{}},`+
		`"io.modelcontextprotocol/protocolVersion":"2024-11-05","io.modelcontextprotocol/clientInfo":{"name":"me","version":"1"}}}`)
	ex := r.s.all("tools/call")[0]
	if got := string(ex.Msg.Of(ex.Msg.Params)); got != `{"name":"plain","arguments":{"a":1},"vendor":2,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"REST client","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}},"traceparent":"t"}}` {
		t.Error(got)
	}
	r.want(200, `{"content":[],"x":1}`, "POST", "/mcp/tools/call", `{"name":"plain"}`)
	r.s.result("tools/list", `{"tools":[]}`)
	r.want(200, `{"tools":[]}`, "POST", "/mcp/tools/list", "")
	r.s.result("vendor/do/it", `{}`)
	r.want(200, `{}`, "POST", "/servers/x/mcp/vendor/do/it", `{"_meta":{}}`)
	f := func(status int, code, part, path, body string, headers ...string) {
		t.Helper()
		if s, got := r.got("POST", path, body, headers...); s != status || !strings.Contains(got, `"code":"`+code+`"`) || !strings.Contains(got, part) {
			t.Errorf("%s: %d %s", path, s, got)
		}
	}
	f(404, "TOOL_NOT_FOUND", "unknown method", "/mcp/no/such", "{}")
	f(404, "TOOL_NOT_FOUND", "belongs to sessions", "/mcp/initialize", "{}")
	f(404, "TOOL_NOT_FOUND", "no request is called", "/mcp/notifications/cancelled", "{}")
	f(404, "TOOL_NOT_FOUND", "no request is called", "/mcp/", "{}")
	f(406, "INVALID_ARGUMENTS", "text/event-stream", "/mcp/subscriptions/listen", "{}")
	f(400, "INVALID_ARGUMENTS", `member \"_meta\" must be an object`, "/mcp/prompts/list", `{"_meta":1}`)
	f(400, "INVALID_ARGUMENTS", "must be a log level", "/mcp/prompts/list", `{"_meta":{"io.modelcontextprotocol/logLevel":"loud"}}`)
	f(400, "INVALID_ARGUMENTS", `member \"name\" is missing`, "/mcp/tools/call", `{}`)
	f(400, "INVALID_ARGUMENTS", `"rule":"required"`, "/mcp/tools/call", `{"name":"query_callers"}`)
	f(404, "TOOL_NOT_FOUND", "Tool not found: none", "/mcp/tools/call", `{"name":"none","arguments":{}}`)
	f(400, "INVALID_ARGUMENTS", "cannot be taken to MCP", "/mcp/prompts/get", `{"Name":"x","name":"y"}`)
}
