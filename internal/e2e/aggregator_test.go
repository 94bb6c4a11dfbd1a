package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"dragoman/adapters/aggregator"
	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
	"dragoman/policies"
)

// The keys of the API.
const (
	operatorKey = "drg_operator-operator-operator-operator-operat"
	viewerKey   = "drg_viewer-viewer-viewer-viewer-viewer-viewer1"
)

// aggregated is a running Dragoman at which servers are registered.
type aggregated struct {
	t           *testing.T
	base, admin string
	logs        *testkit.LockedBuffer
	stop        func()
}

// aggregatorToml returns a configuration in which servers may be registered on the loopback.
func aggregatorToml(t *testing.T, more string) string {
	t.Helper()
	return fmt.Sprintf("listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\nlog.format = \"json\"\ndrain_timeout = \"2s\"\ncatalogue.path = %q\n[aggregator]\nnetworks = [\"127.0.0.1\"]\nsecrets = [\"env:AGG_*\"]\n"+
		"keys.op = { hashes = [%q], role = \"operator\" }\nkeys.view = { hashes = [%q] }\n%s", filepath.Join(t.TempDir(), "catalogue.db"), policies.HashKey(operatorKey), policies.HashKey(viewerKey), more)
}

var listening = regexp.MustCompile(`"listen":"(http://[^"]+)".*"admin":"(http://[^"]+)"`)

// startAggregator serves a configuration file until stop, or the end of the test.
func startAggregator(t *testing.T, file string, environ ...string) *aggregated {
	t.Helper()
	cfg, err := config.LoadConfig(config.LoadOptions{File: file, Environ: environ, For: config.OnServe})
	if err != nil {
		t.Fatal(err)
	}
	a := &aggregated{t: t, logs: &testkit.LockedBuffer{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- app.RunServe(ctx, cfg, app.Streams{Out: io.Discard, Err: a.logs}) }()
	var once bool
	a.stop = func() {
		if once {
			return
		}
		once = true
		cancel()
		if err := testkit.Receive(t, "the end of serve", done); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(a.stop)
	testkit.Eventually(t, "it listens", func() bool {
		m := listening.FindStringSubmatch(a.logs.String())
		if m != nil {
			a.base, a.admin = m[1], m[2]
		}
		return m != nil
	})
	return a
}

// ask sends a request to the API with a key, and decodes the answer.
func (a *aggregated) ask(key, verb, path, body string, to any) *response {
	a.t.Helper()
	return a.send(a.admin+aggregator.Path+path, key, verb, body, to)
}

func (a *aggregated) send(url, key, verb, body string, to any, headers ...string) *response {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), verb, url, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	if to != nil {
		if err := json.Unmarshal(raw, to); err != nil {
			a.t.Fatalf("%s %s: %d %s: %v", verb, url, res.StatusCode, raw, err)
		}
	}
	return &response{status: res.StatusCode, header: res.Header, body: string(raw)}
}

// want sends a request as an operator and expects a status.
func (a *aggregated) want(status int, verb, path, body string, to any) *response {
	a.t.Helper()
	res := a.ask(operatorKey, verb, path, body, to)
	if res.status != status {
		a.t.Fatalf("%s %s: %d %s, want %d", verb, path, res.status, res.body, status)
	}
	return res
}

// call calls a tool as a modern client, and returns the answer.
func (a *aggregated) call(path, tool string) *response {
	a.t.Helper()
	return a.send(a.base+path, "", "POST", modernCall("1", tool, ""), nil, modernHeaders("tools/call", tool)...)
}

// becomes waits until a server has a status.
func (a *aggregated) becomes(id, status string) aggregator.Server {
	a.t.Helper()
	var s aggregator.Server
	testkit.Eventually(a.t, "the server is "+status, func() bool {
		a.ask(viewerKey, "GET", "/servers/"+id, "", &s)
		return s.Status == status
	})
	return s
}

// toolsServer is a server of the official SDK with the given tools, which answer with their names.
func toolsServer(t *testing.T, tools ...string) (url string) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	for _, name := range tools {
		mcp.AddTool(server, &mcp.Tool{Name: name, Description: "The tool " + name + "."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "called " + name}}}, nil, nil
		})
	}
	return served(t, server)
}

// served serves a server of the official SDK, and ends its sessions with the test.
func served(t *testing.T, server *mcp.Server) (url string) {
	t.Helper()
	url = newTestServer(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)) + "/mcp"
	t.Cleanup(func() {
		for session := range server.Sessions() {
			_ = session.Close()
		}
	})
	return url
}

func registration(name, url string, connect bool) string {
	return fmt.Sprintf(`{"name":%q,"description":"d","transport_type":"HTTP","connection_config":{"base_url":%q},"auto_connect":%t}`, name, url, connect)
}

