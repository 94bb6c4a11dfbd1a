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
	// largeMessage is from how many bytes on a body is not copied to be kept.
	largeMessage = 64 << 10
	// inPlace is from how many bytes on a response is written from where it stands. A smaller one is cheaper to copy once more.
	inPlace = 4 << 10
	// largeTail is how much of it is held back until the replies have been closed.
	largeTail = 256
)

// large answers with a message that stays where it is until it has been written, and ends the exchange then.
func large(ctx *fasthttp.RequestCtx, status int, m *wire.Message, of *answer) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	size := m.Size()
	b := largeBodies.Get().(*largeBody)
	b.msg, b.of, b.left = *m, of, size
	ctx.Response.SetBodyStream(b, size)
}

var largeBodies = sync.Pool{New: func() any { return new(largeBody) }}

// largeBody is a message as fasthttp writes it.
type largeBody struct {
	httpserver.WriteOnly
	msg  wire.Message // borrowed from the replies of
	of   *answer      // nil once they are closed
	w    io.Writer
	left int             // bytes not written yet
	tail [largeTail]byte // the last of them
}

// WriteTo writes the message with its edits, the large pieces past w's buffer. The exchange ends before the last bytes leave:
// a client may use the id again as soon as it has read its answer.
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

// largeBodyWriter is what the message is written to: all but the tail passes.
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

// end closes the replies: what they have lent is theirs again.
func (b *largeBody) end() {
	if of := b.of; of != nil {
		b.of, b.msg = nil, wire.Message{}
		of.release(false)
	}
}

// Close is called by fasthttp once, whatever happened, and by nobody after it.
func (b *largeBody) Close() error {
	b.end()
	b.w = nil
	largeBodies.Put(b)
	return nil
}

// lent tells of a legacy client's message whether its face gives it back: a request of a session does when it ends, or has it kept
// (httpserver.KeepBody) where it outlives its connection.
func lent(ctx *fasthttp.RequestCtx, m *wire.Message) bool {
	return m.Kind == wire.Request && !m.Is("initialize") && httpserver.ScratchOf(ctx) != nil
}

// takeBody makes m, a request's body, the caller's: in memory of its own, or in the body's if that is large. It can be had once.
func takeBody(ctx *fasthttp.RequestCtx, m *wire.Message) {
	if len(m.Raw) >= largeMessage {
		if own := httpserver.TakeBody(ctx); own != nil {
			m.Raw = own
			return
		}
	}
	m.Raw = bytes.Clone(m.Raw)
}
