package e2e

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"dragoman/internal/testkit"
	"dragoman/policies/health"
)

// A lost call is repeated if the tool's annotations allow it; any other is not, for all clients and servers (ToolAnnotations). The
// annotations are requested when needed.
func TestRetryOfCalls(t *testing.T) {
	for kind, ask := range clientKinds {
		for _, server := range []string{"modern", "legacy"} {
			t.Run(kind+" client, "+server+" server", func(t *testing.T) {
				m := newRestartable(t, server)
				m.on("tools/list", func(c *call) {
					c.result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"look","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}},` +
						`{"name":"put","annotations":{"idempotentHint":true},"inputSchema":{"type":"object"}},{"name":"add","inputSchema":{"type":"object"}}]}`)
				})
				r := startRig(t, m.toml(""), true)
				good, bad := func(c *call) { c.result(`{"resultType":"complete","content":[]}`) }, func(c *call) { c.drop() }
				for _, tool := range []string{"look", "put", "add"} {
					m.forget()
					m.on("tools/call", bad, good)
					_, body := ask(r, tool)
					calls, again := len(m.all("tools/call")), tool != "add"
					if again != (calls == 2) || again != strings.Contains(body, "content") {
						t.Errorf("%s: %d calls, %s", tool, calls, body)
					}
				}
				if a, s := r.sum("dragoman_retries_total", "outcome", "attempted"), r.sum("dragoman_retries_total", "outcome", "succeeded"); a != 2 || s != 2 {
					t.Errorf("%v attempted, %v succeeded", a, s)
				}
			})
		}
	}
}

// A call is not repeated once its client has received progress, and never more often than retries.
func TestRetryBounds(t *testing.T) {
	m := newRestartable(t, "modern")
	m.on("tools/list", func(c *call) {
		c.result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"look","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}}]}`)
	})
	r := startRig(t, m.toml("retry_backoff = \"1ms\"\nbreaker_failures = 0"), true)
	try := func() (int, string) {
		m.forget()
		res := r.must("POST", "/mcp", modernCall("1", "look", ""), modernHeaders("tools/call", "look")...)
		return len(m.all("tools/call")), res.body
	}
	m.on("tools/call", func(c *call) {
		c.event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
		c.drop()
	})
	if n, body := try(); n != 1 || !strings.Contains(body, "upstream_lost") {
		t.Errorf("%d calls, %s", n, body)
	}
	m.on("tools/call", func(c *call) { c.drop() })
	if n, body := try(); n != 3 || !strings.Contains(body, "upstream_lost") {
		t.Errorf("%d calls, %s", n, body)
	}
	r = startRig(t, m.toml("retries = 0"), true)
	if n, body := try(); n != 1 || !strings.Contains(body, "upstream_lost") {
		t.Errorf("%d calls, %s", n, body)
	}
}

// Requests wait for a server that is away for a moment: nothing was written, so every request is repeated.
func TestRetryOfUnwritten(t *testing.T) {
	m := newRestartable(t, "modern")
	r := startRig(t, m.toml("retry_backoff = \"5s\"\nretries = 1"), true)
	if _, body := clientKinds["modern"](r, "ok"); !strings.Contains(body, "content") {
		t.Fatal(body)
	}
	m.kill()
	r.h.Targets.Named("default").Monitor.Recheck() // finds the kept connection dead
	testkit.Eventually(t, "the check", func() bool { return r.state("default").Failures == 1 })
	answer := make(chan string, 1)
	go func() {
		_, body := clientKinds["modern"](r, "ok")
		answer <- body
	}()
	testkit.Eventually(t, "the first attempt", func() bool { return r.state("default").Failures > 1 })
	m.restart()
	if body := testkit.Receive(t, "the answer", answer); !strings.Contains(body, "content") {
		t.Error(body)
	}
	r.becomes(health.Connected)
}

// The budget bounds how many requests an outage multiplies.
func TestRetryBudget(t *testing.T) {
	m := newRestartable(t, "modern")
	r := startRig(t, m.toml("retry_backoff = \"1ms\"\nbreaker_failures = 0\nhealth_check_interval = \"0s\""), true)
	var served atomic.Int64
	m.srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		served.Add(1)
		w.WriteHeader(500)
	})
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernMeta + `}}`
	const requests = 40
	for range requests {
		r.h.Targets.Named("default").Monitor.Tried(r.state("default").Since, nil) // as if other requests succeeded in between
		_ = r.must("POST", "/mcp", list, modernHeaders("tools/list", "")...)
	}
	if n := served.Load(); n < requests || n > requests+requests/5+3 {
		t.Errorf("%d requests became %d", requests, n)
	}
	if r.sum("dragoman_retries_total", "outcome", "refused") == 0 {
		t.Error("the budget refused nothing")
	}
}