// A server is registered, connected, used, disconnected, connected again and removed, and outlives a restart meanwhile (BR-001, BR-002, BR-007, BR-008).
func TestRegisteredServer(t *testing.T) {
	file := testkit.WriteFile(t, "c.toml", aggregatorToml(t, ""))
	a := startAggregator(t, file)
	var s aggregator.Server
	res := a.want(201, "POST", "/servers", registration("one", toolsServer(t, "greet", "api.v2"), false), &s)
	if !strings.Contains(res.body, `"last_health_check":null`) || !strings.Contains(res.body, `"connected_at":null`) {
		t.Errorf("what has not been yet is null: %s", res.body)
	}
	if s.Status != "DISCONNECTED" || s.Name != "one" || s.Registered == nil || s.ToolCount != 0 || s.Transport != "HTTP" || res.header.Get("Location") != aggregator.Path+"/servers/"+s.ID {
		t.Errorf("registered %s, at %s", res.body, res.header.Get("Location"))
	}
	if res := a.call("/servers/one/mcp", "greet"); !strings.Contains(res.body, "disconnected until") {
		t.Errorf("a call of a server that is not connected: %d %s", res.status, res.body)
	}
	var started struct{ Status, Message string }
	if a.want(200, "POST", "/servers/"+s.ID+"/connect", "", &started); started.Status != "CONNECTING" || started.Message != "Connection initiated" {
		t.Errorf("connecting: %+v", started)
	}
	a.becomes(s.ID, "CONNECTED")
	a.want(409, "POST", "/servers/"+s.ID+"/connect", "", nil)
	if res := a.call("/mcp", "greet"); !strings.Contains(res.body, "called greet") {
		t.Errorf("%d %s", res.status, res.body)
	}
	a.want(201, "POST", "/servers", registration("two", toolsServer(t, "greet"), true), nil)
	a.becomes("two", "CONNECTED")
	for tool, want := range map[string]string{"one.greet": "called greet", "two.greet": "called greet", "one.api.v2": "called api.v2"} {
		if res := a.call("/mcp", tool); !strings.Contains(res.body, want) {
			t.Errorf("%s: %d %s", tool, res.status, res.body)
		}
	}
	var tools []aggregator.Tool
	testkit.Eventually(t, "the tools are listed", func() bool {
		a.want(200, "GET", "/servers/one/tools", "", &tools)
		return len(tools) == 2
	})
	if tools[0].Name != "one.api.v2" || tools[0].Original != "api.v2" || tools[1].Description != "The tool greet." || !bytes.Contains(tools[0].InputSchema, []byte("object")) {
		t.Errorf("tools %+v", tools)
	}
	var again struct{ Status, Message string }
	if a.want(200, "POST", "/servers/one/refresh", "", &again); again.Status != "CONNECTED" || again.Message != "Discovery initiated" {
		t.Errorf("refreshing: %+v", again)
	}
	a.stop()
	a = startAggregator(t, file)
	if s := a.becomes("one", "CONNECTED"); s.ToolCount != 2 {
		t.Errorf("after a restart: %+v", s)
	}
	var stopped struct {
		Status  string
		Pending int `json:"pending_requests"`
	}
	if a.want(200, "POST", "/servers/one/disconnect", "", &stopped); stopped.Status != "DISCONNECTED" || stopped.Pending != 0 {
		t.Errorf("disconnecting: %+v", stopped)
	}
	if s := a.becomes("one", "DISCONNECTED"); s.ToolCount != 2 {
		t.Errorf("its tools are gone: %+v", s)
	}
	a.want(409, "POST", "/servers/one/refresh", "", nil)
	if res := a.call("/mcp", "one.greet"); !strings.Contains(res.body, `the server \"one\" is disconnected until`) {
		t.Errorf("a call of a disconnected server: %d %s", res.status, res.body)
	}
	if res := a.send(a.base+"/call-tool", "", "POST", `{"tool":"one.greet","arguments":{}}`, nil, "Content-Type", "application/json"); res.status != 503 || !strings.Contains(res.body, "one") {
		t.Errorf("over REST: %d %s", res.status, res.body)
	}
	if res := a.send(a.base+"/tools", "", "GET", "", nil); strings.Contains(res.body, "one.") || !strings.Contains(res.body, "two.greet") {
		t.Errorf("listed %s", res.body)
	}
	a.want(200, "POST", "/servers/one/connect", "", nil)
	a.becomes("one", "CONNECTED")
	if res := a.call("/mcp", "one.greet"); !strings.Contains(res.body, "called greet") {
		t.Errorf("after it was connected again: %d %s", res.status, res.body)
	}
	a.want(204, "DELETE", "/servers/one", "", nil)
	a.want(404, "GET", "/servers/one", "", nil)
	a.want(404, "DELETE", "/servers/one", "", nil)
	var state aggregator.State
	if a.want(200, "GET", "/state", "", &state); state.Servers != 1 || state.Connected != 1 || state.Tools != 1 {
		t.Errorf("state %+v", state)
	}
}

