package httpserver

import (
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"
)

// Source is what a streamed response is pulled from.
type Source interface {
	// Next waits for news and appends whole events, or a comment, to dst, which is empty; it returns dst extended. The result leaves
	// in one write. io.EOF, with or without a last event, ends the response; another error breaks the connection off, so that the
	// client cannot take what it has for all of it.
	Next(dst []byte) ([]byte, error)
	// Close is called exactly once, when the response has ended or the client could not be written to, even if Next never was. sent
	// says that everything was written, the end included.
	Close(sent bool)
}

// chunkRoom is the room before the bytes of a chunk: up to eight digits and CRLF.
const chunkRoom = 10

const lastChunk = "0\r\n\r\n"

// StreamFrom makes the response of ctx a text/event-stream that is pulled from src after the handler has returned. The head is written
// before the first Next; a first event, which is copied, leaves with it in one write. While Next waits, only WatchClient reports that
// the client has left. A client that takes nothing for Options.WriteTimeout loses the connection.
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

// pulledStream is a Source as the body of a response. It writes the chunks itself: fasthttp's writer would need several writes for a
// large one and two for the end.
type pulledStream struct {
	WriteOnly
	src   Source
	buf   []byte // chunkRoom bytes for the frame, then an event
	sent  bool
	plain bool // for HTTP/1.0: no chunks, the end of the connection ends the response
}

// WriteTo is for a connection of another server, which writes the chunks.
func (b *pulledStream) WriteTo(w io.Writer) (total int64, err error) {
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

// Close is called once, whatever happened.
func (b *pulledStream) Close() error {
	src, sent := b.src, b.sent
	b.src = nil
	if cap(b.buf) <= maxKept {
		b.buf = b.buf[:chunkRoom]
		pulledStreams.Put(b)
	}
	src.Close(sent)
	return nil
}
