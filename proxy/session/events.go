package session

import (
	"bytes"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// EventLimits bound the records of one session.
type EventLimits struct {
	Events int // of one stream; the oldest beyond it are dropped
	Bytes  int // of all streams, with overhead; beyond it the oldest finished stream is dropped, then the oldest event
	// Total bounds the bytes of all sessions together, as Usage counts them. Beyond it the session that adds an event drops some of
	// its own, down to 16 KiB. 0: no such limit.
	Total int
	// Grace is how long a client may take to resume a lost stream before the questions on it are sent elsewhere.
	Grace time.Duration
}

// Overhead of a recorded event in bytes, and the number of kept streams that were written to their end.
const (
	eventCost  = 96
	streamCost = 256
	spentKept  = 16
	// leastKept is what each session may keep although Total is exceeded: room for an answer that says so.
	leastKept = 16 << 10
)

// Usage counts what all sessions keep, for metrics.
type Usage struct{ Streams, Bytes atomic.Int64 }

// Connection is an open connection on which a client receives the events of a stream. Its methods do not block and do not call back.
type Connection interface {
	// Event writes one message with its id; both are borrowed. It fails when the connection is closed.
	Event(id, msg []byte) error
	// Rest ends the connection before its stream, which the client may resume after id.
	Rest(id []byte)
	// End ends the connection.
	End()
}

// Events records what one session has sent to its client, so that a broken stream can be resumed (2025-03-26 to 2025-11-25 transports,
// Resumability and Redelivery). A message belongs to one stream and is replayed on no other. The record ends with the session. It is
// safe for concurrent use.
//
// Questions (Kind Request) and notifications/cancelled on a lost stream must not be lost with it, since the server waits. They are sent
// once, on the stream that opens first. One that was never written goes to the session's own stream (Session.Keep) at once if that is
// open, or waits for it or for the client to resume the lost stream. One that may have been written waits for Grace before it is sent
// again on the session's own stream. An answered one is dropped. The response makes all of them pointless.
type Events struct {
	sess   *proxy.Session
	limits EventLimits
	usage  *Usage

	mu      sync.Mutex
	streams []*Stream // in the order in which they were opened
	opened  uint64
	order   uint64 // of events
	bytes   int
	ended   bool
}

// Stream is the record of one event stream: the answer to a request or a batch, or the session's own stream.
type Stream struct {
	of     *Events
	number uint64
	own    bool // the session's own stream, which belongs to no request

	// The following fields are guarded by of.mu.
	events   []event
	seq      uint64 // of the last id
	cost     int
	conn     Connection
	since    time.Time // when the connection was opened, or without one, when the client lost the stream
	moved    bool      // the client has resumed it: the first writer must stop
	lost     bool      // only a connection writes it
	finished bool
	spent    bool // written to its end
	dropped  bool // no longer kept
}

type event struct {
	seq, order uint64
	msg        []byte
	stray      bool   // must not be lost: a question, or its cancellation
	written    bool   // the client may have received it
	ask        string // a question's id, raw JSON
}

// NewEvents makes the record of a session, to which Start must bind it. usage counts what all sessions keep.
func NewEvents(sess *proxy.Session, limits EventLimits, usage *Usage) *Events {
	return &Events{sess: sess, limits: limits, usage: usage}
}

// Start binds the record to its session: it ends with it, and moves questions when the session's own stream is opened.
func (e *Events) Start() {
	e.sess.OnEnd(e.end)
	e.sess.OnOutlet(e.rescue)
}

func (e *Events) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	for len(e.streams) > 0 {
		e.drop(0)
	}
}

// Open begins a stream. With own it is the session's own stream, of which there is one: the previous one is finished.
func (e *Events) Open(own bool) *Stream {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opened++
	s := &Stream{of: e, number: e.opened, own: own, cost: streamCost, since: time.Now()}
	if e.ended {
		s.dropped = true
		return s
	}
	e.streams = append(e.streams, s)
	e.count(1, streamCost)
	if own {
		e.supersede(s)
	}
	e.shrink()
	return s
}

// supersede makes s the session's own stream.
func (e *Events) supersede(s *Stream) {
	for _, other := range e.streams {
		if other.own {
			other.finished = other != s
		}
	}
}