// Callers do what their role allows, from this host (attacks on the API).
func TestAggregatorCallers(t *testing.T) {
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", aggregatorToml(t, "")))
	url := a.admin + aggregator.Path
	body := registration("one", "http://127.0.0.1:9/mcp", false)
	for name, res := range map[string]*response{
		"401 no key":            a.send(url+"/servers", "", "GET", "", nil),
		"401 a wrong key":       a.send(url+"/servers", operatorKey+"x", "POST", body, nil),
		"403 another origin":    a.send(url+"/servers", operatorKey, "POST", body, nil, "Origin", "https://evil.example"),
		"403 a viewer who adds": a.send(url+"/servers", viewerKey, "POST", body, nil),
		"403 changes":           a.send(url+"/servers/x", viewerKey, "PATCH", "{}", nil),
		"403 removes":           a.send(url+"/servers/x", viewerKey, "DELETE", "", nil),
		"403 connects":          a.send(url+"/servers/x/connect", viewerKey, "POST", "", nil),
		"403 refreshes":         a.send(url+"/servers/x/refresh", viewerKey, "POST", "", nil),
		"200 the description":   a.send(url+"/openapi.json", viewerKey, "GET", "", nil),
		"403 disconnects":       a.send(url+"/servers/x/disconnect", viewerKey, "POST", "", nil),
		"200 a viewer":          a.send(url+"/servers", viewerKey, "GET", "", nil),
		"200 sees the state":    a.send(url+"/state", viewerKey, "GET", "", nil),
		"200 and all tools":     a.send(url+"/tools", viewerKey, "GET", "", nil),
		"404 no path":           a.send(url+"/none", operatorKey, "GET", "", nil),
		"405 no method":         a.send(url+"/servers", operatorKey, "PUT", "", nil),
		"200 health for all":    a.send(a.admin+"/healthz", "", "GET", "", nil),
	} {
		if want, _, _ := strings.Cut(name, " "); fmt.Sprint(res.status) != want {
			t.Errorf("%s: %d %s", name, res.status, res.body)
		}
	}
	if res := a.send(url+"/servers", viewerKey, "GET", "", nil); res.body != "[]" {
		t.Errorf("there is %s", res.body)
	}
	for _, secret := range []string{operatorKey, viewerKey} {
		if strings.Contains(a.logs.String(), secret) {
			t.Error("the log has a key")
		}
	}
	off := startAggregator(t, testkit.WriteFile(t, "c.toml", "listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\nlog.format = \"json\"\n[upstreams.a]\nurl = \"http://127.0.0.1:9/mcp\"\n"))
	if res := off.send(off.admin+aggregator.Path+"/servers", operatorKey, "GET", "", nil); res.status != 404 || !strings.Contains(res.body, "aggregator.keys") {
		t.Errorf("without keys: %d %s", res.status, res.body)
	}
}

// A viewer may ask for everything and change nothing, whatever the API's own description lists. Nobody without a key, or on a page of another
// origin, may do either.
func TestEveryOperationIsGuarded(t *testing.T) {
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", aggregatorToml(t, "[upstreams.own]\nurl = \"http://127.0.0.1:9/mcp\"\n")))
	var described struct {
		Paths map[string]map[string]json.RawMessage
	}
	a.want(200, "GET", "/openapi.json", "", &described)
	changes, reads := 0, 0
	for path, methods := range described.Paths {
		for method := range methods {
			verb := strings.ToUpper(method)
			if method == "parameters" || verb == "GET" && path == "/events" { // which does not end; TestEventsOfServers asks for it
				continue
			}
			url := a.admin + aggregator.Path + strings.NewReplacer("{id}", "own", "{category}", "gaming").Replace(path)
			if path == "/search" {
				url += "?q=x"
			}
			for name, res := range map[string]*response{
				"401 without a key":  a.send(url, "", verb, "{}", nil),
				"403 another origin": a.send(url, operatorKey, verb, "{}", nil, "Origin", "https://evil.example"),
			} {
				if want, _, _ := strings.Cut(name, " "); fmt.Sprint(res.status) != want {
					t.Errorf("%s %s, %s: %d %s", verb, path, name, res.status, res.body)
				}
			}
			res := a.send(url, viewerKey, verb, "{}", nil)
			if verb == "GET" {
				reads++
				if res.status != 200 {
					t.Errorf("a viewer, GET %s: %d %s", path, res.status, res.body)
				}
				continue
			}
			changes++
			if res.status != 403 || !strings.Contains(res.body, "operator") {
				t.Errorf("a viewer, %s %s: %d %s", verb, path, res.status, res.body)
			}
		}
	}
	if changes < 8 || reads < 6 {
		t.Errorf("%d changes and %d reads were tried", changes, reads)
	}
}

