package httpclient

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func congestion(t *testing.T, of any) string {
	t.Helper()
	raw, err := of.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var name string
	var got error
	if err := raw.Control(func(fd uintptr) { name, got = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION) }); err != nil || got != nil {
		t.Fatal(err, got)
	}
	return name
}

// A connection to the loopback has no congestion control with pacing.
func TestConnectToTheLoopback(t *testing.T) {
	ln := loopback(t)
	defer ln.Close()
	h := newHost(t, HostOptions{URL: ln.Addr().String()})
	c, err := h.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer h.drop(c)
	if got := congestion(t, c.sock.Conn); got != "reno" {
		t.Error(got)
	}
}
