package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/httpcall"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// lines answers with an event stream that the test writes piece by piece.
func lines(pieces <-chan string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		for {
			select {
			case p, ok := <-pieces:
				if !ok {
					return
				}
				_, _ = io.WriteString(w, p)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
}

// A call of a client that wants progress or logs accepts events, which become notifications as they come.
func TestEvents(t *testing.T) {
	pieces := make(chan string, 10)
	s := newFakeService(t, "", map[string]http.HandlerFunc{"POST /call-tool?log_level=warning": lines(pieces)})
	replies, err := s.u.Call(newExchange(t, "tools/call", `{"name":"a","_meta":{"progressToken":7}}`, logging("warning")))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = replies.Close() }()
	if _, err := replies.Next(time.Now().Add(20 * time.Millisecond)); !errors.Is(err, proxy.ErrNotYet) {
		t.Fatal(err)
	}
	next := func(event, want string) {
		t.Helper()
		pieces <- event
		m, err := replies.Next(time.Now().Add(patience))
		if got := string(m.Append(nil)); err != nil || got != want {
			t.Fatalf("%s, %v\nwant %s", got, err, want)
		}
	}
	next(": hello\n\nevent: progress\ndata: {\"progress\":1,\"progressToken\":\"theirs\",\"message\":\"m\"}\n\n",
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":7,"message":"m"}}`)
	pieces <- "event: log\ndata: {\"level\":\"info\",\"data\":1}\n\nevent: other\ndata: x\n\ndata: {\"success\":true,\"data\":1}\n\n"
	next("event: log\ndata: {\"level\":\"error\",\"logger\":\"l\",\"data\":{\"a\":1}}\n\n",
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","logger":"l","data":{"a":1}}}`)
	next("event: progress\ndata: {\"progress\":\ndata: 2.5}\n\n", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":\n2.5,\"progressToken\":7}}")
	next("event: result\ndata: "+successBody(`{"a":1}`)+"\n\n",
		`{"jsonrpc":"2.0","id":"q\u0031","result":{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1},"resultType":"complete"}}`)
	if _, err := replies.Next(time.Now().Add(patience)); err != io.EOF {
		t.Error(err)
	}
	if !strings.HasPrefix(s.last(), "POST /call-tool?log_level=warning text/event-stream, application/json;q=0.9 {") {
		t.Error(s.last())
	}
	close(pieces)
}

// A service may answer in JSON although it may stream, and may stream unasked.
func TestEventsAreOptional(t *testing.T) {
	pieces := make(chan string, 1)
	s := newFakeService(t, "", map[string]http.HandlerFunc{"POST /call-tool": fixed(200, successBody("{}")), "POST /get-prompt": lines(pieces)})
	if got := s.must("tools/call", `{"name":"a","_meta":{"progressToken":"t"}}`); !strings.Contains(got, `"structuredContent":{}`) {
		t.Error(got)
	}
	pieces <- "event: progress\ndata: {\"progress\":1}\n\nevent: log\ndata: {\"data\":1}\n\nevent: result\ndata: " + successBody(`{"messages":[]}`) + "\n\n"
	if got := s.must("prompts/get", `{"name":"a"}`); !strings.Contains(got, `"messages":[]`) {
		t.Error(got)
	}
	close(pieces)
	// A log of no known level counts as info.
	more := make(chan string, 1)
	more <- "event: log\ndata: {\"level\":\"loud\"}\n\nevent: result\ndata: " + successBody(`{}`) + "\n\n"
	close(more)
	s.on["POST /call-tool?log_level=debug"] = lines(more)
	out, err := s.call("tools/call", `{"name":"a"}`, logging("debug"))
	if err != nil || len(out) != 2 || !strings.Contains(out[0], `"params":{"level":"info","data":null}`) {
		t.Error(out, err)
	}
}

// Cancelling an exchange closes the connection, whether or not the answer has begun; so does closing the replies.
func TestCancel(t *testing.T) {
	for _, how := range []string{"cancelled before the head", "cancelled in a stream", "closed"} {
		t.Run(how, func(t *testing.T) {
			begun, left := make(chan bool, 1), make(chan bool, 1)
			s := newFakeService(t, "", map[string]http.HandlerFunc{"POST /call-tool": func(w http.ResponseWriter, r *http.Request) {
				if how == "cancelled in a stream" {
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, "event: progress\ndata: {\"progress\":1}\n\n")
					w.(http.Flusher).Flush()
				}
				begun <- true
				select {
				case <-r.Context().Done():
					left <- true
				case <-time.After(patience):
					left <- false
				}
			}})
			ex := newExchange(t, "tools/call", `{"name":"a","_meta":{"progressToken":1}}`)
			replies, err := s.u.Call(ex)
			if err != nil {
				t.Fatal(err)
			}
			<-begun
			if how == "cancelled in a stream" {
				if m, err := replies.Next(time.Now().Add(patience)); err != nil || m.Kind != wire.Notification {
					t.Fatal(err)
				}
			}
			if how != "closed" {
				go ex.Cancel(proxy.ErrCancelled)
				if _, err := replies.Next(time.Now().Add(patience)); !errors.Is(err, proxy.ErrCancelled) {
					t.Error(err)
				}
			}
			_ = replies.Close()
			if !<-left {
				t.Error("the service was not left")
			}
		})
	}
}

// An exchange that is cancelled before it begins sends nothing.
func TestCancelledBefore(t *testing.T) {
	s := newFakeService(t, "", map[string]http.HandlerFunc{"POST /call-tool": fixed(200, successBody("{}"))})
	_, err := s.call("tools/call", `{"name":"a"}`, func(ex *proxy.Exchange) { ex.Cancel(proxy.ErrCancelled) })
	if !errors.Is(err, proxy.ErrCancelled) {
		t.Error(err)
	}
}

// A question becomes an input_required result, and the retry has the answers (2026-07-28 multi-round-trip requests).
func TestQuestions(t *testing.T) {
	ask := `{"result_type":"input_required","input_requests":{"who":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}},"request_state":"s\u0031"}`
	s := newFakeService(t, "", map[string]http.HandlerFunc{"POST /call-tool": fixed(200, successBody(ask)), "POST /read-resource": fixed(200, successBody(ask)), "POST /get-prompt": fixed(200, successBody(ask))})
	want := `{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"s1"}`
	for method, params := range map[string]string{"tools/call": `{"name":"a"}`, "prompts/get": `{"name":"a"}`, "resources/read": `{"uri":"a:b"}`} {
		got := s.must(method, params, asking(`{"elicitation":{}}`))
		checkResult(t, method, got, want)
		if !strings.Contains(got, `"s\u0031"`) {
			t.Error("the state is not the same to the byte:", got)
		}
		if out, err := s.call(method, params); err == nil {
			t.Error("a client that declared nothing is asked:", out)
		}
	}
	legacy := func(ex *proxy.Exchange) { ex.Client.Era = proxy.Legacy }
	checkResult(t, "legacy", s.must("tools/call", `{"name":"a"}`, legacy), want) // the upgrade checks its capabilities
	s.must("tools/call", `{"name":"a","inputResponses":{"who":{"action":"accept","content":{}}},"requestState":"s\u0031"}`, asking(`{"elicitation":{}}`))
	if want := `{"tool":"a","arguments":{},"input_responses":{"who":{"action":"accept","content":{}}},"request_state":"s\u0031","request_id":"`; !strings.Contains(s.last(), want) {
		t.Errorf("%s\nwant %s", s.last(), want)
	}
	s.on["POST /call-tool"] = fixed(200, successBody(`{"result_type":"input_required","input_requests":null,"request_state":"later"}`))
	checkResult(t, "state only", s.must("tools/call", `{"name":"a"}`), `{"resultType":"input_required","requestState":"later"}`)
}

// The edits of a translation are sent.
func TestEdits(t *testing.T) {
	s := newFakeService(t, "", map[string]http.HandlerFunc{"POST /call-tool": fixed(200, successBody("{}"))})
	s.must("tools/call", `{"name":"a"}`, func(ex *proxy.Exchange) {
		ex.Msg.EditObject(ex.Msg.Params, []wire.Change{{Key: "arguments", Value: []byte(`{"b":1}`)}, {Key: "requestState", Value: []byte(`"s"`)}})
	})
	if !strings.Contains(s.last(), `"arguments":{"b":1},"request_state":"s",`) {
		t.Error(s.last())
	}
}

// server/discover requests the health and the tools, and the other features once.
func TestDiscover(t *testing.T) {
	s := newFakeService(t, "/v1", map[string]http.HandlerFunc{"GET /v1/health": fixed(200, healthyAnswer), "GET /v1/tools": fixed(200, toolsAnswer)})
	result := func(caps string) string {
		return `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{` + caps + `},"ttlMs":0,"cacheScope":"private",
		"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"code-graph-rag","version":"0.0.24"}}}`
	}
	checkResult(t, "tools only", s.must("server/discover", ""), result(`"tools":{},"logging":{}`))
	all := s.requests()
	for i := range all {
		all[i] = strings.TrimSuffix(strings.Replace(all[i], " application/json", "", 1), " ")
	}
	if want := []string{"GET /v1/health", "GET /v1/tools", "GET /v1/resources", "GET /v1/prompts"}; !slices.Equal(all, want) {
		t.Errorf("%q", all)
	}
	s.must("server/discover", "")
	if n := len(s.requests()); n != 6 {
		t.Error("what is known is asked for again:", s.requests())
	}
	// A new version may have more.
	s.on["GET /v1/tools"] = fixed(200, strings.Replace(toolsAnswer, "0.0.24", "0.0.25", 1))
	s.on["GET /v1/resources"] = fixed(200, successBody(`{"resources":[]}`))
	s.on["GET /v1/prompts"] = fixed(503, failureBody("SERVICE_UNAVAILABLE", ""))
	s.on["POST /v1/complete"] = fixed(400, failureBody("INVALID_ARGUMENTS", ""))
	checkResult(t, "all", s.must("server/discover", ""), strings.Replace(result(`"tools":{},"logging":{},"resources":{},"prompts":{},"completions":{}`), "0.0.24", "0.0.25", 1))
	// A service that answers everything with a page, or with an error, has no other features.
	page := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }
	s.on["GET /v1/tools"] = fixed(200, strings.Replace(toolsAnswer, "0.0.24", "0.0.26", 1))
	s.on["GET /v1/resources"], s.on["GET /v1/prompts"] = page, fixed(400, failureBody("INVALID_ARGUMENTS", ""))
	checkResult(t, "page", s.must("server/discover", ""), strings.Replace(result(`"tools":{},"logging":{}`), "0.0.24", "0.0.26", 1))
}

// The errors of services that are unavailable, do not speak the envelope, or cannot be reached.
func TestDiscoverFails(t *testing.T) {
	page := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }
	sick := `{"status":"unavailable","dependencies":{"memgraph":{"status":"unavailable","error":"Connection timeout"},"b":{"status":"connected"}}}`
	for name, c := range map[string]struct {
		health, tools http.HandlerFunc
		row           *proxy.Fault
		want          string
	}{
		"unavailable":    {fixed(503, sick), fixed(200, toolsAnswer), &proxy.Overloaded, "the service says that it is unavailable: memgraph (Connection timeout) (GET /health, HTTP 503)"},
		"enveloped":      {fixed(503, failureBody("SERVICE_UNAVAILABLE", "")), fixed(200, toolsAnswer), &proxy.Overloaded, `unavailable: because "x"`},
		"only in words":  {fixed(200, sick), fixed(200, toolsAnswer), &proxy.Overloaded, "unavailable"},
		"degraded":       {fixed(200, strings.Replace(sick, "unavailable", "degraded", 1)), fixed(200, toolsAnswer), nil, "supportedVersions"},
		"no health":      {nil, fixed(200, toolsAnswer), nil, "supportedVersions"},
		"its own health": {fixed(200, `"OK"`), fixed(200, toolsAnswer), nil, "supportedVersions"},
		"broken health":  {fixed(500, "oops"), fixed(200, toolsAnswer), &proxy.HTTPStatus, "GET /health with HTTP 500"},
		"nobody may":     {fixed(401, ""), fixed(200, toolsAnswer), &proxy.Refused, "upstreams.NAME.headers"},
		"no tools":       {fixed(200, healthyAnswer), nil, &proxy.HTTPStatus, "GET /tools with HTTP 404"},
		"a page":         {page, page, &proxy.BadAnswer, "GET /tools with HTTP 200 (text/html), and what is no JSON: <html>"},
		"refused":        {fixed(200, healthyAnswer), fixed(400, failureBody("INVALID_ARGUMENTS", "")), &proxy.BadAnswer, `refused GET /tools: because "x"`},
		"without a name": {nil, fixed(200, `{"tools":[]}`), nil, `"version":"0.0.0"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFakeService(t, "", map[string]http.HandlerFunc{"GET /health": c.health, "GET /tools": c.tools})
			out, err := s.call("server/discover", "")
			checkOutcome(t, out, err, c.row, c.want)
		})
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	host := hostOf(t, "http://"+ln.Addr().String())
	u := New(host, "", httpcall.Limits{Body: 1000, Event: 1000})
	_, err = u.Call(newExchange(t, "server/discover", ""))
	checkOutcome(t, nil, err, &proxy.Unreachable, "cannot be reached")
	if ok, _, why := u.Healthy(); ok || !strings.Contains(why, "cannot be reached") {
		t.Error(ok, why)
	}
}

// Healthy goes by the last calls, else by GET /health, which is not sent every time.
func TestHealthy(t *testing.T) {
	s := newFakeService(t, "", map[string]http.HandlerFunc{"GET /health": fixed(503, `{"status":"unavailable"}`), "POST /call-tool": fixed(200, successBody("{}"))})
	for range 3 {
		if ok, _, why := s.u.Healthy(); ok || !strings.Contains(why, "unavailable") {
			t.Error(ok, why)
		}
	}
	if n := len(s.requests()); n != 1 {
		t.Error(s.requests())
	}
	s.must("tools/call", `{"name":"a"}`)
	if ok, _, why := s.u.Healthy(); !ok || why != "" {
		t.Error(ok, why)
	}
	s.on["POST /call-tool"] = fixed(503, failureBody("SERVICE_UNAVAILABLE", ""))
	_, _ = s.call("tools/call", `{"name":"a"}`)
	if ok, _, why := s.u.Healthy(); ok || !strings.Contains(why, `because "x"`) {
		t.Error(ok, why)
	}
	s.u.health.Store(&health{at: time.Now().Add(-time.Hour), why: "old"})
	s.on["GET /health"] = fixed(200, healthyAnswer)
	if ok, _, why := s.u.Healthy(); !ok || why != "" {
		t.Error(ok, why)
	}
	silent, end := make(chan bool), make(chan bool)
	s.on["GET /health"] = func(http.ResponseWriter, *http.Request) { close(silent); <-end }
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-silent; cancel() }()
	if err := s.u.Check(ctx); err == nil || err.Name != proxy.UpstreamTimeout.Name {
		t.Error(err)
	}
	close(end)
}

// Resources, prompts and completions are those of the service.
func TestFeatures(t *testing.T) {
	s := newFakeService(t, "", map[string]http.HandlerFunc{
		"GET /resources":      fixed(200, successBody(`{"resources":[{"uri":"a:1","name":"one","mime_type":"text/plain","size":null}],"resource_templates":[{"uri_template":"a:{x}","name":"t"}]}`)),
		"GET /prompts":        fixed(200, `{"prompts":[{"name":"p","arguments":[{"name":"x","required":true}]}]}`),
		"POST /read-resource": fixed(200, successBody(`{"contents":[{"uri":"a:1","mime_type":"text/plain","text":"hi"}]}`)),
		"POST /get-prompt":    fixed(200, successBody(`{"description":null,"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}`)),
		"POST /complete":      fixed(200, successBody(`{"values":["a"],"total":1}`))})
	const rest = `,"resultType":"complete","ttlMs":0,"cacheScope":"private"}`
	for _, c := range []struct{ method, params, want, body string }{
		{"resources/list", "", `{"resources":[{"uri":"a:1","name":"one","mimeType":"text/plain"}]` + rest, ""},
		{"resources/templates/list", "", `{"resourceTemplates":[{"uriTemplate":"a:{x}","name":"t"}]` + rest, ""},
		{"prompts/list", "", `{"prompts":[{"name":"p","arguments":[{"name":"x","required":true}]}]` + rest, ""},
		{"resources/read", `{"uri":"a:1"}`, `{"contents":[{"uri":"a:1","mimeType":"text/plain","text":"hi"}]` + rest, `{"uri":"a:1","request_id":`},
		{"prompts/get", `{"name":"p","arguments":{"x":"1"}}`, `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"resultType":"complete"}`, `{"name":"p","arguments":{"x":"1"},"request_id":`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":"a"},"context":{"arguments":{}}}`, `{"completion":{"values":["a"],"total":1},"resultType":"complete"}`,
			`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":"a"},"context":{"arguments":{}},"request_id":`},
	} {
		checkResult(t, c.method, s.must(c.method, c.params), c.want)
		if !strings.Contains(s.last(), c.body) {
			t.Error(c.method, s.last())
		}
	}
	s.on["POST /read-resource"] = fixed(200, successBody(`{"a":1}`))
	checkResult(t, "plain data", s.must("resources/read", `{"uri":"a:1"}`), `{"contents":[{"uri":"a:1","mimeType":"application/json","text":"{\"a\":1}"}]`+rest)
	s.on["GET /resources"] = fixed(200, successBody(`{"resources":[]}`))
	checkResult(t, "no templates", s.must("resources/templates/list", ""), `{"resourceTemplates":[]`+rest)
	s.on["POST /read-resource"] = fixed(404, failureBody("TOOL_NOT_FOUND", ""))
	if got := s.must("resources/read", `{"uri":"a:1"}`); !strings.Contains(got, `"code":-32602`) {
		t.Error(got)
	}
	s.on["POST /read-resource"] = fixed(500, failureBody("EXECUTION_ERROR", ""))
	_, err := s.call("resources/read", `{"uri":"a:1"}`)
	checkOutcome(t, nil, err, &proxy.UpstreamFailed, `because "x" (EXECUTION_ERROR)`)
	for method, path := range map[string]string{"POST /get-prompt": "prompts/get", "POST /complete": "completion/complete"} {
		s.on[method] = fixed(200, successBody(`{"a":1}`))
		_, err := s.call(path, `{"name":"a","ref":{}}`)
		checkOutcome(t, nil, err, &proxy.BadAnswer, "cannot be used")
	}
	for _, method := range []string{"GET /resources", "GET /prompts", "POST /complete", "POST /get-prompt", "POST /read-resource"} {
		delete(s.on, method)
	}
	s.on["GET /prompts"] = fixed(404, failureBody("TOOL_NOT_FOUND", ""))
	for _, method := range []string{"resources/list", "resources/templates/list", "prompts/list", "completion/complete", "prompts/get", "resources/read", "subscriptions/listen", "x/y"} {
		_, err := s.call(method, "")
		checkOutcome(t, nil, err, &proxy.MethodNotFound, "is not offered")
	}
}

// Concurrent calls do not mix.
func TestConcurrentCalls(t *testing.T) {
	s := newFakeService(t, "", map[string]http.HandlerFunc{"POST /call-tool": fixed(200, successBody("{}"))})
	done := make(chan error, 50)
	for i := range cap(done) {
		go func() {
			out, err := s.call("tools/call", fmt.Sprintf(`{"name":"t%d"}`, i))
			if err == nil && len(out) != 1 {
				err = errors.New("no response")
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	seen := map[string]bool{}
	for _, r := range s.requests() {
		id := r[len(r)-38:]
		if seen[id] {
			t.Error("the same request_id twice:", id)
		}
		seen[id] = true
	}
}
