package httpserver

import (
	"crypto/tls"
	"io"
	"math"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/netpoll"
)

const (
	writePiece  = 256 << 10              // bytes that each write timeout is for, however long the response is
	lingerTime  = 500 * time.Millisecond // how long a refused client may go on sending, so that it reads the refusal
	lingerBytes = 8 << 20
	// slowAfter is how long a write waits before what is left of the answer is kept apart, so that the exchange can end.
	// The deadline of a write is between one and two of these.
	slowAfter = time.Second
	// blind is by how much the rate of a slow reader is measured longer where the system does not count unread bytes: writes then
	// show progress in steps as large as the socket's buffer. TLS is longer by the same.
	blind = 3
)

// A connection is idle between requests, and Shutdown may close it then; reading from the first byte of a request; and handling from the
// end of the request to the last byte of its response.
const (
	phaseIdle int32 = iota
	phaseReading
	phaseHandling
	phaseClosed
)

// conn is an accepted connection. Reads and writes come from the goroutine that serves it, or, once it is a Stream, from that.
type conn struct {
	departure

	srv    *Server
	socket netpoll.Socket
	secure *tls.Conn // over socket; nil without TLS
	paced  *paced    // beneath secure; nil: its writes cannot be measured
	number uint64    // in the order of accepting
	phase  atomic.Int32
	closed atomic.Bool
	stream atomic.Pointer[Stream] // that it has become; see OpenStream

	part     part // of Server.answers
	reserved bool // the answer has its part
	counted  bool // the part has what a slow reader has left
	pace     pace
	beneath  pace // of paced, under the lock that TLS has for writes

	writes   netpoll.WriteDeadline
	reads    netpoll.ReadDeadline
	wroteAt  time.Time   // when the last write began
	claimed  claim       // on the budget
	evicted  atomic.Bool // from the budget: its time for reading is over
	limited  bool        // the request that is being read has a deadline of its own
	timedOut bool        // that has passed
	gated    bool        // the gates have passed this request, before its body
	linger   bool        // the client gets a refusal and may still be sending
	taken    bool        // the handler has made it a Stream

	from  netip.Addr  // of the client, if by TCP
	state *serveState // nil before the first request, and for a Stream
}

// tlsConn is a conn that handlers recognise as TLS.
type tlsConn struct{ *conn }

func (c tlsConn) Handshake() error                     { return c.secure.Handshake() }
func (c tlsConn) ConnectionState() tls.ConnectionState { return c.secure.ConnectionState() }

// connOf returns the connection of a request to a Server of this package.
func connOf(ctx *fasthttp.RequestCtx) *conn {
	if c, ok := ctx.Conn().(tlsConn); ok {
		return c.conn
	}
	return ctx.Conn().(*conn)
}

// open makes a conn of an accepted connection and watches it. The second result is the connection that handlers see.
func (s *Server) open(nc net.Conn) (*conn, net.Conn) {
	c := &conn{srv: s}
	c.part.conn = c
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		c.from = tcp.AddrPort().Addr().Unmap()
		c.part.owner.addr = c.from
	}
	inner := nc
	if secure, ok := nc.(*tls.Conn); ok {
		c.secure, inner = secure, secure.NetConn()
		if p, is := inner.(*paced); is {
			c.paced, inner = p, p.Conn
		}
	}
	if err := c.socket.Open(inner, s.watcher, &c.departure); err != nil {
		s.logf("%v", err)
	}
	if c.secure != nil {
		return c, tlsConn{c}
	}
	return c, c
}

// wire is the connection that is read and written: TLS, or the socket's.
func (c *conn) wire() net.Conn {
	if c.secure != nil {
		return c.secure
	}
	return c.socket.Conn
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.wire().LocalAddr() }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.wire().RemoteAddr() }

