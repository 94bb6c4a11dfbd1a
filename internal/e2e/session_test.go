package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// Sessions of HTTP clients: ids, the maximum, the time to live, the end with the server's session.
func TestSessionsOverHTTP(t *testing.T) {
	u := newUpstream(t, "modern")
	r := startRig(t, "[sessions]\nmax = 2\nidle_ttl = \"1s\"\n"+u.toml(""), true)
	alive := func(id string) bool {
		return r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, legacyHeaders(id)...).status == 200
	}
	a, b := r.open("2025-11-25", "{}"), r.open("2025-11-25", "{}")
	if a == b || len(a) < 43 || strings.Trim(a, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		t.Errorf("ids %q, %q: 256 bits of visible ASCII wanted", a, b)
	}
	if !alive(a) {
		t.Error("session a was not found")
	}
	c := r.open("2025-11-25", "{}") // b is the one used longest ago
	if alive(b) || !alive(a) || !alive(c) {
		t.Errorf("after a third one: a %v, b %v, c %v", alive(a), alive(b), alive(c))
	}
	testkit.Eventually(t, "the idle sessions' end", func() bool { return r.h.Sessions().Len() == 0 })
	if alive(a) {
		t.Error("a is alive after its time")
	}
	failed := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}`, legacyHeaders("")...)
	if failed.status != 400 || r.h.Sessions().Len() != 0 {
		t.Errorf("a failed initialize: %d, %d sessions", failed.status, r.h.Sessions().Len())
	}
}

// If all sessions are busy, a new one is refused and none is ended (row too_many_sessions).
func TestTooManySessions(t *testing.T) {
	u := newUpstream(t, "modern")
	r := startRig(t, "[sessions]\nmax = 1\n"+u.toml(""), true)
	started := hanging(u, 0)
	id := r.open("2025-11-25", "{}")
	var group sync.WaitGroup
	group.Go(func() {
		_, _ = r.do(t.Context(), "POST", "/mcp", legacyCall(`"k"`, "a"), legacyHeaders(id)...)
	})
	c := testkit.Receive(t, "the call", started)
	res := r.must("POST", "/mcp", stdioInit, legacyHeaders("")...)
	if !matches(`{"jsonrpc":"2.0","id":"i","error":{"code":-32603,"message":"…sessions.max…","data":{"code":"too_many_sessions","retryable":true}}}`, res.body) {
		t.Errorf("%d %s", res.status, res.body)
	}
	dup := r.must("POST", "/mcp", legacyCall(`"k"`, "b"), legacyHeaders(id)...)
	if !matches(`{"jsonrpc":"2.0","id":"k","error":{"code":-32600,"message":"…another message…"}}`, dup.body) {
		t.Errorf("an id in use: %s", dup.body)
	}
	if res := r.must("DELETE", "/mcp", "", "Mcp-Session-Id", id); res.status != 204 {
		t.Errorf("DELETE: %d", res.status)
	}
	testkit.Receive(t, "the cancellation of what was in flight", c.cancelled)
	group.Wait()
}

// The server forgets a legacy client's session: its next request gets a 404 that names no request, so that it opens another. A modern
// client does not notice: its session is one of a pool (vector 72).
func TestServerForgetsSessions(t *testing.T) {
	for _, kind := range []string{"legacy"} {
		u := newUpstream(t, kind)
		r := startRig(t, u.toml(""), true)
		u.on("tools/call", func(c *call) { c.result(`{"content":[]}`) })
		loseAll := func() {
			u.mu.Lock()
			defer u.mu.Unlock()
			for i := range u.sessions {
				u.lost[fmt.Sprintf("up-%d", i+1)] = true
			}
		}
		id := r.open("2025-11-25", "{}")
		if res := r.must("POST", "/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...); !strings.Contains(res.body, `"result"`) {
			t.Fatalf("%s", res.body)
		}
		loseAll()
		res := r.must("POST", "/mcp", legacyCall("2", "a"), legacyHeaders(id)...)
		if res.status != 404 || strings.Contains(res.body, `"id"`) {
			t.Errorf("%d %s", res.status, res.body)
		}
		if res := r.must("POST", "/mcp", legacyCall("2", "a"), legacyHeaders(id)...); res.status != 404 {
			t.Errorf("the session is still there: %d", res.status)
		}
		u.forget()
		res = r.must("POST", "/mcp", modernCall("3", "a", ""), modernHeaders("tools/call", "a")...)
		if !matches(`{"jsonrpc":"2.0","id":3,"result":{"content":[],…`, res.body) {
			t.Errorf("%s", res.body)
		}
		if n := len(u.all("initialize")); n != 1 {
			t.Errorf("%d new sessions, want one", n)
		}
		// no endless loop with a server that forgets at once
		u.mu.Lock()
		for i := range 100 {
			u.lost[fmt.Sprintf("up-%d", i+1)] = true
		}
		u.mu.Unlock()
		u.forget()
		res = r.must("POST", "/mcp", modernCall("4", "a", ""), modernHeaders("tools/call", "a")...)
		if !matches(`{"jsonrpc":"2.0","id":4,"error":{"code":-32603,…"data":{"code":"upstream_session_lost","retryable":true}}}`, res.body) {
			t.Errorf("%d %s", res.status, res.body)
		}
		if n := len(u.all("initialize")); n > 2 {
			t.Errorf("%d sessions tried", n)
		}
	}
}

// Sessions with a legacy server: shared by equal requests, separate for different ones; the maximum; the idle end (vector 60).
func TestPoolOverHTTP(t *testing.T) {
	u := newUpstream(t, "legacy")
	r := startRig(t, "[sessions]\nidle_ttl = \"1s\"\n[questions]\nlease_wait = \"0s\"\n"+u.toml("max_sessions = 2"), true)
	u.on("tools/call", func(c *call) { c.result(`{"content":[]}`) })
	ask := func(info, caps string) *response {
		return r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":`+info+`,"io.modelcontextprotocol/clientCapabilities":`+caps+`}}}`,
			modernHeaders("tools/call", "a")...)
	}
	u.forget()
	one, two := `{"name":"one","version":"1"}`, `{"name":"two","version":"1"}`
	ask(one, "{}")
	ask(one, "{}")
	if n := len(u.all("initialize")); n != 1 {
		t.Errorf("%d sessions for equal requests", n)
	}
	ask(two, "{}")
	ask(one, `{"experimental":{"x":{}}}`) // the one used longest ago is evicted
	if n := len(u.all("initialize")); n != 3 {
		t.Errorf("%d sessions, want 3", n)
	}
	sessions := map[string]bool{}
	for _, s := range u.all("tools/call") {
		sessions[s.header.Get("Mcp-Session-Id")] = true
	}
	if len(sessions) != 3 {
		t.Errorf("sessions used: %v", sessions)
	}
	testkit.Eventually(t, "the DELETE of the session that made room", func() bool { return len(u.all("DELETE")) >= 1 })
	testkit.Eventually(t, "the DELETE of idle sessions", func() bool { return len(u.all("DELETE")) == 3 })

	// all in use: refused, and the key is named
	started := hanging(u, 0)
	var group sync.WaitGroup
	for _, info := range []string{one, two} {
		group.Go(func() { ask(info, "{}") })
	}
	c1, c2 := testkit.Receive(t, "a call", started), testkit.Receive(t, "another", started)
	res := ask(one, `{"experimental":{"y":{}}}`)
	if !matches(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"…upstreams.default.max_sessions, now 2","data":{"code":"too_many_sessions","retryable":true,"retryAfter":5}}}`, res.body) {
		t.Errorf("%s", res.body)
	}
	c1.cancel()
	c2.cancel()
	group.Wait()
}

// Two sessions at one kind of child, both with id 1. The death of a child fails its requests in flight, once each, and ends its session
// (vectors 83, 93).
func TestChildDies(t *testing.T) {
	for _, kind := range []string{"legacy-stdio", "modern-stdio"} {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			r := startRig(t, u.toml(""), true)
			a, b := r.open("2025-11-25", "{}"), r.open("2025-11-25", "{}")
			u.on("tools/call", func(c *call) {
				text := "for b"
				if strings.Contains(c.body, `"a"`) {
					text = "for a"
				}
				c.result(`{"resultType":"complete","content":[{"type":"text","text":"` + text + `"}]}`)
			})
			var group sync.WaitGroup
			for id, name := range map[string]string{a: "a", b: "b"} {
				group.Go(func() {
					for range 20 {
						if res := r.must("POST", "/mcp", legacyCall("1", name), legacyHeaders(id)...); !matches(`{"jsonrpc":"2.0","id":1,"result":{…"for `+name+`"…`, res.body) {
							t.Errorf("%s: %s", name, res.body)
						}
					}
				})
			}
			group.Wait()
			started := hanging(u, 0)
			answers := make(chan *response, 2)
			for _, id := range []string{`"x"`, `"y"`} {
				group.Go(func() {
					res, err := r.do(t.Context(), "POST", "/mcp", legacyCall(id, "a"), legacyHeaders(a)...)
					if err != nil {
						t.Error(err)
					}
					answers <- res
				})
			}
			testkit.Receive(t, "a call", started)
			testkit.Receive(t, "another", started)
			u.hangUp()
			for range 2 {
				res := testkit.Receive(t, "an answer", answers)
				if res == nil || !matches(`{"jsonrpc":"2.0","id":"…","error":{"code":-32603,"message":"…","data":{"code":"upstream_lost","retryable":false,"exitCode":0}}}`, res.body) {
					t.Errorf("%+v", res)
				}
			}
			group.Wait()
			u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
			if kind == "modern-stdio" { // restarted, and no other session has ended
				testkit.Eventually(t, "a new child", func() bool {
					res := r.must("POST", "/mcp", legacyCall("3", "a"), legacyHeaders(a)...)
					return strings.Contains(res.body, `"result"`)
				})
				return
			}
			testkit.Eventually(t, "the session's end", func() bool {
				res := r.must("POST", "/mcp", legacyCall("3", "a"), legacyHeaders(a)...)
				return res.status == 404 && !strings.Contains(res.body, `"id"`)
			})
			res := r.must("POST", "/mcp", modernCall("3", "a", ""), modernHeaders("tools/call", "a")...)
			if !strings.Contains(res.body, `"result"`) {
				t.Errorf("a modern client afterwards: %s", res.body)
			}
		})
	}
}

// A probe without an answer is followed by initialize, once the process has been silent for a second; its late answer is ignored, although
// the process serves a client then (vector 90).
func TestSilentProbe(t *testing.T) {
	u := newUpstream(t, "legacy-stdio")
	late := make(chan *call, 1)
	u.on("server/discover", func(c *call) { late <- c })
	u.on("tools/list", func(c *call) { c.result(`{"tools":[]}`) })
	began := time.Now()
	r := startRig(t, u.toml(""), true)
	if d := time.Since(began); d < 900*time.Millisecond || d > 8*time.Second {
		t.Errorf("probed in %s", d)
	}
	c := testkit.Receive(t, "the probe", late)
	c.result(discovered)
	res := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+modernMeta+`}}`, modernHeaders("tools/list", "")...)
	if !strings.Contains(res.body, `"tools":[]`) {
		t.Errorf("%s", res.body)
	}
}

// Log messages of a shared modern child name no request: if one request wants them they are its own, if two do they are dropped (vector
// 84).
func TestLogsOfASharedChild(t *testing.T) {
	u := newUpstream(t, "modern-stdio")
	r := startRig(t, u.toml(""), true)
	body := func(id string) string {
		return strings.Replace(modernCall(id, "a", ""), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"info",`, 1)
	}
	log := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x"}}`
	started, release := make(chan *call, 2), make(chan struct{})
	u.on("tools/call", func(c *call) {
		started <- c
		<-release
		c.result(`{"resultType":"complete","content":[]}`)
	})
	answers := make(chan *response, 2)
	ask := func(id string) {
		res, _ := r.do(t.Context(), "POST", "/mcp", body(id), modernHeaders("tools/call", "a")...)
		answers <- res
	}
	go ask("1")
	go ask("2")
	c := testkit.Receive(t, "a call", started)
	testkit.Receive(t, "another", started)
	c.event(log)
	close(release)
	for range 2 {
		if res := testkit.Receive(t, "an answer", answers); res == nil || strings.Contains(res.body, "notifications/message") {
			t.Errorf("another client's log: %+v", res)
		}
	}
	u.on("tools/call", func(c *call) { c.event(log); c.result(`{"resultType":"complete","content":[]}`) })
	go ask("3")
	if res := testkit.Receive(t, "an answer", answers); res == nil || !strings.Contains(res.body, log) {
		t.Errorf("its own log is missing: %+v", res)
	}
}
