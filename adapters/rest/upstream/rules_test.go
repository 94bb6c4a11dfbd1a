package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"dragoman/proxy"
)

// The seed's examples, as answers of a service.
const (
	exampleSuccess = `{"success":true,"data":{"callers":["function_a","function_b"]},"request_id":"550e8400-e29b-41d4-a716-446655440000",` +
		`"timestamp":"2025-12-09T12:34:56.789Z","meta":{"execution_time_ms":150}}`
	exampleError = `{"success":false,"error":"Tool not found: invalid_tool_name","code":"TOOL_NOT_FOUND","request_id":"550e8400-e29b-41d4-a716-446655440001",` +
		`"timestamp":"2025-12-09T12:34:57.123Z"}`
	exampleSchema = `{"type":"object","properties":{"function_name":{"type":"string","description":"Qualified name of the function to query"},` +
		`"max_depth":{"type":"integer","description":"Maximum call depth to traverse","default":3,"minimum":1,"maximum":10}},"required":["function_name"]}`
	exampleTools = `{"service":"code-graph-rag","version":"0.0.24","tools":[{"name":"query_callers","description":"Find all functions that call a specified function","input_schema":` +
		exampleSchema + `},{"name":"query_hierarchy","description":"Get class inheritance hierarchy","input_schema":{"type":"object","properties":{}}}]}`
	exampleDegraded = `{"status":"degraded","service":"code-graph-rag","version":"0.0.24","uptime_seconds":7201,"dependencies":{"memgraph":{"status":"unavailable",` +
		`"error":"Connection timeout after 1000ms"}},"timestamp":"2025-12-09T14:30:01.000Z"}`
)

// callWith calls a tool of a service that answers with a status and a body.
func callWith(t *testing.T, status int, body string) (out string, err error) {
	t.Helper()
	s := newFakeService(t, "", map[string]http.HandlerFunc{"POST /call-tool": fixed(status, body)})
	all, err := s.call("tools/call", `{"name":"query_callers","arguments":{"function_name":"my_module.my_function","max_depth":5}}`)
	if err == nil && len(all) == 1 {
		out = all[0]
	}
	return out, err
}

// Seed 000 in the other direction: the envelopes of a service are held to the same rules.
func TestRulesEnvelope(t *testing.T) {
	bad := func(t *testing.T, status int, body, why string) {
		t.Helper()
		_, err := callWith(t, status, body)
		checkOutcome(t, nil, err, &proxy.BadAnswer, why)
	}
	t.Run("rule 1.2 success is a boolean", func(t *testing.T) {
		bad(t, 200, strings.Replace(exampleSuccess, "true", `"true"`, 1), "success is no boolean")
		bad(t, 200, strings.Replace(exampleSuccess, `"success":true,`, "", 1), "has no member success")
	})
	t.Run("rule 1.4 error is a text", func(t *testing.T) {
		bad(t, 404, strings.Replace(exampleError, `"Tool not found: invalid_tool_name"`, `{"a":1}`, 1), "error is no string")
	})
	t.Run("rule 1.5 code is a text, and one that nobody knows goes by the status", func(t *testing.T) {
		bad(t, 404, strings.Replace(exampleError, `"TOOL_NOT_FOUND"`, `7`, 1), "code is no string")
		if out, err := callWith(t, 422, strings.Replace(exampleError, "TOOL_NOT_FOUND", "E_CHECK", 1)); err != nil || !strings.Contains(out, `"code":-32602`) {
			t.Error(out, err)
		}
	})
	t.Run("rule 1.8 meta is an object, or not there", func(t *testing.T) {
		bad(t, 200, strings.Replace(exampleSuccess, `{"execution_time_ms":150}`, `[150]`, 1), "meta is no object")
		if out, err := callWith(t, 200, strings.Replace(exampleSuccess, `{"execution_time_ms":150}`, `null`, 1)); err != nil || out == "" {
			t.Error(out, err)
		}
	})
	t.Run("rule 1.9 with success there is data, and neither error nor code", func(t *testing.T) {
		bad(t, 200, `{"success":true}`, "data is missing")
		bad(t, 200, `{"success":true,"data":null}`, "data is missing")
		bad(t, 200, strings.Replace(exampleSuccess, `"meta"`, `"error":"e","meta"`, 1), "error or code is not null")
		bad(t, 200, strings.Replace(exampleSuccess, `"meta"`, `"code":"TIMEOUT","meta"`, 1), "error or code is not null")
		if out, err := callWith(t, 200, strings.Replace(exampleSuccess, `"meta"`, `"error":null,"code":null,"meta"`, 1)); err != nil || out == "" {
			t.Error(out, err)
		}
	})
	t.Run("rule 1.10 without success there are error and code", func(t *testing.T) {
		bad(t, 500, `{"success":false,"code":"TIMEOUT"}`, "error is no string")
		bad(t, 500, `{"success":false,"error":"x"}`, "code is no string")
		bad(t, 500, `{"success":false,"error":null,"code":null}`, "error is no string")
	})
	t.Run("rule 1.15 the example of a success", func(t *testing.T) {
		out, err := callWith(t, 200, exampleSuccess)
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, "result", out, `{"content":[{"type":"text","text":"{\"callers\":[\"function_a\",\"function_b\"]}"}],"structuredContent":{"callers":["function_a","function_b"]},"resultType":"complete"}`)
	})
	t.Run("rule 1.16 the example of an error", func(t *testing.T) {
		if out, err := callWith(t, 404, exampleError); err != nil || !strings.HasSuffix(out, `"error":{"code":-32602,"message":"Tool not found: invalid_tool_name"}}`) {
			t.Error(out, err)
		}
	})
}