// Read implements net.Conn. It notes the first byte of a request, and limits the time for the rest of it once it has to wait.
func (c *conn) Read(p []byte) (int, error) {
	wire := c.wire()
	if !c.limited && c.phase.Load() == phaseReading {
		c.limited = true
		_ = c.reads.Set(wire, time.Now().Add(c.srv.opts.ReadTimeout)) // fails on a closed connection only, as the read will
	}
	n, err := wire.Read(p)
	for n == 0 && err != nil && http1.IsTimeout(err) && !c.evicted.Load() && c.reads.Retry(wire) {
		n, err = wire.Read(p)
	}
	if n > 0 {
		c.phase.CompareAndSwap(phaseIdle, phaseReading)
	}
	if err != nil && http1.IsTimeout(err) {
		c.timedOut = true
	}
	return n, err
}

// SetReadDeadline implements net.Conn. See netpoll.ReadDeadline.
func (c *conn) SetReadDeadline(t time.Time) error { return c.reads.Set(c.wire(), t) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.wire().SetWriteDeadline(t) }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.writes = netpoll.WriteDeadline{}
	c.reads.Reset(t)
	return c.wire().SetDeadline(t)
}

// Write implements net.Conn. It waits for a slow reader as long as it reads Options.MinRate; over TLS that is not measured (see
// SecureListener), as long as it takes a piece within the write timeout.
func (c *conn) Write(p []byte) (n int, err error) {
	if len(p) >= largeAnswer && !c.reserved && c.stream.Load() == nil {
		if c.srv.answers.reserve(&c.part, len(p)) != AnswersFit {
			return 0, ErrSlowReader
		}
		c.reserved = true
		defer c.unreserve()
	}
	return c.write(p, true)
}

// write writes in pieces, each within the write timeout. If patient is false it returns errWaits when it has to wait for long.
func (c *conn) write(p []byte, patient bool) (n int, err error) {
	for len(p) > 0 {
		if err = c.extend(); err != nil {
			return n, err
		}
		m, err := c.wire().Write(p[:min(len(p), writePiece)])
		n += m
		p = p[m:]
		if err = c.went(m, len(p), err, patient); err != nil {
			return n, err
		}
	}
	c.pace.since = time.Time{}
	return n, nil
}

// went notes that a write has taken n bytes, with left bytes to follow, and judges its error.
func (c *conn) went(n, left int, err error, patient bool) error {
	c.pace.sent += n
	if err == nil {
		return nil
	}
	if n > 0 {
		c.srv.answers.moved(&c.part, time.Now())
	}
	if err = c.tolerates(err, left); err == nil && !patient {
		err = errWaits
	}
	return err
}

// writeParts writes several parts, writePiece bytes of them at most, within the write timeout. It returns errWaits when it has to wait
// for long; left is how much follows the parts.
func (c *conn) writeParts(parts *net.Buffers, left int) (int, error) {
	if err := c.extend(); err != nil {
		return 0, err
	}
	n, err := parts.WriteTo(c.wire())
	return int(n), c.went(int(n), left, err, false)
}

// takesAtOnce reports whether a write can be given up, or does not have to wait. Over TLS this is so for small ones only.
func (c *conn) takesAtOnce(n int) bool {
	if c.secure == nil {
		return true
	}
	unread, seen := c.socket.Unread()
	return seen && unread+n <= maxCopied
}

// cut breaks the connection off, and ends the request of a client whose leaving would end it.
func (c *conn) cut() {
	c.shut(true)
	c.Left()
}

// extend moves the deadline for the next write.
func (c *conn) extend() error {
	c.wroteAt = time.Now()
	timeout := blind * c.srv.opts.WriteTimeout
	if c.secure == nil || c.paced != nil {
		timeout = min(c.srv.opts.WriteTimeout, slowAfter)
	}
	if c.secure != nil || c.pace.since.IsZero() {
		c.srv.answers.moved(&c.part, c.wroteAt)
	}
	return c.writes.Extend(c.wire(), c.wroteAt, timeout)
}

// giveWay ends the connection soon, so that others have its room. It takes no lock.
func (c *conn) giveWay() { c.srv.tasks.run(func() { c.shut(true) }) }

// pace measures a slow reader. The connection's writer owns it.
type pace struct {
	sent  int       // bytes written in all
	since time.Time // beginning of the window; zero: the reader keeps up
	read  int       // bytes of sent that it had read then
}