// Find returns the stream of an event id, and the event's number in it; nil if the id is unknown or no longer kept.
func (e *Events) Find(id []byte) (s *Stream, after uint64) {
	number, seq, ok := parseID(id)
	if !ok {
		return nil, 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.streams {
		if s.number == number && seq <= s.seq {
			return s, seq
		}
	}
	return nil, 0
}

// Answered drops a question that the client has answered, from all streams.
func (e *Events) Answered(id []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.streams {
		for i := range s.events {
			if s.events[i].ask != "" && s.events[i].ask == string(id) {
				s.remove(i)
				return
			}
		}
	}
}

// rescue moves what must not be lost from the lost streams to the session's own, if that is open.
func (e *Events) rescue() {
	if !e.sess.HasOutlet() {
		return
	}
	var strays [][]byte
	e.mu.Lock()
	for _, s := range e.streams {
		if !s.lost || s.conn != nil || s.finished {
			continue
		}
		late := time.Since(s.since) >= e.limits.Grace
		for i := 0; i < len(s.events); {
			if ev := s.events[i]; ev.stray && (late || !ev.written) {
				strays = append(strays, ev.msg)
				s.remove(i)
				continue
			}
			i++
		}
	}
	e.mu.Unlock()
	for _, msg := range strays {
		e.sess.Keep("", msg)
	}
}

// count records a change of the kept bytes.
func (e *Events) count(streams, bytes int) {
	e.bytes += bytes
	e.usage.Streams.Add(int64(streams))
	e.usage.Bytes.Add(int64(bytes))
}

// drop removes the stream at i.
func (e *Events) drop(i int) {
	s := e.streams[i]
	e.streams = append(e.streams[:i], e.streams[i+1:]...)
	e.count(-1, -s.cost)
	s.events, s.cost, s.dropped = nil, 0, true
}

// over reports whether this session, or all of them, keep too much.
func (e *Events) over() bool {
	return e.bytes > e.limits.Bytes || e.bytes > leastKept && e.crowded(0)
}

// crowded reports whether all sessions together would keep too much with so many more bytes.
func (e *Events) crowded(more int) bool {
	return e.limits.Total > 0 && e.usage.Bytes.Load()+int64(more) > int64(e.limits.Total)
}

// shrink drops what exceeds the limits: finished streams first, then single events.
func (e *Events) shrink() {
	for i := 0; e.over() && i < len(e.streams); {
		if e.streams[i].finished {
			e.drop(i)
			continue
		}
		i++
	}
	for e.over() {
		var oldest *Stream
		for _, s := range e.streams {
			if len(s.events) > 0 && (oldest == nil || s.events[0].order < oldest.events[0].order) {
				oldest = s
			}
		}
		if oldest == nil {
			return
		}
		oldest.remove(0)
	}
}

// remove drops the event at i.
func (s *Stream) remove(i int) {
	cost := len(s.events[i].msg) + eventCost
	s.events[i].msg = nil
	s.events = append(s.events[:i], s.events[i+1:]...)
	s.cost -= cost
	s.of.count(0, -cost)
}

// Own reports whether it is the session's own stream.
func (s *Stream) Own() bool { return s.own }

// Mark returns a new id for an event without a message: before the first message, or at an early end.
func (s *Stream) Mark() []byte {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.next()
}

// next returns a new id. It names its stream, as 2025-11-25 demands, and the position in it.
func (s *Stream) next() []byte {
	s.seq++
	return s.id(s.seq)
}

func (s *Stream) id(seq uint64) []byte {
	id := strconv.AppendUint(append(make([]byte, 0, 16), 's'), s.number, 10)
	return strconv.AppendUint(append(id, '-'), seq, 10)
}

// parseID parses an id of next.
func parseID(id []byte) (number, seq uint64, ok bool) {
	from, rest, found := bytes.Cut(id, []byte("-"))
	if !found || len(from) < 2 || from[0] != 's' || len(id) > 41 {
		return 0, 0, false
	}
	number, err := strconv.ParseUint(string(from[1:]), 10, 64)
	if err != nil {
		return 0, 0, false
	}
	seq, err = strconv.ParseUint(string(rest), 10, 64)
	return number, seq, err == nil
}

// Strays reports whether a message must not be lost with its stream: a question, or its cancellation.
func Strays(m *wire.Message) bool { return m.Kind == wire.Request || m.Is("notifications/cancelled") }

// Add records a message with the bytes raw, which are copied, and returns its id for the writer. moved means that the client has resumed
// the stream elsewhere and receives the message there: nothing more may be written here.
func (s *Stream) Add(m *wire.Message, raw []byte) (id []byte, moved bool) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.add(m, raw, !s.moved), s.moved
}

// Carry records a message of a lost stream, and writes it to the connection, if there is one. Without one, a question goes to the session's own
// stream, if that is open.
func (s *Stream) Carry(m *wire.Message, raw []byte) {
	s.of.mu.Lock()
	if Strays(m) && s.conn == nil && s.of.sess.HasOutlet() {
		s.of.mu.Unlock()
		s.of.sess.Keep("", raw)
		return
	}
	s.add(m, raw, false)
	s.of.mu.Unlock()
	s.of.rescue() // the session's own stream may have been opened just now
}

func (s *Stream) add(m *wire.Message, raw []byte, written bool) []byte {
	id := s.next()
	if s.conn != nil {
		if written = s.conn.Event(id, raw) == nil; !written {
			s.conn, s.since = nil, time.Now()
		}
	}
	s.keep(m, raw, written)
	return id
}

