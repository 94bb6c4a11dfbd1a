package proxy

import (
	"errors"
	"sync"
	"time"

	"dragoman/proxy/wire"
)

// State is the state of a session's life cycle.
type State uint8

// An initialize request creates a session, and its success initializes it. Closed and Expired are final.
const (
	Created State = iota
	Initialized
	Closed
	Expired
)

// String names the state.
func (s State) String() string { return [...]string{"created", "initialized", "closed", "expired"}[s] }

// Outlet is the stream on which a legacy client receives messages that belong to none of its requests: its GET stream, its SSE stream,
// its standard input.
type Outlet interface {
	// Push copies what it keeps, does not wait for the client, and fails when the outlet has ended.
	Push(msg []byte) error
	// End closes the outlet, because its session has ended or a newer outlet replaces it.
	End()
}

// MessageOutlet is an Outlet that writes a reply without a copy. PushMessage may wait for the client to read it.
type MessageOutlet interface{ PushMessage(m *wire.Message) error }

// ErrNoOutlet means that the client has no open stream.
var ErrNoOutlet = errors.New("proxy: the session has no stream open")

// Session is the session of a legacy client, with what its handshake has fixed for all requests. It is safe for concurrent use.
type Session struct {
	ID        string // unguessable; never logged in full
	Transport string // streamable-http, sse or stdio
	Server    string // the server it was opened for
	Caller    Caller // who has opened it; no other caller may use it
	Created   time.Time
	// Repeats allows several requests in flight with the same id: the Handler distinguishes repetitions from duplicates. It is set
	// before the session is used.
	Repeats bool
	// Refused handles a request that is refused because of the session, so that it is recorded: policies around RefusedBefore. Nil:
	// nothing is recorded. It is set before the session is used.
	Refused Handler

	mu        sync.Mutex
	state     State
	last      time.Time
	client    Client
	rights    *Rights // of the newest request that has any
	outlet    Outlet
	leaving   Outlet // the last outlet, while the requests that ended with the session are answered
	ends      []func()
	inFlight  inFlight
	onOutlet  []func() // called when a stream was opened
	asked     uint64   // number of questions so far, for their ids
	questions map[string]func(*wire.Message)
	kept      []kept
	keptSize  int
}

// NewSession makes a session in state Created.
func NewSession(id, transport, server string, caller Caller, now time.Time) *Session {
	return &Session{ID: id, Transport: transport, Server: server, Caller: caller, Created: now, last: now}
}

// State returns the current state.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Touch records activity at the given time. It never sets the time back.
func (s *Session) Touch(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.After(s.last) {
		s.last = now
	}
}

// Idle returns the time of the last activity, and whether a request is in flight.
func (s *Session) Idle() (since time.Time, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.inFlight.any()
}

// Initialize records the result of the handshake. It does nothing in a session that has ended.
func (s *Session) Initialize(c Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == Created {
		s.state, s.client = Initialized, c
	}
}

// SetLogLevel records a successful logging/setLevel.
func (s *Session) SetLogLevel(level string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client.LogLevel = level
}

// Client returns the client as the handshake has described it.
func (s *Session) Client() Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// SetOutlet sets the stream for messages that belong to no request, and ends the previous one. In a session that has ended, o ends at
// once.
func (s *Session) SetOutlet(o Outlet) {
	s.mu.Lock()
	before := s.outlet
	if s.state < Closed {
		s.outlet = o
	} else {
		before = o
	}
	opened := s.onOutlet
	s.mu.Unlock()
	if before != nil {
		before.End()
	}
	if before == o {
		return
	}
	s.catchUp(o)
	for _, f := range opened {
		f()
	}
}

// OnOutlet registers f to be called whenever a stream is opened, and at once if one is open. f must not block.
func (s *Session) OnOutlet(f func()) {
	s.mu.Lock()
	if s.state >= Closed {
		s.mu.Unlock()
		return
	}
	s.onOutlet = append(s.onOutlet, f)
	open := s.outlet != nil
	s.mu.Unlock()
	if open {
		f()
	}
}

// ClearOutlet removes o, if it is still the outlet.
func (s *Session) ClearOutlet(o Outlet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outlet == o {
		s.outlet = nil
	}
}

// HasOutlet reports whether a stream is open.
func (s *Session) HasOutlet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outlet != nil
}

// Push sends the client a message that belongs to none of its requests.
func (s *Session) Push(msg []byte) error {
	if o := s.open(); o != nil {
		return o.Push(msg)
	}
	return ErrNoOutlet
}