// tolerates reports whether a write that had to wait may wait on. left is how much of the answer is left. The error is
// ErrSlowReader for a client that reads less than Options.MinRate, or has no room.
func (c *conn) tolerates(err error, left int) error {
	if c.secure != nil || !http1.IsTimeout(err) || c.closed.Load() {
		return err // a TLS connection is broken after a write that was given up
	}
	now := time.Now()
	switch {
	case c.pace.begin(c, now):
		if !c.reserved && c.stream.Load() == nil {
			if !c.srv.answers.add(&c.part, left) {
				return ErrSlowReader
			}
			c.counted = true
		}
	case c.pace.slow(c, now):
		c.srv.answers.tooSlow()
		return ErrSlowReader
	}
	return nil
}

// wentBeneath is went beneath TLS, where a write waits as long as its reader reads Options.MinRate, or until the connection is closed.
func (c *conn) wentBeneath(n int, err error) error {
	c.beneath.sent += n
	if err == nil || !http1.IsTimeout(err) || c.closed.Load() {
		c.beneath.since = time.Time{}
		return err
	}
	now := time.Now()
	if n > 0 {
		c.srv.answers.moved(&c.part, now)
	}
	if !c.beneath.begin(c, now) && c.beneath.slow(c, now) {
		c.srv.answers.tooSlow()
		return ErrSlowReader
	}
	return c.socket.Conn.SetWriteDeadline(now.Add(min(c.srv.opts.WriteTimeout, slowAfter)))
}

// begin begins a window unless there is one, and reports whether it did.
func (p *pace) begin(c *conn, now time.Time) bool {
	if !p.since.IsZero() {
		return false
	}
	unread, _ := c.socket.Unread()
	p.since, p.read = now, p.sent-unread
	return true
}

// slow reports whether the reader of c has read less than Options.MinRate in the window, and begins the next one. Before the window's end
// it has not.
func (p *pace) slow(c *conn, now time.Time) bool {
	unread, seen := c.socket.Unread()
	read, window := p.sent-unread, c.srv.opts.WriteTimeout
	if !seen {
		window *= blind
	}
	took := now.Sub(p.since)
	if took < window {
		return false
	}
	if float64(read-p.read) < float64(c.srv.opts.MinRate)*took.Seconds() {
		return true
	}
	p.since, p.read = now, read
	return false
}

// unreserve gives back the room of the answer.
func (c *conn) unreserve() {
	c.reserved, c.counted = false, false
	c.srv.answers.sub(&c.part, math.MaxInt)
}

// evict ends the read of a body.
func (c *conn) evict(now time.Time) {
	c.evicted.Store(true)
	_ = c.socket.Conn.SetReadDeadline(now)
}

// Close implements net.Conn. It is called once the connection has been served.
func (c *conn) Close() error {
	if c.linger && !c.closed.Load() {
		c.readOn()
	}
	c.shut(false)
	return nil
}

// readOn closes the sending half and reads on for a moment. Closing at once with unread bytes would reset the connection, and the
// client would lose the response that tells it why.
func (c *conn) readOn() {
	half, ok := c.wire().(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	inner := c.socket.Conn
	if inner.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(inner, lingerBytes))
	}
}

// shut closes the connection and releases what it holds. By force it sends no TLS alert, so that it cannot block.
func (c *conn) shut(force bool) {
	if !c.closed.CompareAndSwap(false, true) {
		if force && !c.socket.CloseDetached() {
			_ = c.socket.Conn.Close() // also ends a lingering or blocked close
		}
		return
	}
	c.phase.Store(phaseClosed)
	c.srv.budget.leave(c)
	c.srv.answers.end(&c.part)
	c.socket.Unwatch()
	c.srv.forget(c)
	switch {
	case c.socket.CloseDetached():
	case force:
		_ = c.socket.Conn.Close()
	default:
		_ = c.wire().Close()
	}
	if stream := c.stream.Load(); stream != nil {
		stream.close(ErrLeft)
	}
}

// closeIdle closes the connection if no request is on it.
func (c *conn) closeIdle() {
	if c.phase.CompareAndSwap(phaseIdle, phaseClosed) {
		c.shut(true)
	}
}
