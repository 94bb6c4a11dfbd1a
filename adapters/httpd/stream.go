package httpd

import (
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"
)

// Source is what a streamed answer is pulled from.
type Source interface {
	// Next waits for news and appends whole events, or a comment, to dst, which is empty; it returns dst extended. What
	// it returns leaves in one write. io.EOF, with or without a last event, ends the answer; another error breaks the
	// connection off, so that the client cannot take what it has for everything.
	Next(dst []byte) ([]byte, error)
	// Close is called exactly once, when the answer has ended or the client could not be written to: sent tells whether
	// everything, its end included, was written. It is called even if Next never was.
	Close(sent bool)
}

// chunkRoom is what goes before a chunk's bytes: up to eight digits and CRLF.
const chunkRoom = 10

const lastChunk = "0\r\n\r\n"

// StreamAfter makes the answer of ctx a text/event-stream pulled from src after the handler has returned. The head is
// written before the first Next; a first event that is at hand, copied, leaves with it in one write. Nothing else tells src
// that the client has left while Next waits: that is what Watch is for. A client that takes nothing for
// Options.WriteTimeout loses the connection.
func StreamAfter(ctx *fasthttp.RequestCtx, first []byte, src Source) {
	eventStream(&ctx.Response.Header)
	b, ok := streams.Get().(*streamBody)
	if !ok {
		b = &streamBody{buf: make([]byte, chunkRoom, 1024)}
	}
	b.src, b.sent, b.plain = src, false, false
	b.c = connOf(ctx)
	b.buf = append(b.buf[:chunkRoom], first...)
	if b.c != nil && b.c.talk.current.oldest {
		b.plain = true
		ctx.SetConnectionClose()
	}
	ctx.Response.SetBodyStream(b, -1)
}

// eventStream sets the fields of an event stream: nobody on the way may keep or collect it.
func eventStream(h *fasthttp.ResponseHeader) {
	h.SetContentType("text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
}

// streams keeps streamBodies with buffers up to keptBuffer.
var streams sync.Pool

// streamBody is a Source as an answer's body. Chunks are framed and written here: fasthttp's writer would need several writes for a
// large one and two for the end.
type streamBody struct {
	c     *conn
	src   Source
	buf   []byte // chunkRoom bytes for the frame, then an event
	sent  bool
	plain bool // for HTTP/1.0: no frames, the end of the connection ends the answer
}

var errPullOnly = errors.New("httpd: a stream cannot be read, only written")

// Read is never called by fasthttp, which prefers WriteTo; it is there to be a body stream.
func (b *streamBody) Read([]byte) (int, error) { return 0, errPullOnly }

// SupportsBodyWriteTo tells fasthttp to prefer WriteTo.
func (b *streamBody) SupportsBodyWriteTo() bool { return true }

// WriteTo is for a connection that is not ours.
func (b *streamBody) WriteTo(w io.Writer) (total int64, err error) {
	for last := false; !last && err == nil; {
		if len(b.buf) == chunkRoom {
			if last, err = b.pull(); err != nil {
				return total, err
			}
		}
		var n int
		n, err = w.Write(b.buf[chunkRoom:])
		total += int64(n)
		b.buf = b.buf[:chunkRoom]
	}
	b.sent = err == nil
	return total, err
}

// pour pulls and writes until the end, behind the answer's head, which leaves with the first event if that is at hand.
func (b *streamBody) pour(head []byte) (err error) {
	for last := false; !last; {
		if len(b.buf) == chunkRoom {
			if len(head) > 0 {
				if _, err = b.c.send(head); err != nil {
					return err
				}
				head = nil
			}
			if last, err = b.pull(); err != nil {
				return err
			}
		}
		if err = b.write(head, last); err != nil {
			return err
		}
		head, b.buf = nil, b.buf[:chunkRoom]
	}
	b.sent = true
	return nil
}

// pull fills buf with what Next has.
func (b *streamBody) pull() (last bool, err error) {
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

// write sends head, the chunk in buf, and the last chunk after the last event, in one write.
func (b *streamBody) write(head []byte, last bool) error {
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
	_, err := b.c.send(out)
	return err
}

// frame puts a chunk's frame around the n bytes of the event in buf.
func (b *streamBody) frame(n int) []byte {
	if n == 0 {
		return b.buf[:0]
	}
	var digits [16]byte
	size := strconv.AppendUint(digits[:0], uint64(n), 16)
	from := chunkRoom - 2 - len(size)
	copy(b.buf[from:], size)
	copy(b.buf[chunkRoom-2:], "\r\n")
	b.buf = append(b.buf, '\r', '\n')
	return b.buf[from:]
}

// Close is called once, whatever happened.
func (b *streamBody) Close() error {
	src, sent := b.src, b.sent
	b.src, b.c = nil, nil
	if cap(b.buf) <= keptBuffer {
		b.buf = b.buf[:chunkRoom]
		streams.Put(b)
	}
	src.Close(sent)
	return nil
}
