package e2e

import (
	"strings"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// A call at a silent server fails with an error that says so, for every client. A tool's own timeout takes precedence over its kind's, and
// progress restarts it.
func TestSilentServersAreGivenUp(t *testing.T) {
	for _, kind := range []string{"modern", "legacy", "legacy-stdio", "sse"} {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			r := startRig(t, "tool_timeout = 300\nprompt_timeout = 1\n"+u.toml("")+"[upstreams.default.tools.mute]\ntimeout = 1\n[upstreams.default.tools.\"lively*\"]\ntimeout = 2\n", true)
			u.on("tools/list", func(c *call) {
				c.result(`{"tools":[{"name":"mute","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`)
			})
			ended := make(chan *call, 8)
			u.on("tools/call", func(c *call) {
				if strings.Contains(c.body, `"lively"`) {
					for range 10 {
						c.event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1}}`)
						time.Sleep(250 * time.Millisecond) // the reported work
					}
					c.result(`{"content":[],"resultType":"complete"}`)
					return
				}
				<-c.cancelled
				ended <- c
			})
			const want = `upstreams.default.tools.\"mute\".timeout`
			session := r.open("2025-11-25", "{}")
			for name, ask := range map[string]func() *response{
				"modern": func() *response {
					return r.must("POST", "/mcp", modernCall("1", "mute", ""), modernHeaders("tools/call", "mute")...)
				},
				"legacy": func() *response { return r.must("POST", "/mcp", legacyCall("1", "mute"), legacyHeaders(session)...) },
			} {
				if res := ask(); res.status != 200 || !strings.Contains(res.body, want) || !strings.Contains(res.body, `"code":"upstream_timeout"`) {
					t.Errorf("%s: %d %s", name, res.status, res.body)
				}
				testkit.Receive(t, "the cancellation at the server", ended)
			}
			if res := r.must("POST", "/call-tool", `{"tool":"mute","arguments":{}}`, "Content-Type", jsonType); res.status != 504 || !strings.Contains(res.body, `"TIMEOUT"`) || !strings.Contains(res.body, want) {
				t.Errorf("rest: %d %s", res.status, res.body)
			}
			testkit.Receive(t, "the cancellation at the server", ended)
			body := strings.Replace(legacyCall("2", "lively"), `"arguments":{}`, `"arguments":{},"_meta":{"progressToken":1}`, 1)
			if res := r.must("POST", "/mcp", body, legacyHeaders(session)...); !strings.Contains(res.body, `"result":{"content":[]`) {
				t.Errorf("a tool that reports progress: %d %s", res.status, res.body)
			}
		})
	}
}
