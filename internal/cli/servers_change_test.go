package cli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/goccy/go-json"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"dragoman/adapters/aggregator"
	"dragoman/internal/testkit"
)

// A server is added, edited, disconnected, connected and removed.
func TestServersChanged(t *testing.T) {
	s := serveAggregator(t, "")
	url := toolsServer(t, "a", "b")
	f := func(want string, args ...string) {
		t.Helper()
		if code, out, errs := s.run(args...); code != ExitOK || out != want || errs != "" {
			t.Errorf("%q: %d %q %q, want %q", args, code, out, errs, want)
		}
	}
	f("one is registered and connected, with 2 tools\n", "add", "one", "--url", url, "--description", "mine", "--header", "X-Token: Bearer ${AGG_TOKEN}", "--header", "X-Ref: env:AGG_TOKEN")
	f("one is connected already, with 2 tools\n", "connect", "one")
	f("one is changed\n", "edit", "one", "--disable", "a", "--disable", "one.b", "--description", "")
	one := s.becomes("one", "CONNECTED", 2)
	if strings.Join(one.Disabled, " ") != "a b" || one.Description != "" {
		t.Errorf("%+v", one)
	}
	f("one is changed\n", "edit", "one", "--enable", "one.b", "--disable", "c*")
	f("one is changed and connected, with 2 tools\n", "edit", "one", "--header", "x-ref:", "--header", "X-More: env:AGG_TOKEN")
	one = s.becomes("one", "CONNECTED", 2)
	headers, _ := one.Connection["headers"].(map[string]any)
	if strings.Join(one.Disabled, " ") != "a c*" || len(headers) != 2 || headers["X-Token"] == nil || headers["X-More"] != "env:AGG_TOKEN" || one.Connection["base_url"] != url {
		t.Errorf("%+v", one)
	}
	s.want(ExitFailed, "--header X-Token: is hidden, and is kept with the same address and command only; fix: write its value\n", "edit", "one", "--url", url+"/other")
	f("one is disconnected; `dragoman servers connect one` connects it again\n", "disconnect", "one")
	f("one is changed\n", "edit", "one", "--url", url, "--header", "X-Token:") // and stays disconnected
	f("one is connected, with 2 tools\n", "connect", "one")
	f(one.ID+" is disconnected; `dragoman servers connect "+one.ID+"` connects it again\n", "disconnect", one.ID, "--force")
	f("one is being connected; `dragoman servers show one` shows how it goes on\n", "connect", "one", "--wait", "0s")
	s.becomes("one", "CONNECTED", 2)
	f("the lists of one are read again; `dragoman servers tools one` shows its tools\n", "refresh", "one")
	f("one is removed\n", "remove", "one", "--yes")
	f("two is registered; `dragoman servers connect two` connects it\n", "add", "two", "--sse", "--url", "http://127.0.0.1:9/sse", "--no-connect")
	var two aggregator.Server
	if err := json.Unmarshal([]byte(s.want(ExitOK, "", "edit", "two", "--sse=false", "--health-url", "http://127.0.0.1:9/health", "--json")), &two); err != nil || two.Transport != "HTTP" || two.Connection["base_url"] != "http://127.0.0.1:9/sse" || two.HealthURL == "" {
		t.Errorf("%v %+v", err, two)
	}
	if err := json.Unmarshal([]byte(s.want(ExitOK, "", "add", "three", "--url", url, "--json")), &two); err != nil || two.Name != "three" || two.ToolCount != 2 {
		t.Errorf("%v %+v", err, two)
	}
	if _, _, out, _ := runLine(t, s.environ, nil, "__complete", "servers", "remove", ""); out != "three\tCONNECTED, 2 tools\ntwo\tDISCONNECTED, no tools\n:4\n" {
		t.Errorf("completed %q", out)
	}
	if log := s.logs.String(); strings.Contains(log, "5ecret") || strings.Contains(log, "drg_") {
		t.Error("the log has a secret")
	}
}

