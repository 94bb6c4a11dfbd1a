package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-json"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/aggregator"
	"dragoman/internal/app"
	"dragoman/internal/testkit"
	"dragoman/policies"
)

// The keys of the API.
const (
	operatorKey = "drg_operator-operator-operator-operator-operat"
	viewerKey   = "drg_viewer-viewer-viewer-viewer-viewer-viewer1"
)

// served is a running `dragoman serve` at which servers are registered.
type served struct {
	t           *testing.T
	base, admin string // a URL, and HOST:PORT
	logs        *testkit.LockedBuffer
	environ     []string
	command     string // servers, or tools
}

var listening = regexp.MustCompile(`"listen":"(http://[^"]+)".*"admin":"http://([^"]+)"`)

// serveAggregator serves until the end of the test. more are keys of [aggregator], and the tables after it.
func serveAggregator(t *testing.T, more string) *served {
	t.Helper()
	file := testkit.WriteFile(t, "c.toml", fmt.Sprintf("listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\nlog.format = \"json\"\ndrain_timeout = \"30s\"\ncatalogue.path = %q\n"+
		"[aggregator]\nnetworks = [\"127.0.0.1\"]\nsecrets = [\"env:AGG_*\"]\nkeys.op = { hashes = [%q], role = \"operator\" }\nkeys.view = { hashes = [%q] }\n%s",
		filepath.Join(t.TempDir(), "catalogue.db"), policies.HashKey(operatorKey), policies.HashKey(viewerKey), more))
	s := &served{t: t, logs: &testkit.LockedBuffer{}, command: "servers"}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		ended <- Execute(ctx, []string{"serve", "--config", file}, []string{"AGG_TOKEN=5ecret-of-env"}, app.Streams{Out: io.Discard, Err: s.logs}, Assembled())
	}()
	t.Cleanup(func() {
		cancel()
		if code := testkit.Receive(t, "the end of serve", ended); code != ExitOK {
			t.Errorf("serve: %d\n%s", code, s.logs)
		}
	})
	testkit.Eventually(t, "it listens", func() bool {
		m := listening.FindStringSubmatch(s.logs.String())
		if m != nil {
			s.base, s.admin = m[1], m[2]
		}
		return m != nil
	})
	s.environ = []string{"DRAGOMAN_ADMIN_LISTEN=" + s.admin, "DRAGOMAN_AGGREGATOR_KEY=" + operatorKey}
	return s
}

// run runs `dragoman servers` with the key of the operator, and returns what it prints.
func (s *served) run(args ...string) (code int, out, errs string) {
	s.t.Helper()
	_, code, out, errs = runLine(s.t, s.environ, nil, append([]string{s.command}, args...)...)
	if strings.Contains(out+errs, "drg_operator") || strings.Contains(out+errs, "5ecret") {
		s.t.Errorf("%q shows a secret: %s%s", args, out, errs)
	}
	return code, out, errs
}

// want runs it and expects an exit code, and a part of what it prints.
func (s *served) want(code int, part string, args ...string) (out string) {
	s.t.Helper()
	got, out, errs := s.run(args...)
	errs = regexp.MustCompile(`(?m)^(starts|package)   ?.*\n`).ReplaceAllString(errs, "") // what a COMMAND starts
	if got != code || !strings.Contains(out+errs, part) || code != ExitOK && !strings.HasPrefix(errs, "dragoman: ") {
		s.t.Errorf("%q: code %d, stdout %q, stderr %q; want %d and %q", args, got, out, errs, code, part)
	}
	return out
}

// register registers a server over the API.
func (s *served) register(name, url string, connect bool) {
	s.t.Helper()
	s.api("POST", "/servers", fmt.Sprintf(`{"name":%q,"description":"d","transport_type":"HTTP","connection_config":{"base_url":%q},"auto_connect":%t}`, name, url, connect))
}

