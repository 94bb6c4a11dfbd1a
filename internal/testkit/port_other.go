//go:build !linux

package testkit

import (
	"net"
	"testing"
)

// HeldAddress returns a loopback address with a port that is free now. It is not reserved: only on Linux can two
// sockets be bound to one port.
func HeldAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}
