package httpserver

import (
	"bufio"
	"bytes"
	"net"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/http1"
	"dragoman/proxy"
)

// serveState holds what a connection needs to serve requests. Streams have none.
type serveState struct {
	ctx     fasthttp.RequestCtx
	br      *bufio.Reader
	head    http1.HeadReader
	current current
	last    route
	body    http1.Body

	headCopy []byte // a head that had to make room for its body
	small    []byte // a body below maxKept that did not fit behind its head
	kept     bool   // the body's memory belongs to others, see KeepBody
	apart    bool   // the body has memory of its own, see TakeBody
	out      []byte // what is written next
	pair     [2][]byte
	both     net.Buffers // pair while it is being written
	gather   gather      // for a response that writes itself

	scratch Scratch
}

// Scratch holds the state of gates and handlers for a request. Clear is called when the response has been sent; the Scratch is then
// reused for the next request of the connection.
type Scratch interface{ Clear() }

// current is the request that is being served.
type current struct {
	handler *Handler
	route   fasthttp.RequestHandler // of a path without variables; nil: the router finds it
	path    []byte                  // of such a request
	host    []byte                  // the Host field in lower case, as it is compared; nil: ctx has it
	length  int                     // of the body; or chunked
	fields  http1.Fields
	http10  bool
	last    bool // the connection ends with it
}

// route is the route of the last head, for a path without variables.
type route struct {
	handler *Handler
	handle  fasthttp.RequestHandler
	path    int // bytes of the target before its query
}

// chunked is the length of a body in chunks.
const chunked = -1

const (
	// smallBody is the size up to which a body is read before the gates see its head: it arrives with the head, or nearly so.
	smallBody = 8 << 10
	// maxKept is the largest buffer that is kept for the next request.
	maxKept = 64 << 10
)

