package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"dragoman/internal/testkit"
)

// Too many requests of one client: every kind of client gets an error in its own form, and when to retry.
func TestRateLimitsAtEveryEndpoint(t *testing.T) {
	u := newUpstream(t, "legacy")
	r := startRig(t, "profile = \"production\"\nrate_limit_burst = 4\n[security]\nrate_limit = 10\n"+u.toml(""), true)
	u.on("tools/call", func(c *call) { c.result(`{"content":[]}`) })
	u.on("tools/list", func(c *call) { c.result(`{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`) })
	session := r.open("2025-11-25", "{}") // the first of four
	left := -1
	for range 3 {
		res := r.must("POST", "/call-tool", `{"tool":"a","arguments":{}}`, "Content-Type", jsonType)
		var e struct {
			Meta struct {
				Left *int `json:"rate_limit_remaining"`
			} `json:"meta"`
		}
		if err := json.Unmarshal([]byte(res.body), &e); err != nil || res.status != 200 || e.Meta.Left == nil {
			t.Fatalf("%d %s", res.status, res.body)
		}
		left = *e.Meta.Left
	}
	if left != 0 {
		t.Errorf("%d are left at the end", left)
	}
	const code = `"code":"rate_limited","retryable":true,"retryAfter":6`
	for name, ask := range map[string]func() *response{
		"modern": func() *response {
			return r.must("POST", "/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...)
		},
		"legacy": func() *response { return r.must("POST", "/mcp", legacyCall("9", "a"), legacyHeaders(session)...) },
	} {
		if res := ask(); res.status != 200 || !strings.Contains(res.body, code) || res.header.Get("Retry-After") != "6" {
			t.Errorf("%s: %d %v %s", name, res.status, res.header, res.body)
		}
	}
	res := r.must("POST", "/call-tool", `{"tool":"a","arguments":{}}`, "Content-Type", jsonType)
	if res.status != 429 || !strings.Contains(res.body, `"code":"RATE_LIMITED"`) || res.header.Get("Retry-After") != "6" || !strings.Contains(res.body, "security.rate_limit") {
		t.Errorf("rest: %d %v %s", res.status, res.header, res.body)
	}
	if res := r.must("GET", "/health", ""); res.status != 200 {
		t.Errorf("the health check is not limited: %d %s", res.status, res.body)
	}
	if n := len(u.all("tools/call")); n != 3 {
		t.Errorf("the server saw %d calls, want 3", n)
	}
}

// Requests of an address that floods are refused at the head.
func TestAddressesThatFlood(t *testing.T) {
	u := newUpstream(t, "modern")
	r := startRig(t, "[security]\naddress_rate_limit = 10\n"+u.toml(""), true)
	statuses := map[int]int{}
	for range 15 {
		res := r.must("POST", "/mcp", discoverBody, modernHeaders("server/discover", "")...)
		if statuses[res.status]++; res.status == 429 && (res.header.Get("Retry-After") == "" || !strings.Contains(res.body, "address_rate_limit") || !strings.Contains(res.body, `"id":1`)) {
			t.Errorf("%v %s", res.header, res.body)
		}
	}
	if statuses[200] != 10 || statuses[429] != 5 {
		t.Errorf("%v", statuses)
	}
}

// Concurrent requests are limited, in total and for a server that is not thread-safe; a request at a full queue gets an error.
func TestWhatRunsAtATimeIsBounded(t *testing.T) {
	u := newUpstream(t, "modern")
	r := startRig(t, "[limits]\nin_flight = 4\nin_flight_per_principal = 4\nqueue = 2\n"+u.toml("concurrency = 3\n")+"[upstreams.default.tools.frail]\nconcurrency = 1\n", true)
	var mu sync.Mutex
	within, most := 0, 0
	frail, mostFrail := 0, 0
	u.on("tools/list", func(c *call) {
		c.result(`{"tools":[{"name":"e","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":60000,"cacheScope":"public"}`)
	})
	if res := r.must("GET", "/tools", ""); res.status != 200 {
		t.Fatal(res.status, res.body)
	}
	release, arrived := make(chan struct{}), make(chan struct{}, 16)
	u.on("tools/call", func(c *call) {
		isFrail := strings.Contains(c.body, `"frail"`)
		mu.Lock()
		if within++; within > most {
			most = within
		}
		if isFrail {
			if frail++; frail > mostFrail {
				mostFrail = frail
			}
		}
		mu.Unlock()
		arrived <- struct{}{}
		<-release
		mu.Lock()
		within--
		if isFrail {
			frail--
		}
		mu.Unlock()
		c.result(`{"content":[],"resultType":"complete"}`)
	})
	answers := make(chan *response, 16)
	call := func(id int, tool string) {
		go func() {
			res, err := r.do(t.Context(), "POST", "/mcp", modernCall(fmt.Sprint(id), tool, ""), modernHeaders("tools/call", tool)...)
			if err != nil {
				res = &response{body: err.Error()}
			}
			answers <- res
		}()
	}
	for i, tool := range []string{"frail", "frail", "a", "b"} { // frail, a, b run; one frail waits for its turn, in a slot
		call(i, tool)
	}
	for range 3 {
		testkit.Receive(t, "a call at the server", arrived)
	}
	call(5, "c")
	call(6, "d")
	testkit.Eventually(t, "two requests wait in the queue", func() bool { return r.sum("dragoman_requests_queued") == 2 })
	res := r.must("POST", "/mcp", modernCall("7", "e", ""), modernHeaders("tools/call", "e")...)
	if res.status != 200 || !strings.Contains(res.body, `"code":"too_busy","retryable":true`) || !strings.Contains(res.body, "limits.queue") {
		t.Errorf("%d %s", res.status, res.body)
	}
	if res := r.must("POST", "/call-tool", `{"tool":"e","arguments":{}}`, "Content-Type", jsonType); res.status != 503 || !strings.Contains(res.body, `"SERVICE_UNAVAILABLE"`) {
		t.Errorf("rest: %d %s", res.status, res.body)
	}
	close(release)
	for range 6 {
		if res := testkit.Receive(t, "an answer", answers); res.status != 200 || !strings.Contains(res.body, `"result"`) {
			t.Errorf("%d %s", res.status, res.body)
		}
	}
	if most != 3 || mostFrail != 1 {
		t.Errorf("%d ran at a time, %d of the frail tool", most, mostFrail)
	}
	testkit.Eventually(t, "nothing runs", func() bool { return r.sum("dragoman_requests_running") == 0 })
}
