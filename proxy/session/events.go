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

// EventLimits bound what is kept of the streams of one session.
type EventLimits struct {
	Events int // of one stream; beyond them its oldest go
	Bytes  int // of all streams, with what keeping costs; beyond them the oldest finished stream goes, then the oldest event
	// Total is Bytes of all sessions together, as Usage counts them: beyond it the session that keeps more loses of its own,
	// down to 16 KiB. 0: no such limit.
	Total int
	// Grace is how long a client that has lost a stream may take to pick it up before the questions on it are put
	// elsewhere.
	Grace time.Duration
}

// What keeping costs beside a message's own bytes, and how many streams are kept that have been written to their end.
const (
	eventCost  = 96
	streamCost = 256
	spentKept  = 16
	// leastKept is what a session may keep though all of them keep too much: an answer that says so has room there.
	leastKept = 16 << 10
)

// Usage counts what all sessions keep, for gauges.
type Usage struct{ Streams, Bytes atomic.Int64 }

// Tap is an open connection on which a client receives a stream's events as they come. None of its methods waits, and
// none calls back.
type Tap interface {
	// Event writes one message under its id; both are borrowed. It fails when the connection is gone.
	Event(id, msg []byte) error
	// Rest ends the connection before its stream, which the client may pick up after id.
	Rest(id []byte)
	// End ends the connection.
	End()
}

// Events are what one session keeps of what it told its client, so that a stream that broke can be picked up
// (2025-03-26 to 2025-11-25 transports, Resumability and Redelivery). A message is kept on the one stream it was given
// to and replayed on no other. Everything goes with the session. It is safe for use by many goroutines.
//
// Questions (Kind Request) and notifications/cancelled of a stream that its client has lost must not be lost with it,
// since the server waits. The rule is: whoever comes first gets them, and only he. One that was never written goes to the
// session's own stream (Session.Keep) at once if that is open, or else waits for it and for the client to pick the stream
// up; one that may have been written waits for Grace before it is put again on the session's own stream, as the
// client may have it; an answered one is forgotten. With the response all of them are moot.
type Events struct {
	sess   *proxy.Session
	limits EventLimits
	usage  *Usage

	mu      sync.Mutex
	streams []*Stream // in the order of their opening
	opened  uint64
	order   uint64 // of events
	bytes   int
	ended   bool
}

// Stream is the record of one event stream: the answer to a request, to a batch, or the session's own.
type Stream struct {
	of     *Events
	number uint64
	own    bool // the session's own stream, which belongs to no request

	// What follows is guarded by of.mu.
	events   []event
	seq      uint64 // of the last id given out
	cost     int
	tap      Tap
	since    time.Time // when the tap was opened, or if there is none, when the client lost the stream
	moved    bool      // the client has picked it up: whoever wrote it first is to stop
	lost     bool      // nobody but a tap writes it
	finished bool
	spent    bool // written to its end
	dropped  bool // no longer kept
}

type event struct {
	seq, order uint64
	msg        []byte
	stray      bool   // must not be lost: a question, or that one is cancelled
	written    bool   // the client may have it
	ask        string // a question's id, raw JSON
}

// NewEvents makes the record of a session, to which Start must tie it. usage counts what all sessions keep.
func NewEvents(sess *proxy.Session, limits EventLimits, usage *Usage) *Events {
	return &Events{sess: sess, limits: limits, usage: usage}
}

// Start ties the record to its session: it ends with it, and learns when the session's own stream is opened.
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

// Open begins a stream; own says that it is the session's own, of which there is one: any before it is finished.
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

// supersede makes s the session's own stream in place of any other.
func (e *Events) supersede(s *Stream) {
	for _, other := range e.streams {
		if other.own {
			other.finished = other != s
		}
	}
}

// Find finds the stream that an event id belongs to, and the event's number in it; nil if that was never given out here
// or is not kept any more.
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

// Answered forgets a question that the client has answered, wherever it was put.
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

