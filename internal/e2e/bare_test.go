package e2e

import (
	"strings"
	"testing"
)

// Legacy clients of a dual server are served by its legacy side, unless that has no sessions, in which it could neither ask nor notify nor
// learn of a cancellation: then by the modern side.
func TestDualServerWithoutSessions(t *testing.T) {
	for _, bare := range []bool{false, true} {
		u := newUpstream(t, "modern")
		u.on("initialize", func(c *call) {
			if !bare {
				c.w.Header().Set("Mcp-Session-Id", "s")
			}
			c.result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"dual","version":"1"}}`)
		})
		u.on("ping", func(c *call) { c.result(`{}`) })
		u.on("tools/call", func(c *call) {
			if strings.Contains(c.body, "_meta") && !strings.Contains(c.body, "inputResponses") {
				c.result(`{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list","params":{}}}}`)
				return
			}
			c.result(`{"resultType":"complete","content":[]}`)
		})
		r := startRig(t, u.toml(""), true)
		f := newHTTPTestClient(r)
		f.open("2025-11-25", `{"roots":{}}`)
		f.send("k", legacyCall("1", "a"))
		got := f.receives("k")
		if asked := strings.Contains(got, `"roots/list"`); asked != bare {
			t.Errorf("bare %v: %s", bare, got)
		}
		if bare {
			f.send("", `{"jsonrpc":"2.0","id":"dragoman-1","result":{"roots":[]}}`)
			if got := f.receives("k"); !matches(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, got) {
				t.Errorf("%s", got)
			}
		}
		v, err := r.h.Targets.All[0].Both(t.Context())
		if err != nil || !v.Modern || !v.Legacy || strings.Contains(strings.Join(v.Steps, " "), "no session") != bare {
			t.Errorf("bare %v: %+v, %v", bare, v, err)
		}
	}
}