// The examples of seed 004 (API Contracts), as they are written there, and answers with all that is in theirs.
func TestExamplesOfTheSeed(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1") // which is not there, so that nobody is asked for the address
	t.Setenv("NO_PROXY", "")
	toml := strings.Replace(aggregatorToml(t, ""), `"env:AGG_*"`, `"env:TOKEN"`, 1)
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", toml), "TOKEN=secret")
	has := func(raw string, want ...string) {
		t.Helper()
		var all map[string]any
		if err := json.Unmarshal([]byte(raw), &all); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		for _, key := range want {
			if _, ok := all[key]; !ok {
				t.Errorf("%s has no %s", raw, key)
			}
		}
	}
	var s aggregator.Server
	res := a.want(201, "POST", "/servers", `{
  "name": "github-mcp",
  "description": "GitHub MCP Server",
  "transport_type": "SSE",
  "connection_config": {
    "url": "https://github-mcp.example.com/sse",
    "headers": {"Authorization": "Bearer ${TOKEN}"}
  },
  "health_check_url": "https://github-mcp.example.com/health",
  "auto_connect": true
}`, &s)
	has(res.body, "id", "name", "status", "transport_type", "tool_count", "registered_at")
	if s.Name != "github-mcp" || s.Status != "CONNECTING" || s.Transport != "SSE" || s.ToolCount != 0 || s.Registered == nil {
		t.Errorf("registered %s", res.body)
	}
	var all []json.RawMessage
	a.want(200, "GET", "/servers?status=ERROR&include_tools=true", "", nil)
	a.want(200, "GET", "/servers", "", &all)
	if len(all) != 1 {
		t.Fatalf("%d servers", len(all))
	}
	has(string(all[0]), "id", "name", "status", "tool_count", "last_health_check")
	has(a.want(200, "GET", "/servers/"+s.ID, "", nil).body, "id", "name", "description", "transport_type", "status", "health_check_url", "last_health_check", "tool_count", "registered_at", "connected_at")
	if res := a.want(200, "POST", "/servers/"+s.ID+"/disconnect", `{
  "force": false
}`, nil); res.body != `{"status":"DISCONNECTED","pending_requests":0}` {
		t.Errorf("disconnected: %s", res.body)
	}
	if res := a.want(200, "POST", "/servers/"+s.ID+"/connect", "", nil); res.body != `{"status":"CONNECTING","message":"Connection initiated"}` {
		t.Errorf("connected: %s", res.body)
	}
	has(a.want(200, "GET", "/state", "", nil).body, "total_servers", "connected_servers", "disconnected_servers", "error_servers", "total_tools", "classified_tools", "unclassified_tools", "last_sync")
	if res := a.want(200, "GET", "/servers/"+s.ID+"/tools", "", nil); res.body != "[]" {
		t.Errorf("tools %s", res.body)
	}
	if res := a.want(204, "DELETE", "/servers/"+s.ID, "", nil); res.body != "" {
		t.Errorf("removed: %s", res.body)
	}
	a.want(404, "GET", "/servers/"+s.ID, "", nil)
	a.want(201, "POST", "/servers", registration("a", toolsServer(t, "create_issue"), true), &s)
	a.becomes("a", "CONNECTED")
	var tools []json.RawMessage
	testkit.Eventually(t, "the tool is listed", func() bool { a.want(200, "GET", "/servers/a/tools", "", &tools); return len(tools) == 1 })
	has(string(tools[0]), "id", "name", "original_name", "description", "skill_ids", "is_classified")
}

// Wrong registrations are refused with all mistakes, and taken names (BR-001, EC-004, EC-008).
func TestWrongRegistrations(t *testing.T) {
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", aggregatorToml(t, "[upstreams.own]\nurl = \"http://127.0.0.1:9/mcp\"\n")))
	a.want(201, "POST", "/servers", registration("one", "http://127.0.0.1:9/mcp", false), nil)
	for body, want := range map[string]string{
		registration("one", "http://127.0.0.1:9/mcp", false):      `409 {"detail":"Server already exists: one"}`,
		registration("own", "http://127.0.0.1:9/mcp", false):      `409 {"detail":"Server already exists: own"}`,
		registration("One", "http://127.0.0.1:9/mcp", false):      `422 "loc":["body","name"]`,
		registration(strings.Repeat("a", 256), "http://x", false): `422 "loc":["body","name"]`,
		registration("two", "", false):                            `422 "loc":["body","connection_config","base_url"]`,
		`{"name":"two"}`:                                          `422 "loc":["body","transport_type"]`,
		`{"name":7,"x":1}`:                                        `422 "loc":["body","name"],"msg":"has the wrong type"`,
		`{"x":1}`:                                                 `422 "loc":["body","x"],"msg":"is unknown`,
		`[]`:                                                      `422 "loc":["body"],"msg":"must be a JSON object"`,
		``:                                                        `422 "loc":["body"]`,
		`{"name":"two","transport_type":"SSE","connection_config":{}}`:                                                                            `422 "loc":["body","connection_config","url"]`,
		`{"name":"two","transport_type":"STDIO","connection_config":{"command":"bash","args":["-c","id"]}}`:                                       `422 "loc":["body","connection_config","command"],"msg":"\"bash\" may not be registered`,
		`{"name":"two","transport_type":"SSE","connection_config":{"url":"http://127.0.0.1/","headers":{"A":"${HOME}"}}}`:                         `422 "loc":["body","connection_config","headers","A"],"msg":"refers to env:HOME`,
		`{"name":"two","transport_type":"SSE","connection_config":{"url":"http://127.0.0.1/"},"health_check_url":"file:///x"}`:                    `422 "loc":["body","health_check_url"]`,
		`{"name":"two","transport_type":"SSE","connection_config":{"url":"http://127.0.0.1/"},"description":"` + strings.Repeat("é", 1001) + `"}`: `422 "loc":["body","description"]`,
	} {
		res := a.ask(operatorKey, "POST", "/servers", body, nil)
		status, part, _ := strings.Cut(want, " ")
		if fmt.Sprint(res.status) != status || !strings.Contains(res.body, part) {
			t.Errorf("%.100s: %d %s, want %s", body, res.status, res.body, want)
		}
	}
	for _, request := range []struct{ verb, path, body, want string }{
		{"PATCH", "/servers/one", `{"name":"two"}`, "409 cannot be renamed"}, {"PATCH", "/servers/one", `{"transport_type":"SSE"}`, "422 connection_config"},
		{"PATCH", "/servers/one", `{"connection_config":{"url":"http://x"}}`, "422 base_url"}, {"PATCH", "/servers/own", `{}`, "409 configuration file"},
		{"DELETE", "/servers/own", "", "409 configuration file"}, {"POST", "/servers/own/disconnect", "", "409 configuration file"},
		{"POST", "/servers/one/disconnect", `{"force":1}`, "422 force"}, {"POST", "/servers/none/connect", "", "404 none"}, {"PATCH", "/servers/none", "{}", "404 none"},
		{"GET", "/servers?status=UP", "", "422 status"}, {"GET", "/servers?include_tools=maybe", "", "422 include_tools"}, {"GET", "/servers?limit=0", "", "422 limit"}, {"GET", "/tools?offset=-1", "", "422 offset"},
	} {
		res := a.ask(operatorKey, request.verb, request.path, request.body, nil)
		if status, part, _ := strings.Cut(request.want, " "); fmt.Sprint(res.status) != status || !strings.Contains(res.body, part) {
			t.Errorf("%s %s %s: %d %s, want %s", request.verb, request.path, request.body, res.status, res.body, request.want)
		}
	}
	var all []aggregator.Server
	if a.want(200, "GET", "/servers", "", &all); len(all) != 2 || all[0].Name != "one" || all[0].Source != aggregator.Registered || all[1].Source != aggregator.Configuration {
		t.Errorf("there are %+v", all)
	}
}

