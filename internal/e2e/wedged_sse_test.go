package e2e

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"dragoman/internal/testkit"
)

// An HTTP+SSE server whose stream is open, but which answers nothing on it, is replaced as a child is: after three silent calls it is
// asked for a sign of life, and comments are none. Health checks, which would find it too, are off. One that answers the ping lives, whatever it does with calls.
func TestSilentStreamIsReplaced(t *testing.T) {
	for _, pings := range []bool{false, true} {
		for _, client := range []string{"legacy", "modern"} {
			t.Run(client+map[bool]string{true: ", answers pings", false: ""}[pings], func(t *testing.T) {
				t.Parallel()
				u := newUpstream(t, "sse")
				nothing := func(c *call) {
					c.out.mu.Lock()
					defer c.out.mu.Unlock()
					_, _ = io.WriteString(c.out.w, ": keep-alive\n\n")
					c.out.w.(http.Flusher).Flush()
				}
				var wedged atomic.Value // the path of the stream that is
				u.on("ping", func(c *call) {
					if !pings && c.path == wedged.Load() {
						nothing(c)
						return
					}
					c.result("{}")
				})
				u.on("tools/call", func(c *call) {
					wedged.CompareAndSwap(nil, c.path)
					if c.path == wedged.Load() {
						nothing(c)
						return
					}
					c.result(`{"content":[{"type":"text","text":"served"}]}`)
				})
				r := startRig(t, impatient+u.toml("transport = \"sse\"\nhealth_check_timeout = \"300ms\"\nhealth_check_interval = \"0s\""), true)
				ctx, cancel := context.WithTimeout(t.Context(), 2*testkit.Patient)
				defer cancel()
				c := newCrashClient(r, client)
				before := 0
				for i := range 3 {
					before = len(u.all("ping"))
					res, err := c.call(ctx, string(rune('1'+i)), "hang")
					if err != nil {
						t.Fatal(err)
					}
					if f := failureOf(t, res); f.Error.Data.Code != "upstream_timeout" {
						t.Errorf("%+v", f)
					}
				}
				const warning = "its event stream is given up, and the next call opens another"
				if pings {
					testkit.Eventually(t, "it is asked", func() bool { return len(u.all("ping")) > before })
					if _, err := c.call(ctx, "7", "hang"); err != nil {
						t.Fatal(err)
					}
					if strings.Contains(r.logs.String(), warning) {
						t.Error("a server that answers pings was replaced")
					}
					return
				}
				testkit.Eventually(t, "the log says why", func() bool {
					return strings.Count(r.logs.String(), warning) == 1 && strings.Contains(r.logs.String(), `it was silent in 3 calls in a row, and gave no sign of life within 300ms (upstreams.default.health_check_timeout)`)
				})
				testkit.Eventually(t, "it is served again", func() bool {
					res, err := c.call(ctx, "8", "ok")
					if err == nil && res.status == 404 { // a legacy client's session has gone, as after a crash
						again, err := r.do(ctx, "POST", "/mcp", `{"jsonrpc":"2.0","id":"again","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, legacyHeaders("")...)
						if err == nil && again.header.Get("Mcp-Session-Id") != "" { // else the circuit is still open
							c.sid = again.header.Get("Mcp-Session-Id")
							r.must("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, legacyHeaders(c.sid)...)
						}
					}
					return err == nil && strings.Contains(res.body, "served")
				})
			})
		}
	}
}
