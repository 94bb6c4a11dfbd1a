package e2e

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"dragoman/internal/testkit"
)

// Answers that arrive slowly are in memory as far as they have come, for as many calls as limits.in_flight lets run: the calls that wait
// hold nothing.
func TestAnswersThatArriveSlowly(t *testing.T) {
	const calls, running, size = 24, 8, 3 << 19 // buffers that grow by doubling have room left
	u := newUpstream(t, "modern")
	var arrived atomic.Int32
	proceed := make(chan struct{})
	text := `,"result":{"resultType":"complete","content":[{"type":"text","text":"` + strings.Repeat("x", size)
	u.on("tools/call", func(c *call) {
		c.w.Header().Set("Content-Type", jsonType)
		_, _ = io.WriteString(c.w, `{"jsonrpc":"2.0","id":`+c.id+text)
		c.w.(http.Flusher).Flush()
		arrived.Add(1)
		<-proceed
		_, _ = io.WriteString(c.w, `"}]}}`)
	})
	r := startRig(t, fmt.Sprintf("[limits]\nin_flight = %d\nin_flight_per_principal = %d\n", running, running)+u.toml(""), true)
	before := heapNow()
	done := make(chan error, calls)
	for range calls {
		go func() {
			res, err := r.do(t.Context(), "POST", "/mcp", modernCall("1", "large", ""), modernHeaders("tools/call", "large")...)
			if err == nil && (res.status != 200 || len(res.body) < size) {
				err = fmt.Errorf("%d, %d bytes: %.200s", res.status, len(res.body), res.body)
			}
			done <- err
		}()
	}
	testkit.Eventually(t, "as many answers as may come", func() bool {
		return arrived.Load() == running && r.sum("dragoman_requests_running") == running && r.sum("dragoman_requests_queued") == calls-running
	})
	// While the last of an answer arrives there are two buffers for it, so the heap is still falling.
	testkit.Eventually(t, "no more memory than two buffers for each call that runs", func() bool { return heapNow()-before <= 2*running*size })
	close(proceed)
	for range calls {
		if err := testkit.Receive(t, "an answer", done); err != nil {
			t.Error(err)
		}
	}
}

// heapNow is the size of the heap in use.
func heapNow() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
