//go:build !linux

package testkit

import (
	"net"
	"testing"
)

// HeldAddress is one of this machine where nobody listens just now. Elsewhere than on Linux two cannot be bound to it.
func HeldAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}
