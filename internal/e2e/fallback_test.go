package e2e

import (
	"fmt"
	"strings"
	"testing"

	"dragoman/internal/config"
	"dragoman/internal/testkit"
	"dragoman/policies/health"
)

// fallbacks is a server that can be killed and another that takes over.
func fallbacks(t *testing.T, kind string, more ...string) (m *restartable, other *upstream, r *rig) {
	t.Helper()
	m, other = newRestartable(t, kind), newUpstream(t, "modern")
	other.on("tools/list", func(c *call) {
		c.result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"ok","inputSchema":{"type":"object"}}]}`)
	})
	other.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[],"by":"other"}`) })
	return m, other, startRig(t, m.toml("fallback = \"other\"\n"+strings.Join(more, "\n"))+strings.Replace(other.toml(""), "default", "other", 1), true)
}

// on returns the path of a server.
func on(server string, ask func(r *rig, tool string) (int, string)) func(r *rig, tool string) (int, string) {
	return func(r *rig, tool string) (int, string) {
		at := *r
		at.base += "/servers/" + server
		return ask(&at, tool)
	}
}

// While a server is in error, new requests and sessions go to its fallback. A session that was opened there stays there, and one of the
// dead server stays with it. When the server is back, new requests go to it again.
func TestFallback(t *testing.T) {
	for kind, ask := range clientKinds {
		if kind == "sse" {
			continue // its endpoint names no server; see below
		}
		for _, server := range []string{"modern", "legacy"} {
			t.Run(kind+" client, "+server+" server", func(t *testing.T) {
				m, other, r := fallbacks(t, server)
				ask := on("default", ask)
				if _, body := ask(r, "ok"); !strings.Contains(body, "content") || len(other.all("tools/call")) != 0 {
					t.Fatal(body)
				}
				m.kill()
				testkit.Eventually(t, "the fallback serves", func() bool {
					_, body := ask(r, "ok")
					return strings.Contains(body, "content") && len(other.all("tools/call")) > 0
				})
				r.becomes(health.Errored)
				if _, body := ask(r, "ok"); !strings.Contains(body, "content") {
					t.Error(body)
				}
				if !strings.Contains(r.logs.String(), `"server":"other"`) || r.sum("dragoman_fallback_requests_total") == 0 {
					t.Error("nothing shows where it went")
				}
				m.restart()
				r.becomes(health.Connected)
				other.forget()
				if _, body := ask(r, "ok"); !strings.Contains(body, "content") || len(other.all("tools/call")) != 0 {
					t.Errorf("%s, %d calls of the fallback", body, len(other.all("tools/call")))
				}
			})
		}
	}
}

// The fallback serves also for a server whose definitions need approval, and what is approved is served when that is back.
func TestFallbackOfApprovedDefinitions(t *testing.T) {
	for _, server := range []string{"modern", "legacy"} {
		t.Run(server, func(t *testing.T) {
			m, other, r := fallbacks(t, server, `definitions = "approve"`)
			ask := on("default", clientKinds["modern"])
			if _, body := ask(r, "ok"); !strings.Contains(body, "content") || len(other.all("tools/call")) != 0 {
				t.Fatal(body)
			}
			m.kill()
			testkit.Eventually(t, "the fallback serves", func() bool {
				_, body := ask(r, "ok")
				return strings.Contains(body, "content") && len(other.all("tools/call")) > 0
			})
			if _, body := ask(r, "none"); !strings.Contains(body, "Tool not found") {
				t.Error(body)
			}
			m.restart()
			r.becomes(health.Connected)
			other.forget()
			testkit.Eventually(t, "the server serves again", func() bool {
				_, body := ask(r, "ok")
				return strings.Contains(body, "content") && len(other.all("tools/call")) == 0
			})
		})
	}
}

// A legacy session stays at the server where it was opened, whatever the state of either server.
func TestFallbackSessions(t *testing.T) {
	m, other, r := fallbacks(t, "legacy")
	r.base += "/servers/default"
	before := r.open("2025-11-25", "{}")
	say := func(id int, session string) *response {
		return r.must("POST", "/mcp", legacyCall(fmt.Sprint(id), "ok"), legacyHeaders(session)...)
	}
	if res := say(1, before); !strings.Contains(res.body, "content") {
		t.Fatal(res.body)
	}
	m.kill()
	for id := 2; r.h.Targets.Named("default").Monitor.Serves(); id++ {
		_ = say(id, before)
	}
	if res := say(100, before); !strings.Contains(res.body, "upstream_down") || len(other.all("tools/call")) != 0 {
		t.Errorf("the old session: %s", res.body)
	}
	during := r.open("2025-11-25", "{}")
	if res := say(101, during); !strings.Contains(res.body, "content") || len(other.all("tools/call")) != 1 {
		t.Errorf("a new session: %s", res.body)
	}
	if n := r.sum("dragoman_fallback_sessions"); n != 1 {
		t.Errorf("%v sessions at the fallback", n)
	}
	m.restart()
	r.becomes(health.Connected)
	if res := say(102, during); !strings.Contains(res.body, "content") || len(other.all("tools/call")) != 2 {
		t.Errorf("the new session, later: %s", res.body)
	}
	if res := r.must("DELETE", "/mcp", "", "Mcp-Session-Id", during); res.status != 204 {
		t.Errorf("%d", res.status)
	}
	testkit.Eventually(t, "it is forgotten", func() bool { return r.sum("dragoman_fallback_sessions") == 0 })
}

// Unknown fallbacks and circles of fallbacks are mistakes.
func TestFallbackConfig(t *testing.T) {
	f := func(want string, pairs ...string) {
		t.Helper()
		var toml strings.Builder
		for i := 0; i < len(pairs); i += 2 {
			fmt.Fprintf(&toml, "[upstreams.%s]\nurl = \"http://127.0.0.1:1/mcp\"\nfallback = %q\n", pairs[i], pairs[i+1])
		}
		_, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "c.toml", toml.String())})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v: %v, want %q", pairs, err, want)
		}
	}
	f("", "a", "b", "b", "c", "c", "")
	f(`"x" is no upstream`, "a", "x")
	f("a -> a", "a", "a")
	f("a -> b -> a", "a", "b", "b", "a")
	f("b -> c -> b", "a", "b", "b", "c", "c", "b")
}