// Seed 000, ErrorCode, in the other direction: what becomes of each code.
func TestRulesErrorCode(t *testing.T) {
	for rule, c := range map[string]struct {
		status int
		code   string
		row    *proxy.Fault
		want   string
	}{
		"rule 2.1 TOOL_NOT_FOUND":      {404, "TOOL_NOT_FOUND", nil, `"error":{"code":-32602,`},
		"rule 2.2 INVALID_ARGUMENTS":   {400, "INVALID_ARGUMENTS", nil, `"error":{"code":-32602,`},
		"rule 2.3 EXECUTION_ERROR":     {500, "EXECUTION_ERROR", nil, `"isError":true`},
		"rule 2.4 INTERNAL_ERROR":      {500, "INTERNAL_ERROR", &proxy.UpstreamFailed, "Tool not found"},
		"rule 2.5 TIMEOUT":             {504, "TIMEOUT", &proxy.UpstreamTimeout, "Tool not found"},
		"rule 2.6 RATE_LIMITED":        {429, "RATE_LIMITED", &proxy.UpstreamLimited, "Tool not found"},
		"rule 2.7 SERVICE_UNAVAILABLE": {503, "SERVICE_UNAVAILABLE", &proxy.Overloaded, "Tool not found"},
	} {
		t.Run(rule, func(t *testing.T) {
			out, err := callWith(t, c.status, strings.Replace(exampleError, "TOOL_NOT_FOUND", c.code, 1))
			checkOutcome(t, []string{out}, err, c.row, c.want)
			var e *proxy.Error
			if errors.As(err, &e) && string(e.Envelope) != c.code {
				t.Errorf("a REST caller would get %s", e.Envelope)
			}
		})
	}
}