func (s *served) api(verb, path, body string) []byte {
	s.t.Helper()
	var req fasthttp.Request
	var resp fasthttp.Response
	req.Header.SetMethod(verb)
	req.SetRequestURI(aggregator.Path + path)
	req.Header.Set("Authorization", "Bearer "+operatorKey)
	req.SetBodyString(body)
	if err := sendAdmin(s.t.Context(), s.admin, &req, &resp, maxServers); err != nil || resp.StatusCode() >= 300 {
		s.t.Fatalf("%s %s: %v %d %s", verb, path, err, resp.StatusCode(), resp.Body())
	}
	return resp.Body()
}

// becomes waits until a server has a status, and so many tools.
func (s *served) becomes(name, status string, tools int) (one aggregator.Server) {
	s.t.Helper()
	testkit.Eventually(s.t, name+" is "+status, func() bool {
		one = aggregator.Server{}
		if err := json.Unmarshal(s.api("GET", "/servers/"+name, ""), &one); err != nil {
			s.t.Fatal(err)
		}
		return one.Status == status && one.ToolCount == tools
	})
	return one
}

// toolsServer is a server of the official SDK with tools of the given names.
func toolsServer(t *testing.T, tools ...string) (url string) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	for _, name := range tools {
		mcp.AddTool(server, &mcp.Tool{Name: name, Description: "The tool \x1b[31m" + name + ".\nMore of it."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{}, nil, nil
		})
	}
	return servedBy(t, server)
}

// servedBy serves a server of the official SDK, and ends its sessions with the test.
func servedBy(t *testing.T, server *mcp.Server) (url string) {
	t.Helper()
	srv := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		for session := range server.Sessions() {
			_ = session.Close()
		}
	})
	return srv.URL + "/mcp"
}

// What there is, as tables and as JSON.
func TestServersSeen(t *testing.T) {
	s := serveAggregator(t, "[upstreams.own]\nurl = \"http://"+testkit.HeldAddress(t)+"/mcp\"\n")
	s.register("one", toolsServer(t, "a", "b"), true)
	s.register("two", "http://127.0.0.1:9/mcp?key=hidden", false)
	s.becomes("one", "CONNECTED", 2)
	s.becomes("own", "ERROR", 0)
	table := s.want(ExitOK, "", "list")
	rows := strings.Split(strings.TrimRight(table, "\n"), "\n")
	for i, want := range []string{
		`^NAME  STATUS        TOOLS  TRANSPORT  SOURCE$`,
		`^one   CONNECTED     2      HTTP       registered$`,
		`^own   ERROR         0      HTTP       configuration  .*refused`,
		`^two   DISCONNECTED  0      HTTP       registered$`,
	} {
		if len(rows) != 4 || !regexp.MustCompile(want).MatchString(rows[i]) {
			t.Errorf("no %s in\n%s", want, table)
		}
	}
	if out := s.want(ExitOK, "one", "list", "--status", "connected"); strings.Contains(out, "own") || strings.Contains(out, "two") {
		t.Errorf("not only connected ones:\n%s", out)
	}
	var all []aggregator.Server
	if err := json.Unmarshal([]byte(s.want(ExitOK, "", "list", "--json")), &all); err != nil || len(all) != 3 || all[1].Source != aggregator.Configuration {
		t.Errorf("%v %+v", err, all)
	}
	if out := s.want(ExitOK, "name         two\n", "show", "two"); !strings.Contains(out, "status       DISCONNECTED\n") || !strings.Contains(out, "url          http://127.0.0.1:9/mcp?(hidden)\n") {
		t.Errorf("shown\n%s", out)
	}
	s.want(ExitOK, `"name": "two"`, "show", all[2].ID, "--json")
	if out := s.want(ExitOK, "one.a  one     yes      The tool \\u001b[31ma.\n", "tools", "one"); strings.Contains(out, "\x1b") || strings.Contains(out, "More") {
		t.Errorf("tools\n%q", out)
	}
	s.want(ExitOK, "one.b  one", "tools")
	s.want(ExitOK, `"original_name": "b"`, "tools", "--json")
	s.want(ExitFailed, "Server not found: none\n", "show", "none")
	s.want(ExitUsage, `"../state" is no name of a server`, "show", "../state")
	s.want(ExitUsage, "the NAME of a server is missing", "show")
	s.want(ExitUsage, `unexpected argument "b"`, "tools", "a", "b")
	s.want(ExitUsage, `unexpected argument "x"`, "list", "x")
	s.want(ExitUsage, `--status: "UP" is not known; fix: write DISCONNECTED, `, "list", "--status", "UP")
	_, _, out, _ := runLine(t, s.environ, nil, "__complete", "servers", "show", "")
	if !strings.HasPrefix(out, "one\tCONNECTED, 2 tools\nown\tERROR, no tools\ntwo\tDISCONNECTED, no tools\n:4\n") {
		t.Errorf("completed %q", out)
	}
	if _, _, out, _ := runLine(t, s.environ, nil, "__complete", "servers", "show", "one", ""); out != ":4\n" {
		t.Errorf("completed after the name: %q", out)
	}
	if _, _, out, _ = runLine(t, s.environ[:1], nil, "__complete", "servers", "show", ""); out != ":4\n" {
		t.Errorf("completed without a key: %q", out)
	}
}

