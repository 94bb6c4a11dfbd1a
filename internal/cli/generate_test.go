package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// generateLine runs `dragoman generate` and returns what it prints.
func generateLine(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr testkit.LockedBuffer
	code = Execute(t.Context(), append([]string{"generate"}, args...), []string{"PATH=" + os.Getenv("PATH")}, app.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, Assembled())
	return code, stdout.String(), stderr.String()
}

// wantGenerated runs it, and expects an exit code and a part of what it prints.
func wantGenerated(t *testing.T, want int, part string, args ...string) (out string) {
	t.Helper()
	code, out, errs := generateLine(t, args...)
	if code != want || !strings.Contains(out+errs, part) {
		t.Errorf("%q: code %d, stdout %q, stderr %q; want %d and %q", args, code, out, errs, want, part)
	}
	return out + errs
}

func exists(t *testing.T, path ...string) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join(path...))
	return err == nil
}

// Tools are those of a running Dragoman, its servers one by one or as one, or of an MCP server.
func TestGenerate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	one, two := toolsServer(t, "mow_lawn"), toolsServer(t, "cut_hedge", "sing")
	s := serveAggregator(t, fmt.Sprintf("[upstreams.one]\nurl = %q\n[upstreams.two]\nurl = %q\n", one, two))
	testkit.Eventually(t, "both servers are listed", func() bool {
		_, out, _ := generateLine(t, s.base, "--out", dir, "--target", "bash")
		return strings.Contains(out, "3 tools of 2 services")
	})
	wantGenerated(t, ExitOK, "nothing has changed", s.base+"/mcp", "--out", dir, "--target", "bash")
	script, err := os.ReadFile(filepath.Join(dir, "bash/two/sing.sh"))
	if err != nil || !exists(t, dir, "bash/one/mow_lawn.sh") || !strings.Contains(string(script), "mcp_url='"+s.base+"/servers/two'") {
		t.Errorf("%s, %v", script, err)
	}
	wantGenerated(t, ExitOK, "3 tools of 1 service", s.base, "--merged", "--out", dir, "--target", "bash")
	if !exists(t, dir, "bash/dragoman/one_mow_lawn.sh") || exists(t, dir, "bash/one") {
		t.Error("the tools of all servers are not those of one service")
	}
	wantGenerated(t, ExitOK, "created: typescript/servers/garden/sing.ts", s.base+"/servers/two", "--name", "garden", "--out", dir, "-t", "typescript,python", "--token-env", "KEY", "--service-url", "https://example.com/two")
	service, err := os.ReadFile(filepath.Join(dir, "typescript/servers/garden/service.ts"))
	if err != nil || !strings.Contains(string(service), `url: "https://example.com/two"`) || !strings.Contains(string(service), `tokenVariable: "KEY"`) || !strings.Contains(string(service), `urlVariable: "MCP_URL_GARDEN"`) {
		t.Errorf("%s, %v", service, err)
	}
	// What was generated before by other targets stays.
	if !exists(t, dir, "bash/dragoman/one_mow_lawn.sh") {
		t.Error("another target was removed")
	}
	wantGenerated(t, ExitOK, "1 tool of 1 service", one, "--out", dir, "-t", "cli") // it is no REST endpoint
	if !exists(t, dir, "cli/sdk/main.go") {
		t.Error("the server has another name than it gives itself")
	}
	config := testkit.WriteFile(t, "c.toml", fmt.Sprintf("listen = \"127.0.0.1:8181\"\n[upstreams.one]\nurl = %q\n[upstreams.two]\nurl = %q\n[upstreams.down]\nurl = \"http://127.0.0.1:1/mcp\"\n", one, two))
	out := wantGenerated(t, ExitFailed, "1 service of 3 could not be asked; what was generated for them is as it was", "--config", config, "--out", dir, "-t", "skills")
	if !exists(t, dir, "skills/one/SKILL.md") || !exists(t, dir, "skills/two/scripts/sing.sh") || exists(t, dir, "skills/down") || !strings.Contains(out, "down: ") || !strings.Contains(out, "3 tools of 2 services") {
		t.Errorf("%s", out)
	}
	script, err = os.ReadFile(filepath.Join(dir, "skills/two/scripts/sing.sh"))
	if err != nil || !strings.Contains(string(script), "mcp_url='http://127.0.0.1:8181/servers/two'") {
		t.Errorf("%s, %v", script, err)
	}
}

