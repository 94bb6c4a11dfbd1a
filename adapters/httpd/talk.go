package httpd

import (
	"bufio"
	"bytes"
	"net"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"

	waist "dragoman/proxy"
)

// What fasthttp's server would do for a connection is done here: it reads a head into a form in which nobody looks at it, normalises
// it, asks the clock four times for each request, and lets nobody see a head before its body. Handlers are given fasthttp's
// RequestCtx all the same, of which the request has method, target and Host; its fields are those of FieldsOf.

// talk is what a connection needs while there are requests on it. Streams that are held go on without.
type talk struct {
	ctx     fasthttp.RequestCtx
	br      *bufio.Reader
	scan    headScan
	current current
	plain   plain
	body    body

	head  []byte // a head that had to make room for its body
	small []byte // a body of less than keptBuffer that did not fit behind its head
	kept  bool   // the body is somebody else's, see Keep
	apart bool   // the body stands in memory of its own, see Take
	out   []byte // what is written next
	pair  [2][]byte
	both  net.Buffers // pair, as it is being written
	sends gather      // an answer that writes itself

	desk Desk
}

// Desk is what gates and handlers keep for a request. Clear is called when its answer has left; what it lets go of is for the next.
type Desk interface{ Clear() }

// DeskOf gives where the Desk of a request is, nil at first; nil for a request that no Server of this package has read.
func DeskOf(ctx *fasthttp.RequestCtx) *Desk {
	if c := connOf(ctx); c != nil && c.talk != nil {
		return &c.talk.desk
	}
	return nil
}

// current is the request that is on a connection.
type current struct {
	face    *Face
	handler fasthttp.RequestHandler // of a path that stands for nothing but itself; nil: the router finds it
	path    []byte                  // of such a one
	host    []byte                  // as it is compared, in lower case; nil: ctx knows
	length  int                     // of the body; chunked
	fields  Fields
	oldest  bool // HTTP/1.0
	last    bool // the connection ends with it
	stays   bool // a client of HTTP/1.0 wants it not to
}

// plain is the handler that the last head was for, if it was for a path that stands for nothing but itself, and the face that has it.
type plain struct {
	face    *Face
	handler fasthttp.RequestHandler
	path    int // bytes of the target before its query
}

// chunked is the length of a body that does not tell it.
const chunked = -1

// smallBody is up to how many bytes a body is read before the gates see its head: it comes with the head, or nearly so.
const smallBody = 8 << 10

