package proxy

import (
	"errors"
	"sync"
	"time"

	"dragoman/proxy/wire"
)

// State is where a session stands.
type State uint8

// A session is created by an initialize request and initialized by its success; closed and expired are ends.
const (
	Created State = iota
	Initialized
	Closed
	Expired
)

// String names the state.
func (s State) String() string { return [...]string{"created", "initialized", "closed", "expired"}[s] }

// Outlet is where a legacy client receives what belongs to none of its requests: its GET stream, its SSE stream, its
// standard input.
type Outlet interface {
	// Push copies what it keeps, never waits for the client, and fails when the outlet is gone.
	Push(msg []byte) error
	// End closes the outlet, once its session has ended or a newer one has taken its place.
	End()
}

// MessageOutlet is an Outlet that takes a reply where it stands. It may wait for the client as long as that may take to read it.
type MessageOutlet interface{ PushMessage(m *wire.Message) error }

// ErrNoOutlet says that the client has no stream open on which it could be told.
var ErrNoOutlet = errors.New("proxy: the session has no stream open")

// Session is what a legacy client has opened, and what it said once for all its later requests. It is safe for use by
// many goroutines.
type Session struct {
	ID        string // unguessable; never logged whole
	Transport string // streamable-http, sse or stdio
	Server    string // the server it was opened for
	Caller    Caller // who opened it; nobody else may use it
	Created   time.Time
	// Repeats lets several requests be in flight under one id: the Handler tells a repeat from a duplicate. It is set before the
	// session is used.
	Repeats bool

	mu        sync.Mutex
	state     State
	last      time.Time
	client    Client
	outlet    Outlet
	leaving   Outlet // the last outlet, while the requests that have ended with the session are answered
	ends      []func()
	flying    flights
	onOutlet  []func() // told when a stream has been opened
	asked     uint64   // questions put so far, for their ids
	questions map[string]func(*wire.Message)
	kept      []kept
	keptSize  int
}

// NewSession makes a session in state Created.
func NewSession(id, transport, server string, caller Caller, now time.Time) *Session {
	return &Session{ID: id, Transport: transport, Server: server, Caller: caller, Created: now, last: now}
}

// State tells where the session stands.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Touch notes activity at the given time; times before an earlier one count as that.
func (s *Session) Touch(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.After(s.last) {
		s.last = now
	}
}

// Idle tells since when nothing has happened, and whether a request is in flight.
func (s *Session) Idle() (since time.Time, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.flying.any()
}

// Initialize records what the successful handshake fixed. It does nothing in a session that has ended.
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

// Client tells what the client said.
func (s *Session) Client() Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// SetOutlet sets the stream for what belongs to no request; the newest one is the only one, and the one before ends. In a
// session that has ended, o ends at once.
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

// OnOutlet registers f to be called whenever a stream is opened, and at once if one is open. f must not wait.
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

// ClearOutlet takes o away again, if it is still the one.
func (s *Session) ClearOutlet(o Outlet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outlet == o {
		s.outlet = nil
	}
}

// HasOutlet tells whether a stream is open.
func (s *Session) HasOutlet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outlet != nil
}

// Push tells the client something that belongs to none of its requests.
func (s *Session) Push(msg []byte) error {
	if o := s.open(); o != nil {
		return o.Push(msg)
	}
	return ErrNoOutlet
}

// Reply tells the client a reply to one of its requests, where those come on the outlet too. The message is borrowed until it returns; it
// may wait, see Teller.
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

// open gives the outlet, nil if there is none.
func (s *Session) open() Outlet {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outlet == nil {
		return s.leaving
	}
	return s.outlet
}

// OnEnd registers f to be called once when the session ends; at once if it has.
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

// End brings the session to Closed or Expired: what is in flight is cancelled, and whoever asked is told. Only the
// first call counts.
func (s *Session) End(state State) { s.EndFor(state, ErrCancelled) }

// EndFor does the same for a cause that the client does not know: its requests in flight end with it, and are answered.
func (s *Session) EndFor(state State, cause error) {
	s.mu.Lock()
	if s.state >= Closed {
		s.mu.Unlock()
		return
	}
	s.state = state
	ends, outlet, flying := s.ends, s.outlet, s.flying.tickets()
	s.ends, s.outlet = nil, nil
	lingers := outlet != nil && len(flying) > 0 && cause != ErrCancelled
	if lingers {
		s.leaving = outlet
	}
	s.questions, s.kept, s.onOutlet = nil, nil, nil
	s.mu.Unlock()
	for _, ex := range flying {
		ex.Cancel(cause)
	}
	for _, f := range ends {
		f()
	}
	switch {
	case lingers: // a client that gets its answers there is told why its requests ended
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

// lingerTime is how long the outlet of a session that has ended for a cause stays open for the errors of its requests.
const lingerTime = 100 * time.Millisecond

// Begin enters a request into the table of what is in flight. It fails if the session has ended or its id is in flight
// already: a legacy id is never used twice by its sender (2025-11-25 basic, Requests). In a session that Repeats it is let in all
// the same, if both may be repeated and have the same Key.
func (s *Session) Begin(ex *Exchange) *Error { return s.BeginAs(string(ex.Msg.Of(ex.Msg.ID)), ex) }

// BeginAs is Begin for who has the request's id (raw JSON) as text already.
func (s *Session) BeginAs(id string, ex *Exchange) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state >= Closed {
		return Errf(SessionUnknown, "the session has ended; send initialize to open a new one")
	}
	ex.unique = !s.Repeats || !Repeatable(&ex.Msg)
	before := s.flying.newest(id)
	if before != nil && (ex.unique || before.unique || ex.Key != before.Key) {
		return Errf(DuplicateID, "a request with id %s is still in flight in this session; use a new id", id)
	}
	if ex.older = before; before != nil {
		before.newer = ex
	}
	s.flying.set(id, ex)
	return nil
}

// Finish takes a request out of the table, where it is under the given id (raw JSON).
func (s *Session) Finish(id string, ex *Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ex.newer != nil:
		ex.newer.older = ex.older
	case ex.older != nil:
		s.flying.set(id, ex.older)
	default:
		s.flying.remove(id)
	}
	if ex.older != nil {
		ex.older.newer = ex.newer
	}
	ex.older, ex.newer = nil, nil
}

// CancelRequest cancels the request with the given id (raw JSON), if it is in flight: notifications/cancelled. Of several the
// newest comes first: then no repeat is left to take over when the first one ends.
func (s *Session) CancelRequest(id string) {
	s.mu.Lock()
	all := s.flying.newest(id).appendAlike(nil)
	s.mu.Unlock()
	for _, ex := range all {
		ex.Cancel(ErrCancelled)
	}
}

// appendAlike appends tickets of ex and of all that are in flight under its id, the newest first. The caller holds the session's lock,
// without which they may end.
func (ex *Exchange) appendAlike(dst []Ticket) []Ticket {
	for ; ex != nil; ex = ex.older {
		dst = append(dst, ex.Ticket())
	}
	return dst
}
