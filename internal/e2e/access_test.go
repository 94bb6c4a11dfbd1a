package e2e

import (
	"strings"
	"testing"
)

// A denied item is in no list and unknown for every kind of client, and a renamed one has its new name everywhere.
func TestAccessAtEveryEndpoint(t *testing.T) {
	for _, kind := range []string{"modern", "legacy", "sse"} {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			r := startRig(t, u.toml("")+`
[upstreams.default.tools.read]
rename = "lese"
version = "2.0.0"
[upstreams.default.tools.drop]
enabled = false
[upstreams.default.access."*"]
deny_tools = ["write*"]
`, true)
			u.on("tools/list", func(c *call) {
				c.result(`{"tools":[{"name":"read","inputSchema":{"type":"object"}},{"name":"write_all","inputSchema":{"type":"object"}},{"name":"drop","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`)
			})
			u.on("tools/call", func(c *call) { c.result(`{"content":[],"resultType":"complete"}`) })
			session := r.open("2025-11-25", "{}")
			list := `{"jsonrpc":"2.0","id":7,"method":"tools/list"`
			for name, got := range map[string]string{
				"modern": r.must("POST", "/mcp", list+`,"params":{`+modernMeta+`}}`, modernHeaders("tools/list", "")...).body,
				"legacy": r.must("POST", "/mcp", list+`}`, legacyHeaders(session)...).body,
				"rest":   r.must("GET", "/tools", "").body,
			} {
				if !strings.Contains(got, `"lese"`) || strings.Contains(got, `"read"`) || strings.Contains(got, "write_all") || strings.Contains(got, `"drop"`) ||
					name != "rest" && !strings.Contains(got, `"io.dragoman/version":"2.0.0"`) {
					t.Errorf("%s sees %s", name, got)
				}
			}
			for tool, want := range map[string]bool{"lese": true, "read": false, "write_all": false, "drop": false} {
				u.forget()
				for name, got := range map[string]string{
					"modern": r.must("POST", "/mcp", modernCall("8", tool, ""), modernHeaders("tools/call", tool)...).body,
					"legacy": r.must("POST", "/mcp", legacyCall(`"`+tool+`"`, tool), legacyHeaders(session)...).body,
				} {
					if strings.Contains(got, `"result"`) != want {
						t.Errorf("%s calls %s: %s", name, tool, got)
					}
				}
				status, _ := r.post("/call-tool", `{"tool":"`+tool+`","arguments":{}}`)
				if (status == 200) != want || !want && status != 404 {
					t.Errorf("rest calls %s: %d", tool, status)
				}
				for _, s := range u.all("tools/call") {
					if !strings.Contains(s.body, `"name":"read"`) || !want || kind == "modern" && s.header.Get("Mcp-Name") != "read" {
						t.Errorf("the server saw %s, Mcp-Name %q", s.body, s.header.Get("Mcp-Name"))
					}
				}
			}
		})
	}
}