// A command that may be registered is.
func TestServersCommand(t *testing.T) {
	self := testkit.Executable(t)
	s := serveAggregator(t, "commands = ["+quoted(self)+"]\n")
	s.want(ExitFailed, "COMMAND: \"bash\" may not be registered; fix: name the program in aggregator.commands", "add", "sh", "--no-connect", "--", "bash", "-c", "id")
	s.want(ExitOK, "one is registered;", "add", "one", "--no-connect", "--env", "LEVEL=env:AGG_TOKEN", "--", self, "demo", "--era", "with blank")
	out := s.want(ExitOK, "", "show", "one")
	if !strings.Contains(out, "command     "+self+" demo --era \"with blank\"\n") || !strings.Contains(out, "env         LEVEL=env:AGG_TOKEN\n") {
		t.Errorf("shown\n%s", out)
	}
	if _, _, errs := s.run("edit", "one", "--", self, "demo", "--x=https://a.example/?q=5ecret"); errs != "starts   "+self+" demo --x=https://a.example/?(hidden)\n" {
		t.Errorf("what is started: %q", errs)
	}
	s.want(ExitFailed, "ARG 1: holds a secret, the value of --token: ", "edit", "one", "--", self, "demo", "--token=drg_operator")
	s.want(ExitOK, "one is changed", "edit", "one", "--", self, "demo")
	if out := s.want(ExitOK, "", "show", "one"); !strings.Contains(out, self+" demo\n") || !strings.Contains(out, "LEVEL=env:AGG_TOKEN\n") {
		t.Errorf("shown\n%s", out)
	}
	s.want(ExitOK, "two is registered;", "add", "two", "--no-connect", "--url", "grpcs://127.0.0.1:9", "--grpc-method", "a.B/*")
	s.want(ExitOK, "two is changed", "edit", "two", "--header", "X-Ref: env:AGG_TOKEN")
	if out := s.want(ExitOK, "", "show", "two"); !strings.Contains(out, "grpcs://127.0.0.1:9\ngrpc-method  a.B/*\n") || !strings.Contains(out, "X-Ref: env:AGG_TOKEN") {
		t.Errorf("shown\n%s", out)
	}
	s.want(ExitFailed, "--grpc-method: entry 1", "edit", "two", "--grpc-method", "a b")
	s.want(ExitUsage, "--sse only concerns", "edit", "two", "--sse")
	s.want(ExitUsage, "--grpc-method only concerns", "edit", "two", "--url", "http://127.0.0.1:9/mcp", "--grpc-method", "a")
	s.want(ExitOK, "two is changed", "edit", "two", "--url", "http://127.0.0.1:9/mcp")
	s.want(ExitUsage, "--header and --sse only concern a server with a --url", "edit", "one", "--header", "A: b")
	s.want(ExitOK, "one is changed", "edit", "one", "--url", "http://127.0.0.1:9/mcp")
	s.want(ExitUsage, "--env only concerns a server with a COMMAND", "edit", "one", "--env", "A=b")
}

func quoted(text string) string { return `"` + text + `"` }

