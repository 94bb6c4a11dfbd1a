package mcphttp

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/httpd/httpserver"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// Resume configures how legacy clients can resume broken streams.
type Resume struct {
	Events int            // kept for each stream; 0: none, events have no ids and streams cannot be resumed
	Bytes  int            // kept for all streams of a session
	Total  int            // kept for all sessions
	Retry  time.Duration  // delay before reconnecting that is sent to clients; not sent if below 1 ms
	Hold   time.Duration  // time after which an answer stream without its response is closed, so that the client polls; 0: never
	Usage  *session.Usage // counts what is kept; may be nil
}

// graceLeast is the least time that a client has to resume a stream before its pending questions are moved to another
// stream.
const graceLeast = 2 * time.Second

// Limits returns the limits of a session's record.
func (r *Resume) Limits() session.EventLimits {
	return session.EventLimits{Events: r.Events, Bytes: r.Bytes, Total: r.Total, Grace: max(graceLeast, 3*r.Retry)}
}

// Recording is where the streams of a session are recorded. The zero Recording records nothing.
type Recording struct {
	Events *session.Events
	// Polls reports that the client's revision has priming events and lets a server close a stream early (2025-11-25). An
	// older client would take the empty data of a priming event for a message.
	Polls bool
}

// prime appends the first event of a stream to dst: an event id to resume from and the retry delay. Its data is empty, so
// that readers do not take it for a message.
func (r *Resume) prime(dst, id []byte) []byte {
	if ms := r.Retry.Milliseconds(); ms > 0 {
		dst = eventstream.AppendRetry(dst, int(ms))
	}
	return eventstream.Append(dst, "", id, nil)
}

// recorded is the record of an answer stream.
type recorded struct {
	record   Recording
	stream   *session.Stream // nil if the stream is not recorded
	closesAt time.Time       // when the connection is closed early; zero: never
}

// begin starts recording if the answer's stream can be resumed. It appends the priming event where the client knows it.
func (a *answer) begin(dst []byte) []byte {
	if a.record.Events == nil {
		return dst
	}
	a.stream = a.record.Events.Open(false)
	if !a.record.Polls {
		return dst
	}
	if hold := a.n.Resume.Hold; hold > 0 {
		a.closesAt = time.Now().Add(hold)
	}
	return a.n.Resume.prime(dst, a.stream.Mark())
}

// event records a message and appends it to dst as an event. If moved is true, the client has resumed the stream on
// another connection and nothing is appended.
func (a *answer) event(dst []byte, m *wire.Message) (out []byte, moved bool) {
	raw := m.AppendLine(nil)
	if a.stream == nil {
		return eventstream.AppendMessage(dst, raw), false
	}
	id, moved := a.stream.Add(m, raw)
	if moved {
		return dst, true
	}
	return eventstream.Append(dst, "message", id, raw), false
}

// beforeClose returns t, or the time of the early close if that comes first.
func (a *answer) beforeClose(t time.Time) time.Time {
	if !a.closesAt.IsZero() && a.closesAt.Before(t) {
		return a.closesAt
	}
	return t
}

// closesEarly reports whether the connection is to be closed before the response: Hold has passed, or the server has closed its
// own stream early. The proxy holds a connection no longer than the server would.
func (a *answer) closesEarly() bool {
	return a.stream != nil && (a.ex.Polled.Load() || !a.closesAt.IsZero() && !time.Now().Before(a.closesAt))
}

// pause appends what a client needs before its stream is closed early: an event id and the retry delay.
func (a *answer) pause(dst []byte) []byte {
	a.ex.Polled.Store(false) // otherwise the client would be disconnected again as soon as it returns
	return a.n.Resume.prime(dst, a.stream.Mark())
}

// finish ends the record. sent reports that the client has received the whole answer.
func (a *answer) finish(sent bool) {
	if a.stream != nil {
		a.stream.Finish(sent && a.done)
	}
}

// drain reads the replies of an answer to their end after its client has lost the stream or was disconnected. They go
// into the record, from which the client can resume. Without a record, messages that must not be lost go to the session's
// own stream.
func (a *answer) drain() {
	defer a.release(false)
	s := a.stream
	if s != nil {
		s.Lose()
	}
	for {
		until := a.until(a.n.KeepAlive)
		if s != nil {
			if a.ex.Polled.Swap(false) {
				s.Rest()
			}
			if next := s.Tend(a.holdTime(), a.n.KeepAlive); next.Before(until) {
				until = next
			}
		}
		m, last, err := a.nextMessage(until)
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			continue
		case s != nil:
			s.Carry(m, m.AppendLine(nil))
		case session.Strays(m) && a.ex.Session != nil:
			a.ex.Session.Keep("", m.AppendLine(nil))
		}
		if last {
			return
		}
	}
}

func (a *answer) holdTime() time.Duration {
	if a.record.Polls {
		return a.n.Resume.Hold
	}
	return 0
}

// OpenRecorded is Open for a session whose streams can be resumed. find returns the session's own stream and the number of
// the last event that the client has seen: later events are replayed first, and new ones are recorded with ids. primed
// reports that the client knows priming events.
func (r *Resume) OpenRecorded(ctx *fasthttp.RequestCtx, sess *proxy.Session, find func() (s *session.Stream, after uint64), primed bool) error {
	o := &recordedOutlet{}
	t, err := r.openConn(ctx, func() { sess.ClearOutlet(o) })
	if err != nil {
		return err
	}
	s, after := find()
	o.conn, o.stream = t, s
	if after == 0 && primed {
		_ = t.out.Write(r.prime(nil, s.Mark())) // a failure ends the stream, which is checked below
	}
	t.attach(s, after)
	sess.SetOutlet(o)
	if t.over.Load() {
		sess.ClearOutlet(o)
	}
	return nil
}

// OpenResumed answers ctx with the events of a broken stream behind number after, until the stream ends.
func (r *Resume) OpenResumed(ctx *fasthttp.RequestCtx, s *session.Stream, after uint64) error {
	t, err := r.openConn(ctx, nil)
	if err == nil {
		t.attach(s, after)
	}
	return err
}

// openConn turns ctx into an open connection. Its queue has room for everything that is replayed.
func (r *Resume) openConn(ctx *fasthttp.RequestCtx, closed func()) (*streamConn, error) {
	t := &streamConn{resume: r}
	out, err := httpserver.OpenStream(ctx, httpserver.StreamOptions{Queue: r.Bytes + 1<<20, OnClose: func(error) {
		t.over.Store(true)
		if s := t.stream.Load(); s != nil {
			s.Detach(t)
		}
		if closed != nil {
			closed()
		}
	}})
	t.out = out
	return t, err
}

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
	stream atomic.Pointer[session.Stream] // nil before attach
	over   atomic.Bool                    // the connection has ended
}

// attach connects c to the stream s, unless the connection has ended.
func (c *streamConn) attach(s *session.Stream, after uint64) {
	c.stream.Store(s)
	s.Attach(c, after)
	if c.over.Load() { // the connection ended before it was attached
		s.Detach(c)
	}
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