// serve serves a connection, one request after the other, until it ends or becomes a Stream.
func (s *Server) serve(c *conn, shown net.Conn) {
	st := s.states.Get().(*serveState)
	st.ctx.Init2(shown, logger(s.logf), false)
	st.br.Reset(c)
	c.state = st
	now := time.Now()
	if !c.handshake(now.Add(s.opts.ReadTimeout)) {
		s.releaseState(c)
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(now.Add(s.opts.ReadTimeout)) // fails on a closed connection only, as the read will
	for s.serveOne(c, st) {
	}
	s.releaseState(c)
	if !c.taken {
		_ = c.Close()
		return
	}
	stream := c.stream.Load()
	if c.SetDeadline(time.Time{}) != nil {
		stream.close(ErrLeft)
	}
	stream.start()
	stream.rest()
}

// handshake does the TLS handshake, if there is any.
func (c *conn) handshake(until time.Time) bool {
	if c.secure == nil {
		return true
	}
	if c.socket.Conn.SetDeadline(until) != nil || c.secure.Handshake() != nil {
		return false
	}
	if c.paced != nil {
		judge := c.wentBeneath
		c.paced.judge.Store(&judge)
	}
	return c.SetDeadline(time.Time{}) == nil
}

// releaseState gives the serveState back to the pool.
func (s *Server) releaseState(c *conn) {
	st := c.state
	st.forget()
	c.state, st.last = nil, route{}
	st.head.Forget()
	st.scratch = nil // it may hold data of this client
	st.ctx.Init2(nil, nil, false)
	st.br.Reset(nil)
	s.states.Put(st)
}

// serveOne serves one request. It reports whether there may be another.
func (s *Server) serveOne(c *conn, st *serveState) (another bool) {
	size, err := c.readHead(st)
	st.current.handler = s.handler.Load() // of the time of the request
	if err != nil {
		if st.head.Begun() || st.br.Buffered() > 0 {
			s.refuse(c, st, err)
		}
		return false
	}
	if s.opts.OnRequest != nil {
		s.opts.OnRequest()
	}
	head, _ := st.br.Peek(size) // it is buffered
	if err := st.parse(head); err != nil {
		s.refuse(c, st, err)
		return false
	}
	if !s.readBody(c, st, size) {
		return false
	}
	s.handle(c, st)
	if c.taken {
		return false
	}
	st.current.handler.answered(&st.ctx)
	another = s.reply(c, st)
	if c.reserved || c.counted {
		c.unreserve()
	}
	if !another {
		return false
	}
	c.next(st)
	return true
}

// readHead reads the head of the next request and returns its size.
func (c *conn) readHead(st *serveState) (int, error) {
	if st.br.Buffered() > 0 { // it has arrived with the one before
		c.phase.CompareAndSwap(phaseIdle, phaseReading)
	}
	c.limited = false
	st.head.Start(false)
	return st.head.Read(st.br)
}

// next makes the connection ready for the next request.
func (c *conn) next(st *serveState) {
	_ = c.SetReadDeadline(c.wroteAt.Add(c.srv.opts.IdleTimeout)) // fails on a closed connection only, as the read will
	if !c.phase.CompareAndSwap(phaseHandling, phaseIdle) {
		c.phase.CompareAndSwap(phaseReading, phaseIdle)
	}
	if c.srv.draining.Load() {
		c.closeIdle()
	}
	st.forget()
}

// forget clears what belongs to a request, and gives back large buffers.
func (st *serveState) forget() {
	proxy.Overwrite(st.current.fields.Raw())
	st.current.fields.Reset()
	st.current = current{fields: st.current.fields}
	st.apart = false
	if st.kept {
		st.scratch = nil
		st.replaceBuffers()
	}
	if st.scratch != nil {
		st.scratch.Clear()
	}
	if proxy.Poison {
		proxy.Overwrite(st.ctx.Request.Body())
	}
	if cap(st.ctx.Request.Body()) > maxKept {
		if body := st.ctx.Request.SwapBody(nil); cap(body) <= maxPooledBody {
			bodies.Put(&body)
		}
	}
	if !st.ctx.Response.IsBodyStream() && cap(st.ctx.Response.Body()) > maxKept {
		st.ctx.Response.SwapBody(nil)
	}
	st.ctx.Request.Reset()
	st.ctx.Response.Reset()
	if cap(st.out) > maxKept {
		st.out = nil
	}
}

// parse fills the request in ctx from a head.
func (st *serveState) parse(head []byte) error {
	r, line := &st.current, &st.head.Request
	r.fields.Borrow(head, &st.head)
	r.http10 = st.head.HTTP10
	r.last = st.head.Closes || st.head.HTTP10 && !st.head.KeepAlive
	switch {
	case st.head.Coded:
		r.length = chunked
	case st.head.Length > 1<<40:
		return http1.ErrBodyTooLarge
	default:
		r.length = int(max(0, st.head.Length))
	}
	target, host := line.Target(head), line.Host(head)
	h := &st.ctx.Request.Header
	h.SetMethodBytes(line.Method(head))
	h.SetRequestURIBytes(target)
	h.SetHostBytes(host)
	if st.last.handler != r.handler || !st.head.Known {
		st.last = r.handler.find(line.MethodAndTarget(head), target, host)
	}
	if st.last.handle != nil {
		r.route, r.path, r.host = st.last.handle, target[:st.last.path], host
		return nil
	}
	r.route, r.path, r.host = nil, nil, nil
	if target[0] != '/' && string(target) != "*" && string(line.Method(head)) != fasthttp.MethodConnect && !bytes.Contains(target, []byte("://")) {
		return &http1.MalformedError{What: "request target"} // RFC 9112 §3.2
	}
	var u fasthttp.URI // ctx does not report a URI that it cannot parse
	if err := u.Parse(host, target); err != nil {
		return &http1.MalformedError{What: "request target"}
	}
	return nil
}

// find returns the route of a request for a path without variables, with a query and a host that need no decoding; else the zero route.
func (h *Handler) find(line, target, host []byte) route {
	n := http1.PlainPath(target)
	if n < 0 {
		return route{}
	}
	if f := h.exact[string(line[:len(line)-len(target)+n])]; f != nil && plainHost(host) {
		return route{h, f, n}
	}
	return route{}
}

// plainHost reports whether a Host field needs no normalising before it is compared.
func plainHost(host []byte) bool {
	for _, b := range host {
		if b < '0' && b != '.' && b != '-' || b > ':' && b < 'a' || b > 'z' {
			return false
		}
	}
	return len(host) > 0
}

// rebase points path and host into a head that has moved.
func (st *serveState) rebase(head []byte) {
	st.current.fields.Rebase(head)
	if st.current.path != nil {
		st.current.path, st.current.host = st.head.Request.Target(head)[:st.last.path], st.head.Request.Host(head)
	}
}

// handle runs the gates, unless they have passed the request before its body, and the route.
func (s *Server) handle(c *conn, st *serveState) {
	defer s.recovered(c, st)
	if !c.phase.CompareAndSwap(phaseReading, phaseHandling) {
		c.phase.CompareAndSwap(phaseIdle, phaseHandling)
	}
	gated := c.gated
	c.gated = false
	if !gated && !st.current.handler.pass(&st.ctx) {
		return
	}
	if st.current.route != nil {
		st.current.route(&st.ctx)
	} else {
		st.current.handler.router.Handler(&st.ctx)
	}
}

// recovered answers 500 for a handler that panicked, so that the other connections stay open.
func (s *Server) recovered(c *conn, st *serveState) {
	p := recover()
	if p == nil {
		return
	}
	s.logf("httpd: handler panicked: %v\n%s", p, debug.Stack())
	c.unwatch()
	if c.taken {
		c.taken = false
		c.stream.Load().close(ErrClosed)
	}
	st.ctx.Response.Reset()
	st.ctx.SetStatusCode(fasthttp.StatusInternalServerError)
	st.current.handler.refused(&st.ctx, fasthttp.StatusInternalServerError)
	st.ctx.SetConnectionClose()
}
