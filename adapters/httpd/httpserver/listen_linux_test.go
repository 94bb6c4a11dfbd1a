package httpserver

import (
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

// Connections accepted by a loopback listener have no congestion control with pacing.
func TestListenOnTheLoopback(t *testing.T) {
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if got := congestion(t, nc); got != "reno" {
		t.Error(got)
	}
}
