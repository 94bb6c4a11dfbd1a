package e2e

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// askAndLeave sends a request on n connections from an address and never reads an answer.
func askAndLeave(t *testing.T, r *rig, n int, from, path, body string, headers ...string) {
	t.Helper()
	var head strings.Builder
	fmt.Fprintf(&head, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n", path, len(body))
	for i := 0; i+1 < len(headers); i += 2 {
		fmt.Fprintf(&head, "%s: %s\r\n", headers[i], headers[i+1])
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	for range n {
		c, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(r.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, head.String()+"\r\n"+body); err != nil {
			t.Fatal(err)
		}
	}
}

// Callers that ask for much and read nothing keep nobody else from being served, at any endpoint, and what waits for them is bounded.
func TestUnreadAnswers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has addresses beside 127.0.0.1")
	}
	t.Parallel()
	text := strings.Repeat("x", 8<<20)
	for name, c := range map[string]struct {
		path, body string
		headers    []string
		streams    bool
	}{
		"modern":   {"/mcp", modernCall("1", "large", ""), modernHeaders("tools/call", "large"), false},
		"events":   {"/mcp", modernCall("1", "large", ""), modernHeaders("tools/call", "large"), true},
		"REST":     {"/tools/large", "{}", []string{"Content-Type", jsonType}, false},
		"REST sse": {"/tools/large", "{}", []string{"Content-Type", jsonType, "Accept", "text/event-stream"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, "modern")
			u.on("tools/list", func(c *call) {
				c.result(`{"tools":[{"name":"large","inputSchema":{"type":"object"}},{"name":"small","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"public"}`)
			})
			u.on("tools/call", func(q *call) {
				if strings.Contains(q.body, `"small"`) {
					q.result(`{"content":[],"resultType":"complete"}`)
					return
				}
				if c.streams {
					q.event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"first"}}`)
				}
				q.result(`{"content":[{"type":"text","text":"` + text + `"}],"resultType":"complete"}`)
			})
			r := startRig(t, "[limits]\nin_flight = 4\nanswer_bytes = \"64MiB\"\nanswer_bytes_per_principal = \"40MiB\"\n"+u.toml(""), true)
			r.http.Timeout = testkit.Patient
			askAndLeave(t, r, 5, "127.0.0.2", c.path, c.body, c.headers...)
			testkit.Eventually(t, "answers wait", func() bool { return r.sum("dragoman_answer_bytes") > 0 })
			for range 5 {
				began := time.Now()
				res := r.must("POST", "/mcp", modernCall("1", "small", ""), modernHeaders("tools/call", "small")...)
				if took := time.Since(began); res.status != 200 || !strings.Contains(res.body, `"result"`) || took > 5*time.Second {
					t.Errorf("another caller: %d %s after %v", res.status, res.body, took)
				}
			}
			if n := r.sum("dragoman_answer_bytes"); n > 64<<20 {
				t.Errorf("%v bytes wait", n)
			}
			testkit.Eventually(t, "no slot is held", func() bool { return r.sum("dragoman_requests_running") == 0 })
		})
	}
}

// Streams of events that nobody reads hold no slot once their server has answered, long before they are broken off.
func TestUnreadEventsHoldNoSlot(t *testing.T) {
	const calls = 3
	t.Parallel()
	event := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("x", 2<<20) + `"}}`
	for name, c := range map[string]struct {
		path, body string
		headers    []string
	}{
		"modern": {"/mcp", modernCall("1", "large", ""), modernHeaders("tools/call", "large")},
		"REST":   {"/tools/large", "{}", []string{"Content-Type", jsonType, "Accept", "text/event-stream"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, "modern")
			u.on("tools/list", func(c *call) {
				c.result(`{"tools":[{"name":"large","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"public"}`)
			})
			var asked atomic.Int32
			u.on("tools/call", func(q *call) {
				for range 3 {
					q.event(event)
				}
				q.result(`{"content":[],"resultType":"complete"}`)
				asked.Add(1)
			})
			r := startRig(t, "[limits]\nin_flight = 3\n"+u.toml(""), true)
			askAndLeave(t, r, calls, "127.0.0.1", c.path, c.body, c.headers...)
			testkit.Eventually(t, "all have been answered", func() bool {
				return asked.Load() == calls && r.sum("dragoman_requests_running")+r.sum("dragoman_requests_queued") == 0
			})
			if lost, kept := r.sum("dragoman_answers_lost_total"), r.sum("dragoman_answer_bytes"); lost != 0 || kept < calls<<20 {
				t.Errorf("%v are lost, %v bytes are kept", lost, kept)
			}
		})
	}
}