// A change counts at once, keeps what it does not name, and shows no secret.
func TestUpdatedServer(t *testing.T) {
	file := testkit.WriteFile(t, "c.toml", aggregatorToml(t, ""))
	a := startAggregator(t, file, "AGG_TOKEN=5ecret-of-env")
	var seen atomic.Value
	seen.Store("")
	behind := toolsServer(t, "a", "b")
	guarded := newTestServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Header.Get("Authorization"))
		http.Redirect(w, r, behind, http.StatusTemporaryRedirect)
	}))
	a.want(201, "POST", "/servers", registration("one", guarded, true), nil)
	var s aggregator.Server
	a.want(200, "PATCH", "/servers/one", `{"connection_config":{"base_url":"`+guarded+`","headers":{"Authorization":"Bearer ${AGG_TOKEN}","X-Ref":"env:AGG_TOKEN"}}}`, &s)
	headers, _ := s.Connection["headers"].(map[string]any)
	if s.Description != "d" || headers["Authorization"] == nil || strings.Contains(fmt.Sprint(s.Connection), "5ecret") || headers["X-Ref"] != "env:AGG_TOKEN" {
		t.Errorf("%+v", s)
	}
	testkit.Eventually(t, "the header is sent", func() bool { return seen.Load() == "Bearer 5ecret-of-env" })
	if s := a.becomes("one", "ERROR"); strings.Contains(fmt.Sprint(s), "5ecret") {
		t.Errorf("%+v", s)
	}
	a.want(200, "PATCH", "/servers/one", `{"description":"new","connection_config":{"base_url":"`+behind+`"},"disabled_tools":["b"]}`, &s)
	if s = a.becomes("one", "CONNECTED"); s.Description != "new" || len(s.Disabled) != 1 {
		t.Errorf("%+v", s)
	}
	if res := a.call("/mcp", "b"); !strings.Contains(res.body, "not found") {
		t.Errorf("a disabled tool: %s", res.body)
	}
	var tools []aggregator.Tool
	testkit.Eventually(t, "the tools are listed", func() bool {
		a.want(200, "GET", "/servers/one/tools", "", &tools)
		return len(tools) == 2
	})
	if !tools[0].Enabled || tools[1].Enabled {
		t.Errorf("%+v", tools)
	}
	if strings.Contains(a.logs.String(), "5ecret") {
		t.Error("the log has a secret")
	}
}

// A disconnect waits for what runs, or cuts it, which is answered as an error of the server (BR-007).
func TestDisconnectOfABusyServer(t *testing.T) {
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", aggregatorToml(t, "")))
	for _, force := range []bool{false, true} {
		began, finish := make(chan struct{}), make(chan struct{})
		server := mcp.NewServer(&mcp.Implementation{Name: "slow", Version: "1"}, nil)
		mcp.AddTool(server, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			close(began)
			select {
			case <-finish:
			case <-ctx.Done():
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
		})
		url := served(t, server)
		name := fmt.Sprintf("f%t", force)
		a.want(201, "POST", "/servers", registration(name, url, true), nil)
		a.becomes(name, "CONNECTED")
		answer := make(chan *response, 1)
		go func() {
			answer <- a.send(a.base+"/servers/"+name+"/call-tool", "", "POST", `{"tool":"wait","arguments":{}}`, nil, "Content-Type", "application/json")
		}()
		testkit.Receive(t, "the call", began)
		ended := make(chan *response, 1)
		go func() {
			ended <- a.ask(operatorKey, "POST", "/servers/"+name+"/disconnect", fmt.Sprintf(`{"force":%t}`, force), nil)
		}()
		if !force {
			a.becomes(name, "DISCONNECTED")
			select {
			case res := <-ended:
				t.Errorf("disconnected while a call runs: %+v", res)
			default:
			}
			close(finish)
		}
		res := testkit.Receive(t, "the answer", answer)
		if !force && (res.status != 200 || !strings.Contains(res.body, "done")) || force && res.status != 503 {
			t.Errorf("forced %t: %d %s", force, res.status, res.body)
		}
		if res := testkit.Receive(t, "the disconnect", ended); res.status != 200 {
			t.Errorf("forced %t: %d %s", force, res.status, res.body)
		}
		if force {
			close(finish)
		}
	}
}

