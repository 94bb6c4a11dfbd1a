package httpserver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"

	"github.com/valyala/fasthttp"
)

const (
	// maxCopied is the largest body that is copied behind its head, to leave in one write and wake its reader once.
	maxCopied = 16 << 10
	// writeBuffer is for responses that fasthttp writes.
	writeBuffer = 16 << 10
)

// reply writes the response that the handler has left in ctx. It reports whether the connection goes on.
func (s *Server) reply(c *conn, st *serveState) (another bool) {
	resp := &st.ctx.Response
	pulled, _ := resp.BodyStream().(*pulledStream)
	if pulled != nil && st.current.http10 {
		pulled.plain = true
		resp.SetConnectionClose()
	}
	last := st.current.last || s.noKeepAlives.Load() || resp.ConnectionClose()
	switch {
	case last:
		resp.SetConnectionClose()
	case st.current.http10:
		resp.Header.Set("Connection", "keep-alive")
	}
	resp.SkipBody = st.ctx.IsHead()
	resp.Header.SetNoDefaultContentType(true)
	var err error
	switch stream := resp.BodyStream().(type) {
	case nil:
		err = c.replyWhole(st, resp)
	case *pulledStream:
		err = s.replyPulled(c, st, stream)
		_ = resp.CloseBodyStream() // Source.Close has no error
	case io.WriterTo:
		err = s.replyFrom(c, st, stream)
		_ = resp.CloseBodyStream() // err says whether it was read to its end
	default:
		w := bufio.NewWriterSize(c, writeBuffer)
		if err = resp.Write(w); err == nil {
			err = w.Flush()
		}
	}
	return err == nil && !last
}

// replyWhole writes a response whose body is in memory.
func (c *conn) replyWhole(st *serveState, resp *fasthttp.Response) error {
	body := resp.Body()
	bare := resp.SkipBody || bodiless(resp.StatusCode())
	if !bare || len(body) > 0 {
		resp.Header.SetContentLength(len(body))
	}
	st.out = resp.Header.AppendBytes(st.out[:0])
	switch {
	case bare:
		body = nil
	case len(body) <= maxCopied:
		st.out = append(st.out, body...)
		body = nil
	}
	return c.writeBoth(st, st.out, body)
}

// bodiless reports whether responses with a status have no body (RFC 9110 §6.4.1).
func bodiless(status int) bool {
	return status < 200 || status == fasthttp.StatusNoContent || status == fasthttp.StatusNotModified
}

// writeBoth writes two pieces, in one system call where possible.
func (c *conn) writeBoth(st *serveState, head, body []byte) error {
	if len(body) == 0 {
		_, err := c.Write(head)
		return err
	}
	if _, plain := c.wire().(*net.TCPConn); !plain || len(head) >= writePiece {
		if _, err := c.Write(head); err != nil {
			return err
		}
		_, err := c.Write(body)
		return err
	}
	piece := min(len(body), writePiece-len(head))
	st.pair = [2][]byte{head, body[:piece]}
	st.both = st.pair[:]
	_, err := c.writeParts(&st.both)
	st.pair = [2][]byte{}
	if err != nil || piece == len(body) {
		return err
	}
	_, err = c.Write(body[piece:])
	return err
}

// WriteOnly is embedded in body streams for fasthttp that are written by their io.WriterTo and cannot be read.
type WriteOnly struct{}

var errWriteOnly = errors.New("httpd: a body that writes itself cannot be read")

// Read fails. Nobody calls it: fasthttp prefers WriteTo, and so does reply.
func (WriteOnly) Read([]byte) (int, error) { return 0, errWriteOnly }

// SupportsBodyWriteTo tells fasthttp to prefer WriteTo.
func (WriteOnly) SupportsBodyWriteTo() bool { return true }

// replyFrom writes a response of known length that writes itself.
func (s *Server) replyFrom(c *conn, st *serveState, from io.WriterTo) (err error) {
	resp := &st.ctx.Response
	size := resp.Header.ContentLength()
	if size < 0 {
		return fmt.Errorf("httpd: an answer of unknown length")
	}
	st.out = resp.Header.AppendBytes(st.out[:0])
	if resp.SkipBody || bodiless(resp.StatusCode()) {
		_, err = c.Write(st.out)
		return err
	}
	defer s.panicked(&err)
	st.gather = gather{c: c, st: st}
	n, err := from.WriteTo(&st.gather)
	st.gather = gather{}
	if err == nil && n != int64(size) {
		err = fmt.Errorf("httpd: an answer of %d bytes has %d", size, n)
	}
	if err == nil {
		_, err = c.Write(st.out)
	}
	return err
}

// panicked turns a panic of what writes a response into an error.
func (s *Server) panicked(err *error) {
	if p := recover(); p != nil {
		s.logf("httpd: an answer panicked: %v\n%s", p, debug.Stack())
		*err = fmt.Errorf("httpd: panic: %v", p)
	}
}

// gather collects small pieces in out, and writes a large one with what precedes it.
type gather struct {
	c  *conn
	st *serveState
}

func (g *gather) Write(p []byte) (int, error) {
	if len(p) <= maxCopied {
		if len(g.st.out)+len(p) > maxCopied {
			if _, err := g.c.Write(g.st.out); err != nil {
				return 0, err
			}
			g.st.out = g.st.out[:0]
		}
		g.st.out = append(g.st.out, p...)
		return len(p), nil
	}
	err := g.c.writeBoth(g.st, g.st.out, p)
	g.st.out = g.st.out[:0]
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// replyPulled writes an event stream.
func (s *Server) replyPulled(c *conn, st *serveState, b *pulledStream) (err error) {
	resp := &st.ctx.Response
	st.out = resp.Header.AppendBytes(st.out[:0])
	if b.plain {
		st.out = withoutChunks(st.out)
	}
	if resp.SkipBody {
		_, err = c.Write(st.out)
		return err
	}
	defer s.panicked(&err)
	return b.writeAll(c, st.out)
}

// withoutChunks removes the Transfer-Encoding field from a head, for a client of HTTP/1.0, which does not know it (RFC 9112 §6.1).
func withoutChunks(head []byte) []byte {
	line := []byte("Transfer-Encoding: chunked\r\n")
	if i := bytes.LastIndex(head, line); i >= 0 {
		return append(head[:i], head[i+len(line):]...)
	}
	return head
}
