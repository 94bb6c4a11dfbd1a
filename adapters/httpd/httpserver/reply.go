package httpserver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"strconv"
	"sync"

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
	if len(body) >= largeAnswer && !c.reserved {
		if c.srv.answers.reserve(&c.part, len(body)) != AnswersFit {
			return ErrSlowReader
		}
		c.reserved = true
	}
	_, err := c.writeBoth(st, st.out, body, true)
	return err
}

// bodiless reports whether responses with a status have no body (RFC 9110 §6.4.1).
func bodiless(status int) bool {
	return status < 200 || status == fasthttp.StatusNoContent || status == fasthttp.StatusNotModified
}

// writeBoth writes two pieces, in one system call where possible. If patient is false it returns errWaits when it has to wait for long,
// and how many bytes of both have left.
func (c *conn) writeBoth(st *serveState, head, body []byte, patient bool) (n int, err error) {
	if _, plain := c.wire().(*net.TCPConn); len(body) > 0 && plain && len(head) < writePiece {
		piece := min(len(body), writePiece-len(head))
		st.pair = [2][]byte{head, body[:piece]}
		st.both = st.pair[:]
		n, err = c.writeParts(&st.both, len(body)-piece)
		st.pair = [2][]byte{}
		if err != nil && (err != errWaits || !patient) { //nolint:errorlint // it is never wrapped
			return n, err
		}
	}
	for _, p := range [...][]byte{head[min(n, len(head)):], body[max(0, n-len(head)):]} {
		m, err := c.write(p, patient)
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

// WriteOnly is embedded in body streams for fasthttp that are written by their io.WriterTo and cannot be read.
type WriteOnly struct{}

var errWriteOnly = errors.New("httpd: a body that writes itself cannot be read")

// Read fails. It is not called: fasthttp prefers WriteTo, and so does reply.
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
	st.gather = gather{c: c, st: st, left: len(st.out) + size}
	if c.secure != nil && size > maxCopied {
		st.gather.keep(nil, nil) // its writes cannot be given up, so the exchange ends before they begin
	}
	n, err := from.WriteTo(&st.gather)
	kept := st.gather.kept
	st.gather = gather{}
	if err == nil && n != int64(size) {
		err = fmt.Errorf("httpd: an answer of %d bytes has %d", size, n)
	}
	if err == nil && kept != nil {
		st.out = nil
		_, err = c.write(kept, true)
	} else if err == nil {
		_, err = c.write(st.out, true)
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

// gather collects small pieces in out, and writes a large one with what precedes it. When the client lets it wait for long, it keeps
// all that follows: what writes the response can end then, with all that it holds.
type gather struct {
	c    *conn
	st   *serveState
	left int    // bytes of the response that are not written
	kept []byte // nil: the client keeps up
}

// keep keeps the rest of the response apart, which begins with out and p.
func (g *gather) keep(out, p []byte) {
	g.kept = make([]byte, 0, g.left)
	g.kept = append(append(append(g.kept, g.st.out...), out...), p...)
	g.st.out = g.st.out[:0]
}

func (g *gather) Write(p []byte) (int, error) {
	if g.kept != nil {
		g.kept = append(g.kept, p...)
		return len(p), nil
	}
	if len(g.st.out)+len(p) <= maxCopied {
		g.st.out = append(g.st.out, p...)
		return len(p), nil
	}
	out := g.st.out
	g.st.out = out[:0]
	body := p
	if len(p) <= maxCopied {
		body = nil
	}
	n, err := g.c.writeBoth(g.st, out, body, false)
	g.left -= n
	switch {
	case err == errWaits: //nolint:errorlint // it is never wrapped
		if body == nil {
			body, n = p, min(n, len(out))
		}
		g.keep(out[min(n, len(out)):], body[max(0, n-len(out)):])
	case err != nil:
		return 0, err
	case body == nil:
		g.st.out = append(g.st.out, p...)
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
	w := &b.behind
	*w = backlog{to: c, answers: &c.srv.answers, part: &c.part}
	c.reserved = true // what waits is counted there
	defer func() {
		if broke := w.wait(); err == nil {
			err = broke
		}
		b.sent = b.sent && err == nil
	}()
	defer s.panicked(&err)
	return b.writeAll(w, st.out)
}

// withoutChunks removes the Transfer-Encoding field from a head, for a client of HTTP/1.0, which does not know it (RFC 9112 §6.1).
func withoutChunks(head []byte) []byte {
	line := []byte("Transfer-Encoding: chunked\r\n")
	if i := bytes.LastIndex(head, line); i >= 0 {
		return append(head[:i], head[i+len(line):]...)
	}
	return head
}

// Source provides the events of a streamed response.
type Source interface {
	// Next waits for events and appends whole ones, or a comment, to dst, which is empty; it returns dst extended. The result is sent
	// in one write. io.EOF, with or without a last event, ends the response; another error breaks the connection off, so that the
	// client cannot take a part for the whole.
	Next(dst []byte) ([]byte, error)
	// Close is called exactly once, when the response has ended or a write has failed, even if Next never was called. sent reports
	// that everything was written, the end included.
	Close(sent bool)
}

// chunkRoom is the room before the bytes of a chunk: up to eight digits and CRLF.
const chunkRoom = 10

const lastChunk = "0\r\n\r\n"

// StreamFrom makes the response of ctx a text/event-stream that is pulled from src after the handler has returned. The head is written
// before the first Next; a first event, which is copied, leaves with it in one write. While Next waits, only WatchClient reports that
// the client has left. The events of a client that is behind are kept, within Options.MaxAnswersEach, so that src is pulled on; a client
// that reads less than Options.MinRate loses the connection.
func StreamFrom(ctx *fasthttp.RequestCtx, first []byte, src Source) {
	setEventStream(&ctx.Response.Header)
	b, ok := pulledStreams.Get().(*pulledStream)
	if !ok {
		b = &pulledStream{buf: make([]byte, chunkRoom, 1024)}
	}
	b.src, b.sent, b.plain = src, false, false
	b.buf = append(b.buf[:chunkRoom], first...)
	ctx.Response.SetBodyStream(b, -1)
}

// setEventStream sets the fields of an event stream: intermediaries must not keep or collect it.
func setEventStream(h *fasthttp.ResponseHeader) {
	h.SetContentType("text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
}

// pulledStreams pools pulledStreams with buffers up to maxKept.
var pulledStreams sync.Pool

// pulledStream is a Source as the body of a response. reply writes it with its chunks: fasthttp's writer would need several writes for a
// large one and two for the end.
type pulledStream struct {
	WriteOnly
	src    Source
	buf    []byte // chunkRoom bytes for the frame, then an event
	sent   bool
	plain  bool // for HTTP/1.0: no chunks, the end of the connection ends the response
	behind backlog
}

// writeAll pulls and writes until the end, behind the head of the response, which leaves with a first event.
func (b *pulledStream) writeAll(w io.Writer, head []byte) (err error) {
	for last := false; !last; {
		if len(b.buf) == chunkRoom {
			if len(head) > 0 {
				if _, err = w.Write(head); err != nil {
					return err
				}
				head = nil
			}
			if last, err = b.pull(); err != nil {
				return err
			}
		}
		if err = b.write(w, head, last); err != nil {
			return err
		}
		head, b.buf = nil, b.buf[:chunkRoom]
	}
	b.sent = true
	return nil
}

// pull fills buf from Next.
func (b *pulledStream) pull() (last bool, err error) {
	got, err := b.src.Next(b.buf[chunkRoom:chunkRoom])
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	switch room := b.buf[:cap(b.buf)]; {
	case len(got) == 0:
		b.buf = b.buf[:chunkRoom]
	case len(room) > chunkRoom && &got[0] == &room[chunkRoom]:
		b.buf = room[:chunkRoom+len(got)]
	default: // it had to grow
		b.buf = append(b.buf[:chunkRoom], got...)
	}
	return err != nil, nil
}

// write writes head, the chunk in buf, and the last chunk behind the last event, in one write.
func (b *pulledStream) write(w io.Writer, head []byte, last bool) error {
	out := b.buf[chunkRoom:]
	if !b.plain {
		out = b.frame(len(out))
		if last {
			out = append(out, lastChunk...)
		}
	}
	if len(head) > 0 {
		out = append(head, out...)
	}
	if len(out) == 0 {
		return nil
	}
	_, err := w.Write(out)
	return err
}

// frame puts a chunk's frame around the n bytes of the event in buf.
func (b *pulledStream) frame(n int) []byte {
	if n == 0 {
		return b.buf[:0]
	}
	var digits [16]byte
	size := strconv.AppendInt(digits[:0], int64(n), 16)
	from := chunkRoom - 2 - len(size)
	copy(b.buf[from:], size)
	copy(b.buf[chunkRoom-2:], "\r\n")
	b.buf = append(b.buf, '\r', '\n')
	return b.buf[from:]
}

// Close implements io.Closer. It is called once in any case.
func (b *pulledStream) Close() error {
	src, sent := b.src, b.sent
	b.src = nil
	if cap(b.buf) <= maxKept {
		pulledStreams.Put(b)
	}
	src.Close(sent)
	return nil
}
