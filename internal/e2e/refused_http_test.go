package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// poke is an HTTP request that is refused, and the policy that the audit trail names.
type poke struct {
	verb, path, body string
	headers          []string
	policy           string
	unknown          bool // it is refused before the caller is known
	raw              string
}

// without returns headers without one of them.
func without(headers []string, name string) (out []string) {
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] != name {
			out = append(out, headers[i], headers[i+1])
		}
	}
	return out
}

// replaced returns headers with another value of one of them.
func replaced(headers []string, name, value string) []string {
	return append(without(headers, name), name, value)
}

// pokesOf are the requests that HTTP, MCP's transports and the REST endpoints refuse, at each endpoint. messages is the path to post to
// of an HTTP+SSE session, session the id of another session.
func pokesOf(messages, session string) (all []poke) {
	call, modernCallHeaders := modernCall("1", "drop", ""), modernHeaders("tools/call", "drop")
	legacy := legacyHeaders(session)
	for _, at := range []string{"", "/servers/default"} {
		for _, c := range []struct {
			body, policy string
			headers      []string
		}{
			{call, "http", replaced(modernCallHeaders, "Content-Type", "text/plain")},
			{call, "http", replaced(modernCallHeaders, "Accept", "text/html")},
			{"{", "protocol", modernCallHeaders},
			{"[]", "session", modernCallHeaders},
			{`{"jsonrpc":"2.0","id":1}`, "protocol", modernCallHeaders},
			{call, "protocol", replaced(modernCallHeaders, "Mcp-Name", "other")},
			{call, "protocol", without(modernCallHeaders, "Mcp-Method")},
			{strings.ReplaceAll(call, "2026-07-28", "2030-01-01"), "eras", replaced(modernCallHeaders, "MCP-Protocol-Version", "2030-01-01")},
			{`{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + modernMeta + `}}`, "protocol", modernHeaders("ping", "")},
			{legacyCall("1", "drop"), "session", legacyHeaders("nobody")},
			{legacyCall("1", "drop"), "session", legacyHeaders("")},
			{`[` + legacyCall("1", "drop") + `]`, "protocol", legacy},
			{stdioInit, "protocol", legacy},
			{legacyCall("1", "drop"), "protocol", append([]string{"MCP-Protocol-Version", "1999-01-01"}, legacy...)},
		} {
			if at != "" && slices.Contains(c.headers, session) { // the session is not of this path
				continue
			}
			all = append(all, poke{verb: "POST", path: at + "/mcp", body: c.body, headers: c.headers, policy: c.policy})
		}
		stream := []string{"Accept", "text/event-stream", "Mcp-Session-Id", "nobody"}
		all = append(all, poke{verb: "GET", path: at + "/mcp", headers: stream, policy: "session"},
			poke{verb: "DELETE", path: at + "/mcp", headers: stream, policy: "session"},
			poke{verb: "GET", path: at + "/mcp", headers: []string{"Accept", jsonType}, policy: "http"},
			poke{verb: "GET", path: at + "/mcp", headers: []string{"MCP-Protocol-Version", "2026-07-28"}, policy: "protocol"},
			poke{verb: "POST", path: at + "/messages?sessionId=nobody", body: call, policy: "session"},
			poke{verb: "POST", path: at + "/messages", body: call, policy: "session"},
			poke{verb: "GET", path: at + "/nothing", policy: "http"}, poke{verb: "GET", path: at + "/tools/drop/more", policy: "http"},
			poke{verb: "PUT", path: at + "/mcp", policy: "http"}, poke{verb: "PUT", path: at + "/sse", policy: "http"},
			poke{verb: "POST", path: at + "/mcp/sse", body: "{}", policy: "http"},
			poke{verb: "GET", path: at + "/call-tool", policy: "http"}, poke{verb: "GET", path: at + "/tools?offset=x", policy: "protocol"})
		for _, path := range []string{"/call-tool", "/read-resource", "/get-prompt", "/complete", "/tools/drop", "/mcp/tools/call"} {
			all = append(all, poke{verb: "POST", path: at + path, body: "{}", headers: []string{"Content-Type", "text/plain"}, policy: "http"},
				poke{verb: "POST", path: at + path, body: "{", policy: "protocol"})
		}
		large := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"drop","arguments":{"a":%q}}}`, strings.Repeat("x", 1<<10))
		for _, path := range []string{"/mcp", "/messages", "/call-tool"} {
			all = append(all, poke{verb: "POST", path: at + path, body: large, policy: "limits", unknown: true},
				poke{verb: "POST", path: at + path, headers: []string{"X-Long", strings.Repeat("x", 20<<10)}, policy: "limits", unknown: true})
		}
	}
	for _, path := range []string{"/mcp", "/sse", "/health", "/tools"} {
		verb, body, headers := "GET", "", []string(nil)
		if path == "/mcp" {
			verb, body, headers = "POST", call, modernCallHeaders
		}
		all = append(all, poke{verb: verb, path: "/servers/nobody" + path, body: body, headers: headers, policy: "router"})
	}
	return append(all, poke{verb: "POST", path: messages, body: "{", policy: "protocol"}, poke{verb: "POST", path: messages, body: "[" + stdioInit + "]", policy: "protocol"},
		poke{raw: "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nA B: c\r\n\r\n", policy: "protocol", unknown: true},
		poke{raw: "nonsense\r\n\r\n", policy: "protocol", unknown: true})
}

