package faults

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// ending is the effect of a gate when the server's side of a connection ends.
type ending int

const (
	ends   ending = iota // the connection is closed
	resets               // it is reset
	halves               // its sending side is closed; data from the other side is discarded
)

// gate forwards connections. Unlike Toxiproxy it can reset open connections and close one direction of them.
type gate struct {
	t        *testing.T
	addr, to string
	group    sync.WaitGroup

	mu       sync.Mutex
	ln       net.Listener
	open     map[*net.TCPConn]*net.TCPConn // by the accepted connection, the dialled one
	ending   ending
	cutAsked bool // the sending side towards `to` is closed after the next bytes
	passed   int  // bytes towards `from`
	accepted int  // connections
	closedAt time.Time
}

// newGate opens a gate, which is closed with the test.
func newGate(t *testing.T, to string) *gate {
	t.Helper()
	g := &gate{t: t, addr: heldAddress(t), to: to, open: map[*net.TCPConn]*net.TCPConn{}}
	g.listen()
	t.Cleanup(func() { g.refuse(); g.group.Wait() })
	return g
}

// listen opens the gate, again at its address.
func (g *gate) listen() {
	g.t.Helper()
	var ln net.Listener
	eventually(g.t, "the gate's address is free", func() bool {
		var err error
		ln, err = net.Listen("tcp", g.addr)
		return err == nil
	})
	g.mu.Lock()
	g.ln = ln
	g.mu.Unlock()
	g.group.Go(func() {
		for {
			from, err := ln.Accept()
			if err != nil {
				return
			}
			g.group.Go(func() { g.pass(from.(*net.TCPConn)) })
		}
	})
}

// refuse closes the gate: open connections are reset, new ones refused.
func (g *gate) refuse() {
	g.mu.Lock()
	_ = g.ln.Close()
	g.mu.Unlock()
	g.cut()
}

// cut resets all connections that are open.
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closedAt = time.Now()
	for from, to := range g.open {
		reset(from)
		_ = to.Close()
	}
}

// set sets the effect for all connections, open ones included.
func (g *gate) set(e ending, cutAsked bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ending, g.cutAsked = e, cutAsked
}

// aim makes new connections go to another address.
func (g *gate) aim(to string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.to = to
}

// seen returns how many connections came, how many bytes went back to where they came from, and when one of them was closed or reset last
// because its other side was.
func (g *gate) seen() (connections, bytes int, closed time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.accepted, g.passed, g.closedAt
}

// Write counts bytes towards `from`.
func (g *gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passed += len(b)
	return len(b), nil
}

func (g *gate) pass(from *net.TCPConn) {
	g.mu.Lock()
	at := g.to
	g.accepted++
	g.mu.Unlock()
	conn, err := net.DialTimeout("tcp", at, time.Second)
	if err != nil {
		_ = from.Close()
		return
	}
	to := conn.(*net.TCPConn)
	g.mu.Lock()
	g.open[from] = to
	g.mu.Unlock()
	asked := make(chan struct{})
	go func() { // ends with the reading side of from, at the latest when it is closed below
		defer close(asked)
		g.ask(from, to)
	}()
	_, _ = io.Copy(from, io.TeeReader(to, g))
	g.mu.Lock()
	end := g.ending
	g.closedAt = time.Now()
	g.mu.Unlock()
	switch end {
	case resets:
		reset(from)
	case halves:
		_ = from.CloseWrite()
		_, _ = io.Copy(io.Discard, from)
		<-asked
	}
	_ = from.Close()
	_ = to.Close()
	<-asked
	g.mu.Lock()
	delete(g.open, from)
	g.mu.Unlock()
}

// ask copies data towards the server. With cutAsked the server sees the end of it, which the sender does not notice.
func (g *gate) ask(from, to *net.TCPConn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				_, _ = io.Copy(io.Discard, from)
				return
			}
			g.mu.Lock()
			cut := g.cutAsked
			g.mu.Unlock()
			if cut {
				_ = to.CloseWrite()
			}
		}
		if err != nil {
			_ = to.CloseWrite()
			if !errors.Is(err, io.EOF) {
				_ = to.Close()
			}
			return
		}
	}
}

func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
