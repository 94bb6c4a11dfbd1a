package e2e

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// tcpRelay relays connections to an address. It can cut them, and make streams stall like connections that a network has forgotten.
type tcpRelay struct {
	addr string
	mu   sync.Mutex
	all  []*relayedConn
}

// relayedConn is one connection through a relay.
type relayedConn struct {
	near, far       net.Conn
	stream, stalled atomic.Bool // the last request opened a stream; nothing is returned any more
}

func startRelay(t *testing.T, to string) *tcpRelay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &tcpRelay{addr: ln.Addr().String()}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			c := &relayedConn{near: near, far: far}
			r.mu.Lock()
			r.all = append(r.all, c)
			r.mu.Unlock()
			group.Go(c.relayRequests)
			group.Go(c.relayResponses)
		}
	})
	t.Cleanup(func() { _ = ln.Close(); r.cut(); group.Wait() })
	return r
}

func (c *relayedConn) relayRequests() {
	defer func() { _ = c.far.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := c.near.Read(buf)
		if n > 4 {
			c.stream.Store(string(buf[:4]) == "GET ")
		}
		if _, werr := c.far.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (c *relayedConn) relayResponses() {
	buf := make([]byte, 32<<10)
	for {
		n, err := c.far.Read(buf)
		if c.stalled.Load() {
			n = 0
		} else if err != nil {
			_ = c.near.Close()
		}
		if _, werr := c.near.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// stall makes existing streams silent; new ones work.
func (r *tcpRelay) stall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.all {
		c.stalled.Store(c.stream.Load())
	}
}

// cut closes all open connections.
func (r *tcpRelay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.all {
		_, _ = c.near.Close(), c.far.Close()
	}
	r.all = nil
}
