package httpclient

import (
	"bufio"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/netpoll"
	"dragoman/proxy"
)

const (
	maxCopied  = 16 << 10  // largest body that is copied behind its head, to be sent in one write; a write to an idle connection never blocks on it
	writePiece = 256 << 10 // bytes that each write timeout is for
	maxKept    = 64 << 10  // largest buffer that a connection keeps
)

// stall is the shortest wait for a further piece of a response that may be due to an acknowledgement held back: systems hold one back
// for 40 ms (RFC 9293 §3.8.6.3 allows 500).
const stall = 30 * time.Millisecond

// socket is a network connection that counts the bytes that the kernel has taken, and seldom moves the system's read deadline.
//
// A server that leaves Nagle's algorithm on and writes a response in several pieces sends the second when the first is acknowledged
// (RFC 9293 §3.7.4), and the system here holds acknowledgements back on connections that are kept. So once a server was seen to pause
// within a response, what it has sent is acknowledged before the next piece is waited for. Other servers cost nothing but a look at the
// clock where their response comes in pieces.
type socket struct {
	net.Conn
	wrote int64
	reads netpoll.ReadDeadline

	raw    syscall.RawConn   // nil if it is no TCP connection
	quick  *netpoll.QuickAck // nil until first needed
	stalls *atomic.Bool      // of the Host: its server has paused within a response
	within bool              // a piece of the response has been read, and another is not known to be there
}

func (w *socket) Read(p []byte) (int, error) {
	if !w.within || w.raw == nil {
		n, err := w.read(p)
		w.within = n > 0 && n < len(p)
		return n, err
	}
	if w.stalls.Load() {
		if w.quick == nil {
			w.quick = netpoll.NewQuickAck(w.raw)
		}
		w.quick.Now()
	}
	began := time.Now()
	n, err := w.read(p)
	if n > 0 && !w.stalls.Load() && time.Since(began) >= stall {
		w.stalls.Store(true)
	}
	w.within = n < len(p)
	return n, err
}

func (w *socket) read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	for n == 0 && err != nil && http1.IsTimeout(err) && w.reads.Retry(w.Conn) {
		n, err = w.Conn.Read(p)
	}
	return n, err
}

func (w *socket) SetReadDeadline(t time.Time) error { return w.reads.Set(w.Conn, t) }

func (w *socket) SetDeadline(t time.Time) error {
	w.reads.Reset(t)
	return w.Conn.SetDeadline(t)
}

func (w *socket) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.wrote += int64(n)
	return n, err
}

// conn is a connection to an upstream, with all memory that one exchange needs. It belongs to the holder of the Response of its
// generation, or to the pool.
type conn struct {
	held int // bytes of the response that Arrivals counts; Arrivals.mu guards its changes
	host *Host
	nc   net.Conn // sock, or TLS over it
	sock *socket
	peek *netpoll.Peeker // nil without a descriptor
	br   *bufio.Reader
	out  []byte
	pair [2][]byte
	both net.Buffers // pair, as it is being written

	idleSince time.Time
	taken     time.Time // from the pool, or when it was made
	owes      time.Time // the end of a response is to arrive by then; zero: none is outstanding
	served    int       // exchanges before this one
	writing   netpoll.WriteDeadline
	readSet   time.Time // the read deadline of nc

	mu      sync.Mutex    // guards aborted, and gen against Abort
	gen     atomic.Uint64 // grows when a Response ends
	aborted bool

	fields      http1.Fields
	status      int
	body        http1.Body
	reader      http1.HeadReader
	interim     int
	headErr     error
	readUntil   time.Time // for Response.Read
	headDone    bool
	headOnly    bool   // the request was HEAD
	lastUse     bool   // not to be used again
	credentials string // the Authorization of the Host's Credentials; empty: none
}

