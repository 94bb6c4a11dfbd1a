//go:build !linux

package faults

import (
	"net"
	"testing"
)

// heldAddress returns a free address of this machine. Other systems than Linux do not bind two sockets to it.
func heldAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}