// send sends the request and returns its status.
func (p *poke) send(r *rig) (status int) {
	r.t.Helper()
	if p.raw == "" {
		return r.must(p.verb, p.path, p.body, p.headers...).status
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, _ = io.WriteString(c, p.raw)
	all, _ := io.ReadAll(c)
	_, _ = fmt.Sscanf(string(all), "HTTP/1.1 %d", &status)
	return status
}

func (p *poke) String() string {
	headers := fmt.Sprint(p.headers)
	return fmt.Sprintf("%s %s %.100s %.200s%q", p.verb, p.path, p.body, headers, p.raw)
}

// refused sends the request and checks that it is denied in the audit trail and counted, once.
func (p *poke) refused(r *rig, lines func(string) []auditLine, principal string) {
	t := r.t
	t.Helper()
	counted := func() float64 {
		return r.sum("dragoman_gate_refusals_total", "policy", p.policy) + r.sum("dragoman_requests_total") - r.sum("dragoman_requests_total", "outcome", "ok")
	}
	before, count := len(lines("")), counted()
	status := p.send(r)
	if status < 400 && status != http.StatusOK {
		t.Errorf("%s: %d", p, status)
	}
	testkit.Eventually(t, p.String()+": a line", func() bool { return len(lines("")) > before })
	all := lines("")
	got := all[len(all)-1]
	if p.unknown {
		principal = ""
	}
	if len(all) != before+1 || got.Decision != "denied" || got.Policy != p.policy || got.Status != "error" || got.Outcome == "" || got.Principal != principal || got.Address == "" {
		t.Errorf("%s: %d new lines, the last one %+v", p, len(all)-before, got)
	}
	path, _, _ := strings.Cut(p.path, "?")
	if got.Verb != "" && !p.unknown && (got.Verb != p.verb || got.Path != path) {
		t.Errorf("%s: recorded as %+v", p, got)
	}
	if n := counted() - count; n != 1 {
		t.Errorf("%s: counted %v times", p, n)
	}
}

// Requests that never become a request of MCP, because HTTP, a transport or the REST endpoint refuses them, are denied in the audit trail and
// counted, once, with the caller.
func TestRequestsThatAreNoneAreRecorded(t *testing.T) {
	keys, key := keysToml("ci")
	auth := "[security]\napi_keys_enabled = true\n" + keys
	u := newUpstream(t, "legacy")
	u.on("tools/list", func(c *call) { c.result(`{"tools":[{"name":"drop","inputSchema":{"type":"object"}}]}`) })
	t.Run("both eras", func(t *testing.T) {
		r, lines := auditedRig(t, "[limits]\nrequest_body = 1024\nheader = 16384\n"+auth+u.toml(""))
		r = r.as(key["ci"])
		c := r.sse("/sse")
		session := r.open("2025-11-25", "{}")
		r.must("GET", "/tools", "") // listed, so that its lines are there
		testkit.Eventually(t, "the lines of what came before", func() bool { return len(lines(`"tools/list"`)) > 0 && len(lines(`"initialize"`)) > 0 })
		for _, p := range pokesOf(c.post, session) {
			p.refused(r, lines, "ci")
		}
	})
	t.Run("modern only", func(t *testing.T) {
		r, lines := auditedRig(t, "eras = [\"modern\"]\n"+auth+u.toml(""))
		r = r.as(key["ci"])
		for _, p := range []poke{{verb: "POST", path: "/mcp", body: stdioInit, headers: legacyHeaders(""), policy: "eras"}, {verb: "GET", path: "/mcp", policy: "protocol"},
			{verb: "DELETE", path: "/mcp", policy: "protocol"}, {verb: "GET", path: "/sse", policy: "protocol"}, {verb: "POST", path: "/messages", policy: "protocol"}} {
			p.refused(r, lines, "ci")
		}
	})
	t.Run("sessions.max", func(t *testing.T) {
		u := newUpstream(t, "legacy")
		started := hanging(u, 0)
		r, lines := auditedRig(t, "[sessions]\nmax = 1\n"+auth+u.toml(""))
		r = r.as(key["ci"])
		client := newHTTPTestClient(r)
		client.open("2025-11-25", "{}")
		client.send("a", legacyCall("1", "hang"))
		testkit.Receive(t, "a call, so that its session does not give way", started)
		testkit.Eventually(t, "the line of initialize", func() bool { return len(lines(`"initialize"`)) > 0 })
		(&poke{verb: "GET", path: "/sse", policy: "limits"}).refused(r, lines, "ci")
		(&poke{verb: "GET", path: "/servers/default/sse", policy: "limits"}).refused(r, lines, "ci")
		client.send("", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	})
	t.Run("limits.streams", func(t *testing.T) {
		r, lines := auditedRig(t, "[limits]\nstreams = 1\n"+auth+u.toml(""))
		r = r.as(key["ci"])
		r.sse("/sse")
		session := r.open("2025-11-25", "{}")
		testkit.Eventually(t, "the line of initialize", func() bool { return len(lines(`"initialize"`)) > 0 })
		(&poke{verb: "GET", path: "/sse", policy: "limits"}).refused(r, lines, "ci")
		(&poke{verb: "GET", path: "/mcp", headers: []string{"Accept", "text/event-stream", "Mcp-Session-Id", session}, policy: "limits"}).refused(r, lines, "ci")
	})
	t.Run("several servers", func(t *testing.T) {
		r, lines := auditedRig(t, auth+u.toml("")+strings.ReplaceAll(u.toml(""), "upstreams.default", "upstreams.other"))
		r = r.as(key["ci"])
		for _, p := range []poke{{verb: "GET", path: "/servers/none/sse", policy: "router"}, {verb: "GET", path: "/groups/none/tools", policy: "router"},
			{verb: "POST", path: "/servers/none/mcp", body: modernCall("1", "drop", ""), headers: modernHeaders("tools/call", "drop"), policy: "router"}} {
			p.refused(r, lines, "ci")
		}
	})
}

// The admin listener's refusals are denied in the audit trail and counted, too.
func TestRefusalsOfTheAdminListenerAreRecorded(t *testing.T) {
	paths := [][2]string{{"GET", "/"}, {"GET", "/healthz"}, {"GET", "/readyz"}, {"GET", "/metrics"}, {"GET", "/config"}, {"GET", "/loglevel"}, {"PUT", "/loglevel"}, {"GET", "/debug/pprof/"}}
	r, lines := auditedRig(t, newUpstream(t, "legacy").toml(""))
	ops := r.admin()
	for _, at := range paths {
		for _, headers := range [][]string{{"Host", "evil.example"}, {"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}} {
			(&poke{verb: at[0], path: at[1], headers: headers, policy: "origin"}).refused(ops, lines, "")
		}
	}
	for _, p := range []poke{{verb: "GET", path: "/nothing", policy: "http"}, {verb: "PUT", path: "/config", policy: "http"}, {verb: "PUT", path: "/loglevel", body: "{", policy: "protocol"},
		{verb: "GET", path: "/debug/pprof/", policy: "http"}} {
		p.refused(ops, lines, "")
	}
	r, lines = auditedRig(t, "[admin]\nlisten = \"0.0.0.0:0\"\n"+newUpstream(t, "legacy").toml(""))
	ops = r.admin()
	for _, at := range [][2]string{{"GET", "/config"}, {"GET", "/loglevel"}, {"PUT", "/loglevel"}, {"GET", "/debug/pprof/"}} {
		(&poke{verb: at[0], path: at[1], policy: "origin"}).refused(ops, lines, "")
	}
}