func newConn(h *Host, nc net.Conn, sock *socket) *conn {
	c := &conn{host: h, nc: nc, sock: sock, br: bufio.NewReaderSize(nc, h.opts.MaxHeader)}
	c.body.SetReader(c.br)
	if sc, ok := sock.Conn.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.peek = netpoll.NewPeeker(raw)
			if _, tcp := sock.Conn.(*net.TCPConn); tcp {
				sock.raw, sock.stalls = raw, &h.stalls
			}
		}
	}
	return c
}

// begin makes the connection ready for another exchange.
func (c *conn) begin() {
	c.reader.Start(false)
	c.interim, c.headErr, c.readUntil = 0, nil, time.Time{}
	c.headDone, c.headOnly, c.lastUse = false, false, false
	c.body.StartEmpty()
	c.sock.wrote, c.sock.within = 0, false
}

// fresh reports whether an idle connection may be written to: the server has neither closed it nor sent bytes unasked.
func (c *conn) fresh(now time.Time) bool {
	idle := now.Sub(c.idleSince)
	if idle >= c.host.opts.IdleLimit {
		return false
	}
	return idle < time.Millisecond || c.peek == nil || c.peek.Peek() == netpoll.Quiet
}

func (c *conn) setDeadline(until time.Time) {
	if until != c.readSet {
		c.readSet = until
		_ = c.nc.SetReadDeadline(until) // fails on a closed connection only, as the read will
	}
}

func (c *conn) isAborted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.aborted
}

// write sends a request. Only a large one can block, on a server that does not read; the end of ctx then closes the connection.
func (c *conn) write(ctx context.Context, req *http1.Request) error {
	c.out = req.AppendHead(c.out[:0], &c.host.origin)
	var err error
	switch ex, ok := ctx.(*proxy.Exchange); {
	case req.Size() <= maxCopied:
		c.out = append(c.out, req.Body...)
		for _, piece := range req.Behind {
			c.out = append(c.out, piece...)
		}
		err = c.push(c.taken, c.out, nil)
	case ok: // AfterFunc would allocate
		ex.Attach(c)
		err = c.writeLarge(req)
		ex.Detach(c)
	default:
		stop := context.AfterFunc(ctx, c.Abort)
		err = c.writeLarge(req)
		stop()
	}
	if cause := context.Cause(ctx); cause != nil { // it may have closed the connection under the last write, and may yet do so
		err = cause
	}
	if err != nil {
		return &WriteError{Wrote: c.sock.wrote > 0, Err: err}
	}
	if cap(c.out) > maxKept {
		c.out = nil
	}
	return nil
}

// writeLarge writes the head, which is in out, and a body of which only small pieces are copied.
func (c *conn) writeLarge(req *http1.Request) error {
	err := c.writePart(req.Body)
	for i := 0; i < len(req.Behind) && err == nil; i++ {
		err = c.writePart(req.Behind[i])
	}
	if err == nil && len(c.out) > 0 {
		err = c.push(time.Now(), c.out, nil)
	}
	return err
}

// writePart appends a small part to out, and writes a large one behind it.
func (c *conn) writePart(part []byte) error {
	if len(part) <= maxCopied && len(c.out)+len(part) <= writePiece {
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
func (c *conn) Abort() { _ = c.sock.Close() }

// push writes two pieces, in one system call where possible.
func (c *conn) push(now time.Time, p, more []byte) error {
	if err := c.writing.Extend(c.nc, now, c.host.opts.WriteTimeout); err != nil {
		return err
	}
	if tcp, ok := c.sock.Conn.(*net.TCPConn); ok && len(more) > 0 && c.nc == net.Conn(c.sock) {
		c.pair = [2][]byte{p, more}
		c.both = c.pair[:]
		n, err := c.both.WriteTo(tcp)
		c.sock.wrote += n
		c.pair = [2][]byte{}
		return err
	}
	_, err := c.nc.Write(p)
	if err == nil && len(more) > 0 {
		_, err = c.nc.Write(more)
	}
	return err
}
