package httpclient

import (
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"
)

// A server that leaves Nagle's algorithm on (axum's default) sends the second piece of a response when the first is acknowledged. Once such
// a pause was seen, nothing waits for it.
func TestResponsesInPieces(t *testing.T) {
	h := newHost(t, HostOptions{URL: upstream(t, func(_ int, c net.Conn) {
		_ = c.(*net.TCPConn).SetNoDelay(false)
		each(c, func(*http.Request, string) string {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")
			return "later"
		})
	})})
	requests := func(n int) (times []time.Duration) {
		for range n {
			began := time.Now()
			if body := whole(t, h, post("hi")); body != "firstlater" {
				t.Fatalf("%q", body)
			}
			times = append(times, time.Since(began))
		}
		slices.Sort(times)
		return times
	}
	requests(30) // on a new connection the system holds nothing back
	if !h.stalls.Load() {
		t.Error("the server's pauses were not seen: nothing was tested")
	}
	if times := requests(30); times[15] >= stall {
		t.Errorf("half of the requests take %v and more", times[15])
	}
}
