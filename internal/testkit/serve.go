package testkit

import (
	"context"
	"errors"
	"net"
	"testing"
)

// Listen listens on a loopback port.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// Serve has a server serve a loopback port until the test ends, and returns its address.
func Serve(t *testing.T, s interface {
	Serve(ln net.Listener) error
	Shutdown(ctx context.Context) error
}) (addr string) {
	t.Helper()
	ln := Listen(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patient)
		defer cancel()
		if err := errors.Join(s.Shutdown(ctx), <-served); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}
