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
	held, err := httpserver.OpenStream(ctx, httpserver.StreamOptions{First: first, OnClose: func(error) {
		o.over.Store(true)
		sess.ClearOutlet(o)
		if closed != nil {
			closed()
		}
	}})
	if err != nil {
		return err
	}
	o.held = held
	sess.SetOutlet(o)
	if o.over.Load() { // the stream ended before it became the outlet
		sess.ClearOutlet(o)
	}
	return nil
}

// outlet is an open stream as a session's outlet.
type outlet struct {
	held *httpserver.Stream
	over atomic.Bool
}

// Push implements proxy.Outlet.
func (o *outlet) Push(msg []byte) error { return o.held.Write(eventstream.AppendMessage(nil, msg)) }

// eventParts recycles the slices that hold the parts of an event.
var eventParts = sync.Pool{New: func() any { return new([][]byte) }}

// PushMessage implements proxy.MessageOutlet.
func (o *outlet) PushMessage(m *wire.Message) error {
	if !m.OneLine() {
		return o.Push(m.AppendLine(nil))
	}
	parts := eventParts.Get().(*[][]byte)
	*parts = append(m.Parts(append((*parts)[:0], eventstream.MessageBegins)), eventstream.MessageEnds)
	err := o.held.WriteParts(*parts...)
	clear(*parts)
	eventParts.Put(parts)
	return err
}

// End implements proxy.Outlet.
func (o *outlet) End() { o.held.End() }

// keptOutlet is a session's own recorded stream as its outlet.
type keptOutlet struct {
	stream *session.Stream
	tap    *tap
}

// Push implements proxy.Outlet. It writes to the recorded stream, not to the connection: if the client has resumed the
// stream on another connection, the message goes there.
func (o *keptOutlet) Push(msg []byte) error { return o.stream.Push(msg) }

// End implements proxy.Outlet.
func (o *keptOutlet) End() { o.tap.End() }

// tap is an open connection as a session.Tap.
type tap struct {
	resume *Resume
	held   *httpserver.Stream

	mu     sync.Mutex
	stream *session.Stream
	closed bool
}

// attach connects t to the stream s, unless the connection has ended.
func (t *tap) attach(s *session.Stream, after uint64) {
	t.mu.Lock()
	t.stream = s
	t.mu.Unlock()
	s.Attach(t, after)
	if t.over() { // the connection ended before it was attached
		s.Detach(t)
	}
}

// close marks the connection as ended and returns the stream attached to it, or nil.
func (t *tap) close() *session.Stream {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return t.stream
}

func (t *tap) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// Event implements session.Tap.
func (t *tap) Event(id, msg []byte) error {
	return t.held.Write(eventstream.Append(nil, "message", id, msg))
}

// Rest implements session.Tap.
func (t *tap) Rest(id []byte) {
	_ = t.held.Write(t.resume.Prime(nil, id)) // fails only if the client is gone
	t.held.End()
}

// End implements session.Tap.
func (t *tap) End() { t.held.End() }
