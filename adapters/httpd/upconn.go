package httpd

import (
	"bufio"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	waist "dragoman/proxy"
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
	pair [2][]byte
	both net.Buffers // pair, as it is being written

	idleSince time.Time
	taken     time.Time // from the pool, or when it was made
	owes      time.Time // the end of an answer, until when; zero: nothing
	served    int       // exchanges before this one
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
	var err error
	switch ex, ok := ctx.(*waist.Exchange); {
	case req.size() <= oneWrite:
		c.out = append(c.out, req.Body...)
		for _, piece := range req.Behind {
			c.out = append(c.out, piece...)
		}
		err = c.push(c.taken, c.out, nil)
	case ok: // it would have to make a channel
		ex.Attach(c)
		err = c.writeLarge(req)
		ex.Detach(c)
	default:
		stop := context.AfterFunc(ctx, c.Abort)
		err = c.writeLarge(req)
		stop()
	}
	if err == nil {
		err = context.Cause(ctx) // it may have closed the connection under the last write, and may yet do so
	}
	if err != nil {
		return c.writeFailed(ctx, err)
	}
	if cap(c.out) > keptBuffer {
		c.out = nil
	}
	return nil
}

// writeLarge writes the head, which is in out, and a body that is not copied, but for small pieces of it.
func (c *upConn) writeLarge(req *Request) error {
	err := c.writePart(req.Body)
	for i := 0; i < len(req.Behind) && err == nil; i++ {
		err = c.writePart(req.Behind[i])
	}
	if err == nil && len(c.out) > 0 {
		err = c.push(time.Now(), c.out, nil)
	}
	return err
}

// writePart puts a small part behind out, and writes a large one with what is there.
func (c *upConn) writePart(part []byte) error {
	if len(part) <= oneWrite && len(c.out)+len(part) <= writePiece {
		c.out = append(c.out, part...)
		return nil
	}
	var err error
	if len(c.out) > 0 {
		piece := part[:min(len(part), max(writePiece-len(c.out), 0))]
		err = c.push(time.Now(), c.out, piece)
		c.out, part = c.out[:0], part[len(piece):]
	}
	for len(part) > 0 && err == nil {
		piece := part[:min(len(part), writePiece)]
		err = c.push(time.Now(), piece, nil)
		part = part[len(piece):]
	}
	return err
}

// Abort implements proxy.Aborter: it ends a write.
func (c *upConn) Abort() { _ = c.wire.Close() }

// push writes two pieces, in one system call if it can be.
func (c *upConn) push(now time.Time, p, more []byte) error {
	if err := c.writing.extend(c.nc, now, c.host.opts.WriteTimeout); err != nil {
		return err
	}
	if tcp, ok := c.wire.Conn.(*net.TCPConn); ok && len(more) > 0 && c.nc == net.Conn(c.wire) {
		c.pair = [2][]byte{p, more}
		c.both = c.pair[:]
		n, err := c.both.WriteTo(tcp)
		c.wire.wrote += n
		c.pair = [2][]byte{}
		return err
	}
	_, err := c.nc.Write(p)
	if err == nil && len(more) > 0 {
		_, err = c.nc.Write(more)
	}
	return err
}

func (c *upConn) writeFailed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return &WriteError{Wrote: c.wire.wrote > 0, Err: err}
}
