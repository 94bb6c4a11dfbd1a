package httpserver

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/http1"
)

var continueResponse = []byte("HTTP/1.1 100 Continue\r\n\r\n")

// readBody reads the body of the request whose head, of size bytes, begins the buffer. The gates see the head first if the body is
// large and has not arrived with it, or if the client expects 100 Continue. If it returns false the connection has ended.
func (s *Server) readBody(c *conn, st *serveState, size int) bool {
	n := st.current.length
	if n > s.opts.MaxBody && n <= smallBody {
		s.refuse(c, st, http1.ErrBodyTooLarge)
		return false
	}
	here := n <= s.opts.MaxBody && size+n <= st.br.Buffered()
	if n != chunked && (here || n <= smallBody && size+n <= st.br.Size()) && !st.head.Request.Expects {
		all, err := st.br.Peek(size + n) // in place; the read may move it
		if err != nil {
			s.refuse(c, st, http1.UnexpectedEOF(err))
			return false
		}
		_, _ = st.br.Discard(size + n) // it is buffered
		st.rebase(all[:size])
		if n > 0 {
			st.ctx.Request.SetBodyRaw(all[size:])
		}
		return true
	}
	head, _ := st.br.Peek(size) // it is buffered
	st.headCopy = append(st.headCopy[:0], head...)
	_, _ = st.br.Discard(size) // it is buffered
	st.rebase(st.headCopy)
	large := n > smallBody || n == chunked || st.head.Request.Expects
	if large && !s.admit(c, st) {
		return false
	}
	err := st.fetchBody(s.opts.MaxBody)
	if large {
		s.budget.leave(c)
	}
	if err != nil {
		s.refuse(c, st, err)
		return false
	}
	return true
}

// admit decides before the body is read whether the client may send it (RFC 9110 §10.1.1), and sends 100 Continue if the client waits
// for that.
func (s *Server) admit(c *conn, st *serveState) bool {
	if st.current.length > s.opts.MaxBody {
		s.refuse(c, st, http1.ErrBodyTooLarge)
		return false
	}
	if !s.gate(c, st) {
		s.decline(c, st)
		return false
	}
	c.gated = true
	room := st.current.length // memory that it may take
	if room == chunked {
		room = s.opts.MaxBody
	}
	if !s.budget.wait(c, room) {
		s.refuseWith(c, st, fasthttp.StatusServiceUnavailable)
		return false
	}
	if st.head.Request.Expects && !st.current.http10 {
		if _, err := c.Write(continueResponse); err != nil {
			s.budget.leave(c)
			return false
		}
	}
	return true
}

// gate runs the gates before a body is read.
func (s *Server) gate(c *conn, st *serveState) (pass bool) {
	defer s.recovered(c, st) // it returns false then
	return st.current.handler.pass(&st.ctx)
}

// decline sends a response to a request whose body was not read, and may still be coming.
func (s *Server) decline(c *conn, st *serveState) {
	c.linger = true
	c.gated = false
	st.current.last = true
	s.reply(c, st)
}

// refuse answers a request that could not be read.
func (s *Server) refuse(c *conn, st *serveState, err error) {
	status := fasthttp.StatusBadRequest
	var large *http1.TooLargeError
	var timeout net.Error
	switch {
	case errors.Is(err, http1.ErrBodyTooLarge):
		status = fasthttp.StatusRequestEntityTooLarge
	case errors.As(err, &large):
		status = fasthttp.StatusRequestHeaderFieldsTooLarge
	case errors.As(err, &timeout) && timeout.Timeout(), c.timedOut:
		status = fasthttp.StatusRequestTimeout
	}
	s.refuseWith(c, st, status)
}

func (s *Server) refuseWith(c *conn, st *serveState, status int) {
	st.ctx.Response.Reset()
	st.ctx.SetStatusCode(status)
	st.current.handler.refused(&st.ctx, status)
	s.decline(c, st)
}

// fetchBody reads the body. A small one stays the connection's; a large one has memory of its own.
func (st *serveState) fetchBody(limit int) error {
	n := st.current.length
	st.body.SetReader(st.br)
	if n == chunked {
		st.body.StartChunked()
		st.body.LimitRequest(limit)
		return st.fetchChunks()
	}
	if n == 0 {
		return nil
	}
	st.body.StartSized(int64(n))
	if n >= maxKept {
		buf := bodyOf(n)
		st.ctx.Request.SwapBody(buf)
		st.apart = true
		return st.fill(buf)
	}
	if cap(st.small) < n {
		st.small = make([]byte, n, max(n, 2*smallBody))
	}
	st.small = st.small[:n]
	st.ctx.Request.SetBodyRaw(st.small)
	return st.fill(st.small)
}

func (st *serveState) fill(buf []byte) error {
	for n := 0; n < len(buf); {
		m, err := st.body.Read(buf[n:])
		n += m
		if err != nil && n < len(buf) {
			return http1.UnexpectedEOF(err)
		}
	}
	return nil
}

// fetchChunks reads a body of unknown length.
func (st *serveState) fetchChunks() error {
	buf := st.small[:0]
	for {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), max(2*smallBody, 2*len(buf)))
			copy(grown, buf)
			buf = grown
		}
		n, err := st.body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case err == io.EOF && cap(buf) <= maxKept:
			st.small = buf
			st.ctx.Request.SetBodyRaw(buf)
			return nil
		case err == io.EOF:
			st.ctx.Request.SwapBody(buf)
			st.apart = true
			return nil
		case err != nil:
			return err
		}
	}
}

// bodies pools large bodies, *[]byte; the largest are left to the collector.
var bodies sync.Pool

const maxPooledBody = 4 << 20

func bodyOf(size int) []byte {
	if b, ok := bodies.Get().(*[]byte); ok && cap(*b) >= size {
		return (*b)[:size]
	}
	return make([]byte, size)
}

// replaceBuffers gives the connection new buffers for those that the body of the request may be in.
func (st *serveState) replaceBuffers() {
	st.kept, st.small = false, nil
	st.ctx.Request.SwapBody(nil)
	var from io.Reader = connOf(&st.ctx)
	ahead, _ := st.br.Peek(st.br.Buffered()) // it is buffered
	if len(ahead) > 0 {
		from = io.MultiReader(bytes.NewReader(bytes.Clone(ahead)), from)
	}
	st.br = bufio.NewReaderSize(from, st.br.Size())
	_, _ = st.br.Peek(len(ahead)) // the next request is looked for in the buffer
}
