package httpd

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	writePiece  = 256 << 10              // a write deadline must let this much through, however long the answer is
	lingerTime  = 500 * time.Millisecond // how long a refused client may go on sending, so that it reads the refusal
	lingerBytes = 8 << 20
)

// A connection is idle between requests, so that Shutdown may close it; busy from the first byte of a request, and served when
// that is here, to the last byte of its answer.
const (
	phaseIdle int32 = iota
	phaseBusy
	phaseServed
	phaseClosed
)

// conn is an accepted connection as fasthttp sees it. Reads and writes come from the goroutine that serves it, or, once
// it is hijacked, from its Held.
type conn struct {
	net.Conn // plain or TLS

	srv     *Server
	inner   net.Conn        // the socket: Conn, or what is inside the TLS
	raw     syscall.RawConn // of inner; nil without a socket
	slot    int32           // of the watcher
	number  uint64          // in the order of accepting
	watched bool
	phase   atomic.Int32
	closed  atomic.Bool
	held    atomic.Pointer[Held]

	watchMu  sync.Mutex
	leaver   Leaver
	watchGen uint64
	gone     bool

	deadline writeDeadline
	reads    readDeadline
	evicted  atomic.Bool // others need the room that its body has taken: its time for reading is over
	out      []byte      // an answer's head, kept back to leave with its first event
	holding  bool        // writes go to out
	swallow  int         // bytes of fasthttp's end of a body that have been written already
	gated    bool        // the gates have judged this request, before its body
	quiet    bool        // an interim answer that nobody expects is about to be written
	kept     []byte      // what may be the beginning of that
	late     bool        // the time for reading was over; not all errors of fasthttp say so
	linger   bool        // the client is told why and may still be sending

	fields Fields // of the request

	asked *fasthttp.RequestHeader // the head that the gates have judged, while a body in chunks is read
	large bool                    // a body is being read that takes room
	room  int                     // of reading, under its lock
	began time.Time               // when that body did
}

// tlsConn is a conn that fasthttp recognises as TLS.
type tlsConn struct {
	*conn
	tls *tls.Conn
}

func (c *tlsConn) Handshake() error                     { return c.tls.Handshake() }
func (c *tlsConn) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }

// connOf returns the connection of ctx, or nil if it is not one of a Server of this package.
func connOf(ctx *fasthttp.RequestCtx) *conn { return connIn(ctx.Conn()) }

func connIn(nc net.Conn) *conn {
	switch c := nc.(type) {
	case *conn:
		return c
	case *tlsConn:
		return c.conn
	}
	return nil
}

// wrap makes a conn of an accepted connection and has it watched. The second result is what fasthttp is given.
func (s *Server) wrap(nc net.Conn) (*conn, net.Conn) {
	c := &conn{Conn: nc, srv: s, inner: nc}
	secure, isTLS := nc.(*tls.Conn)
	if isTLS {
		c.inner = secure.NetConn()
	}
	if sc, ok := c.inner.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw = raw
			if err := s.watch.add(c); err != nil {
				s.logf("%v", err)
			} else {
				c.watched = true
			}
		}
	}
	if isTLS {
		return c, &tlsConn{conn: c, tls: secure}
	}
	return c, c
}

// Read marks the connection busy as soon as there is a byte of a request.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for n == 0 && err != nil && isDeadline(err) && !c.evicted.Load() && c.reads.early(c.Conn) {
		n, err = c.Conn.Read(p)
	}
	if n > 0 {
		c.phase.CompareAndSwap(phaseIdle, phaseBusy)
	}
	if err != nil && isDeadline(err) {
		c.late = true
	}
	return n, err
}

// SetReadDeadline is called by fasthttp several times for each request.
func (c *conn) SetReadDeadline(t time.Time) error { return c.reads.to(c.Conn, t) }

// Write writes all of p under a deadline of its own.
func (c *conn) Write(p []byte) (int, error) {
	size := len(p)
	if c.quiet {
		if p = c.withhold(p); len(p) > 0 {
			if _, err := c.write(p); err != nil {
				return 0, err
			}
		}
		return size, nil
	}
	return c.write(p)
}

func (c *conn) write(p []byte) (int, error) {
	size := len(p)
	if c.swallow > 0 {
		n := min(c.swallow, len(p))
		c.swallow -= n
		p = p[n:]
	}
	if c.holding {
		c.out = append(c.out, p...)
		return size, nil
	}
	if len(p) == 0 {
		return size, nil
	}
	n, err := c.send(p)
	return size - len(p) + n, err
}

// send writes p in pieces, each of which must go within the write timeout: a slow reader of a long answer lives, one
// that does not read at all does not.
func (c *conn) send(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		if err = c.deadline.extend(c.Conn, c.srv.opts.WriteTimeout); err != nil {
			break
		}
		var m int
		m, err = c.Conn.Write(p[:min(len(p), writePiece)])
		n += m
		p = p[m:]
	}
	return n, err
}

// takeHead ends holding and returns what was held.
func (c *conn) takeHead() []byte {
	c.holding = false
	head := c.out
	c.out = nil
	return head
}

// SetDeadline is called by fasthttp when a connection is hijacked.
func (c *conn) SetDeadline(t time.Time) error {
	c.deadline, c.reads = writeDeadline{}, readDeadline{want: t, set: t}
	return c.Conn.SetDeadline(t)
}

// Close is called once the connection has been served.
func (c *conn) Close() error {
	if c.linger && !c.closed.Load() {
		c.lingerOn()
	}
	c.shut(false)
	return nil
}

// lingerOn closes the sending half and reads on for a moment. Closing at once with unread bytes would reset the
// connection, and the client would lose the answer that tells it why.
func (c *conn) lingerOn() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	if c.inner.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(c.inner, lingerBytes))
	}
}

// shut closes the connection and lets go of it. By force no farewell is written, so that it cannot block.
func (c *conn) shut(force bool) {
	if !c.closed.CompareAndSwap(false, true) {
		if force {
			_ = c.inner.Close() // also ends a lingering or blocked close
		}
		return
	}
	c.phase.Store(phaseClosed)
	c.srv.reading.leave(c)
	if c.watched {
		c.srv.watch.remove(c)
	}
	c.srv.forget(c)
	if force {
		_ = c.inner.Close()
	} else {
		_ = c.Conn.Close()
	}
	if h := c.held.Load(); h != nil {
		h.close(ErrLeft)
	}
}

// closeIdle closes the connection if no request is on it.
func (c *conn) closeIdle() {
	if c.phase.CompareAndSwap(phaseIdle, phaseClosed) {
		c.shut(true)
	}
}

// disarm takes away whatever Leaver there is, for a handler that did not come to do it.
func (c *conn) disarm() {
	c.watchMu.Lock()
	c.leaver = nil
	c.watchGen++
	c.watchMu.Unlock()
}

// unchunk takes the Transfer-Encoding line out of the last head in out, for a client of HTTP/1.0, which does not know
// it (RFC 9112 §6.1).
func unchunk(out []byte) []byte {
	line := []byte("Transfer-Encoding: chunked\r\n")
	if i := bytes.LastIndex(out, line); i >= 0 {
		return append(out[:i], out[i+len(line):]...)
	}
	return out
}
