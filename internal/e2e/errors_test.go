package e2e

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dragoman/internal/testkit"
	"dragoman/proxy"
)

// unreached lists the rows of the error table that no test of this package produces, each with the reason.
var unreached = map[string]string{
	"cancelled":          "its client has left or has cancelled: it is answered to nobody, and counted",
	"request_incomplete": "a client that stops in the middle of its request is waited for half a minute; httpd's tests cover it",
	"internal":           "a bug of Dragoman's own: nothing is known that brings it about; session.TestPump shows what is said",
	"shutting_down":      "between the end of draining and the end of the process; TestShutdownAnswers of proxy/session covers it",
}

// rows reads the error table's names from the source, so that no new row is forgotten.
func rows(t *testing.T) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "proxy/error_table.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || len(lit.Elts) < 5 {
			return true
		}
		if id, ok := lit.Type.(*ast.Ident); ok && id.Name == "Fault" {
			names[strings.Trim(lit.Elts[0].(*ast.BasicLit).Value, `"`)] = true
		}
		return true
	})
	if len(names) < 30 {
		t.Fatalf("%d rows read", len(names))
	}
	return names
}

// judge checks an answer against a row: its code, a message, and for Dragoman's own failures data.code and data.retryable.
func judge(t *testing.T, fault proxy.Fault, status int, res *response) {
	t.Helper()
	var m struct {
		Error struct {
			Code    int
			Message string
			Data    map[string]any
		}
	}
	if err := json.Unmarshal([]byte(res.body), &m); err != nil {
		t.Errorf("%s: %v: %s", fault.Name, err, res.body)
	}
	if res.status != status || m.Error.Code != fault.Code || m.Error.Message == "" {
		t.Errorf("%s: %d %s", fault.Name, res.status, res.body)
	}
	if fault.Code == proxy.CodeInternal && (m.Error.Data["code"] != fault.Name || m.Error.Data["retryable"] != fault.Retryable) {
		t.Errorf("%s: data %v", fault.Name, m.Error.Data)
	}
}

// Every row of the error table is produced here, or by a test or transcript that checks its data.code.
func TestErrorTable(t *testing.T) {
	reached := map[string]bool{}
	f := func(fault proxy.Fault, status int, res *response) {
		t.Helper()
		reached[fault.Name] = true
		judge(t, fault, status, res)
	}
	clientMistakes(t, f)
	ownFailures(t, f)
	var all strings.Builder
	for _, pattern := range []string{"internal/e2e/*_test.go", "conformance/transcripts/*.txt"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(raw)
		}
	}
	for name := range rows(t) {
		if _, excused := unreached[name]; !excused && !reached[name] && !strings.Contains(all.String(), `"code":"`+name+`"`) {
			t.Errorf("row %s is reached by no test", name)
		}
	}
	for name := range unreached {
		if !rows(t)[name] {
			t.Errorf("%s is no longer a row", name)
		}
	}
}

