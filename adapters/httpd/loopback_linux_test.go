package httpd

import (
	"context"
	"net"
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

// Within the machine nothing is paced, on either end; what other machines may come to has the system's congestion control.
func TestCalm(t *testing.T) {
	s, err := NewServer(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	plain, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	usual := congestion(t, plain)
	for addr, want := range map[string]string{"127.0.0.1:0": "reno", "0.0.0.0:0": usual} {
		ln, err := Listen(addr)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		h, err := NewHost(HostOptions{URL: "http://127.0.0.1:" + port})
		if err != nil {
			t.Fatal(err)
		}
		c, err := h.connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer h.drop(c)
		theirs, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer theirs.Close()
		if ours := congestion(t, c.wire.Conn); ours != "reno" || congestion(t, theirs) != want {
			t.Errorf("%s: dialled %s, accepted %s, not %s", addr, ours, congestion(t, theirs), want)
		}
	}
}
