package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// settling makes a legacy server settle on one revision, whatever it is asked for.
func settling(u *upstream, version string) {
	u.on("initialize", func(c *call) {
		if c.w != nil {
			c.w.Header().Set("Mcp-Session-Id", "up-1")
		}
		c.result(fmt.Sprintf(welcomed, version))
	})
}

// Streamable HTTP never had 2024-11-05: a client of it at a server of that revision is told the revision that it asked for, and Dragoman
// speaks 2024-11-05 to the server.
func TestOldServerOverStreamableHTTP(t *testing.T) {
	for _, kind := range []string{"legacy-stdio", "sse", "legacy"} {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			settling(u, "2024-11-05")
			u.on("tools/call", func(c *call) { c.result(`{"content":[],"_meta":{"x":1}}`) })
			r := startRig(t, u.toml("era = \"legacy\""), true)
			u.forget()
			for _, asked := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
				res := r.must("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, asked), legacyHeaders("")...)
				id := res.header.Get("Mcp-Session-Id")
				if !matches(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"`+asked+`","capabilities":{"tools":…"serverInfo":{"name":"up","version":"1"},"instructions":"do"}}`, res.body) {
					t.Errorf("%s: %s", asked, res.body)
				}
				if v := r.h.Sessions().Find([]byte(id), "", unidentified).Client().Version; v != asked {
					t.Errorf("the session speaks %s", v)
				}
				headers := append(legacyHeaders(id), "MCP-Protocol-Version", asked)
				if res := r.must("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers...); res.status != 202 {
					t.Errorf("initialized: %d %s", res.status, res.body)
				}
				if res := r.must("POST", "/mcp", legacyCall("2", "a"), headers...); res.body != `{"jsonrpc":"2.0","id":2,"result":{"content":[],"_meta":{"x":1}}}` {
					t.Errorf("%d %s", res.status, res.body)
				}
				if body := `[` + legacyCall("3", "a") + `,` + legacyCall("4", "a") + `]`; asked == "2025-03-26" {
					res := r.must("POST", "/mcp", body, headers...)
					mentions(t, res.body, `"id":3,"result"`, `"id":4,"result"`)
				}
			}
			for _, s := range u.all("tools/call") {
				if v := s.header.Get("MCP-Protocol-Version"); kind == "legacy" && v != "2024-11-05" {
					t.Errorf("the server is told %s", v)
				}
			}
			c := r.sse("/sse") // which has 2024-11-05
			c.send(stdioInit)
			c.receives(`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2024-11-05",…`)
		})
	}
}

// A client that asks for an older revision than the server speaks gets that, and what it cannot read becomes text.
func TestOldClientAtNewerServer(t *testing.T) {
	for _, kind := range legacyKinds {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			settling(u, "2025-11-25")
			u.on("tools/call", func(c *call) {
				c.result(`{"content":[{"type":"resource_link","uri":"x:/1","name":"n"},{"type":"audio","data":"","mimeType":"audio/wav"}],"structuredContent":{"a":1}}`)
			})
			u.on("prompts/get", func(c *call) {
				c.result(`{"messages":[{"role":"user","content":{"type":"audio","data":"","mimeType":"audio/wav"}}]}`)
			})
			u.on("tools/list", func(c *call) {
				c.result(`{"tools":[{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}]}`)
			})
			r := startRig(t, u.toml(""), true)
			c := r.sse("/sse")
			c.send(strings.Replace(stdioInit, "2025-11-25", "2024-11-05", 1))
			c.receives(`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2024-11-05",…`)
			c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			c.send(legacyCall("1", "a"))
			c.receives(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"n (x:/1)"},{"type":"text","text":"[audio, audio/wav]"},{"type":"text","text":"{\"a\":1}"}]}}`)
			c.send(`{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"p"}}`)
			c.receives(`{"jsonrpc":"2.0","id":2,"result":{"messages":[{"role":"user","content":{"type":"text","text":"[audio, audio/wav]"}}]}}`)
			c.send(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
			c.receives(`{"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}}`)
		})
	}
}
