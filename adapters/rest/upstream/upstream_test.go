package upstream

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-json"

	"dragoman/adapters/rest/envelope"
	"dragoman/proxy"
)

// successBody is a successful envelope.
func successBody(data string) string {
	return `{"success":true,"data":` + data + `,"error":null,"code":null,"request_id":"550e8400-e29b-41d4-a716-446655440000","timestamp":"2025-12-09T12:34:56.789Z"}`
}

// failureBody is an envelope without success; more is added to it.
func failureBody(code, more string) string {
	return `{"success":false,"data":null,"error":"because \"x\"","code":"` + code + `"` + more + `,"request_id":"550e8400-e29b-41d4-a716-446655440000","timestamp":"2025-12-09T12:34:56.789Z"}`
}

// checkResult compares the result of a response with want, both as JSON.
func checkResult(t *testing.T, what, got, want string) {
	t.Helper()
	var m struct {
		ID     string         `json:"id"`
		Result map[string]any `json:"result"`
	}
	if err := json.Unmarshal([]byte(got), &m); err != nil || m.ID != "q1" || !strings.Contains(got, `"id":"q\u0031"`) {
		t.Errorf("%s: %v: %s", what, err, got)
		return
	}
	var w map[string]any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(m.Result)
	b, _ := json.Marshal(w)
	if string(a) != string(b) {
		t.Errorf("%s:\n%s\nwant\n%s", what, a, b)
	}
}

