package fakeserver

import (
	"sync"
	"testing"

	"dragoman/adapters/transport"
	"dragoman/proxy/wire"
)

// Scan scans a message of a test.
func Scan(t *testing.T, raw string) *wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return &m
}

// Outlet is the stream of a client's session. It records what the client receives.
type Outlet struct {
	mu  sync.Mutex
	got []string
}

// Push implements proxy.Outlet.
func (o *Outlet) Push(msg []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got = append(o.got, string(msg))
	return nil
}

// End implements proxy.Outlet.
func (o *Outlet) End() {}

// Take returns what was received since the last time.
func (o *Outlet) Take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	got := o.got
	o.got = nil
	return got
}

// NoLinks implements probe.Links for a legacy server.
type NoLinks struct{}

// Adopting implements probe.Links.
func (NoLinks) Adopting() (transport.Sink, func(transport.Link)) {
	return transport.Discard{}, func(transport.Link) {}
}

// Any implements probe.Links.
func (NoLinks) Any() bool { return false }