// The configuration file has the last word on a name; the registered server is kept, and comes back.
func TestShadowedServer(t *testing.T) {
	file := testkit.WriteFile(t, "c.toml", aggregatorToml(t, ""))
	a := startAggregator(t, file)
	a.want(201, "POST", "/servers", registration("one", toolsServer(t, "registered"), true), nil)
	a.becomes("one", "CONNECTED")
	bare := testkit.ReadText(t, file)
	testkit.PutFile(t, file, bare+"[upstreams.one]\nurl = \""+toolsServer(t, "of_file")+"\"\n")
	testkit.Eventually(t, "the file counts", func() bool { return strings.Contains(a.call("/mcp", "of_file").body, "called") })
	var all []aggregator.Server
	a.want(200, "GET", "/servers", "", &all)
	if len(all) != 2 || all[0].Source == all[1].Source {
		t.Fatalf("%+v", all)
	}
	for _, s := range all {
		if s.Source == aggregator.Registered && (s.Status != "DISCONNECTED" || !strings.Contains(s.Error, "configuration")) {
			t.Errorf("%+v", s)
		}
	}
	testkit.PutFile(t, file, bare)
	testkit.Eventually(t, "the registered one counts", func() bool { return strings.Contains(a.call("/mcp", "registered").body, "called") })
}

// Registered servers are reached at public addresses, and at those of networks that the configuration allows.
func TestRegisteredAddresses(t *testing.T) {
	toml := strings.Replace(aggregatorToml(t, ""), `networks = ["127.0.0.1"]`, "", 1)
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", toml))
	url := toolsServer(t, "a")
	port := url[strings.LastIndex(url, ":")+1:]
	for i, host := range []string{"127.0.0.1", "localhost", "2130706433", "0x7f.1", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "127.1",
		"017700000001", "0x7f000001", "127.0.0.1.", "localhost.", "[::]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "[fe80::1]", "[::ffff:0:127.0.0.1]"} {
		name := fmt.Sprintf("s%d", i)
		res := a.ask(operatorKey, "POST", "/servers", registration(name, "http://"+host+":"+port, true), nil)
		if res.status == 422 {
			continue // it is no URL
		}
		if s := a.becomes(name, "ERROR"); s.ToolCount > 0 || s.LastError == "" {
			t.Errorf("%s: %+v", host, s)
		}
		if res := a.call("/servers/"+name+"/mcp", "a"); strings.Contains(res.body, "called") {
			t.Errorf("%s is reached", host)
		}
	}
	var s aggregator.Server
	if a.want(200, "GET", "/servers/s0", "", &s); !strings.Contains(s.LastError, "aggregator.networks") {
		t.Errorf("the error does not say what to do: %q", s.LastError)
	}
}

// A registered server at an allowed address cannot lead to another one: by a redirect, of its health check neither, nor by the endpoint of
// HTTP+SSE.
func TestRegisteredAddressesThatLeadOn(t *testing.T) {
	var reached atomic.Int64
	private := newTestServer(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	ln, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skipf("there is no second address: %v", err)
	}
	var asked atomic.Int64
	good := mcp.NewServer(&mcp.Implementation{Name: "good", Version: "1"}, nil)
	speaks := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return good }, nil)
	t.Cleanup(func() {
		for session := range good.Sessions() {
			_ = session.Close()
		}
	})
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path == "/mcp" {
			speaks.ServeHTTP(w, r)
			return
		}
		var status int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &status); err == nil {
			http.Redirect(w, r, private+"/internal", status)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: endpoint\ndata: "+private+"/internal\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}), ReadHeaderTimeout: testkit.Patient}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close(); <-served })
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", strings.Replace(aggregatorToml(t, ""), `networks = ["127.0.0.1"]`, `networks = ["127.0.0.2"]`, 1)))
	at := "http://" + ln.Addr().String()
	for i, status := range []int{301, 302, 303, 307, 308} {
		name := fmt.Sprintf("r%d", i)
		a.want(201, "POST", "/servers", registration(name, fmt.Sprintf("%s/%d", at, status), true), nil)
		if s := a.becomes(name, "ERROR"); !strings.Contains(s.LastError, "redirect") {
			t.Errorf("%d: %+v", status, s)
		}
	}
	a.want(201, "POST", "/servers", `{"name":"sse","transport_type":"SSE","connection_config":{"url":"`+at+`/sse"},"auto_connect":true}`, nil)
	if s := a.becomes("sse", "ERROR"); s.LastError == "" {
		t.Errorf("%+v", s)
	}
	var got aggregator.Tested
	if a.want(200, "POST", "/test", `{"transport_type":"HTTP","connection_config":{"base_url":"`+at+`/mcp"},"health_check_url":"`+at+`/302"}`, &got); got.OK || got.Revision == "" || !strings.Contains(got.Error, "302") {
		t.Errorf("%+v", got)
	}
	if asked.Load() == 0 || reached.Load() != 0 {
		t.Errorf("%d requests, %d to the address that is not allowed", asked.Load(), reached.Load())
	}
}

