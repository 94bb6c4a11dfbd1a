//go:build unix

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-json"

	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
)

// admin serves the admin listener of a rig, and returns a rig that calls it.
func (r *rig) admin() *rig {
	r.t.Helper()
	srv, err := r.h.AdminServer()
	if err != nil {
		r.t.Fatal(err)
	}
	ops := *r
	ops.base = "http://" + serve(r.t, srv, listen(r.t))
	return &ops
}

// expect gets a path and checks status and content.
func (r *rig) expect(verb, path, body string, status int, parts ...string) {
	r.t.Helper()
	res := r.must(verb, path, body)
	if res.status != status {
		r.t.Errorf("%s %s: %d %s", verb, path, res.status, res.body)
	}
	mentions(r.t, res.body, parts...)
}

// The paths of the admin listener, which the main listener does not have.
func TestAdminListener(t *testing.T) {
	u := newUpstream(t, "modern")
	toml := u.toml("headers = { Authorization = \"Bearer hidden-secret\" }")
	r := startRig(t, toml, true)
	ops := r.admin()
	ops.expect("GET", "/", "", 200, "/healthz", "/readyz", "/metrics", "/loglevel", "/config")
	if res := ops.must("GET", "/", ""); strings.Contains(res.body, "pprof") {
		t.Error("profiles are off, but listed")
	}
	ops.expect("GET", "/healthz", "", 200, `"status":"ok"`)
	ops.expect("GET", "/readyz", "", 200, "upstream default")
	for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/loglevel", "/config"} {
		if res := ops.must("HEAD", path, ""); res.status != 200 || res.body != "" {
			t.Errorf("HEAD %s: %d %s", path, res.status, res.body)
		}
		if res := ops.must("GET", path, "", "Host", "evil.example"); res.status != 403 {
			t.Errorf("GET %s for another host: %d", path, res.status)
		}
		if res := ops.must("GET", path, "", "Origin", "https://evil.example"); res.status != 403 {
			t.Errorf("GET %s of a page: %d", path, res.status)
		}
	}
	ops.expect("GET", "/metrics", "", 200, "dragoman_build_info{", `dragoman_log_level{level="debug"} 1`, `dragoman_limit{limit="sessions.max"} 10000`, `dragoman_sessions{transport="sse"} 0`)
	ops.expect("GET", "/config", "", 200, "tool_timeout = 30", "# upstreams.default.headers.Authorization (set, hidden)")
	ops.expect("GET", "/config?format=json", "", 200, `"key": "tool_timeout"`)
	if res := ops.must("GET", "/config", "", "Accept", "application/json"); !json.Valid([]byte(res.body)) || strings.Contains(res.body, "hidden-secret") {
		t.Errorf("%s", res.body)
	}
	if res := ops.must("GET", "/config", ""); strings.Contains(res.body, "hidden-secret") {
		t.Error("a secret is shown")
	}
	ops.expect("GET", "/debug/pprof/", "", 404, config.PprofKey)
	r.reload(app.ReloadApplied, "admin.pprof = true\n"+toml)
	ops.expect("GET", "/debug/pprof/", "", 200, "heap", "goroutine")
	ops.expect("GET", "/debug/pprof/goroutine?debug=1", "", 200, "goroutine profile")
	ops.expect("GET", "/debug/pprof/cmdline", "", 200)
	ops.expect("POST", "/debug/pprof/symbol", "0x1", 200)
	ops.expect("GET", "/debug/pprof/nothing", "", 404)
	for _, seconds := range []string{"301", "1e9", "NaN", "Inf"} {
		ops.expect("GET", "/debug/pprof/trace?seconds="+seconds, "", 400, "300 at most")
	}
	ops.expect("GET", "/", "", 200, "/debug/pprof/")
	ops.expect("GET", "/config", "", 200, "admin.pprof = true")
	for _, path := range []string{"/metrics", "/loglevel", "/config", "/debug/pprof/", "/debug/pprof/heap", "/readyz", "/"} {
		if res := r.must("GET", path, ""); res.status != 404 && res.status != 405 {
			t.Errorf("the main listener serves %s: %d", path, res.status)
		}
	}
}