// More tools than one page has are all listed.
func TestServersPages(t *testing.T) {
	s := serveAggregator(t, "")
	var tools []string
	for i := range 405 {
		tools = append(tools, fmt.Sprintf("t%d", i))
	}
	s.register("one", toolsServer(t, tools...), true)
	s.becomes("one", "CONNECTED", 405)
	if out := s.want(ExitOK, "one.t404  one", "tools", "one"); strings.Count(out, "\n") != 406 {
		t.Errorf("%d lines", strings.Count(out, "\n"))
	}
}

// With --watch each change is shown until the command is interrupted: a line, or one of JSON.
func TestServersWatch(t *testing.T) {
	s := serveAggregator(t, "")
	s.register("old", "http://127.0.0.1:9/mcp", false)
	watch := func(want string, args ...string) (out *testkit.LockedBuffer, stop func()) {
		out = &testkit.LockedBuffer{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan int, 1)
		go func() {
			ended <- Execute(ctx, append([]string{"servers", "list", "--watch"}, args...), s.environ, app.Streams{In: strings.NewReader(""), Out: out, Err: io.Discard}, Runners{})
		}()
		testkit.Eventually(t, "it follows", func() bool { return strings.Contains(out.String(), "old") })
		return out, func() {
			t.Helper()
			testkit.Eventually(t, "it shows "+want, func() bool { return regexp.MustCompile(want).MatchString(out.String()) })
			cancel()
			if code := testkit.Receive(t, "its end", ended); code != ExitOK || strings.Contains(out.String(), "drg_") {
				t.Errorf("%q: code %d\n%s", args, code, out.String())
			}
		}
	}
	shown, lines := watch(`(?m)^old snapshot DISCONNECTED, no tools\n(.*\n)*one registered DISCONNECTED, no tools\n(.*\n)*one tools CONNECTED, 2 tools$`)
	_, asJSON := watch(`(?m)^\{"event":"snapshot","server":\{.*"name":"old".*\}\}\n(\{"event".*\}\}\n)*\{"event":"removed","server":\{.*"name":"old"`, "--json")
	s.register("one", toolsServer(t, "a", "b"), false)
	testkit.Eventually(t, "it shows the registration", func() bool { return strings.Contains(shown.String(), "one registered") })
	s.want(ExitOK, "one is connected", "connect", "one")
	s.want(ExitOK, "old is removed", "remove", "old", "--yes")
	lines()
	asJSON()
	s.environ[1] = "DRAGOMAN_AGGREGATOR_KEY=drg_wrong"
	s.want(ExitFailed, "fix: give another key", "list", "--watch")
}