// Secrets of a registration are encrypted in the catalogue, also after the key was changed; without the key the server is left out.
func TestSealedRegistrations(t *testing.T) {
	bare := aggregatorToml(t, "")
	keyed := func(keys string) string {
		return testkit.WriteFile(t, "c.toml", strings.Replace(bare, "[aggregator]\n", "[aggregator]\n"+keys, 1))
	}
	var seen atomic.Value
	seen.Store("")
	guarded := newTestServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen.Store(r.Header.Get("X-Token")); w.WriteHeader(500) }))
	body := `{"name":"one","transport_type":"HTTP","connection_config":{"base_url":"` + guarded + `/mcp","headers":{"X-Token":"5ecret-in-registration"}},"auto_connect":true}`
	a := startAggregator(t, keyed(""))
	if res := a.want(422, "POST", "/servers", body, nil); !strings.Contains(res.body, "aggregator.seal_key") {
		t.Errorf("without a key: %s", res.body)
	}
	a.stop()
	const first, second = "first-key-first-key-first-key-first", "second-key-second-key-second-key-se"
	for i, keys := range []string{"seal_key = \"" + first + "\"\n", "seal_key = \"" + second + "\"\nformer_seal_key = \"" + first + "\"\n", "seal_key = \"" + second + "\"\n"} {
		seen.Store("")
		a = startAggregator(t, keyed(keys))
		if i == 0 {
			a.want(201, "POST", "/servers", body, nil)
		}
		testkit.Eventually(t, "the header is sent", func() bool { return seen.Load() == "5ecret-in-registration" })
		if res := a.want(200, "GET", "/servers/one", "", nil); strings.Contains(res.body, "5ecret") || !strings.Contains(res.body, "X-Token") {
			t.Errorf("shown %s", res.body)
		}
		a.stop()
		for _, file := range []string{"catalogue.db", "catalogue.db-wal"} {
			raw, err := os.ReadFile(filepath.Join(catalogueDir(t, bare), file))
			if err == nil && bytes.Contains(raw, []byte("5ecret")) {
				t.Errorf("%s has the secret", file)
			}
		}
	}
	a = startAggregator(t, keyed(""))
	var all []aggregator.Server
	if a.want(200, "GET", "/servers", "", &all); len(all) != 1 || all[0].Status != "ERROR" || !strings.Contains(all[0].Error, "another key") || all[0].Connection != nil {
		t.Errorf("without the key there is %+v", all)
	}
	if strings.Contains(a.logs.String(), "5ecret") {
		t.Error("the log has a secret")
	}
	a.stop()
	seen.Store("")
	startAggregator(t, keyed("seal_key = \""+second+"\"\n"))
	testkit.Eventually(t, "the header is sent again, with the key", func() bool { return seen.Load() == "5ecret-in-registration" })
}

// A connection that the API shows can be sent back with a change: hidden values stay, but go to no other address or command.
func TestHiddenValuesStay(t *testing.T) {
	toml := strings.Replace(aggregatorToml(t, ""), "[aggregator]\n", "[aggregator]\nseal_key = \"0123456789 0123456789 0123456789\"\n", 1)
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", toml))
	var seen atomic.Value
	seen.Store("")
	var health atomic.Bool
	behind := newTestServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			health.Store(seen.Load() == "5ecretnewkey=5ecret" && r.URL.RawQuery == "key=5ecret")
			return
		}
		seen.Store(r.Header.Get("X-Token") + r.Header.Get("X-New") + r.URL.RawQuery)
		w.WriteHeader(500)
	}))
	body := `{"name":"one","transport_type":"HTTP","connection_config":{"base_url":"` + behind + `/mcp?key=5ecret","headers":{"X-Token":"5ecret"}},"auto_connect":true,"health_check_url":"` + behind + `/health?key=5ecret"}`
	a.want(201, "POST", "/servers", body, nil)
	var s struct {
		Connection json.RawMessage `json:"connection_config"`
		Health     string          `json:"health_check_url"`
	}
	if a.want(200, "GET", "/servers/one", "", &s); strings.Contains(string(s.Connection), "5ecret") {
		t.Fatalf("shown %s", s.Connection)
	}
	changed := strings.Replace(string(s.Connection), `"X-Token"`, `"X-New":"new","X-Token"`, 1)
	a.want(200, "PATCH", "/servers/one", `{"connection_config":`+changed+`,"health_check_url":"`+s.Health+`"}`, nil)
	testkit.Eventually(t, "all is sent", func() bool { return seen.Load() == "5ecretnewkey=5ecret" && health.Load() })
	elsewhere := strings.Replace(changed, "/mcp", "/other", 1)
	for _, connection := range []string{elsewhere, strings.Replace(changed, "?(hidden)", "", 1), strings.Replace(changed, `"X-New":"new"`, `"X-Other":"(set, hidden)"`, 1)} {
		if res := a.want(422, "PATCH", "/servers/one", `{"connection_config":`+connection+`}`, nil); !strings.Contains(res.body, `"msg":"is hidden, and is kept with the same`) {
			t.Errorf("%s: %s", connection, res.body)
		}
	}
	a.want(422, "PATCH", "/servers/one", `{"transport_type":"STDIO","connection_config":{"command":"npx","env":{"X-Token":"(set, hidden)"}}}`, nil)
}