// If other machines can reach the listener, configuration, log level and profiles are off unless allowed.
func TestAdminListenerForAll(t *testing.T) {
	const upstream = "[upstreams.default]\nurl = \"http://127.0.0.1:1/mcp\"\n"
	r := startRig(t, "admin.listen = \"0.0.0.0:0\"\nadmin.pprof = true\n"+upstream, false)
	ops := r.admin()
	mentions(t, r.logs.String(), "are refused there without admin.allow_remote")
	for _, path := range []string{"/config", "/loglevel", "/debug/pprof/", "/debug/pprof/heap"} {
		ops.expect("GET", path, "", 403, "admin.allow_remote = true")
	}
	ops.expect("PUT", "/loglevel", `{"level":"error"}`, 403, "admin.allow_remote = true")
	ops.expect("GET", "/", "", 200, "admin.allow_remote = true")
	ops.expect("GET", "/healthz", "", 200)
	ops.expect("GET", "/metrics", "", 200)
	r.reload(app.ReloadApplied, "admin.allow_remote = true\nadmin.listen = \"0.0.0.0:0\"\nadmin.pprof = true\n"+upstream)
	for _, path := range []string{"/config", "/loglevel", "/debug/pprof/"} {
		ops.expect("GET", path, "", 200)
	}
	remote := startRig(t, "admin.allow_remote = true\nadmin.listen = \"0.0.0.0:0\"\n"+upstream, false)
	remote.admin()
	mentions(t, remote.logs.String(), "admin.allow_remote is on")
}

// The log level can be changed while requests are served, for all loggers, and reverts.
func TestLogLevelAtRunTime(t *testing.T) {
	base := fallibleToml(t, "modern", "/no/such/file", "")
	r := startRig(t, base, true)
	ops := r.admin()
	logged := func() bool {
		t.Helper()
		before := strings.Count(r.logs.String(), `"outcome":"server_unknown"`)
		r.must("POST", "/servers/none/mcp", modernCall("1", "x", ""), modernHeaders("tools/call", "x")...)
		return strings.Count(r.logs.String(), `"outcome":"server_unknown"`) > before
	}
	ops.expect("GET", "/loglevel", "", 200, `"level":"debug"`, `"configured":"debug"`)
	if !logged() {
		t.Error("at debug a refusal is not logged")
	}
	ops.expect("PUT", "/loglevel", `{"level":"ERROR"}`, 200, `"level":"error"`, `"configured":"debug"`)
	if logged() {
		t.Error("at error a client's mistake is logged")
	}
	mentions(t, r.logs.String(), "the level of the log was changed by the admin listener")
	ops.expect("GET", "/metrics", "", 200, `dragoman_log_level{level="error"} 1`, `dragoman_log_level{level="debug"} 0`)
	ops.expect("PUT", "/loglevel", `{"level":"info","for":"1s"}`, 200, `"until":"`)
	testkit.Eventually(t, "it goes back", func() bool { return strings.Contains(ops.must("GET", "/loglevel", "").body, `"level":"debug"`) })
	for body, why := range map[string]string{
		`{"level":"loud"}`: "write debug, info, warn, error or critical", `{}`: "level", `{"level":"info","for":"0s"}`: "for:", `{"level":"info","for":"25h"}`: "for:",
		`{"level":"info","for":"soon"}`: "for:", `{"level":"info","until":"x"}`: "until", `{"level":"info"} x`: "behind", `[]`: "level", ``: "level",
		`{"level":"info","for":"` + strings.Repeat("x", 5000) + `"}`: "4096",
	} {
		ops.expect("PUT", "/loglevel", body, 400, why)
	}
	r.reload(app.ReloadApplied, "log.level = \"error\"\n"+base)
	ops.expect("GET", "/loglevel", "", 200, `"level":"error"`, `"configured":"error"`)
	if logged() {
		t.Error("the level of the new configuration does not hold")
	}
	r.reload(app.ReloadApplied, "log.level = \"error\"\ntool_timeout = 7\n"+base)
	ops.expect("PUT", "/loglevel", `{"level":"debug"}`, 200)
	before := strings.Count(r.logs.String(), "hanging")
	ctx, cancel := context.WithCancel(t.Context())
	go callTo(ctx, &crashClient{r: r, era: "modern"}, "1", "hang", make(chan *response, 1))
	testkit.Eventually(t, "what a child says on standard error", func() bool { return strings.Count(r.logs.String(), "hanging") > before })
	cancel()
}

