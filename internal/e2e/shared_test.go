package e2e

import "testing"

// With isolation = "shared" all clients of either era use one session of a legacy server: there is one handshake, equal ids of clients are
// kept apart, and answers look like those of an own session.
func TestSharedIsolation(t *testing.T) {
	for _, kind := range []string{"legacy", "sse", "legacy-stdio"} {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			u.on("tools/call", func(c *call) {
				c.result(`{"content":[{"type":"text","text":"x"}],"structuredContent":{"n":9007199254740993}}`)
			})
			u.on("tools/list", func(c *call) {
				c.result(`{"tools":[{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}]}`)
			})
			r := startRig(t, u.toml(`isolation = "shared"`), true)
			u.forget()
			one, two := r.open("2025-11-25", `{"roots":{}}`), r.open("2025-06-18", "{}")
			if one == two {
				t.Fatal("both clients have one session with the proxy")
			}
			for _, id := range []string{one, two} {
				res := r.must("POST", "/mcp", legacyCall("1", "a"), legacyHeaders(id)...)
				if want := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}],"structuredContent":{"n":9007199254740993}}}`; res.body != want {
					t.Errorf("got %s\nwant %s", res.body, want)
				}
				res = r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":"1","method":"tools/list"}`, legacyHeaders(id)...)
				if want := `{"jsonrpc":"2.0","id":"1","result":{"tools":[{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}]}}`; res.body != want {
					t.Errorf("got %s\nwant %s", res.body, want)
				}
			}
			res := r.must("POST", "/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...)
			if !matches(`{"jsonrpc":"2.0","id":1,"result":{"content":…"resultType":"complete"…}}`, res.body) {
				t.Errorf("the modern client got %s", res.body)
			}
			if n := len(u.all("initialize")); n != 1 {
				t.Errorf("%d handshakes with the server, want 1", n)
			}
			for _, s := range u.all("tools/call") {
				if matches(`…io.modelcontextprotocol…`, s.body) {
					t.Errorf("a legacy server saw %s", s.body)
				}
			}
		})
	}
}

// The retry time of a busy server is passed to the client, a day at most.
func TestRetryAfter(t *testing.T) {
	u := newUpstream(t, "modern")
	var after string
	u.on("tools/call", func(c *call) {
		c.w.Header().Set("Retry-After", after)
		c.raw(503, "text/plain", "busy")
	})
	r := startRig(t, u.toml(""), true)
	for given, want := range map[string]string{"7": "7", "99999999999999999": "86400"} {
		after = given
		res := r.must("POST", "/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...)
		if !matches(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"…503…busy","data":{"code":"upstream_overloaded","retryable":true,"retryAfter":`+want+`}}}`, res.body) {
			t.Error(res.body)
		}
	}
}