// Push writes a message to the connection, and records it. It fails, and records nothing, if there is no connection.
func (s *Stream) Push(raw []byte) error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.conn == nil {
		return proxy.ErrNoOutlet
	}
	if err := s.conn.Event(s.next(), raw); err != nil {
		s.conn, s.since = nil, time.Now()
		return err
	}
	s.keep(nil, raw, true)
	return nil
}

// keep records a message after the last id. It replaces a response that is too large by an error that says so: a client that resumes the
// stream must not wait for ever.
func (s *Stream) keep(m *wire.Message, raw []byte, written bool) {
	if s.dropped || s.of.limits.Events <= 0 {
		return
	}
	if cost := len(raw) + 2*eventCost + streamCost; m != nil && m.IsResponse() {
		limits, unkept := s.of.limits, (*proxy.Error)(nil)
		switch {
		case cost > limits.Bytes:
			unkept = proxy.Errf(proxy.ResponseTooLarge, "the response came while its stream was broken, and is too large to be kept: resume.bytes is %d", limits.Bytes)
		case cost > leastKept && s.of.crowded(cost):
			unkept = proxy.Errf(proxy.ResponseTooLarge, "the response came while its stream was broken, and too much is kept already: resume.total is %d", limits.Total)
		}
		if unkept != nil {
			instead := proxy.ErrorMessage(m.AppendPart(nil, m.ID), unkept)
			raw = instead.Raw
		}
	}
	s.of.order++
	ev := event{seq: s.seq, order: s.of.order, msg: append([]byte(nil), raw...), written: written}
	if m != nil && Strays(m) {
		if ev.stray = true; m.Kind == wire.Request {
			ev.ask = string(m.Of(m.ID))
		}
	}
	s.events = append(s.events, ev)
	s.cost += len(raw) + eventCost
	s.of.count(0, len(raw)+eventCost)
	if len(s.events) > s.of.limits.Events {
		s.remove(0)
	}
	s.of.shrink()
}

// Attach replays to t what follows the given number, and writes to it what follows later. The previous connection ends. If the stream is
// finished, t ends after the rest.
func (s *Stream) Attach(t Connection, after uint64) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.conn != nil {
		s.conn.End()
	}
	s.conn, s.moved, s.since = nil, true, time.Now()
	for i := range s.events {
		ev := &s.events[i]
		if ev.seq <= after {
			continue
		}
		if t.Event(s.id(ev.seq), ev.msg) != nil {
			return
		}
		ev.written = true
	}
	if s.own && !s.dropped {
		s.of.supersede(s)
	}
	if s.finished {
		t.End()
		return
	}
	s.conn = t
}

// Detach removes t, if it is still the connection.
func (s *Stream) Detach(t Connection) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.conn == t {
		s.conn, s.since = nil, time.Now()
	}
}

// Lose marks the stream as lost: its first connection has ended before it. Tend must be called from then on.
func (s *Stream) Lose() {
	s.of.mu.Lock()
	if s.lost = true; s.conn == nil {
		s.since = time.Now()
	}
	s.of.mu.Unlock()
	s.of.rescue()
}

// Tend looks after a lost stream: it ends a connection that has lasted for hold (0: never), and moves questions for which the client did not
// return in time. It returns when it must be called again, after most at the latest.
func (s *Stream) Tend(hold, most time.Duration) time.Time {
	now := time.Now()
	next := now.Add(most)
	s.of.mu.Lock()
	switch {
	case s.conn != nil && hold > 0:
		if now.Sub(s.since) >= hold {
			s.rest()
		} else if end := s.since.Add(hold); end.Before(next) {
			next = end
		}
	case s.conn == nil:
		if grace := s.since.Add(s.of.limits.Grace); grace.After(now) && grace.Before(next) {
			next = grace
		}
	}
	s.of.mu.Unlock()
	s.of.rescue()
	return next
}

// Rest ends the connection of the stream, which the client may resume again.
func (s *Stream) Rest() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.rest()
}

func (s *Stream) rest() {
	if s.conn != nil {
		s.conn.Rest(s.next())
		s.conn, s.since = nil, time.Now()
	}
}

// Finish ends the stream. What is kept of it can still be replayed. spent means that all of it was written to the client, which is then
// less likely to need it.
func (s *Stream) Finish(spent bool) {
	e := s.of
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.conn != nil {
		s.conn.End()
		s.conn = nil
	}
	s.finished, s.spent = true, spent && !s.moved
	for i := range s.events {
		s.events[i].stray = false
	}
	if !s.spent {
		return
	}
	count, first := 0, -1
	for i, other := range e.streams {
		if other.spent {
			if count++; first < 0 {
				first = i
			}
		}
	}
	if count > spentKept {
		e.drop(first)
	}
}