// Each mistake is said with its flag and its fix, a line each; the exit code tells usage from refusals.
func TestServersRefused(t *testing.T) {
	s := serveAggregator(t, "[upstreams.own]\nurl = \"http://127.0.0.1:9/mcp\"\n")
	s.register("one", toolsServer(t, "create_issue"), true)
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(release); srv.Close() })
	silent := srv.URL + "/mcp"
	s.becomes("one", "CONNECTED", 1)
	for _, test := range []struct {
		code int
		want string
		args []string
	}{
		{ExitFailed, "dragoman: servers: Server already exists: one\n", []string{"add", "one", "--url", "http://127.0.0.1:9/"}},
		{ExitFailed, "dragoman: servers: NAME: must match ^[a-z][a-z0-9_-]*$\n", []string{"add", "One", "--url", "http://x/"}},
		{ExitFailed, "dragoman: servers: there are 2 mistakes:\n  NAME: must match ^[a-z][a-z0-9_-]*$\n  --health-url: is no http or https URL\n", []string{"add", "One", "--url", "http://x/", "--health-url", "x"}},
		{ExitFailed, "dragoman: servers: there are 2 mistakes:\n  --header A: refers to env:HOME, which registrations may not; fix: name it in aggregator.secrets", []string{"add", "two", "--url", "http://x/", "--header", "A: env:HOME", "--header", "B: ${HOME}"}},
		{ExitFailed, "--header A: has no reference to a secret, and would be stored as it is; fix: write env:NAME, ", []string{"add", "two", "--url", "http://x/", "--header", "A: drg_operator"}},
		{ExitFailed, "--url: is no http or https URL; fix: write one such as", []string{"add", "two", "--url", "unix:/x"}},
		{ExitFailed, "dragoman: servers: two is registered, but not connected (ERROR): ", []string{"add", "two", "--url", "http://" + testkit.HeldAddress(t) + "/mcp"}},
		{ExitFailed, "dragoman: servers: two is not connected (ERROR): ", []string{"connect", "two"}},
		{ExitFailed, "dragoman: servers: two is ERROR: its lists are read again when it answers; `dragoman servers show two` says why it does not\n", []string{"refresh", "two"}},
		{ExitFailed, "The server own is in the configuration file, and is changed there\n", []string{"connect", "own"}},
		{ExitFailed, "The server own is in the configuration file", []string{"disconnect", "own"}},
		{ExitFailed, "The server own is in the configuration file", []string{"remove", "own", "--yes"}},
		{ExitFailed, "The server own is in the configuration file", []string{"edit", "own", "--description", "x"}},
		{ExitFailed, "Server not found: none", []string{"remove", "none", "--yes"}},
		{ExitFailed, "Server not found: none", []string{"refresh", "none"}},
		{ExitFailed, "Server not found: none", []string{"edit", "none", "--description", "x"}},
		{ExitUsage, "one has no tool \"creat_issue\"; did you mean \"create_issue\"?\n", []string{"edit", "one", "--disable", "creat_issue"}},
		{ExitUsage, "nothing is to be changed; fix: ", []string{"edit", "one"}},
		{ExitUsage, "a --url or a COMMAND is missing", []string{"add", "two"}},
		{ExitUsage, "both --url and a COMMAND are given", []string{"add", "two", "--url", "http://x", "--", "npx"}},
		{ExitUsage, "the COMMAND after -- is missing", []string{"add", "two", "--"}},
		{ExitUsage, "fix: write the URL after --url", []string{"add", "two", "http://me:drg_operator@x"}},
		{ExitUsage, "unexpected argument \"npx\"; fix: write `dragoman servers add NAME --url URL` or `dragoman servers add NAME -- COMMAND`", []string{"add", "two", "npx"}},
		{ExitUsage, "flags of the command to start come after --, as in `dragoman servers add NAME -- npx -y PACKAGE`", []string{"add", "two", "npx", "-x", "pkg"}},
		{ExitFailed, "dragoman: servers: slow is registered, but not connected (CONNECTING): it has not answered yet; `dragoman servers show slow`", []string{"add", "slow", "--url", silent, "--wait", "200ms"}},
		{ExitUsage, "the NAME of a server is missing", []string{"add", "--", "npx"}},
		{ExitUsage, "--env only concerns", []string{"add", "two", "--url", "http://x", "--env", "A=env:AGG_A"}},
		{ExitUsage, "--env: the value is not NAME=VALUE", []string{"add", "two", "--env", "drg_operator", "--", "npx"}},
		{ExitUsage, "--header is not NAME: VALUE", []string{"add", "two", "--url", "http://x", "--header", "drg_operator"}},
		{ExitUsage, "fix: write --yes", []string{"remove", "one"}},
	} {
		s.want(test.code, test.want, test.args...)
	}
	s.environ[1] = "DRAGOMAN_AGGREGATOR_KEY=" + viewerKey
	for _, args := range [][]string{{"add", "x", "--url", "http://x"}, {"edit", "one", "--description", "x"}, {"remove", "one", "--yes"}, {"connect", "two"}, {"disconnect", "one"}, {"refresh", "one"}} {
		s.want(ExitFailed, "this needs the role operator of aggregator.keys\n", args...)
	}
}

// A disconnect with --force cuts the calls that run.
func TestServersDisconnectForced(t *testing.T) {
	s := serveAggregator(t, "")
	server := mcp.NewServer(&mcp.Implementation{Name: "slow", Version: "1"}, nil)
	began, end := make(chan struct{}), make(chan struct{})
	mcp.AddTool(server, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		close(began)
		select {
		case <-end:
		case <-ctx.Done():
		}
		return &mcp.CallToolResult{}, nil, nil
	})
	s.want(ExitOK, "with 1 tool\n", "add", "slow", "--url", servedBy(t, server))
	defer close(end)
	status := make(chan int, 1)
	go func() {
		resp, err := http.Post(s.base+"/servers/slow/call-tool", "application/json", strings.NewReader(`{"tool":"wait","arguments":{}}`))
		if err != nil {
			status <- 0
			return
		}
		status <- resp.StatusCode
		_ = resp.Body.Close()
	}()
	testkit.Receive(t, "the call", began)
	s.want(ExitOK, "slow is disconnected", "disconnect", "slow", "--force")
	if got := testkit.Receive(t, "the answer", status); got != http.StatusServiceUnavailable {
		t.Errorf("the call that ran has status %d", got)
	}
}

// A package needs a version, and the version is shown.
func TestServersPackage(t *testing.T) {
	s := serveAggregator(t, "commands = [\"npx\", \"uvx\"]\n")
	s.want(ExitFailed, "\"@scope/server\" has no fixed version: it could be another program at each start; fix: write `npx -y @scope/server@1.2.3`", "add", "one", "--", "npx", "-y", "@scope/server")
	_, out, errs := s.run("add", "one", "--no-connect", "--", "npx", "-y", "@scope/server@1.2.3", "/a b")
	if !strings.HasPrefix(out, "one is registered") || errs != "starts   npx -y @scope/server@1.2.3 \"/a b\"\npackage  @scope/server, version 1.2.3\n" {
		t.Errorf("%q %q", out, errs)
	}
	s.want(ExitFailed, "fix: write `uvx server==1.2.3`", "edit", "one", "--", "uvx", "server")
}