// A change of a server's tools is found by --check and followed by --watch, and files of tools that are gone go.
func TestGenerateFollows(t *testing.T) {
	var tools atomic.Value
	tools.Store(`{"name":"a","input_schema":{"type":"object"}},{"name":"b","input_schema":{"type":"object"}}`)
	var down atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || down.Load() {
			w.WriteHeader(map[bool]int{true: 503, false: 404}[down.Load()])
			return
		}
		_, _ = fmt.Fprintf(w, `{"service":"x","version":"1.0.0","tools":[%s]}`, tools.Load())
	}))
	defer srv.Close()
	file := testkit.WriteFile(t, "services.yaml", fmt.Sprintf("services:\n- {name: one, url: %q}\n- {name: off, url: 'http://127.0.0.1:1', enabled: false}\n", srv.URL))
	dir := filepath.Join(t.TempDir(), "out")
	args := []string{"--services", file, "--out", dir, "-t", "bash"}
	check := append([]string{"--check"}, args...)
	wantGenerated(t, ExitFailed, "is missing: bash/one/a.sh\n", check...)
	if exists(t, dir) {
		t.Error("--check has written")
	}
	wantGenerated(t, ExitOK, "2 tools of 1 service in "+dir+": 3 created, 0 changed, 0 removed", args...)
	wantGenerated(t, ExitOK, "nothing has changed", check...)
	tools.Store(`{"name":"a","input_schema":{"type":"object"},"description":"new"}`)
	out := wantGenerated(t, ExitFailed, "is not up to date; fix: run the same without --check", check...)
	if !strings.Contains(out, "is stale: bash/one/a.sh") || !strings.Contains(out, "has no tool any more: bash/one/b.sh") {
		t.Errorf("%s", out)
	}
	wantGenerated(t, ExitOK, "0 created, 1 changed, 1 removed", args...)
	down.Store(true)
	wantGenerated(t, ExitFailed, "one: /tools answers 503", args...)
	if !exists(t, dir, "bash/one/a.sh") {
		t.Error("the files of a service that has failed are gone")
	}
	down.Store(false)

	var stdout, stderr testkit.LockedBuffer
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- Execute(ctx, append([]string{"generate", "--watch", "--every", "100ms"}, args...), nil, app.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, Assembled())
	}()
	tools.Store(`{"name":"c","input_schema":{"type":"object"}}`)
	testkit.Eventually(t, "the change is followed", func() bool { return exists(t, dir, "bash/one/c.sh") && !exists(t, dir, "bash/one/a.sh") })
	down.Store(true)
	testkit.Eventually(t, "the failure is told", func() bool { return strings.Contains(stderr.String(), "answers 503") })
	down.Store(false)
	tools.Store(`{"name":"d","input_schema":{"type":"object"}}`)
	testkit.Eventually(t, "the next change is followed", func() bool { return exists(t, dir, "bash/one/d.sh") })
	stop()
	if code := testkit.Receive(t, "the end of --watch", ended); code != ExitOK || strings.Count(stderr.String(), "answers 503") != 1 {
		t.Errorf("%d, %s", code, stderr.String())
	}
}

