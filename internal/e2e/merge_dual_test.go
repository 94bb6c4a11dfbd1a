package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// dualTasker is a server of both eras. Its legacy side runs tasks, and says so of its tools.
func dualTasker(t *testing.T) *upstream {
	t.Helper()
	u := newUpstream(t, "modern")
	u.on("server/discover", func(c *call) {
		c.result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`)
	})
	u.on("initialize", func(c *call) {
		c.w.Header().Set("Mcp-Session-Id", "s")
		c.result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"dual","version":"1"}}`)
	})
	u.on("tools/list", func(c *call) {
		if strings.Contains(c.body, "io.modelcontextprotocol/protocolVersion") {
			c.result(`{"resultType":"complete","tools":[{"name":"long","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"}`)
			return
		}
		c.result(`{"tools":[{"name":"long","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},{"name":"old","inputSchema":{"type":"object"}}]}`)
	})
	u.on("tools/call", func(c *call) {
		c.result(`{"task":{"taskId":"1","status":"working","createdAt":"2025-11-25T00:00:00Z","lastUpdatedAt":"2025-11-25T00:00:00Z","ttl":null}}`)
	})
	return u
}

// A legacy client sees of a server of both eras, through a merge, what it sees there alone: its legacy side with tasks. Modern clients see the
// modern side.
func TestLegacySideOfAServerOfBothEras(t *testing.T) {
	for _, isolation := range []string{"", `isolation = "shared"`} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			u, other := dualTasker(t), newUpstream(t, "modern")
			r := startRig(t, strings.Replace(u.toml(isolation), "default", "a", 1)+strings.Replace(other.toml(""), "default", "b", 1), true)
			const init = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
			shared := isolation != ""
			id := 1
			for _, at := range []string{"/servers/a/mcp", "/mcp"} {
				opened := r.must("POST", at, init, legacyHeaders("")...)
				session := opened.header.Get("Mcp-Session-Id")
				ask := func(method, params string) string {
					t.Helper()
					id++
					return r.must("POST", at, legacyBody(id, method, params), legacyHeaders(session)...).body
				}
				list := ask("tools/list", "")
				prefix := map[bool]string{true: "a."}[at == "/mcp"]
				for text, in := range map[string]string{`"tasks":{"list":{},"requests":{"tools":{"call":{}}}}`: opened.body, `"taskSupport":"optional"`: list, `"name":"` + prefix + `old"`: list} {
					if strings.Contains(in, text) == shared {
						t.Errorf("%s at %s, which is %v: %s", text, at, shared, in)
					}
				}
				if shared {
					continue
				}
				if got := ask("tools/call", fmt.Sprintf(`"name":"%slong","arguments":{},"task":{}`, prefix)); !strings.Contains(got, `"status":"working"`) {
					t.Errorf("a call as a task at %s: %s", at, got)
				}
				discovered := r.must("POST", at, modernBody(3, "server/discover", ""), modernHeaders("server/discover", "")...).body
				if list := r.must("POST", at, modernBody(3, "tools/list", ""), modernHeaders("tools/list", "")...).body; strings.Contains(list+discovered, `old"`) || strings.Contains(list+discovered, "task") {
					t.Errorf("a modern client at %s sees %s and %s", at, discovered, list)
				}
			}
		})
	}
}
