package httpd

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"runtime/debug"

	"github.com/valyala/fasthttp"
)

// reply writes the answer that the handler has left in ctx. It tells whether the connection goes on.
func (s *Server) reply(c *conn, t *talk) (another bool) {
	resp := &t.ctx.Response
	last := t.current.last || s.farewell.Load() || resp.ConnectionClose()
	switch {
	case last:
		resp.SetConnectionClose()
	case t.current.oldest:
		resp.Header.Set("Connection", "keep-alive")
	}
	resp.SkipBody = t.ctx.IsHead()
	resp.Header.SetNoDefaultContentType(true)
	var err error
	switch stream := resp.BodyStream().(type) {
	case nil:
		err = c.replyWhole(t, resp)
	case *streamBody:
		last = last || stream.plain
		err = s.pour(c, t, stream)
		_ = resp.CloseBodyStream() // Source.Close has no error
	case io.WriterTo:
		err = s.replyFrom(c, t, stream)
		_ = resp.CloseBodyStream() // it was read to its end, or err says that it was not
	default:
		w := bufio.NewWriterSize(c, writeBuffer)
		if err = resp.Write(w); err == nil {
			err = w.Flush()
		}
	}
	return err == nil && !last
}

// oneReply is the largest body that is copied behind its head, to leave in one write and wake its reader once.
const oneReply = 16 << 10

// replyWhole writes an answer whose body is here.
func (c *conn) replyWhole(t *talk, resp *fasthttp.Response) error {
	body := resp.Body()
	bare := resp.SkipBody || bodiless(resp.StatusCode())
	if !bare || len(body) > 0 {
		resp.Header.SetContentLength(len(body))
	}
	t.out = resp.Header.AppendBytes(t.out[:0])
	switch {
	case bare:
		body = nil
	case len(body) <= oneReply:
		t.out = append(t.out, body...)
		body = nil
	}
	return c.sendBoth(t, t.out, body)
}

// bodiless says of which statuses an answer has no body (RFC 9110 §6.4.1).
func bodiless(status int) bool {
	return status < 200 || status == fasthttp.StatusNoContent || status == fasthttp.StatusNotModified
}

// sendBoth writes two pieces, if it can be in one system call.
func (c *conn) sendBoth(t *talk, head, body []byte) error {
	if len(body) == 0 {
		_, err := c.send(head)
		return err
	}
	if _, plain := c.Conn.(*net.TCPConn); !plain || len(head) >= writePiece {
		if _, err := c.send(head); err != nil {
			return err
		}
		_, err := c.send(body)
		return err
	}
	if err := c.extend(); err != nil {
		return err
	}
	piece := min(len(body), writePiece-len(head))
	t.pair = [2][]byte{head, body[:piece]}
	t.both = t.pair[:]
	_, err := t.both.WriteTo(c.Conn)
	t.pair = [2][]byte{}
	if err != nil || piece == len(body) {
		return err
	}
	_, err = c.send(body[piece:])
	return err
}

// replyFrom writes an answer whose length is known and which writes itself.
func (s *Server) replyFrom(c *conn, t *talk, from io.WriterTo) (err error) {
	resp := &t.ctx.Response
	size := resp.Header.ContentLength()
	if size < 0 {
		return fmt.Errorf("httpd: an answer of unknown length")
	}
	t.out = resp.Header.AppendBytes(t.out[:0])
	if resp.SkipBody || bodiless(resp.StatusCode()) {
		_, err = c.send(t.out)
		return err
	}
	defer s.broken(&err)
	t.sends = gather{c: c, t: t}
	n, err := from.WriteTo(&t.sends)
	t.sends = gather{}
	if err == nil && n != int64(size) {
		err = fmt.Errorf("httpd: an answer of %d bytes has %d", size, n)
	}
	if err == nil {
		_, err = c.send(t.out)
	}
	return err
}

// broken makes an error of a panic of what writes an answer.
func (s *Server) broken(err *error) {
	if p := recover(); p != nil {
		s.logf("httpd: an answer panicked: %v\n%s", p, debug.Stack())
		*err = fmt.Errorf("httpd: panic: %v", p)
	}
}

// gather collects small pieces in out, and sends large ones with what stands before them.
type gather struct {
	c *conn
	t *talk
}

func (g *gather) Write(p []byte) (int, error) {
	if len(p) <= oneReply {
		if len(g.t.out)+len(p) > oneReply {
			if _, err := g.c.send(g.t.out); err != nil {
				return 0, err
			}
			g.t.out = g.t.out[:0]
		}
		g.t.out = append(g.t.out, p...)
		return len(p), nil
	}
	err := g.c.sendBoth(g.t, g.t.out, p)
	g.t.out = g.t.out[:0]
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// pour writes an event stream.
func (s *Server) pour(c *conn, t *talk, b *streamBody) (err error) {
	resp := &t.ctx.Response
	t.out = resp.Header.AppendBytes(t.out[:0])
	if b.plain {
		t.out = unchunk(t.out)
	}
	if resp.SkipBody {
		_, err = c.send(t.out)
		return err
	}
	defer s.broken(&err)
	return b.pour(t.out)
}