// catalogueDir returns the directory of the catalogue of a configuration.
func catalogueDir(t *testing.T, toml string) string {
	t.Helper()
	m := regexp.MustCompile(`catalogue.path = "([^"]+)"`).FindStringSubmatch(toml)
	if m == nil {
		t.Fatal("no catalogue")
	}
	return filepath.Dir(m[1])
}

// A server may have the longest name of BR-001: it is used as any other, and the names of its tools are shortened.
func TestServerWithALongName(t *testing.T) {
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", aggregatorToml(t, "")))
	name := "n" + strings.Repeat("-a", 127)
	if len(name) != 255 {
		t.Fatal(len(name))
	}
	a.want(422, "POST", "/servers", registration(name+"a", toolsServer(t, "greet"), true), nil)
	a.want(201, "POST", "/servers", registration(name, toolsServer(t, "greet", "bye"), true), nil)
	a.want(201, "POST", "/servers", registration("two", toolsServer(t, "greet"), true), nil)
	a.becomes("two", "CONNECTED")
	if s := a.becomes(name, "CONNECTED"); s.Name != name {
		t.Errorf("%+v", s)
	}
	var tools []aggregator.Tool
	testkit.Eventually(t, "the tools are listed", func() bool {
		a.want(200, "GET", "/servers/"+name+"/tools", "", &tools)
		return len(tools) == 2
	})
	for _, tool := range tools {
		if len(tool.Name) > 64 || tool.Server != name {
			t.Errorf("%+v", tool)
		}
		if res := a.call("/mcp", tool.Name); !strings.Contains(res.body, "called "+tool.Original) {
			t.Errorf("%s: %s", tool.Name, res.body)
		}
	}
	if res := a.call("/servers/"+name+"/mcp", "greet"); !strings.Contains(res.body, "called greet") {
		t.Errorf("alone: %s", res.body)
	}
	if metrics := a.send(a.admin+"/metrics", "", "GET", "", nil); metrics.status != 200 || !strings.Contains(metrics.body, `server="`+name+`"`) {
		t.Errorf("metrics: %d", metrics.status)
	}
	a.want(200, "PATCH", "/servers/"+name, `{"disabled_tools":["bye"]}`, nil)
	a.want(204, "DELETE", "/servers/"+name, "", nil)
}

// Lists come in parts, and say of tools what people do not see of them.
func TestListsOfTools(t *testing.T) {
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", aggregatorToml(t, "")))
	a.want(201, "POST", "/servers", registration("one", toolsServer(t, "a", "b", "c\u200b"), true), nil)
	a.want(201, "POST", "/servers", registration("two", toolsServer(t, "a"), true), nil)
	a.becomes("one", "CONNECTED")
	a.becomes("two", "CONNECTED")
	var tools []aggregator.Tool
	testkit.Eventually(t, "the tools are listed", func() bool {
		a.want(200, "GET", "/tools", "", &tools)
		return len(tools) == 4
	})
	for i, s := range tools {
		if hidden := len(s.Hidden) > 0; hidden != (i == 2) {
			t.Errorf("%s: %+v", s.Name, s.Hidden)
		}
	}
	if f := tools[2].Hidden[0]; f.Place != "name" && f.Place != "description" || !strings.Contains(f.What, "U+200B") {
		t.Errorf("%+v", f)
	}
	var names []string
	path := "/tools?limit=3"
	for path != "" {
		res := a.want(200, "GET", path, "", &tools)
		for _, s := range tools {
			names = append(names, s.Name)
		}
		if res.header.Get("X-Total-Count") != "4" {
			t.Errorf("of %s", res.header.Get("X-Total-Count"))
		}
		path = ""
		if m := regexp.MustCompile(`^<` + aggregator.Path + `(/tools\?[^>]+)>; rel="next"$`).FindStringSubmatch(res.header.Get("Link")); m != nil {
			path = m[1]
		}
	}
	if got := strings.Join(names, " "); !regexp.MustCompile(`^one\.a one\.b one\.c_+[0-9a-f]{10} two\.a$`).MatchString(got) {
		t.Errorf("in parts: %s", got)
	}
	var servers []aggregator.Server
	if a.want(200, "GET", "/servers?include_tools=true&status=CONNECTED&limit=1&offset=1", "", &servers); len(servers) != 1 || servers[0].Name != "two" || len(servers[0].Tools) != 1 {
		t.Errorf("%+v", servers)
	}
}