// converse serves a connection, one request after the other, until it ends or is held.
func (s *Server) converse(c *conn, shown net.Conn) {
	t := s.talks.Get().(*talk)
	t.ctx.Init2(shown, logger(s.logf), false)
	t.br.Reset(c)
	c.talk = t
	now := time.Now()
	if !c.handshake(shown, now.Add(s.opts.ReadTimeout)) {
		s.stopTalking(c)
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(now.Add(s.opts.ReadTimeout)) // fails on a closed connection only, as the read will
	for s.turn(c, t) {
	}
	h := c.taken
	s.stopTalking(c)
	if h == nil {
		_ = c.Close()
		return
	}
	if c.SetDeadline(time.Time{}) != nil {
		h.close(ErrLeft)
	}
	h.start()
	h.rest()
}

// handshake is TLS's, if there is any.
func (c *conn) handshake(shown net.Conn, until time.Time) bool {
	secure, ok := shown.(*tlsConn)
	if !ok {
		return true
	}
	if c.inner.SetDeadline(until) != nil || secure.Handshake() != nil {
		return false
	}
	return c.SetDeadline(time.Time{}) == nil
}

// stopTalking gives back what only requests need.
func (s *Server) stopTalking(c *conn) {
	t := c.talk
	t.forget()
	c.talk, t.plain = nil, plain{}
	t.scan.forget()
	t.desk = nil // what it remembers of this client is no other's
	t.ctx.Init2(nil, nil, false)
	t.br.Reset(nil)
	s.talks.Put(t)
}

// turn serves one request. It tells whether there may be another.
func (s *Server) turn(c *conn, t *talk) (another bool) {
	size, err := c.hear(t)
	return s.serve(c, t, size, err)
}

// hear reads the next request's head and gives its size.
func (c *conn) hear(t *talk) (int, error) {
	if t.br.Buffered() > 0 { // it has come with the one before
		c.phase.CompareAndSwap(phaseIdle, phaseBusy)
	}
	c.timed = false
	t.scan.start(false)
	return t.scan.next(t.br)
}

// serve answers the request whose head, of size bytes, was heard, or not understood.
func (s *Server) serve(c *conn, t *talk, size int, err error) (another bool) {
	t.current.face = s.face.Load() // that of the time at which it asks
	if err != nil {
		if t.scan.begun || t.scan.at > 0 || t.br.Buffered() > 0 {
			s.refuse(c, t, err)
		}
		return false
	}
	if s.opts.Stir != nil {
		s.opts.Stir()
	}
	head, _ := t.br.Peek(size) // it is there
	if err := c.understand(t, head); err != nil {
		s.refuse(c, t, err)
		return false
	}
	if !s.bring(c, t, size) {
		return false
	}
	s.handle(c, t)
	if c.taken != nil {
		return false
	}
	if !s.reply(c, t) {
		return false
	}
	c.rest(t)
	return true
}

// rest makes the connection ready for the next request.
func (c *conn) rest(t *talk) {
	_ = c.SetReadDeadline(c.wroteAt.Add(c.srv.opts.IdleTimeout)) // as above
	if !c.phase.CompareAndSwap(phaseServed, phaseIdle) {
		c.phase.CompareAndSwap(phaseBusy, phaseIdle)
	}
	if c.srv.draining.Load() {
		c.closeIdle()
	}
	t.forget()
}

// forget forgets a request.
func (t *talk) forget() {
	if waist.Poison {
		spoil(t.current.fields.lines.raw)
	}
	t.current = current{fields: Fields{found: t.current.fields.found[:0]}}
	if t.kept {
		t.desk = nil
	}
	if t.desk != nil {
		t.desk.Clear()
	}
	t.clear()
}

// clear forgets a request and its answer, and gives back large buffers.
func (t *talk) clear() {
	t.apart = false
	if t.kept {
		t.part()
	}
	if waist.Poison {
		spoil(t.ctx.Request.Body())
	}
	if cap(t.ctx.Request.Body()) > keptBuffer {
		if body := t.ctx.Request.SwapBody(nil); cap(body) <= keptBody {
			bodies.Put(&body)
		}
	}
	if !t.ctx.Response.IsBodyStream() && cap(t.ctx.Response.Body()) > keptBuffer {
		t.ctx.Response.SwapBody(nil)
	}
	t.ctx.Request.Reset()
	t.ctx.Response.Reset()
	if cap(t.out) > keptBuffer {
		t.out = nil
	}
}

func spoil(b []byte) {
	for i := range b {
		b[i] = '!'
	}
}

// understand makes the request of a head that was scanned: what handlers ask of it.
func (c *conn) understand(t *talk, head []byte) error {
	a, line := &t.current, &t.scan.request
	a.fields.borrow(head, &t.scan.fields)
	a.oldest, a.stays = t.scan.oldest, t.scan.stays
	a.last = t.scan.closes || t.scan.oldest && !t.scan.stays
	switch {
	case t.scan.coded:
		a.length = chunked
	case t.scan.length > 1<<40:
		return fasthttp.ErrBodyTooLarge
	default:
		a.length = int(max(0, t.scan.length))
	}
	target, host := line.path(head), head[line.host.value:line.host.valueEnd]
	h := &t.ctx.Request.Header
	h.SetMethodBytes(line.method(head))
	h.SetRequestURIBytes(target)
	h.SetHostBytes(host)
	if t.plain.face != a.face || !t.scan.known {
		t.plain = plain{}
		if n := simple(target); n >= 0 {
			whole := line.line(head)
			if f := a.face.exact[string(whole[:len(whole)-len(target)+n])]; f != nil && plainHost(host) {
				t.plain = plain{a.face, f, n}
			}
		}
	}
	if t.plain.handler != nil {
		a.handler, a.path, a.host = t.plain.handler, target[:t.plain.path], host
		return nil
	}
	a.handler, a.path, a.host = nil, nil, nil
	if target[0] != '/' && string(target) != "*" && string(line.method(head)) != fasthttp.MethodConnect && !bytes.Contains(target, []byte("://")) {
		return &MalformedError{What: "request target"} // RFC 9112 §3.2
	}
	var u fasthttp.URI // of a URI that is not understood, ctx does not tell
	if err := u.Parse(host, target); err != nil {
		return &MalformedError{What: "request target"}
	}
	return nil
}

// plainHost says of a Host whether it is as it will be compared.
func plainHost(host []byte) bool {
	for _, b := range host {
		if b < '0' && b != '.' && b != '-' || b > ':' && b < 'a' || b > 'z' {
			return false
		}
	}
	return len(host) > 0
}

// handle runs the gates, unless they have judged already, and the handler.
func (s *Server) handle(c *conn, t *talk) {
	defer s.recovered(c, t)
	if !c.phase.CompareAndSwap(phaseBusy, phaseServed) {
		c.phase.CompareAndSwap(phaseIdle, phaseServed)
	}
	gated := c.gated
	c.gated = false
	if !gated && !t.current.face.pass(&t.ctx) {
		return
	}
	if t.current.handler != nil {
		t.current.handler(&t.ctx)
	} else {
		t.current.face.router.Handler(&t.ctx)
	}
}

// recovered answers 500 for a handler that panicked: the other connections are not to end with it.
func (s *Server) recovered(c *conn, t *talk) {
	p := recover()
	if p == nil {
		return
	}
	s.logf("httpd: handler panicked: %v\n%s", p, debug.Stack())
	c.disarm()
	if h := c.taken; h != nil {
		c.taken = nil
		h.close(ErrClosed)
	}
	t.ctx.Response.Reset()
	t.ctx.SetStatusCode(fasthttp.StatusInternalServerError)
	s.explain(c, &t.ctx, fasthttp.StatusInternalServerError)
	t.ctx.SetConnectionClose()
}

// QueryOf gives the value of a query's only parameter, if that has this name and its characters mean themselves, as that of HTTP+SSE
// does; nil: the query's arguments are to be asked.
func QueryOf(ctx *fasthttp.RequestCtx, name string) []byte {
	target := ctx.Request.Header.RequestURI()
	n := simple(target)
	if n < 0 || n == len(target) {
		return nil
	}
	is, value, ok := bytes.Cut(target[n+1:], []byte{'='})
	if !ok || string(is) != name || bytes.ContainsAny(value, "=&") {
		return nil
	}
	return value
}

// PathOf gives the path of a request as it came, before any decoding.
func PathOf(ctx *fasthttp.RequestCtx) []byte {
	if c := connOf(ctx); c != nil && c.talk.current.path != nil {
		return c.talk.current.path
	}
	return ctx.URI().PathOriginal()
}

// HostOf gives whom a request is for, in lower case: its Host, or what its target names instead (RFC 9112 §3.2.2).
func HostOf(ctx *fasthttp.RequestCtx) []byte {
	if c := connOf(ctx); c != nil && c.talk.current.host != nil {
		return c.talk.current.host
	}
	return ctx.Host()
}

// LengthOf gives the length of a request's body in bytes, -1 if it comes in chunks.
func LengthOf(ctx *fasthttp.RequestCtx) int {
	if c := connOf(ctx); c != nil {
		return c.talk.current.length
	}
	return ctx.Request.Header.ContentLength()
}

// AddrOf gives where a request's connection comes from; the zero Addr for what is no TCP.
func AddrOf(ctx *fasthttp.RequestCtx) netip.Addr {
	if c := connOf(ctx); c != nil {
		return c.from
	}
	if tcp, ok := ctx.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