// A connection is tested, and nothing is registered.
func TestServersTest(t *testing.T) {
	s := serveAggregator(t, "")
	url := toolsServer(t, "a", "b")
	out := s.want(ExitOK, "server       sdk 1\n", "test", url)
	if !regexp.MustCompile(`(?s)^server .*speaks       .*revision     20\d\d-\d\d-\d\d\noffers       2 tools, 0 prompts, 0 resources\ntook         \d+ ms\nhidden text  tool a: description has .*U\+001B`).MatchString(out) {
		t.Errorf("printed\n%q", out)
	}
	s.want(ExitOK, `"tool_count": 2`, "test", url, "--json")
	s.want(ExitFailed, "dragoman: servers: ", "test", "http://127.0.0.1:1/mcp")
	s.want(ExitFailed, `"ok": false`, "test", "http://127.0.0.1:1/mcp", "--json")
	s.want(ExitFailed, "COMMAND: \"bash\" may not be registered", "test", "--", "bash")
	s.want(ExitFailed, "--header A: refers to env:HOME", "test", url, "--header", "A: env:HOME")
	s.want(ExitUsage, "a URL or a COMMAND is missing", "test")
	s.want(ExitUsage, `unexpected argument "x"`, "test", url, "x")
	s.want(ExitUsage, "both --url and a COMMAND are given", "test", url, "--", "npx")
	s.want(ExitUsage, "--env only concerns", "test", url, "--env", "A=env:AGG_A")
	if out := s.want(ExitOK, "", "list", "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("there are %s", out)
	}
	s.environ[1] = "DRAGOMAN_AGGREGATOR_KEY=" + viewerKey
	s.want(ExitFailed, "this needs the role operator", "test", url)
}

// Where the key comes from, and what is said without a good one.
func TestServersKey(t *testing.T) {
	s := serveAggregator(t, "")
	file := testkit.WriteFile(t, "key", operatorKey+"\n")
	f := func(code int, part string, environ []string, args ...string) {
		t.Helper()
		_, got, out, errs := runLine(t, append([]string{s.environ[0]}, environ...), nil, append([]string{"servers", "list"}, args...)...)
		if got != code || !strings.Contains(out+errs, part) || strings.Contains(out+errs, "drg_") {
			t.Errorf("%q %q: %d %q %q, want %d and %q", environ, args, got, out, errs, code, part)
		}
	}
	f(ExitOK, "", []string{"DRAGOMAN_AGGREGATOR_KEY=" + viewerKey})
	f(ExitOK, "", []string{"DRAGOMAN_AGGREGATOR_KEY=env:MINE", "MINE=" + viewerKey})
	f(ExitOK, "", []string{"DRAGOMAN_AGGREGATOR_KEY=file:" + file})
	f(ExitOK, "", []string{"DRAGOMAN_AGGREGATOR_KEY=drg_wrong"}, "--key", viewerKey)
	f(ExitOK, "", nil, "--key", "file:"+file)
	f(ExitUsage, "set DRAGOMAN_AGGREGATOR_KEY; `dragoman key new me --role operator` makes a key", nil)
	f(ExitFailed, "DRAGOMAN_AGGREGATOR_KEY: the environment variable \"MINE\" it refers to is not set; fix: ", []string{"DRAGOMAN_AGGREGATOR_KEY=env:MINE"})
	f(ExitFailed, "--key: the file it refers to cannot be read", nil, "--key", "file:"+file+"x")
	f(ExitFailed, "--key: a key has no blanks", nil, "--key", "drg_a\r\nb: c")
	f(ExitFailed, "fix: give another key with --key or DRAGOMAN_AGGREGATOR_KEY", nil, "--key", "drg_wrong")
	f(ExitFailed, "does not answer", nil, "--key", viewerKey, "--admin", testkit.HeldAddress(t))
	f(ExitFailed, "the admin listener is off", nil, "--key", viewerKey, "--admin", "off")
	f(ExitUsage, "--timeout: 0s is out of bounds", nil, "--key", viewerKey, "--timeout", "0s")
	other := adminTalk(t, map[string]func(*fasthttp.Response){aggregator.Path + "/servers": says(200, "hello")})
	f(ExitFailed, "fix: name its admin listener with --admin", nil, "--key", viewerKey, "--admin", other)
	off := adminTalk(t, map[string]func(*fasthttp.Response){aggregator.Path + "/servers": says(404, `{"detail":"servers cannot be registered: the configuration has no aggregator.keys"}`)})
	f(ExitFailed, "[aggregator.keys.me]", nil, "--key", viewerKey, "--admin", off)
	if strings.Contains(s.logs.String(), "drg_") {
		t.Error("the log has a key")
	}
	if _, code, _, errs := runLine(t, []string{"DRAGOMAN_AGGREGATOR_KEY=" + viewerKey}, nil, "serve", "http://a"); code != ExitOK {
		t.Errorf("serve refuses the variable: %s", errs)
	}
}

