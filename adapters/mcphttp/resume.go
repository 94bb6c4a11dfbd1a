package mcphttp

import (
	"errors"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/httpd/httpserver"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// Resume is how the streams of legacy clients can be picked up again after they broke.
type Resume struct {
	Events int            // of one stream that are kept; 0: none, events have no ids and nothing can be picked up
	Bytes  int            // kept of all streams of a session
	Total  int            // kept of all sessions
	Retry  time.Duration  // what a client is told to wait before it comes back; less than a millisecond: it is told nothing
	Hold   time.Duration  // an answer stream without its response is closed after so long, for its client to come back; 0: never
	Usage  *session.Usage // counts what is kept; nil: nobody counts
}

// graceLeast is the least time that a client has to pick a stream up before the questions on it are put elsewhere.
const graceLeast = 2 * time.Second

// Limits are those of a session's record.
func (r *Resume) Limits() session.EventLimits {
	return session.EventLimits{Events: r.Events, Bytes: r.Bytes, Total: r.Total, Grace: max(graceLeast, 3*r.Retry)}
}

// Keeping says where the streams of a session are recorded. The zero Keeping records nothing.
type Keeping struct {
	Events *session.Events
	// Polls says that the client's revision has priming events and lets a server close a stream early (2025-11-25): an older
	// client takes the empty data of a priming event for a message.
	Polls bool
}

// Prime appends the event that comes first on a stream: an id to come back with, and when. Readers take its empty data for no
// message.
func (r *Resume) Prime(dst, id []byte) []byte {
	if ms := r.Retry.Milliseconds(); ms > 0 {
		dst = eventstream.AppendRetry(dst, int(ms))
	}
	return eventstream.Append(dst, "", id, nil)
}

// kept is the record of an answer stream.
type kept struct {
	keep   Keeping
	stream *session.Stream // nil: it is not recorded
	rests  time.Time       // when the client is let go of; zero: never
}

// begin opens the record, once the answer is a stream.
func (a *answer) begin(dst []byte) []byte {
	if a.keep.Events == nil {
		return dst
	}
	a.stream = a.keep.Events.Open(false)
	if !a.keep.Polls {
		return dst
	}
	if hold := a.n.Resume.Hold; hold > 0 {
		a.rests = time.Now().Add(hold)
	}
	return a.n.Resume.Prime(dst, a.stream.Mark())
}

// event records a message and appends it as an event; moved says that the client has picked the stream up elsewhere, and
// nothing is appended.
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

// sooner is the given time, or when the client is let go of, if that is before.
func (a *answer) sooner(t time.Time) time.Time {
	if !a.rests.IsZero() && a.rests.Before(t) {
		return a.rests
	}
	return t
}

// letGo tells whether the connection is to be closed before the response: it has lasted as long as it may, or the server
// wants the same of us. It holds a connection no longer than the server would.
func (a *answer) letGo() bool {
	return a.stream != nil && (a.ex.Polled.Load() || !a.rests.IsZero() && !time.Now().Before(a.rests))
}

// pause appends what a client must have before its stream is closed early: an event id, and when to come back.
func (a *answer) pause(dst []byte) []byte {
	a.ex.Polled.Store(false) // it is done; when the client comes back it is not to be sent away at once
	return a.n.Resume.Prime(dst, a.stream.Mark())
}

// finish ends the record.
func (a *answer) finish(sent bool) {
	if a.stream != nil {
		a.stream.Finish(sent && a.done)
	}
}

// drain takes the replies of an answer that its client has lost, or was let go of, to their end: into the record, from
// which the client may have them, if there is one. What must not be lost and cannot be picked up goes to the session's
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
			if next := s.Tend(a.hold(), a.n.KeepAlive); next.Before(until) {
				until = next
			}
		}
		m, last, err := a.turn(until)
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

func (a *answer) hold() time.Duration {
	if a.keep.Polls {
		return a.n.Resume.Hold
	}
	return 0
}

// OpenKept is Open for a session whose streams can be picked up: what goes out has ids and is recorded in s, the session's
// own stream, and what follows number after is replayed first. primed says that the client knows priming events.
func (r *Resume) OpenKept(ctx *fasthttp.RequestCtx, sess *proxy.Session, find func() (s *session.Stream, after uint64), primed bool) error {
	o := &keptOutlet{}
	t, err := r.hold(ctx, func() { sess.ClearOutlet(o) })
	if err != nil {
		return err
	}
	s, after := find()
	o.tap, o.stream = t, s
	if after == 0 && primed {
		_ = t.held.Write(r.Prime(nil, s.Mark())) // if it fails, the stream is over, which is noticed below
	}
	t.attach(s, after)
	sess.SetOutlet(o)
	if t.over() {
		sess.ClearOutlet(o)
	}
	return nil
}

// PickUp answers ctx with what follows number after of a stream that was broken, until its end.
func (r *Resume) PickUp(ctx *fasthttp.RequestCtx, s *session.Stream, after uint64) error {
	t, err := r.hold(ctx, nil)
	if err == nil {
		t.attach(s, after)
	}
	return err
}

// hold makes ctx an open connection. What is replayed must find room in its queue.
func (r *Resume) hold(ctx *fasthttp.RequestCtx, closed func()) (*tap, error) {
	t := &tap{resume: r}
	held, err := httpserver.OpenStream(ctx, httpserver.StreamOptions{Queue: r.Bytes + 1<<20, OnClose: func(error) {
		if s := t.close(); s != nil {
			s.Detach(t)
		}
		if closed != nil {
			closed()
		}
	}})
	t.held = held
	return t, err
}
