package httpd

import (
	"errors"
	"io"
	"net"
	"sync"

	"github.com/valyala/fasthttp"

	waist "dragoman/proxy"
)

var interim = []byte("HTTP/1.1 100 Continue\r\n\r\n")

// bring reads the body of the request whose head, of size bytes, is at the beginning of the buffer. A large one is not read before
// the gates have seen the head, unless it has come with that, and neither is one that its client wants to be asked for. If it answers
// false, the connection has ended.
func (s *Server) bring(c *conn, t *talk, size int) bool {
	n := t.current.length
	if n > s.opts.MaxBody && n <= smallBody {
		s.refuse(c, t, fasthttp.ErrBodyTooLarge)
		return false
	}
	here := n <= s.opts.MaxBody && size+n <= t.br.Buffered()
	if n != chunked && (here || n <= smallBody && size+n <= t.br.Size()) && !t.scan.request.expects {
		all, err := t.br.Peek(size + n) // in place; what is read may move it
		if err != nil {
			s.refuse(c, t, cut(err))
			return false
		}
		_, _ = t.br.Discard(size + n) // it is there
		t.current.fields.lines.raw = all[:size]
		t.current.rebase(t, all)
		if n > 0 {
			t.ctx.Request.SetBodyRaw(all[size:])
		}
		return true
	}
	head, _ := t.br.Peek(size) // it is there
	t.head = append(t.head[:0], head...)
	_, _ = t.br.Discard(size) // the same
	t.current.fields.lines.raw = t.head
	t.current.rebase(t, t.head)
	if n > smallBody || n == chunked || t.scan.request.expects {
		if !s.invite(c, t) {
			return false
		}
	}
	err := t.readBody(&t.current, s.opts.MaxBody)
	if c.large {
		c.large = false
		s.reading.leave(c)
	}
	if err != nil {
		s.refuse(c, t, err)
		return false
	}
	return true
}

// rebase finds path and host anew in a head that stands elsewhere now.
func (a *current) rebase(t *talk, head []byte) {
	if a.path != nil {
		a.path, a.host = t.scan.request.path(head)[:t.plain.path], head[t.scan.request.host.value:t.scan.request.host.valueEnd]
	}
}

// invite decides, before the body is read, whether the client may send it (RFC 9110 §10.1.1), and tells it so if it waits for that.
func (s *Server) invite(c *conn, t *talk) bool {
	if t.current.length > s.opts.MaxBody {
		s.refuse(c, t, fasthttp.ErrBodyTooLarge)
		return false
	}
	if !s.judge(c, t) {
		s.decline(c, t)
		return false
	}
	c.gated = true
	room := t.current.length // how much memory it may take
	if room == chunked {
		room = s.opts.MaxBody
	}
	if !s.reading.wait(c, room) {
		t.ctx.Response.Reset()
		t.ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		s.explain(c, &t.ctx, fasthttp.StatusServiceUnavailable)
		s.decline(c, t)
		return false
	}
	c.large = true
	if t.scan.request.expects && !t.current.oldest {
		if _, err := c.send(interim); err != nil {
			s.reading.leave(c)
			return false
		}
	}
	return true
}

// judge is the gates' turn before a body.
func (s *Server) judge(c *conn, t *talk) (pass bool) {
	defer s.recovered(c, t) // it answers false then
	return t.current.face.pass(&t.ctx)
}

// decline sends an answer to a request whose body was not read, and may still be coming.
func (s *Server) decline(c *conn, t *talk) {
	c.linger = true
	c.gated = false
	t.current.last = true
	s.reply(c, t)
}

// readBody reads the body that follows. What it makes is the request's: less than keptBuffer stay the connection's.
func (t *talk) readBody(a *current, limit int) error {
	t.body.br = t.br
	if a.length == chunked {
		t.body.start(bodyChunked, 0)
		t.body.ofRequest, t.body.most = true, int64(limit)
		return t.readChunks()
	}
	if a.length == 0 {
		return nil
	}
	t.body.start(bodyLength, int64(a.length))
	if a.length >= keptBuffer {
		buf := bodyOf(a.length)
		t.ctx.Request.SwapBody(buf)
		t.apart = true
		return t.fill(buf)
	}
	if cap(t.small) < a.length {
		t.small = make([]byte, a.length, max(a.length, 2*smallBody))
	}
	t.small = t.small[:a.length]
	t.ctx.Request.SetBodyRaw(t.small)
	return t.fill(t.small)
}

// bodies are large ones, *[]byte; the largest are left to the collector.
var bodies sync.Pool

const keptBody = 4 << 20

func bodyOf(size int) []byte {
	if b, ok := bodies.Get().(*[]byte); ok && cap(*b) >= size {
		return (*b)[:size]
	}
	return make([]byte, size)
}

// Take gives the body of a request as the caller's: its own memory if that is large, which GiveBack takes when it is needed no more.
// Otherwise nothing is given, and what PostBody gives is to be copied.
func Take(ctx *fasthttp.RequestCtx) []byte {
	if c := connOf(ctx); c == nil || c.talk == nil || !c.talk.apart {
		return nil
	}
	return ctx.Request.SwapBody(nil)
}

// GiveBack takes the memory of a body that Take gave.
func GiveBack(body []byte) {
	if cap(body) <= keptBody {
		if waist.Poison {
			spoil(body)
		}
		bodies.Put(&body)
	}
}

func (t *talk) fill(buf []byte) error {
	for n := 0; n < len(buf); {
		m, err := t.body.read(buf[n:])
		n += m
		if err != nil && n < len(buf) {
			return cut(err)
		}
	}
	return nil
}

// readChunks reads a body of which nobody said how long it is.
func (t *talk) readChunks() error {
	buf := t.small[:0]
	for {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), max(2*smallBody, 2*len(buf)))
			copy(grown, buf)
			buf = grown
		}
		n, err := t.body.read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case err == io.EOF && cap(buf) <= keptBuffer:
			t.small = buf
			t.ctx.Request.SetBodyRaw(buf)
			return nil
		case err == io.EOF:
			t.ctx.Request.SwapBody(buf)
			t.apart = true
			return nil
		case err != nil:
			return err
		}
	}
}

// refuse answers a request that could not be read.
func (s *Server) refuse(c *conn, t *talk, err error) {
	status := fasthttp.StatusBadRequest
	var large *TooLargeError
	var timeout net.Error
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		status = fasthttp.StatusRequestEntityTooLarge
	case errors.As(err, &large):
		status = fasthttp.StatusRequestHeaderFieldsTooLarge
	case errors.As(err, &timeout) && timeout.Timeout(), c.late:
		status = fasthttp.StatusRequestTimeout
	}
	t.ctx.Response.Reset()
	t.ctx.SetStatusCode(status)
	s.explain(c, &t.ctx, status)
	s.decline(c, t)
}

func (s *Server) explain(c *conn, ctx *fasthttp.RequestCtx, status int) {
	if refused := c.talk.current.face.opts.Refused; refused != nil {
		refused(ctx, status)
		return
	}
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(fasthttp.StatusMessage(status))
}