// rescue takes what must not be lost off the lost streams and gives it to the session's own, if that is open.
func (e *Events) rescue() {
	if !e.sess.HasOutlet() {
		return
	}
	var strays [][]byte
	e.mu.Lock()
	for _, s := range e.streams {
		if !s.lost || s.tap != nil || s.finished {
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

// count notes a change of what is kept.
func (e *Events) count(streams, bytes int) {
	e.bytes += bytes
	e.usage.Streams.Add(int64(streams))
	e.usage.Bytes.Add(int64(bytes))
}

// drop forgets the stream at i.
func (e *Events) drop(i int) {
	s := e.streams[i]
	e.streams = append(e.streams[:i], e.streams[i+1:]...)
	e.count(-1, -s.cost)
	s.events, s.cost, s.dropped = nil, 0, true
}

// over tells whether this session, or all of them, keep too much.
func (e *Events) over() bool {
	return e.bytes > e.limits.Bytes || e.bytes > leastKept && e.crowded(0)
}

// crowded tells whether all sessions together would keep too much with so many bytes more.
func (e *Events) crowded(more int) bool {
	return e.limits.Total > 0 && e.usage.Bytes.Load()+int64(more) > int64(e.limits.Total)
}

// shrink brings what is kept below the limits: finished streams go first, then single events.
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

// remove forgets the event at i.
func (s *Stream) remove(i int) {
	cost := len(s.events[i].msg) + eventCost
	s.events[i].msg = nil
	s.events = append(s.events[:i], s.events[i+1:]...)
	s.cost -= cost
	s.of.count(0, -cost)
}

// Own tells whether it is the session's own stream.
func (s *Stream) Own() bool { return s.own }

// Mark gives out the id of an event without a message: what comes before the first, or at an early end.
func (s *Stream) Mark() []byte {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.next()
}

// next gives out an id. It names its stream, as 2025-11-25 wants it, and its place there.
func (s *Stream) next() []byte {
	s.seq++
	return s.id(s.seq)
}

func (s *Stream) id(seq uint64) []byte {
	id := strconv.AppendUint(append(make([]byte, 0, 16), 's'), s.number, 10)
	return strconv.AppendUint(append(id, '-'), seq, 10)
}

// parseID takes an id apart that next may have made.
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

// Strays tells whether a message must not be lost with its stream: a question, or that one is cancelled.
func Strays(m *wire.Message) bool { return m.Kind == wire.Request || m.Is("notifications/cancelled") }

// Add records a message, raw being its bytes, which are copied, and gives its id for whoever writes it to the client.
// moved says that the client has picked the stream up elsewhere, has the message there, and is to get no more here.
func (s *Stream) Add(m *wire.Message, raw []byte) (id []byte, moved bool) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.add(m, raw, !s.moved), s.moved
}

// Carry records a message of a stream that the client has lost; a tap gets it at once. A question nobody is there to
// take goes to the session's own stream instead, if that is open.
func (s *Stream) Carry(m *wire.Message, raw []byte) {
	s.of.mu.Lock()
	if Strays(m) && s.tap == nil && s.of.sess.HasOutlet() {
		s.of.mu.Unlock()
		s.of.sess.Keep("", raw)
		return
	}
	s.add(m, raw, false)
	s.of.mu.Unlock()
	s.of.rescue() // in case the session's own stream was opened just now
}

func (s *Stream) add(m *wire.Message, raw []byte, written bool) []byte {
	id := s.next()
	if s.tap != nil {
		if written = s.tap.Event(id, raw) == nil; !written {
			s.tap, s.since = nil, time.Now()
		}
	}
	s.keep(m, raw, written)
	return id
}

// Push gives a message to the client through the tap, and records it. It fails, and records nothing, if there is none.
func (s *Stream) Push(raw []byte) error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.tap == nil {
		return proxy.ErrNoOutlet
	}
	if err := s.tap.Event(s.next(), raw); err != nil {
		s.tap, s.since = nil, time.Now()
		return err
	}
	s.keep(nil, raw, true)
	return nil
}

// keep puts a message behind the last id. A response that is too large to be kept is kept as an error that says so: a
// client that picks the stream up must not wait for ever.
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

// Attach replays to t what follows the given number, and from then on gives it what comes. The one before it ends. Of a
// stream that is finished already, t gets the rest and ends.
func (s *Stream) Attach(t Tap, after uint64) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.tap != nil {
		s.tap.End()
	}
	s.tap, s.moved, s.since = nil, true, time.Now()
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
	s.tap = t
}

// Detach takes t away again, if it is still the tap.
func (s *Stream) Detach(t Tap) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.tap == t {
		s.tap, s.since = nil, time.Now()
	}
}

// Lose says that the connection on which the stream was begun has ended before the stream. Tend must be called from then on.
func (s *Stream) Lose() {
	s.of.mu.Lock()
	if s.lost = true; s.tap == nil {
		s.since = time.Now()
	}
	s.of.mu.Unlock()
	s.of.rescue()
}

// Tend does for a lost stream what its age demands: a tap that has lasted for hold is ended (0: never), and questions
// that the client did not come back for in time are put elsewhere. It answers when it should be called again, at the latest after
// most.
func (s *Stream) Tend(hold, most time.Duration) time.Time {
	now := time.Now()
	next := now.Add(most)
	s.of.mu.Lock()
	switch {
	case s.tap != nil && hold > 0:
		if now.Sub(s.since) >= hold {
			s.rest()
		} else if end := s.since.Add(hold); end.Before(next) {
			next = end
		}
	case s.tap == nil:
		if grace := s.since.Add(s.of.limits.Grace); grace.After(now) && grace.Before(next) {
			next = grace
		}
	}
	s.of.mu.Unlock()
	s.of.rescue()
	return next
}

// Rest lets go of a client that has picked the stream up; it may come back.
func (s *Stream) Rest() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.rest()
}

func (s *Stream) rest() {
	if s.tap != nil {
		s.tap.Rest(s.next())
		s.tap, s.since = nil, time.Now()
	}
}

// Finish ends the stream: nothing more will come. What is kept of it can still be asked for. spent says that all of it has
// been written to the client, who is then less likely to ask.
func (s *Stream) Finish(spent bool) {
	e := s.of
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.tap != nil {
		s.tap.End()
		s.tap = nil
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
