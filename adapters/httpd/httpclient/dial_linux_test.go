package httpclient

import (
	"testing"

	"dragoman/internal/testkit"
)

// A connection to the loopback has no congestion control with pacing.
func TestConnectToTheLoopback(t *testing.T) {
	ln := testkit.Listen(t)
	defer ln.Close()
	h := newHost(t, HostOptions{URL: ln.Addr().String()})
	c, err := h.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer h.drop(c)
	if got := testkit.Congestion(t, c.sock.Conn); got != "reno" {
		t.Error(got)
	}
}
