package e2e

import (
	"strings"
	"testing"
	"time"
)

// limits.request_time ends a request wherever it waits: for the probe of a silent server, for a child that does not read, for an answer.
// Its error says so, and that of the handshake is no empty stream.
func TestRequestTimeEndsAllWaiting(t *testing.T) {
	const overdue = `"message":"no response in 1s, the most that limits.request_time allows","data":{"code":"upstream_timeout","retryable":false}}}`
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	limits := "[limits]\nrequest_time = \"1s\"\n"
	t.Run("probe", func(t *testing.T) {
		u := newUpstream(t, "legacy-stdio")
		u.on("server/discover", func(c *call) { <-c.cancelled })
		u.on("initialize", func(c *call) { <-c.cancelled })
		r := startRig(t, limits+u.toml(""), false)
		for _, c := range []struct {
			body    string
			headers []string
		}{{initialize, legacyHeaders("")}, {modernCall("1", "a", ""), modernHeaders("tools/call", "a")}} {
			began := time.Now()
			res := r.must("POST", "/mcp", c.body, c.headers...)
			if !strings.Contains(res.body, overdue) || res.header.Get("Content-Type") != jsonType {
				t.Errorf("%d %s %q", res.status, res.header.Get("Content-Type"), res.body)
			}
			if took := time.Since(began); took < time.Second {
				t.Errorf("ended after %v", took)
			}
		}
	})
	t.Run("handshake", func(t *testing.T) {
		u := newUpstream(t, "legacy-stdio")
		r := startRig(t, limits+u.toml(""), true)
		u.on("initialize", func(c *call) { <-c.cancelled })
		res := r.must("POST", "/mcp", initialize, legacyHeaders("")...)
		if !strings.Contains(res.body, overdue) || res.header.Get("Content-Type") != jsonType {
			t.Errorf("%d %s %q", res.status, res.header.Get("Content-Type"), res.body)
		}
		if n := r.h.Sessions().Len(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}
