package mcphttp

import (
	"bytes"
	"io"
	"sync"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/proxy/wire"
)

const (
	// largeMessage is the size in bytes from which a body is taken over instead of copied.
	largeMessage = 64 << 10
	// inPlace is the size in bytes from which a response is written without a copy. A smaller one is cheaper to copy.
	inPlace = 4 << 10
	// largeTail is how many bytes are held back until the replies have been closed.
	largeTail = 256
)

// large answers with a message that is written from its own memory, and ends the exchange then.
func large(ctx *fasthttp.RequestCtx, status int, m *wire.Message, of *answer) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	size := m.Size()
	b := largeBodies.Get().(*largeBody)
	b.msg, b.of, b.left = *m, of, size
	ctx.Response.SetBodyStream(b, size)
}

var largeBodies = sync.Pool{New: func() any { return new(largeBody) }}

// largeBody is a message as a fasthttp body stream.
type largeBody struct {
	httpserver.WriteOnly
	msg  wire.Message // borrowed from the replies of the answer below
	of   *answer      // nil once the replies are closed
	w    io.Writer
	left int             // bytes not written yet
	tail [largeTail]byte // last bytes, held back
}

// WriteTo writes the message with its edits; large pieces bypass w's buffer. The exchange ends before the last bytes are
// sent, because a client may reuse the id as soon as it has read the answer.
func (b *largeBody) WriteTo(w io.Writer) (int64, error) {
	b.w = w
	size := b.left
	if err := b.msg.WriteOut((*largeBodyWriter)(b)); err != nil {
		return int64(size - b.left), err
	}
	b.end()
	n, err := w.Write(b.tail[largeTail-b.left:])
	b.left -= n
	return int64(size - b.left), err
}

// largeBodyWriter receives the message and passes on all but the tail.
type largeBodyWriter largeBody

func (b *largeBodyWriter) Write(p []byte) (n int, err error) {
	if pass := min(len(p), b.left-largeTail); pass > 0 {
		n, err = b.w.Write(p[:pass])
		b.left -= n
	}
	if err == nil {
		copy(b.tail[:], b.tail[len(p)-n:])
		copy(b.tail[largeTail-(len(p)-n):], p[n:])
	}
	return len(p), err
}

// end closes the replies, which releases the memory that the message borrows.
func (b *largeBody) end() {
	if of := b.of; of != nil {
		b.of, b.msg = nil, wire.Message{}
		of.release(false)
	}
}

// Close implements io.Closer. fasthttp calls it exactly once, in any case.
func (b *largeBody) Close() error {
	b.end()
	b.w = nil
	largeBodies.Put(b)
	return nil
}

// lent reports whether a legacy message may borrow the connection's memory. A request in a session may: its memory is
// released when the request ends, or is kept (httpserver.KeepBody) if the request outlives its connection.
func lent(ctx *fasthttp.RequestCtx, m *wire.Message) bool {
	return m.Kind == wire.Request && !m.Is("initialize") && httpserver.ScratchOf(ctx) != nil
}

// takeBody makes m independent of its connection, by copying it, or by taking over the body if that is large. It works
// once for each request.
func takeBody(ctx *fasthttp.RequestCtx, m *wire.Message) {
	if len(m.Raw) >= largeMessage {
		if own := httpserver.TakeBody(ctx); own != nil {
			m.Raw = own
			return
		}
	}
	m.Raw = bytes.Clone(m.Raw)
}