// Seed 000, ToolSchema, ToolsResponse, ToolRequest and HealthResponse, in the other direction.
func TestRulesTools(t *testing.T) {
	list := func(t *testing.T, tools string) (string, error) {
		t.Helper()
		s := newFakeService(t, "", map[string]http.HandlerFunc{"GET /tools": fixed(200, tools)})
		out, err := s.call("tools/list", "")
		return strings.Join(out, ""), err
	}
	one := func(t *testing.T, tool, why string) {
		t.Helper()
		out, err := list(t, `{"service":"s","version":"1.0.0","tools":[`+tool+`]}`)
		if why == "" {
			checkOutcome(t, []string{out}, err, nil, `"tools":[{`)
			return
		}
		checkOutcome(t, nil, err, &proxy.BadAnswer, why)
	}
	t.Run("rule 3.1 name must be there", func(t *testing.T) {
		one(t, `{"input_schema":{"type":"object"}}`, "has no name")
		one(t, `{"name":"","input_schema":{"type":"object"}}`, "has no name")
	})
	t.Run("rule 3.2 description is a text, and may be left out", func(t *testing.T) {
		one(t, `{"name":"a","description":7,"input_schema":{"type":"object"}}`, "description that is no string")
		one(t, `{"name":"a","input_schema":{"type":"object"}}`, "")
	})
	t.Run("rule 3.3 input_schema must be there", func(t *testing.T) { one(t, `{"name":"a"}`, "no object input_schema") })
	t.Run("rule 3.7 input_schema.type is object", func(t *testing.T) {
		one(t, `{"name":"a","input_schema":{"type":"array"}}`, `type is not "object"`)
	})
	t.Run("rule 3.10 the example", func(t *testing.T) {
		if out, err := list(t, exampleTools); err != nil || !strings.Contains(out, `{"name":"query_callers","description":"Find all functions that call a specified function","inputSchema":`+exampleSchema+`}`) {
			t.Error(out, err)
		}
	})
	t.Run("rule 5.7 the example is what is sent", func(t *testing.T) {
		s := newFakeService(t, "", map[string]http.HandlerFunc{"POST /call-tool": fixed(200, exampleSuccess)})
		s.must("tools/call", `{"name":"query_callers","arguments":{"function_name":"my_module.my_function","max_depth":5}}`)
		want := regexp.MustCompile(`^POST /call-tool application/json \{"tool":"query_callers","arguments":\{"function_name":"my_module.my_function","max_depth":5\},"request_id":"([^"]*)"\}$`)
		if m := want.FindStringSubmatch(s.last()); m == nil || !uuid4.MatchString(m[1]) {
			t.Error(s.last())
		}
		s.must("tools/call", `{"name":"query_hierarchy"}`)
		if !strings.Contains(s.last(), `{"tool":"query_hierarchy","arguments":{},"request_id":"`) { // the members that must be there
			t.Error(s.last())
		}
	})
	t.Run("rule 6.7 the example", func(t *testing.T) {
		if out, err := list(t, exampleTools); err != nil || !strings.Contains(out, `"io.modelcontextprotocol/serverInfo":{"name":"code-graph-rag","version":"0.0.24"}`) {
			t.Error(out, err)
		}
	})
	t.Run("rule 6.3 tools is a list", func(t *testing.T) {
		for _, body := range []string{`{"service":"s","version":"1.0.0"}`, `{"service":"s","version":"1.0.0","tools":null}`, `{"service":"s","version":"1.0.0","tools":{}}`} {
			_, err := list(t, body)
			checkOutcome(t, nil, err, &proxy.BadAnswer, "no array tools")
		}
	})
	for rule, c := range map[string]struct {
		status int
		body   string
		row    *proxy.Fault
	}{
		"rule 7.7 healthy":                  {200, healthyAnswer, nil},
		"rule 7.15 the example of degraded": {200, exampleDegraded, nil},
		"rule 7.9 unavailable":              {503, strings.Replace(exampleDegraded, "degraded", "unavailable", 1), &proxy.Overloaded},
	} {
		t.Run(rule, func(t *testing.T) {
			s := newFakeService(t, "", map[string]http.HandlerFunc{"GET /health": fixed(c.status, c.body), "GET /tools": fixed(200, exampleTools)})
			out, err := s.call("server/discover", "")
			checkOutcome(t, out, err, c.row, map[bool]string{true: `"supportedVersions"`, false: "memgraph (Connection timeout after 1000ms)"}[c.row == nil])
			if ok, _, why := s.u.Healthy(); ok != (c.row == nil) {
				t.Error(fmt.Sprint(ok, why))
			}
		})
	}
}