// Nothing that a server or another listener says reaches the terminal as it is, nor as a line of its own.
func TestServersHostile(t *testing.T) {
	const evil = `x\u001b[2J\u202e\nforged`
	one := `{"id":"` + evil + `","name":"` + evil + `","description":"` + evil + `","source":"` + evil + `","transport_type":"` + evil + `","status":"` + evil + `","error_message":"` + evil +
		`","health_check_url":"` + evil + `","disabled_tools":["` + evil + `"],"connection_config":{"base_url":"` + evil + `","headers":{"` + evil + `":"` + evil + `"}},
		"instances":[{"instance":"` + evil + `","status":"` + evil + `","last_error":"` + evil + `"}]}`
	tool := `{"name":"` + evil + `","server":"` + evil + `","description":"` + evil + `","enabled":true}`
	const path = aggregator.Path
	admin := adminTalk(t, map[string]func(*fasthttp.Response){path + "/servers": says(200, "["+one+"]"), path + "/servers/x": says(200, one), path + "/servers/x/tools": says(200, "["+tool+"]"),
		path + "/servers/text": says(404, `{"detail":"`+evil+`"}`), path + "/servers/list": says(422, `{"detail":[{"loc":["body","`+evil+`"],"msg":"`+evil+`"}]}`)})
	for _, args := range [][]string{{"list"}, {"show", "x"}, {"tools", "x"}, {"list", "--json"}, {"show", "text"}, {"show", "list"}, {"edit", "x", "--disable", "y"}, {"connect", "x", "--wait", "1ms"}} {
		_, _, out, errs := runLine(t, nil, nil, append(append([]string{"servers"}, args...), "--key", viewerKey, "--admin", admin)...)
		if text := out + errs; strings.ContainsAny(text, "\x1b\u202e") || strings.Contains(text, "\nforged") || !strings.Contains(text, "u001b") && !strings.HasPrefix(errs, "dragoman: ") {
			t.Errorf("%q: %q", args, text)
		}
	}
	_, _, out, _ := runLine(t, []string{"DRAGOMAN_ADMIN_LISTEN=" + admin, "DRAGOMAN_AGGREGATOR_KEY=x"}, nil, "__complete", "servers", "show", "")
	if strings.ContainsAny(out, "\x1b\u202e") || strings.Count(out, "\n") != 2 {
		t.Errorf("completed %q", out)
	}
}

// Of Dragomans that share a database each is told.
func TestServersOfInstances(t *testing.T) {
	one := `{"name":"x","status":"CONNECTED","instances":[{"instance":"a","status":"CONNECTED","status_since":"2027-01-15T08:00:00Z","last_error":"old"},{"instance":"b","status":"ERROR","last_error":"refused"}]}`
	admin := adminTalk(t, map[string]func(*fasthttp.Response){aggregator.Path + "/servers/x": says(200, one)})
	_, code, out, errs := runLine(t, nil, nil, "servers", "show", "x", "--key", viewerKey, "--admin", admin)
	if code != ExitOK || !strings.Contains(out, "at a    CONNECTED since 2027-01-15T08:00:00Z\n") || !strings.Contains(out, "at b    ERROR: refused\n") {
		t.Errorf("%d %q %q", code, out, errs)
	}
}
