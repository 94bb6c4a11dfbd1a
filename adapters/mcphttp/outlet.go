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

// Open answers ctx with a stream that is the session's outlet until either ends. first, if not nil, is written at once;
// closed, if not nil, is called once when the stream has ended.
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
	if o.over.Load() { // it ended before it was the outlet
		sess.ClearOutlet(o)
	}
	return nil
}

// outlet is a held stream as a session's outlet.
type outlet struct {
	held *httpserver.Stream
	over atomic.Bool
}

// Push implements proxy.Outlet.
func (o *outlet) Push(msg []byte) error { return o.held.Write(eventstream.AppendMessage(nil, msg)) }

// eventParts recycles the slices of parts of events.
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

// keptOutlet is a session's own stream, recorded, as its outlet.
type keptOutlet struct {
	stream *session.Stream
	tap    *tap
}

// Push implements proxy.Outlet. It is the stream that takes the message: if the client has picked it up on another
// connection meanwhile, that one gets it.
func (o *keptOutlet) Push(msg []byte) error { return o.stream.Push(msg) }

// End implements proxy.Outlet.
func (o *keptOutlet) End() { o.tap.End() }

// tap is a held connection as session.Tap.
type tap struct {
	resume *Resume
	held   *httpserver.Stream

	mu     sync.Mutex
	stream *session.Stream
	closed bool
}

// attach makes t the stream's, unless it is over.
func (t *tap) attach(s *session.Stream, after uint64) {
	t.mu.Lock()
	t.stream = s
	t.mu.Unlock()
	s.Attach(t, after)
	if t.over() { // it ended before it was the stream's
		s.Detach(t)
	}
}

// close says that the connection is over and gives the stream it belongs to, if there is one already.
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
	_ = t.held.Write(t.resume.Prime(nil, id)) // a client that is gone already needs no rest
	t.held.End()
}

// End implements session.Tap.
func (t *tap) End() { t.held.End() }