// The ToolsResponse becomes tools/list (seed 000, ToolsResponse, ToolSchema).
func TestToolsList(t *testing.T) {
	s := newFakeService(t, "/base/", map[string]http.HandlerFunc{"GET /base/tools": fixed(200, `{"service":"s","version":"1.2.3","tools":[
		{"name":"query_callers","description":"Find <all>","input_schema":{"type":"object","properties":{"n":{"type":"integer","default":9007199254740993}},"required":["n"]},"extra":1},
		{"name":"with spaces!","title":"T","annotations":{"readOnlyHint":true},"description":null,"output_schema":{"type":"object"},"inputSchema":{"type":"object"},"_meta":{"a":1}}]}`)})
	got := s.must("tools/list", "")
	if !strings.Contains(got, `{"type":"object","properties":{"n":{"type":"integer","default":9007199254740993}},"required":["n"]}`) {
		t.Error("the schema is not the same to the byte:", got)
	}
	checkResult(t, "tools/list", got, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1.2.3"}},"tools":[
		{"name":"query_callers","description":"Find <all>","inputSchema":{"type":"object","properties":{"n":{"type":"integer","default":9007199254740993}},"required":["n"]},"extra":1},
		{"name":"with spaces!","title":"T","annotations":{"readOnlyHint":true},"outputSchema":{"type":"object"},"inputSchema":{"type":"object"},"_meta":{"a":1}}]}`)
	if s.last() != "GET /base/tools application/json " {
		t.Error(s.last())
	}
}

// Pages, the envelope around a list, and a base with a query.
func TestListPages(t *testing.T) {
	s := newFakeService(t, "?key=k", map[string]http.HandlerFunc{
		"GET /tools?key=k":               fixed(200, successBody(`{"tools":[],"next_cursor":"a b&"}`)),
		"GET /tools?key=k&cursor=a+b%26": fixed(200, `{"tools":[],"nextCursor":null}`)})
	if got := s.must("tools/list", ""); !strings.Contains(got, `"nextCursor":"a b&"`) {
		t.Error(got)
	}
	if got := s.must("tools/list", `{"cursor":"a b&"}`); strings.Contains(got, "nextCursor") {
		t.Error(got)
	}
}

// Data becomes content and structuredContent, unless it is a tool's result already.
func TestCallResults(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"object": {`{"callers":["a"],"n":9007199254740993}`, `{"content":[{"type":"text","text":"{\"callers\":[\"a\"],\"n\":9007199254740993}"}],"structuredContent":{"callers":["a"],"n":9007199254740993},"resultType":"complete"}`},
		"array":  {`[1,"a"]`, `{"content":[{"type":"text","text":"[1,\"a\"]"}],"resultType":"complete"}`},
		"string": {`"a"`, `{"content":[{"type":"text","text":"\"a\""}],"resultType":"complete"}`},
		"false":  {`false`, `{"content":[{"type":"text","text":"false"}],"resultType":"complete"}`},
		"result": {`{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":{"x":1},"_meta":{"k":1},"other":2}`,
			`{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":{"x":1},"_meta":{"k":1},"other":2,"resultType":"complete"}`},
		"failed result":      {`{"content":[{"type":"text","text":"no"}],"isError":true}`, `{"content":[{"type":"text","text":"no"}],"isError":true,"resultType":"complete"}`},
		"empty result":       {`{"content":[],"structuredContent":{}}`, `{"content":[],"structuredContent":{},"resultType":"complete"}`},
		"found nothing":      {`{"content":[],"total":0}`, `{"content":[{"type":"text","text":"{\"content\":[],\"total\":0}"}],"structuredContent":{"content":[],"total":0},"resultType":"complete"}`},
		"content of its own": {`{"content":["a"]}`, `{"content":[{"type":"text","text":"{\"content\":[\"a\"]}"}],"structuredContent":{"content":["a"]},"resultType":"complete"}`},
		"another kind":       {`{"result_type":"rows","rows":[]}`, `{"content":[{"type":"text","text":"{\"result_type\":\"rows\",\"rows\":[]}"}],"structuredContent":{"result_type":"rows","rows":[]},"resultType":"complete"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFakeService(t, "", map[string]http.HandlerFunc{"POST /call-tool": fixed(200, successBody(c.data))})
			checkResult(t, name, s.must("tools/call", `{"name":"query","arguments":{"max_depth":5}}`), c.want)
			if !regexp.MustCompile(`^POST /call-tool application/json \{"tool":"query","arguments":\{"max_depth":5\},"request_id":"[0-9a-f-]{36}"\}$`).MatchString(s.last()) {
				t.Error(s.last())
			}
			id := s.last()[len(s.last())-38 : len(s.last())-2]
			if !envelope.ValidRequestID(id) {
				t.Error(id)
			}
		})
	}
}

// serverInfo is known once the tools were listed, and is added to a _meta of the service.
func TestServerInfo(t *testing.T) {
	s := newFakeService(t, "", map[string]http.HandlerFunc{"GET /tools": fixed(200, toolsAnswer), "POST /call-tool": fixed(200, successBody(`{"content":[],"_meta":{"k":1}}`))})
	s.must("tools/list", "")
	checkResult(t, "call", s.must("tools/call", `{"name":"a"}`),
		`{"content":[],"_meta":{"k":1,"io.modelcontextprotocol/serverInfo":{"name":"code-graph-rag","version":"0.0.24"}},"resultType":"complete"}`)
	if !strings.Contains(s.last(), `"arguments":{},`) {
		t.Error(s.last())
	}
}

// The codes of the envelope become JSON-RPC errors of the server, results, or rows of the error table.
func TestErrorCodes(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		row    *proxy.Fault // else want
		want   string
		retry  int
	}{
		"TOOL_NOT_FOUND":      {404, failureBody("TOOL_NOT_FOUND", ""), nil, `"error":{"code":-32602,"message":"because \"x\""}`, 0},
		"INVALID_ARGUMENTS":   {400, failureBody("INVALID_ARGUMENTS", ""), nil, `"error":{"code":-32602,"message":"because \"x\""}`, 0},
		"whatever the status": {200, failureBody("INVALID_ARGUMENTS", ""), nil, `"error":{"code":-32602`, 0},
		"EXECUTION_ERROR":     {500, failureBody("EXECUTION_ERROR", ""), nil, `"result":{"content":[{"type":"text","text":"because \"x\""}],"isError":true,"resultType":"complete"}`, 0},
		"with a result": {500, failureBody("EXECUTION_ERROR", `,"meta":{"result":{"content":[{"type":"text","text":"all"}],"structuredContent":{"a":1}}}`), nil,
			`"result":{"content":[{"type":"text","text":"all"}],"structuredContent":{"a":1},"isError":true,"resultType":"complete"}`, 0},
		"with something else": {500, failureBody("EXECUTION_ERROR", `,"meta":{"result":{"a":1}}`), nil, `"text":"because \"x\""}],"isError":true`, 0},
		"with its cause":      {500, failureBody("EXECUTION_ERROR", `,"meta":{"cause":{"code":-32042,"data":{"a":[1]}}}`), nil, `"error":{"code":-32042,"message":"because \"x\"","data":{"a":[1]}}`, 0},
		"a cause that lies":   {400, failureBody("INVALID_ARGUMENTS", `,"meta":{"cause":{"code":-32022,"data":{"supported":[]}}}`), nil, `"error":{"code":-32602,`, 0},
		"INTERNAL_ERROR":      {500, failureBody("INTERNAL_ERROR", ""), &proxy.UpstreamFailed, `the service failed: because "x" (INTERNAL_ERROR)`, 0},
		"TIMEOUT":             {504, failureBody("TIMEOUT", ""), &proxy.UpstreamTimeout, `the service gave up: because "x" (TIMEOUT)`, 0},
		"RATE_LIMITED":        {429, failureBody("RATE_LIMITED", `,"meta":{"retry_after":7}`), &proxy.UpstreamLimited, `limits how often it is called: because "x"`, 7},
		"SERVICE_UNAVAILABLE": {503, failureBody("SERVICE_UNAVAILABLE", ""), &proxy.Overloaded, `is not available: because "x"`, 0},
		"own code, 422":       {422, failureBody("VALIDATION", ""), nil, `"error":{"code":-32602`, 0},
		"own code, 404":       {404, failureBody("NOPE", ""), nil, `"error":{"code":-32602`, 0},
		"own code, 429":       {429, failureBody("SLOW", ""), &proxy.UpstreamLimited, "RATE_LIMITED", 0},
		"own code, 500":       {500, failureBody("OOPS", ""), nil, `"isError":true`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFakeService(t, "", map[string]http.HandlerFunc{"POST /call-tool": fixed(c.status, c.body)})
			out, err := s.call("tools/call", `{"name":"a"}`)
			checkOutcome(t, out, err, c.row, c.want)
			var e *proxy.Error
			if errors.As(err, &e) && e.RetryAfter != c.retry {
				t.Error("retry after", e.RetryAfter)
			}
		})
	}
}

// checkOutcome compares an outcome: an error of the error table, or a response.
func checkOutcome(t *testing.T, out []string, err error, row *proxy.Fault, want string) {
	t.Helper()
	var e *proxy.Error
	switch {
	case row == nil && (err != nil || len(out) != 1 || !strings.Contains(out[0], want)):
		t.Errorf("%v, %v\nwant %s", out, err, want)
	case row != nil && (!errors.As(err, &e) || e.Name != row.Name || !strings.Contains(e.Message, want)):
		t.Errorf("%v, %v\nwant %s: %s", out, err, row.Name, want)
	}
}

// Retry-After is used where the envelope has no retry_after.
func TestRetryAfter(t *testing.T) {
	s := newFakeService(t, "", map[string]http.HandlerFunc{"POST /call-tool": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3")
		fixed(429, failureBody("RATE_LIMITED", ""))(w, r)
	}})
	_, err := s.call("tools/call", `{"name":"a"}`)
	var e *proxy.Error
	if !errors.As(err, &e) || e.RetryAfter != 3 || !e.Retryable {
		t.Error(err)
	}
}

// The error of an answer that is no envelope, or a contradictory one, says what it is and whose fault that is.
func TestBadAnswers(t *testing.T) {
	typed := func(status int, kind, body string, more ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			for i := 0; i+1 < len(more); i += 2 {
				w.Header().Set(more[i], more[i+1])
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	large := `"` + strings.Repeat("x", 2<<20) + `"`
	for name, c := range map[string]struct {
		give http.HandlerFunc
		row  proxy.Fault
		want string
	}{
		"html":             {typed(200, "text/html", "<!doctype html>\n<title>hi</title>"), proxy.BadAnswer, "POST /call-tool with HTTP 200 (text/html), and what is no JSON: <!doctype html> <title>hi</title>"},
		"empty":            {typed(200, "application/json", ""), proxy.BadAnswer, "(an empty body)"},
		"two values":       {fixed(200, successBody("{}")+" {}"), proxy.BadAnswer, "no JSON"},
		"a way out":        {fixed(200, `1,"method":"x"`), proxy.BadAnswer, "no JSON"},
		"another way out":  {fixed(200, successBody("{}")+`,"id":1`), proxy.BadAnswer, "no JSON"},
		"array":            {fixed(200, `[]`), proxy.BadAnswer, "has no member success: []"},
		"other object":     {fixed(200, `{"result":1}`), proxy.BadAnswer, `has no member success: {"result":1}`},
		"success as text":  {fixed(200, `{"success":"true","data":{}}`), proxy.BadAnswer, "success is no boolean"},
		"no data":          {fixed(200, `{"success":true}`), proxy.BadAnswer, "data is missing"},
		"null data":        {fixed(200, successBody("null")), proxy.BadAnswer, "data is missing"},
		"both":             {fixed(200, `{"success":true,"data":{},"error":"x"}`), proxy.BadAnswer, "error or code is not null"},
		"success with 500": {fixed(500, successBody("{}")), proxy.BadAnswer, "success is true (HTTP 500)"},
		"no code":          {fixed(500, `{"success":false,"error":"x"}`), proxy.BadAnswer, "code is no string; error: x"},
		"code as number":   {fixed(500, `{"success":false,"error":"x","code":3}`), proxy.BadAnswer, "code is no string"},
		"no error":         {fixed(500, `{"success":false,"code":"TIMEOUT"}`), proxy.BadAnswer, "error is no string"},
		"meta":             {fixed(200, `{"success":true,"data":{},"meta":[]}`), proxy.BadAnswer, "meta is no object"},
		"too large":        {fixed(200, successBody(large)), proxy.ResponseTooLarge, "limits.response_body"},
		"large head":       {typed(200, "application/json", successBody("{}"), "X-Large", strings.Repeat("x", 1<<20)), proxy.ResponseTooLarge, "the head of the upstream server's answer is larger than limits.header, 16384 bytes"},
		"large comment":    {typed(200, "text/event-stream", ":"+strings.Repeat("x", 70<<10)+"\nevent: result\ndata: {}\n\n"), proxy.ResponseTooLarge, "a line that is no data and longer than 65536 bytes"},
		"large error":      {typed(500, "text/plain", large), proxy.HTTPStatus, "HTTP 500 Internal Server Error and no envelope: \"xxx"},
		"html error":       {typed(502, "text/html", "<h1>Bad Gateway</h1>"), proxy.HTTPStatus, "HTTP 502 Bad Gateway and no envelope: <h1>Bad Gateway</h1>"},
		"not found":        {typed(404, "text/plain", "no"), proxy.HTTPStatus, "upstreams.NAME.url must be the base"},
		"unauthorized":     {typed(401, "text/plain", "no"), proxy.Refused, "upstreams.NAME.headers"},
		"forbidden":        {typed(403, "application/json", `{"detail":"no"}`), proxy.Refused, `{"detail":"no"}`},
		"busy":             {typed(503, "text/plain", "soon"), proxy.Overloaded, "HTTP 503"},
		"redirect":         {typed(307, "text/plain", "", "Location", "https://b/c"), proxy.HTTPStatus, "go to https://b/c"},
		"unreadable":       {fixed(200, "{\"success\":true,\"data\":{\"a\":\"\x00\"}}"), proxy.BadAnswer, "no JSON"},
		"deep":             {fixed(200, successBody(strings.Repeat("[", 5000)+strings.Repeat("]", 5000))), proxy.BadAnswer, "no JSON"},
		"stream, no end":   {typed(200, "text/event-stream", "event: log\ndata: {\"level\":\"info\",\"data\":1}\n\n"), proxy.Lost, "without an event named result"},
		"stream, cut":      {typed(200, "text/event-stream", "event: result\ndata: {}\n"), proxy.Lost, "broke before its response"},
		"stream, no json":  {typed(200, "text/event-stream", "event: result\ndata: <p>\n\n"), proxy.BadAnswer, "no JSON"},
		"stream, log":      {typed(200, "text/event-stream", "event: log\ndata: 1\n\n"), proxy.BadAnswer, "log event"},
		"stream, progress": {typed(200, "text/event-stream", "event: progress\ndata: {\"progress\":\"1\"}\n\n"), proxy.BadAnswer, "progress event"},
		"stream, large":    {typed(200, "text/event-stream", "event: result\ndata: "+large+"\n\n"), proxy.ResponseTooLarge, "limits.event"},
		"input, no object": {fixed(200, successBody(`{"result_type":"input_required","input_requests":[]}`)), proxy.BadAnswer, "input_requests is no object"},
		"input, state":     {fixed(200, successBody(`{"result_type":"input_required","request_state":1}`)), proxy.BadAnswer, "request_state is no string"},
		"input, nothing":   {fixed(200, successBody(`{"result_type":"input_required"}`)), proxy.BadAnswer, "neither"},
		"input, no method": {fixed(200, successBody(`{"result_type":"input_required","input_requests":{"a":{}}}`)), proxy.BadAnswer, "without a method"},
		"input, unknown":   {fixed(200, successBody(`{"result_type":"input_required","input_requests":{"a":{"method":"x"}}}`)), proxy.BadAnswer, "does not exist"},
		"input, unasked":   {fixed(200, successBody(`{"result_type":"input_required","input_requests":{"a":{"method":"roots/list"}}}`)), proxy.MissingCapability, "roots/list"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFakeService(t, "", map[string]http.HandlerFunc{"POST /call-tool": c.give})
			out, err := s.call("tools/call", `{"name":"a"}`)
			checkOutcome(t, out, err, &c.row, c.want)
		})
	}
}

// Lists that no client could read are refused; the error names the place.
func TestBadLists(t *testing.T) {
	for body, want := range map[string]string{
		`{"service":"s","tools":{}}`:      "no array tools",
		`{"service":"s"}`:                 "no array tools",
		`{"tools":[1]}`:                   "tools[0] is no object",
		`{"tools":[{"name":"a"}]}`:        "tools[0] (a) has no object input_schema",
		`{"tools":[{"input_schema":{}}]}`: "tools[0] has no name",
		`{"tools":[{"name":"a","input_schema":{"type":"string"}}]}`:                 `whose type is not "object"`,
		`{"tools":[{"name":"a","input_schema":{"type":"object"},"description":1}]}`: "description that is no string",
		`{"success":true,"data":[]}`:                                                "data is no object",
		`[]`:                                                                        "has no member success",
	} {
		s := newFakeService(t, "", map[string]http.HandlerFunc{"GET /tools": fixed(200, body)})
		out, err := s.call("tools/list", "")
		checkOutcome(t, out, err, &proxy.BadAnswer, want)
	}
}