// log.access says which requests have lines.
func TestAccessLogModes(t *testing.T) {
	for mode, want := range map[string]string{"off": "", "errors": "failure", "all": "failure success"} {
		u := newUpstream(t, "modern")
		u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
		r := startRig(t, "log.access = \""+mode+"\"\n"+u.toml(""), true)
		r.admin().expect("PUT", "/loglevel", `{"level":"info"}`, 200)
		r.must("POST", "/mcp", modernCall("1", "success", ""), modernHeaders("tools/call", "success")...)
		r.must("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"failure",%s}}`, modernMeta), modernHeaders("prompts/get", "failure")...)
		var got []string
		for _, name := range []string{"failure", "success"} {
			if strings.Contains(r.logs.String(), `"about":"`+name+`"`) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", mode, got, want)
		}
	}
}

// Calls over every endpoint have lines in the audit trail, also denied ones, without secrets; and the file can be rotated.
func TestAuditTrail(t *testing.T) {
	u := newUpstream(t, "legacy")
	u.on("tools/list", func(c *call) {
		c.result(`{"tools":[{"name":"write","inputSchema":{"type":"object"}},{"name":"drop","inputSchema":{"type":"object"}}]}`)
	})
	u.on("tools/call", func(c *call) { c.result(`{"content":[]}`) })
	file := filepath.Join(t.TempDir(), "audit.log")
	toml := fmt.Sprintf("[audit]\nenabled = true\nfile = %q\narguments = \"redacted\"\n", file) + u.toml("") + "[upstreams.default.access.\"*\"]\ndeny_tools = [\"drop\"]\n"
	r := startRig(t, toml, true)
	type line struct {
		SessionID                                                       *string
		ToolName, Server, Era, UpstreamEra, Decision, Policy, Status    string
		CorrelationID, ClientName, StartedAt, InvocationID, Outcome, At string
		Arguments                                                       map[string]any
	}
	lines := func(want int) (all []line) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprintf("%d lines", want), func() bool {
			text, _ := os.ReadFile(file)
			return strings.Count(string(text), "\n") >= want
		})
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "s3cret") {
			t.Errorf("a secret: %s", text)
		}
		for l := range strings.Lines(string(text)) {
			var one line
			if err := json.Unmarshal([]byte(l), &one); err != nil {
				t.Fatalf("%v: %s", err, l)
			}
			all = append(all, one)
		}
		if len(all) != want {
			t.Errorf("%d lines, want %d: %s", len(all), want, text)
		}
		return all
	}
	args := func(call string) string {
		return strings.Replace(call, `"arguments":{}`, `"arguments":{"path":"/a","password":"s3cret"}`, 1)
	}
	res := r.must("POST", "/mcp", args(modernCall("1", "write", "")), append(modernHeaders("tools/call", "write"), "X-Request-Id", "mine")...)
	if res.status != 200 {
		t.Fatal(res.body)
	}
	r.must("POST", "/mcp", args(modernCall("2", "drop", "")), modernHeaders("tools/call", "drop")...)
	session := r.open("2025-11-25", "{}")
	r.must("POST", "/mcp", args(legacyCall("3", "write")), legacyHeaders(session)...)
	r.must("POST", "/call-tool", `{"tool":"write","arguments":{"token":"s3cret"}}`, "Content-Type", jsonType)
	all := lines(4)
	first, denied, legacy, rest := all[0], all[1], all[2], all[3]
	if first.CorrelationID != "mine" || first.Era != "modern" || first.UpstreamEra != "legacy" || first.Server != "default" || first.ClientName != "c" || first.SessionID != nil ||
		first.Status != "ok" || first.Decision != "allowed" || first.Arguments["path"] != "/a" || first.Arguments["password"] != "[redacted]" {
		t.Errorf("%+v", first)
	}
	if denied.ToolName != "drop" || denied.Decision != "denied" || denied.Policy != "access" || denied.Status != "error" {
		t.Errorf("%+v", denied)
	}
	if legacy.SessionID == nil || *legacy.SessionID != session[:6] || legacy.Era != "legacy" {
		t.Errorf("%+v", legacy)
	}
	if rest.ToolName != "write" || rest.Status != "ok" || rest.ClientName != "REST client" {
		t.Errorf("%+v", rest)
	}
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	r.reload(app.ReloadUnchanged, toml)
	testkit.Eventually(t, "a new file", func() bool { _, err := os.Stat(file); return err == nil })
	r.must("POST", "/mcp", modernCall("5", "write", ""), modernHeaders("tools/call", "write")...)
	lines(1)
	r.reload(app.ReloadApplied, strings.Replace(toml, "redacted", "none", 1)) // another policy, the same file
	r.must("POST", "/mcp", args(modernCall("6", "write", "")), modernHeaders("tools/call", "write")...)
	if all := lines(2); all[1].Arguments != nil {
		t.Errorf("%+v", all[1])
	}
	r.reload(app.ReloadApplied, strings.Replace(toml, "enabled = true", "enabled = false", 1))
	r.must("POST", "/mcp", modernCall("7", "write", ""), modernHeaders("tools/call", "write")...)
	r.reload(app.ReloadRefused, strings.Replace(toml, file, file+"/x/y", 1))
	lines(2)
}
