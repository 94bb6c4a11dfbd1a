package e2e

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"dragoman/internal/testkit"
)

// A server that begins a large event on the stream of each session is held to its share of limits.arriving_bytes: further streams are
// ended, and the log says whose fault it is.
func TestUnfinishedEventsOfOneServer(t *testing.T) {
	const sessions, begun = 12, 3 << 20
	for _, kind := range []string{"legacy", "sse"} {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			u.getOpen = true
			r := startRig(t, "[limits]\narriving_bytes = \"8MiB\"\n"+u.toml(""), true)
			for range sessions {
				r.open("2025-06-18", "{}")
			}
			testkit.Eventually(t, "the streams are open", func() bool { return u.openStreams() == sessions })
			u.mu.Lock()
			var streams []*stream
			for _, s := range u.streams {
				streams = append(streams, s)
			}
			u.mu.Unlock()
			before := heapNow()
			for _, s := range streams {
				s.mu.Lock()
				_, _ = io.WriteString(s.w, "data: "+strings.Repeat("x", begun))
				s.w.(http.Flusher).Flush()
				s.mu.Unlock()
			}
			testkit.Eventually(t, "streams are ended", func() bool { return u.openStreams() < sessions })
			// The buffers of the streams that are ended last may still be in use.
			testkit.Eventually(t, "no more memory than the limit and two events", func() bool { return heapNow()-before <= 2*begun+(8<<20) })
			testkit.Eventually(t, "the log says why", func() bool {
				return strings.Contains(r.logs.String(), `"upstream":"default","cause":"httpd: unfinished answers of one server hold more than 6291456 bytes"`)
			})
		})
	}
}

// A call whose answer has no room gets an error that blames the server and names the limit.
func TestUnfinishedAnswersOfOneServer(t *testing.T) {
	u := newUpstream(t, "modern")
	proceed := make(chan struct{})
	u.on("tools/call", func(c *call) {
		c.w.Header().Set("Content-Type", jsonType)
		_, _ = io.WriteString(c.w, `{"jsonrpc":"2.0","id":`+c.id+`,"result":{"resultType":"complete","content":[{"type":"text","text":"`+strings.Repeat("x", 2<<20))
		c.w.(http.Flusher).Flush()
		<-proceed
		_, _ = io.WriteString(c.w, `"}]}}`)
	})
	r := startRig(t, "[limits]\narriving_bytes = \"8MiB\"\n"+u.toml(""), true)
	const calls = 8
	answers := make(chan *response, calls)
	for range calls {
		go func() {
			res, err := r.do(t.Context(), "POST", "/mcp", modernCall("1", "large", ""), modernHeaders("tools/call", "large")...)
			if err != nil {
				res = &response{body: err.Error()}
			}
			answers <- res
		}()
	}
	free := sync.OnceFunc(func() { close(proceed) })
	defer free()
	refused := testkit.Receive(t, "a refusal", answers)
	if f := failureOf(t, refused); f.Error.Data.Code != "upstream_overloaded" || !strings.Contains(refused.body, "its share of limits.arriving_bytes, 6291456 bytes") {
		t.Errorf("%s", refused.body)
	}
	free()
	whole := 0
	for range calls - 1 {
		if res := testkit.Receive(t, "an answer", answers); res.status == 200 && len(res.body) > 2<<20 {
			whole++
		}
	}
	if whole == 0 {
		t.Error("no answer came whole")
	}
}
