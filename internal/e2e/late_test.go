package e2e

import (
	"strings"
	"testing"
	"time"
)

// A server that answers the request for its stream late or never, and acknowledges no message, is served as any other: nothing that a
// client waits for waits for it.
func TestServersThatAcknowledgeLate(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"legacy", "sse"} {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			u.late = true
			r := startRig(t, u.toml(""), true)
			echoing(u)
			began := time.Now()
			lap := func(what string, most time.Duration) {
				if took := time.Since(began); took > most {
					t.Errorf("%s took %v", what, took)
				}
				began = time.Now()
			}
			res := r.must("POST", "/mcp", asksCall("1", "first", ""), modernHeaders("tools/call", "first")...)
			lap("probing, opening a session and asking", 2*time.Second)
			res = r.must("POST", "/mcp", answerTo(t, "2", "first", res, "one"), modernHeaders("tools/call", "first")...)
			if !strings.Contains(res.body, `"first one"`) {
				t.Errorf("%s", res.body)
			}
			lap("an answer", time.Second)
			id := r.open("2025-11-25", `{}`)
			u.on("tools/call", func(c *call) { c.result(`{"content":[]}`) })
			if res := r.must("POST", "/mcp", legacyCall("3", "plain"), legacyHeaders(id)...); res.status != 200 {
				t.Errorf("%d %s", res.status, res.body)
			}
			lap("a legacy client's session and call", time.Second)
		})
	}
}