// What a Dragoman has remembered is generated without its servers.
func TestGenerateFromCatalogue(t *testing.T) {
	srv := toolsServer(t, "mow_lawn")
	file := testkit.WriteFile(t, "c.toml", fmt.Sprintf("listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\ncatalogue.path = %q\n[upstreams.one]\nurl = %q\n[upstreams.two]\nurl = \"http://127.0.0.1:1/mcp\"\n", filepath.Join(t.TempDir(), "c.db"), srv))
	dir := filepath.Join(t.TempDir(), "out")
	wantGenerated(t, ExitFailed, "the catalogue remembers no tools; fix: ", "--config", file, "--catalogue", "--out", dir)
	var logs testkit.LockedBuffer
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- Execute(ctx, []string{"serve", "--config", file}, nil, app.Streams{Out: &logs, Err: &logs}, Assembled())
	}()
	testkit.Eventually(t, "the tools are remembered", func() bool {
		code, _, _ := generateLine(t, "--config", file, "--catalogue", "--out", dir, "-t", "bash")
		return code == ExitOK
	})
	stop()
	testkit.Receive(t, "the end of serve", ended)
	if !exists(t, dir, "bash/one/mow_lawn.sh") || exists(t, dir, "bash/two") {
		t.Error("not what is remembered")
	}
	wantGenerated(t, ExitFailed, "catalogue of this configuration is in memory", "--catalogue", "--out", dir, "--config", testkit.WriteFile(t, "m.toml", "catalogue.path = \"memory\"\nupstreams.x.url = \"http://127.0.0.1:1\"\n"))
}

func TestGenerateTemplates(t *testing.T) {
	templates, dir := t.TempDir(), filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(filepath.Join(templates, "wrapper.md.j2"), []byte("# {{ tool_name }} {{ service_url }}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	python := testkit.Python(t, "jinja2==3.1.6")
	wantGenerated(t, ExitOK, "created: wrapper/garden/sing.md", toolsServer(t, "sing"), "--name", "garden", "--out", dir, "--template", templates, "--python", python)
	if got, err := os.ReadFile(filepath.Join(dir, "wrapper/garden/sing.md")); err != nil || string(got) != "# sing http://127.0.0.1:8080\n" {
		t.Errorf("%s, %v", got, err)
	}
	if exists(t, dir, "bash") {
		t.Error("targets were generated that nobody asked for")
	}
}

func TestGenerateUsage(t *testing.T) {
	file := testkit.WriteFile(t, "services.yaml", "services:\n- {name: one, url: 'http://h'}\n")
	two := testkit.WriteFile(t, "c.toml", "upstreams.a.url = \"http://127.0.0.1:1\"\nupstreams.b.url = \"http://127.0.0.1:1\"\n")
	for want, args := range map[string][]string{
		`--target: unknown target "cobol"; fix: choose of bash`: {"http://h", "-t", "cobol"},
		"--check and --watch exclude each other":                {"http://h", "--check", "--watch"},
		"--timeout or --every is too short":                     {"http://h", "--every", "1ms"},
		`--name: "../x" is no name of a service`:                {"http://h", "--name", "../x"},
		`--token-env: "a b" is no name`:                         {"http://h", "--token-env", "a b"},
		"--service-url: ":                                       {"http://h", "--service-url", "x"},
		"--template: ":                                          {"http://h", "--template", filepath.Join(t.TempDir(), "none")},
		"--services and a server are given":                     {"http://h", "--services", file},
		"--merged is of the URL of a running dragoman; fix: ":   {"--merged", "--", "true"},
		"write name, url and token_env into":                    {"--services", file, "--name", "x"},
		"--name is of one server, and 2 servers are configured": {"--config", two, "--name", "x"},
		"a URL or a COMMAND is missing":                         {},
	} {
		if out := wantGenerated(t, ExitUsage, want, args...); !strings.Contains(out, "fix: ") {
			t.Errorf("%q: %s", args, out)
		}
	}
	out := wantGenerated(t, ExitFailed, "could not be asked", "http://127.0.0.1:1/mcp", "--out", filepath.Join(t.TempDir(), "x"), "--timeout", "5s")
	if !strings.Contains(out, "127.0.0.1:1") {
		t.Errorf("%s", out)
	}
}
