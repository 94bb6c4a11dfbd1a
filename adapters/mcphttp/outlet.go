package mcphttp

import (
	"sync"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/httpd/httpserver"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// Open answers ctx with an event stream and makes it the outlet of sess until either ends. If first is not nil, Open
// writes it at once. If closed is not nil, it is called once after the stream has ended. The error is
// httpserver.OpenStream's.
func Open(ctx *fasthttp.RequestCtx, sess *proxy.Session, first []byte, closed func()) error {
	o := &outlet{}
	stream, err := httpserver.OpenStream(ctx, httpserver.StreamOptions{First: first, OnClose: func(error) {
		o.over.Store(true)
		sess.ClearOutlet(o)
		if closed != nil {
			closed()
		}
	}})
	if err != nil {
		return err
	}
	o.stream = stream
	sess.SetOutlet(o)
	if o.over.Load() { // the stream ended before it became the outlet
		sess.ClearOutlet(o)
	}
	return nil
}

// outlet is an open stream as a session's outlet.
type outlet struct {
	stream *httpserver.Stream
	over   atomic.Bool
}

// Push implements proxy.Outlet.
func (o *outlet) Push(msg []byte) error { return o.stream.Write(eventstream.AppendMessage(nil, msg)) }

// eventParts recycles the slices that hold the parts of an event.
var eventParts = sync.Pool{New: func() any { return new([][]byte) }}

// PushMessage implements proxy.MessageOutlet.
func (o *outlet) PushMessage(m *wire.Message) error {
	if !m.OneLine() {
		return o.Push(m.AppendLine(nil))
	}
	parts := eventParts.Get().(*[][]byte)
	*parts = append(m.Parts(append((*parts)[:0], eventstream.MessageBegins)), eventstream.MessageEnds)
	err := o.stream.WriteParts(*parts...)
	clear(*parts)
	eventParts.Put(parts)
	return err
}

// End implements proxy.Outlet.
func (o *outlet) End() { o.stream.End() }

// recordedOutlet is a session's own recorded stream as its outlet.
type recordedOutlet struct {
	stream *session.Stream
	conn   *streamConn
}

// Push implements proxy.Outlet. It writes to the recorded stream, not to the connection: if the client has resumed the
// stream on another connection, the message goes there.
func (o *recordedOutlet) Push(msg []byte) error { return o.stream.Push(msg) }

// End implements proxy.Outlet.
func (o *recordedOutlet) End() { o.conn.End() }

// streamConn is an open connection as a session.Connection.
type streamConn struct {
	resume *Resume
	out    *httpserver.Stream

	mu     sync.Mutex
	stream *session.Stream
	closed bool
}

// attach connects c to the stream s, unless the connection has ended.
func (c *streamConn) attach(s *session.Stream, after uint64) {
	c.mu.Lock()
	c.stream = s
	c.mu.Unlock()
	s.Attach(c, after)
	if c.over() { // the connection ended before it was attached
		s.Detach(c)
	}
}

// close marks the connection as ended and returns the stream attached to it, or nil.
func (c *streamConn) close() *session.Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.stream
}

func (c *streamConn) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Event implements session.Connection.
func (c *streamConn) Event(id, msg []byte) error {
	return c.out.Write(eventstream.Append(nil, "message", id, msg))
}

// Rest implements session.Connection.
func (c *streamConn) Rest(id []byte) {
	_ = c.out.Write(c.resume.prime(nil, id)) // fails only if the client is gone
	c.out.End()
}

// End implements session.Connection.
func (c *streamConn) End() { c.out.End() }