func clientMistakes(t *testing.T, f func(proxy.Fault, int, *response)) {
	u := newUpstream(t, "modern")
	r := startRig(t, "[limits]\nrequest_body = \"4KiB\"\n"+u.toml(""), true)
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernMeta + `}}`
	plain := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	mh := modernHeaders("tools/list", "")
	post := func(body string, h ...string) *response { return r.must("POST", "/mcp", body, h...) }
	f(proxy.Parse, 400, post(`{`, mh...))
	f(proxy.InvalidRequest, 400, post(`{}`, mh...))
	f(proxy.InvalidParams, 200, post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":1,`+modernMeta+`}}`, modernHeaders("tools/call", "a")...))
	f(proxy.InvalidEnvelope, 400, post(plain, mh...))
	f(proxy.MethodNotFound, 404, post(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{`+modernMeta+`}}`, modernHeaders("ping", "")...))
	f(proxy.HeaderMismatch, 400, post(list, modernHeaders("tools/call", "")...))
	f(proxy.BadVersion, 400, post(strings.ReplaceAll(list, "2026-07-28", "2027-01-01"), "Content-Type", jsonType, "MCP-Protocol-Version", "2027-01-01", "Mcp-Method", "tools/list"))
	f(proxy.RequestTooLarge, 413, post(strings.Repeat(" ", 5<<10)+list, mh...))
	f(proxy.BadMediaType, 415, post(list, append([]string{"Content-Type", "text/plain"}, mh[2:]...)...))
	f(proxy.NotAcceptable, 406, post(list, "Content-Type", jsonType, "Accept", "text/html"))
	f(proxy.ForbiddenOrigin, 403, post(list, append([]string{"Origin", "http://evil.example"}, mh...)...))
	f(proxy.LoopDetected, 421, post(list, append([]string{"Via", strings.Repeat("1.1 dragoman-0123456789abcdef, ", 31)}, mh...)...))
	f(proxy.SessionUnknown, 404, post(plain, legacyHeaders("nobody")...))
	f(proxy.SessionMissing, 400, post(plain, legacyHeaders("")...))
	f(proxy.ServerUnknown, 404, r.must("POST", "/servers/nosuch/mcp", list, mh...))
	f(proxy.PathUnknown, 404, r.must("POST", "/nothing", list, mh...))
	f(proxy.VerbUnknown, 405, r.must("PUT", "/mcp", list, mh...))
	f(proxy.HeadTooLarge, 431, r.must("GET", "/tools", "", "X-Large", strings.Repeat("x", 100<<10)))
	u.on("tools/call", func(c *call) {
		c.error(400, `{"code":-32021,"message":"need","data":{"requiredCapabilities":{"roots":{}}}}`)
	})
	old := newUpstream(t, "legacy")
	f(proxy.BadState, 400, startRig(t, old.toml(""), true).must("POST", "/mcp", modernCall("1", "a", `,"requestState":"v1.none"`), modernHeaders("tools/call", "a")...))
	f(proxy.MissingCapability, 400, post(modernCall("1", "a", ""), modernHeaders("tools/call", "a")...))
	started, session := hanging(u, 0), r.open("2025-11-25", "{}")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = r.do(t.Context(), "POST", "/mcp", legacyCall("1", "a"), legacyHeaders(session)...)
	}()
	c := testkit.Receive(t, "the call", started)
	f(proxy.DuplicateID, 200, post(legacyCall("1", "b"), legacyHeaders(session)...))
	c.cancel()
	<-done
}

// ownFailures are rows that no transcript produces because they need a missing server or time.
func ownFailures(t *testing.T, f func(proxy.Fault, int, *response)) {
	ask := func(r *rig) *response {
		return r.must("POST", "/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	f(proxy.Unreachable, 200, ask(startRig(t, "[upstreams.default]\nurl = \"http://"+ln.Addr().String()+"/mcp\"\n", false)))
	f(proxy.Unreachable, 200, ask(startRig(t, "[upstreams.default]\ncommand = [\"/no/such/command\"]\n", false)))

	odd := newUpstream(t, "modern")
	odd.on("server/discover", func(c *call) { c.raw(200, "text/html", "<html>what</html>") })
	odd.on("initialize", func(c *call) { c.raw(200, "text/html", "<html>what</html>") })
	f(proxy.BadAnswer, 200, ask(startRig(t, odd.toml(""), false)))
	strange := newUpstream(t, "modern")
	strange.on("server/discover", func(c *call) { c.raw(400, "application/json", "{}") })
	strange.on("initialize", func(c *call) { c.raw(400, "application/json", "{}") })
	f(proxy.EraUnknown, 200, ask(startRig(t, strange.toml(""), false)))

	slow := newUpstream(t, "modern")
	hanging(slow, 0)
	r := startRig(t, "[limits]\nrequest_time = \"1s\"\n"+slow.toml(""), true)
	res := ask(r)
	if data := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(res.body), "event: message\ndata: ")); data != res.body {
		res.body = data
	}
	f(proxy.UpstreamTimeout, 200, res)
}
