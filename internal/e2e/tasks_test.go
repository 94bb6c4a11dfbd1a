package e2e

import (
	"fmt"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// Tasks are offered exactly where they are supported, in both halves of a handshake.
func TestTasksAdvertised(t *testing.T) {
	const (
		core      = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"up","version":"1"}}`
		extension = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"ttlMs":0,"cacheScope":"private"}`
	)
	for _, kind := range kinds {
		for _, config := range []string{``, `tasks = "drive"`, `isolation = "shared"`, "isolation = \"shared\"\ntasks = \"drive\""} {
			t.Run(kind+" "+config, func(t *testing.T) {
				t.Parallel()
				u := newUpstream(t, kind)
				modern := strings.HasPrefix(kind, "modern")
				if modern {
					u.on("server/discover", func(c *call) { c.result(extension) })
				} else {
					u.on("initialize", func(c *call) {
						if c.w != nil && c.out == nil {
							c.w.Header().Set("Mcp-Session-Id", "up-1")
						}
						c.result(core)
					})
				}
				r := startRig(t, u.toml(config), true)
				shared := strings.Contains(config, "shared")
				discover := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+modernMeta+`}}`, modernHeaders("server/discover", "")...)
				if got := strings.Contains(discover.body, "tasks"); discover.status != 200 || got != modern {
					t.Errorf("server/discover: %d %s", discover.status, discover.body)
				}
				initialize := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"list":{}}},"clientInfo":{"name":"c","version":"1"}}}`, legacyHeaders("")...)
				if got := strings.Contains(initialize.body, "tasks"); initialize.status != 200 || got != (!modern && !shared) {
					t.Errorf("initialize: %d %s", initialize.status, initialize.body)
				}
				for _, s := range append(u.all("initialize"), u.all("server/discover")...) {
					if relayed := s.method == "initialize" && !shared; strings.Contains(s.body, "tasks") && !relayed {
						t.Errorf("declared to the server: %s", s.body)
					}
				}
			})
		}
	}
}

// Every request about a task names it in its header (SEP-2663, Routing Headers).
func TestTaskHeaders(t *testing.T) {
	u := newUpstream(t, "modern")
	u.on("tools/list", func(c *call) { c.result(`{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`) })
	u.on("tools/call", func(c *call) {
		c.result(`{"resultType":"task","taskId":" t/ä","status":"working","ttlMs":null,"pollIntervalMs":1}`)
	})
	u.on("tasks/get", func(c *call) {
		c.result(`{"resultType":"complete","taskId":" t/ä","status":"input_required","ttlMs":null,"inputRequests":{"q":{"method":"roots/list","params":{}}}}`)
	}, func(c *call) {
		c.result(`{"resultType":"complete","taskId":" t/ä","status":"working","ttlMs":null,"pollIntervalMs":1}`)
	})
	u.on("tasks/update", func(c *call) { c.result(`{"resultType":"complete"}`) })
	u.on("tasks/cancel", func(c *call) { c.result(`{"resultType":"complete"}`) })
	r := startRig(t, u.toml(`tasks = "drive"`), true)
	client := newHTTPTestClient(r)
	client.open("2025-11-25", `{"roots":{}}`)
	client.send("k", legacyCall("1", "w"))
	wants(t, client, "k", `{"jsonrpc":"2.0","id":"dragoman-1","method":"roots/list","params":{}}`)
	client.send("", `{"jsonrpc":"2.0","id":"dragoman-1","result":{"roots":[]}}`)
	testkit.Eventually(t, "some questions after the task", func() bool { return len(u.all("tasks/get")) >= 5 })
	client.send("", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	client.over("k", "200")
	testkit.Eventually(t, "the task's cancellation", func() bool { return len(u.all("tasks/cancel")) == 1 })
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		for _, s := range u.all(method) {
			if got := s.header.Get("Mcp-Name"); got != "=?base64?IHQvw6Q=?=" || s.header.Get("Mcp-Method") != method || s.header.Get("Mcp-Protocol-Version") != "2026-07-28" {
				t.Errorf("%s with %v", method, s.header)
			}
		}
	}
	if n := len(u.all("notifications/cancelled")); n != 0 {
		t.Errorf("%d cancellations that are no task's", n)
	}
}

// A server that temporarily cannot report the status of a task, in any of HTTP's ways, has not lost it.
func TestTaskPollsThroughTrouble(t *testing.T) {
	u := newUpstream(t, "modern")
	u.on("tools/list", func(c *call) { c.result(`{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`) })
	u.on("tools/call", func(c *call) {
		c.result(`{"resultType":"task","taskId":"t","status":"working","ttlMs":null,"pollIntervalMs":1}`)
	})
	u.on("tasks/get", func(c *call) { c.raw(503, "text/plain", "busy") }, func(c *call) { c.drop() }, func(c *call) { c.raw(200, "text/event-stream", ": nothing\n\n") },
		func(c *call) {
			c.result(`{"resultType":"complete","taskId":"t","status":"completed","ttlMs":null,"result":{"content":[]}}`)
		})
	r := startRig(t, u.toml(`tasks = "drive"`), true)
	id := r.open("2025-11-25", "{}")
	res := r.must("POST", "/mcp", legacyCall("1", "w"), legacyHeaders(id)...)
	if res.body != `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}` {
		t.Errorf("%s", res.body)
	}
	u.on("tasks/get", func(c *call) { c.raw(503, "text/plain", "busy") })
	u.on("tasks/cancel", func(c *call) { c.result(`{"resultType":"complete"}`) })
	res = r.must("POST", "/mcp", legacyCall("2", "w"), legacyHeaders(id)...)
	if !matches(`{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"…HTTP 503…","data":{"code":"upstream_lost","retryable":false}}}`, res.body) {
		t.Errorf("%s", res.body)
	}
	testkit.Eventually(t, "the task's cancellation", func() bool { return len(u.all("tasks/cancel")) == 1 })
}

// A process that dies during a task of a modern client's call ends the call; a new process does not know the task.
func TestTaskChildDies(t *testing.T) {
	u := newUpstream(t, "legacy-stdio")
	u.on("initialize", func(c *call) {
		c.result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"up","version":"1"}}`)
	})
	u.on("tools/list", func(c *call) { c.result(`{"tools":[{"name":"w","execution":{"taskSupport":"required"}}]}`) })
	u.on("tools/call", func(c *call) { c.result(`{"task":{"taskId":"t","status":"working","ttl":null}}`) })
	u.on("tasks/result", func(c *call) { c.drop() }, func(c *call) { c.result(`{"content":[]}`) })
	r := startRig(t, u.toml(`tasks = "drive"`), true)
	res := r.must("POST", "/mcp", modernCall("1", "w", ""), modernHeaders("tools/call", "w")...)
	if !matches(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,…"data":{"code":"upstream_lost","retryable":false,"exitCode":0}}}`, res.body) {
		t.Errorf("%d %s", res.status, res.body)
	}
	res = r.must("POST", "/mcp", modernCall("2", "w", ""), modernHeaders("tools/call", "w")...)
	if !matches(`{"jsonrpc":"2.0","id":2,"result":{"content":[],"resultType":"complete",…}}`, res.body) {
		t.Errorf("%d %s", res.status, res.body)
	}
	if n := len(u.all("tools/call")); n != 2 {
		t.Error(fmt.Sprint(n, " calls"))
	}
}

// The progress of a task that Dragoman drives reaches the client over every transport, on both sides: the server tells it with the token of the
// call, which has ended.
func TestProgressOfDrivenTasks(t *testing.T) {
	for _, kind := range []string{"legacy", "sse", "legacy-stdio"} {
		u := newUpstream(t, kind)
		u.on("initialize", func(c *call) {
			if c.w != nil && c.out == nil {
				c.w.Header().Set("Mcp-Session-Id", "up")
			}
			c.result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"up","version":"1"}}`)
		})
		u.on("tools/list", func(c *call) { c.result(`{"tools":[{"name":"w","execution":{"taskSupport":"required"}}]}`) })
		u.on("tools/call", func(c *call) {
			c.result(`{"task":{"taskId":"t-` + strings.Trim(c.token, `"`) + `","status":"working","ttl":null}}`)
		})
		u.on("tasks/result", func(c *call) {
			_, token, _ := strings.Cut(c.body, `"t-`)
			token, _, _ = strings.Cut(token, `"`)
			for n := range 2 {
				c.event(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%q,"progress":%d}}`, token, n+1))
			}
			c.result(`{"content":[]}`)
		})
		body := strings.Replace(modernBody(1, "tools/call", `"name":"w","arguments":{}`), `"_meta":{`, `"_meta":{"progressToken":"mine",`, 1)
		judge := func(client, got string) {
			t.Helper()
			for n := range 2 {
				if want := fmt.Sprintf(`"params":{"progressToken":"mine","progress":%d}`, n+1); strings.Count(got, want) != 1 {
					t.Errorf("a client over %s at %s got %s", client, kind, got)
				}
			}
		}
		toml := u.toml(`tasks = "drive"`)
		judge("HTTP", startRig(t, toml, true).must("POST", "/mcp", body, modernHeaders("tools/call", "w")...).body)
		p := startStdio(t, toml)
		p.send(body)
		got := ""
		for line := ""; !strings.Contains(line, `"id":1`); got += line + "\n" {
			line = testkit.Receive(t, "the answer", p.lines)
		}
		judge("stdio", got)
	}
}
