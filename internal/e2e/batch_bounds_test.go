package e2e

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// batchOf is an array of n requests.
func batchOf(n int, one func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = one(i)
	}
	return "[" + strings.Join(all, ",") + "]"
}

// An array of messages (2025-03-26) is bounded as a whole: one with more messages than allowed is refused before any of them is served.
func TestBatchesAreBounded(t *testing.T) {
	u := newUpstream(t, "legacy")
	r := startRig(t, u.toml(""), true)
	session := r.open("2025-03-26", "{}")
	u.forget()
	for name, one := range map[string]func(i int) string{
		"pings":         func(i int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i) },
		"calls":         func(i int) string { return legacyCall(fmt.Sprint(i), "a") },
		"notifications": func(int) string { return `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}` },
		"no messages":   func(int) string { return "0" },
		"arrays":        func(int) string { return "[]" },
	} {
		body := batchOf(40_000, one)
		began := time.Now()
		res := r.must("POST", "/mcp", body, legacyHeaders(session)...)
		if res.status != 400 || name != "no messages" && name != "arrays" && !strings.Contains(res.body, "more than 100 messages in one array") {
			t.Errorf("%s, %d bytes: %d %.200s", name, len(body), res.status, res.body)
		}
		t.Logf("%s: %d bytes in %s", name, len(body), time.Since(began))
	}
	if n := u.posts(); n != 0 {
		t.Errorf("%d messages of refused arrays have reached the server", n)
	}
}

// Each request of an array counts against the rate and the slots as one of its own would, and one runs at a time.
func TestRequestsOfABatchCount(t *testing.T) {
	u := newUpstream(t, "legacy")
	var running, most atomic.Int32
	u.on("tools/call", func(c *call) {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		c.result(`{"content":[]}`)
		running.Add(-1)
	})
	call := func(i int) string { return legacyCall(fmt.Sprint(i), "a") }
	t.Run("rate", func(t *testing.T) {
		r := startRig(t, "rate_limit_burst = 10\n[security]\nrate_limiting = \"on\"\nrate_limit = 10\n"+u.toml(""), true)
		session := r.open("2025-03-26", "{}") // the first of the ten
		res := r.must("POST", "/mcp", batchOf(100, call), legacyHeaders(session)...)
		if ok, refused := strings.Count(res.body, `"result"`), strings.Count(res.body, `"code":"rate_limited"`); ok+refused != 100 || ok < 9 || ok > 12 {
			t.Errorf("%d answered, %d refused: %.300s", ok, refused, res.body)
		}
	})
	t.Run("slots", func(t *testing.T) {
		r := startRig(t, "[limits]\nin_flight = 1\nqueue = 0\n"+u.toml(""), true)
		session := r.open("2025-03-26", "{}")
		res := r.must("POST", "/mcp", batchOf(100, call), legacyHeaders(session)...)
		if ok := strings.Count(res.body, `"result"`); ok != 100 {
			t.Errorf("%d answered: %.300s", ok, res.body)
		}
	})
	if most.Load() != 1 {
		t.Errorf("%d requests of an array ran at a time", most.Load())
	}
}

// On standard input an array has the same bound.
func TestBatchesOnStdioAreBounded(t *testing.T) {
	u := newUpstream(t, "legacy")
	p := startStdio(t, u.toml(""))
	p.send(strings.Replace(stdioInit, "2025-11-25", "2025-03-26", 1))
	testkit.Receive(t, "the session", p.lines)
	u.forget()
	p.send(batchOf(20_000, func(i int) string { return legacyCall(fmt.Sprint(i), "a") }))
	if got := testkit.Receive(t, "the answer", p.lines); !strings.Contains(got, "more than 100 messages in one array") {
		t.Errorf("%.300s", got)
	}
	p.send(`{"jsonrpc":"2.0","id":"after","method":"ping"}`)
	if got := testkit.Receive(t, "the next answer", p.lines); !strings.Contains(got, `"after"`) {
		t.Errorf("%.300s", got)
	}
	if n := len(u.all("tools/call")); n != 0 {
		t.Errorf("%d calls of a refused array have reached the server", n)
	}
}
