package httpd

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
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

// conn is an accepted connection. Reads and writes come from the goroutine that serves it, or, once it is taken over, from its
// Held.
type conn struct {
	net.Conn // plain or TLS

	srv     *Server
	inner   net.Conn        // the socket: Conn, or what is inside the TLS
	raw     syscall.RawConn // of inner; nil without a socket
	slot    int32           // of the watcher
	cold    int32           // the descriptor, while there is no more of the socket than that; see chill
	number  uint64          // in the order of accepting
	watched bool
	phase   atomic.Int32
	closed  atomic.Bool
	large   bool // a body is being read that takes room
	held    atomic.Pointer[Held]
	sock    sync.Mutex // guards cold, and that Conn, inner and raw come and go with it

	watchMu  sync.Mutex
	leaver   Leaver
	watchGen uint64
	gone     atomic.Bool

	deadline writeDeadline
	reads    readDeadline
	wroteAt  time.Time   // when the last write began
	evicted  atomic.Bool // others need the room that its body has taken: its time for reading is over
	timed    bool        // the request that is being read has its own time for that
	late     bool        // that was over
	gated    bool        // the gates have judged this request, before its body
	linger   bool        // the client is told why and may still be sending

	from  netip.Addr // where it comes from, if by TCP
	talk  *talk      // nil before the first request, and once it is held
	taken *Held      // by which the handler has taken the connection over

	room  int           // of reading, under its lock
	began time.Duration // when a large body did, likewise
}

// tlsConn is a conn that handlers recognise as TLS.
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

// wrap makes a conn of an accepted connection and has it watched. The second result is what handlers see.
func (s *Server) wrap(nc net.Conn) (*conn, net.Conn) {
	c := &conn{Conn: nc, srv: s, inner: nc}
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		c.from = tcp.AddrPort().Addr().Unmap()
	}
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

// Read marks the connection busy as soon as there is a byte of a request, and limits the time for the rest of it if it has to wait
// for that.
func (c *conn) Read(p []byte) (int, error) {
	if !c.timed && c.phase.Load() == phaseBusy {
		c.timed = true
		if err := c.reads.to(c.Conn, time.Now().Add(c.srv.opts.ReadTimeout)); err != nil {
			return 0, err
		}
	}
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

// SetReadDeadline spares the system's, see readDeadline.
func (c *conn) SetReadDeadline(t time.Time) error { return c.reads.to(c.Conn, t) }

// Write writes all of p under a deadline of its own.
func (c *conn) Write(p []byte) (int, error) { return c.send(p) }

// send writes p in pieces, each of which must go within the write timeout: a slow reader of a long answer lives, one
// that does not read at all does not.
func (c *conn) send(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		if err = c.extend(); err != nil {
			break
		}
		var m int
		m, err = c.Conn.Write(p[:min(len(p), writePiece)])
		n += m
		p = p[m:]
	}
	return n, err
}

// extend gives the next write its time.
func (c *conn) extend() error {
	c.wroteAt = time.Now()
	return c.deadline.extend(c.Conn, c.wroteAt, c.srv.opts.WriteTimeout)
}

// SetDeadline sets both, and knows that it did.
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
		if force && !c.closeCold() {
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
	switch {
	case c.closeCold():
	case force: // the socket, without a farewell of TLS
		_ = c.inner.Close()
	default:
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
