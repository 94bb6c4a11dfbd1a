package httpserver

import (
	"net"
	"testing"

	"dragoman/internal/testkit"
)

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
	if got := testkit.Congestion(t, nc); got != "reno" {
		t.Error(got)
	}
}