// Reply sends the client a reply to one of its requests, for transports that send those on the outlet, too. The message is borrowed until
// it returns. It may block, see MessageOutlet.
func (s *Session) Reply(m *wire.Message) error {
	switch o := s.open().(type) {
	case nil:
		return ErrNoOutlet
	case MessageOutlet:
		return o.PushMessage(m)
	default:
		return o.Push(m.AppendLine(nil))
	}
}

// open returns the outlet; nil if there is none.
func (s *Session) open() Outlet {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outlet == nil {
		return s.leaving
	}
	return s.outlet
}

// OnEnd registers f to be called once when the session ends, or at once if it has ended.
func (s *Session) OnEnd(f func()) {
	s.mu.Lock()
	if s.state < Closed {
		s.ends = append(s.ends, f)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	f()
}

// End changes the state to Closed or Expired, cancels the requests in flight and calls the functions of OnEnd. Only the first call has an
// effect.
func (s *Session) End(state State) { s.EndFor(state, ErrCancelled) }

// EndFor is End for a cause that is not the client's: its requests in flight are answered with that error.
func (s *Session) EndFor(state State, cause error) {
	s.mu.Lock()
	if s.state >= Closed {
		s.mu.Unlock()
		return
	}
	s.state = state
	ends, outlet, inFlight := s.ends, s.outlet, s.inFlight.tickets()
	s.ends, s.outlet = nil, nil
	lingers := outlet != nil && len(inFlight) > 0 && cause != ErrCancelled
	if lingers {
		s.leaving = outlet
	}
	s.questions, s.kept, s.onOutlet = nil, nil, nil
	s.mu.Unlock()
	for _, ex := range inFlight {
		ex.Cancel(cause)
	}
	for _, f := range ends {
		f()
	}
	switch {
	case lingers: // the outlet may carry the errors of the requests
		time.AfterFunc(lingerTime, func() {
			s.mu.Lock()
			s.leaving = nil
			s.mu.Unlock()
			outlet.End()
		})
	case outlet != nil:
		outlet.End()
	}
}

// lingerTime is how long the outlet stays open after EndFor for the errors of the session's requests.
const lingerTime = 100 * time.Millisecond

// Begin adds a request to those in flight. It fails if the session has ended, or if its id is in flight already: a legacy client never
// reuses an id (2025-11-25 basic, Requests). With Repeats, a second one is accepted if both are Repeatable and have the same Key.
func (s *Session) Begin(ex *Exchange) *Error {
	ex.id = append(ex.id[:0], ex.Msg.Of(ex.Msg.ID)...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state >= Closed {
		return Errf(SessionUnknown, "the session has ended; send initialize to open a new one")
	}
	ex.unique = !s.Repeats || !Repeatable(&ex.Msg)
	before := s.inFlight.newest(ex.id)
	if before != nil && (ex.unique || before.unique || ex.Key != before.Key) {
		return Errf(DuplicateID, "a request with id %s is still in flight in this session; use a new id", ex.id)
	}
	if ex.older = before; before != nil {
		before.newer = ex
	}
	s.inFlight.set(ex)
	if ex.Caller.Rights != nil {
		s.rights = ex.Caller.Rights
	}
	return nil
}

// Reader returns who reads the session's own stream: the caller that opened it, with the rights that it showed last.
func (s *Session) Reader() Caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	who := s.Caller
	if s.rights != nil {
		who.Rights = s.rights
	}
	return who
}

// Finish removes a request from those in flight.
func (s *Session) Finish(ex *Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ex.newer != nil:
		ex.newer.older = ex.older
	case ex.older != nil:
		s.inFlight.set(ex.older)
	default:
		s.inFlight.remove(ex.id)
	}
	if ex.older != nil {
		ex.older.newer = ex.newer
	}
	ex.older, ex.newer = nil, nil
}

// CancelRequest cancels the request with the given id (raw JSON), if it is in flight: notifications/cancelled. Of several the newest is
// cancelled first, so that no repetition takes over when the first one ends.
func (s *Session) CancelRequest(id []byte) {
	s.mu.Lock()
	all := s.inFlight.newest(id).appendAlike(nil)
	s.mu.Unlock()
	for _, ex := range all {
		ex.Cancel(ErrCancelled)
	}
}

// appendAlike appends tickets of ex and of all requests in flight with its id, the newest first. The caller holds the session's lock,
// without which they may end.
func (ex *Exchange) appendAlike(dst []Ticket) []Ticket {
	for ; ex != nil; ex = ex.older {
		dst = append(dst, ex.Ticket())
	}
	return dst
}
