package httpd

import (
	"bufio"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// oneWrite is the largest body that is copied behind its head, to leave in one write. It is also what a write to an idle
// connection never blocks on.
const oneWrite = 16 << 10

// counted is a socket that counts what the kernel has taken, and spares the system's read deadline.
type counted struct {
	net.Conn
	wrote int64
	reads readDeadline
}

func (w *counted) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	for n == 0 && err != nil && isDeadline(err) && w.reads.early(w.Conn) {
		n, err = w.Conn.Read(p)
	}
	return n, err
}

func (w *counted) SetReadDeadline(t time.Time) error { return w.reads.to(w.Conn, t) }

func (w *counted) SetDeadline(t time.Time) error {
	w.reads = readDeadline{want: t, set: t}
	return w.Conn.SetDeadline(t)
}

func (w *counted) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.wrote += int64(n)
	return n, err
}

// upConn is a connection to an upstream, with everything one exchange needs, so that the next costs nothing. It belongs
// to whoever holds the Answer of its generation, or to the pool.
type upConn struct {
	host *Host
	nc   net.Conn // wire, or TLS over it
	wire *counted
	look *peeker // nil without a socket
	br   *bufio.Reader
	out  []byte

	idleSince time.Time
	served    int // exchanges before this one
	writing   writeDeadline
	readSet   time.Time // the deadline nc has

	mu      sync.Mutex    // guards aborted, and gen against Abort
	gen     atomic.Uint64 // grows when an Answer ends
	aborted bool

	head      Fields
	status    int
	body      body
	scan      headScan
	interim   int
	headErr   error
	readUntil time.Time // for Answer.Read
	headDone  bool
	headOnly  bool   // the request was HEAD
	lastUse   bool   // not to be used again
	shown     string // the Authorization of the Host's Credentials; empty: none
}

func newUpConn(h *Host, nc net.Conn, wire *counted) *upConn {
	c := &upConn{host: h, nc: nc, wire: wire, br: bufio.NewReaderSize(nc, h.opts.MaxHeader)}
	c.body.br = c.br
	if sc, ok := wire.Conn.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.look = newPeeker(raw)
		}
	}
	return c
}

// begin makes the connection ready for another exchange.
func (c *upConn) begin() {
	c.scan.start(false)
	c.interim, c.headErr, c.readUntil = 0, nil, time.Time{}
	c.headDone, c.headOnly, c.lastUse = false, false, false
	c.body.start(bodyNone, 0)
	c.wire.wrote = 0
}

// fresh reports whether an idle connection may be written to: not closed by the server, and without bytes nobody asked for.
func (c *upConn) fresh(now time.Time) bool {
	idle := now.Sub(c.idleSince)
	if idle >= c.host.opts.IdleLimit {
		return false
	}
	return idle < time.Millisecond || c.look == nil || c.look.peek() == sockQuiet
}

func (c *upConn) setDeadline(until time.Time) {
	if until != c.readSet {
		c.readSet = until
		_ = c.nc.SetReadDeadline(until) // fails on a closed connection only, as the read will
	}
}

func (c *upConn) isAborted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.aborted
}

// write sends a request. Only a large one can block, on a server that does not read; then ctx's end closes the connection.
func (c *upConn) write(ctx context.Context, req *Request) error {
	c.out = req.appendTo(c.out[:0], c.host)
	body := req.Body
	if len(body) <= oneWrite {
		c.out, body = append(c.out, body...), nil
	} else if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { _ = c.wire.Close() })
		defer stop()
	}
	if err := c.push(c.out); err != nil {
		return c.writeFailed(ctx, err)
	}
	for len(body) > 0 {
		piece := body[:min(len(body), writePiece)]
		if err := c.push(piece); err != nil {
			return c.writeFailed(ctx, err)
		}
		body = body[len(piece):]
	}
	if err := context.Cause(ctx); err != nil { // it may have closed the connection under the last write
		return c.writeFailed(ctx, err)
	}
	if cap(c.out) > keptBuffer {
		c.out = nil
	}
	return nil
}

func (c *upConn) push(p []byte) error {
	if err := c.writing.extend(c.nc, c.host.opts.WriteTimeout); err != nil {
		return err
	}
	_, err := c.nc.Write(p)
	return err
}

func (c *upConn) writeFailed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return &WriteError{Wrote: c.wire.wrote > 0, Err: err}
}
