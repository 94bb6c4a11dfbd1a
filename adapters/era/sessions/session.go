package sessions

import (
	"context"
	"errors"
	"sync"
	"time"

	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Session is one session of a pool, open or being opened.
type Session struct {
	pool        *Pool
	number      uint64
	key         [32]byte
	group       [32]byte
	caller      proxy.Identity
	principal   string
	forwarded   *proxy.Forwarded // headers with which it is opened
	declared    []byte           // the client capabilities with which it is opened
	subscribing chan struct{}    // of subscribing
	ready       chan struct{}    // closed when opened or failed
	err         error
	link        transport.Ref
	result      *InitResult

	mu         sync.Mutex
	uses       int           // calls, and listens
	turns      []*Turn       // leased, the last to run last
	moved      chan struct{} // closed when a turn has changed; nil: none waits for that
	idle       *time.Timer
	last       time.Time // when it was last used
	level      string    // that logging/setLevel asked for so far
	dead       bool
	listens    int
	subscribed map[string]int // how many listens need a URI to which the session has subscribed
	inbox      inbox
}

// Number returns the session's number, which is unique in its pool.
func (s *Session) Number() uint64 { return s.number }

// Client identifies the session's client, regardless of the capabilities that it declares.
func (s *Session) Client() [32]byte { return s.group }

// Link returns the session's link; nil until it has been opened.
func (s *Session) Link() transport.Link { return s.link.Get() }

// Result returns the server's InitializeResult; nil until the session is open.
func (s *Session) Result() *InitResult { return s.result }

// Pushes reports whether the server can send messages outside calls, and with them change notices.
func (s *Session) Pushes() bool {
	link, ok := transport.As[transport.Pusher](s.Link())
	return !ok || link.Pushes()
}

// PushKnown returns a channel that is closed when what Pushes reports is known for certain; nil: it is.
func (s *Session) PushKnown() <-chan struct{} {
	if link, ok := transport.As[transport.Pusher](s.Link()); ok {
		return link.Answered()
	}
	return nil
}

// Gone reports whether the session has ended.
func (s *Session) Gone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// Usage returns the number of calls and listens in the session; of those calls that receive messages from outside calls; and of
// questions that wait for a call.
func (s *Session) Usage() (uses, calls, questions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uses, len(s.inbox.calls), len(s.inbox.early)
}

// InitResult is an InitializeResult.
type InitResult struct {
	Info, Caps, Instructions []byte // raw JSON; nil: absent
	// Members holds the members that most results for modern clients gain, with a leading comma; nil: the server sent no serverInfo.
	Members []byte
	logging bool
}

func newInitResult(result []byte) *InitResult {
	all := wire.Whole(result)
	get := func(key string) []byte { return wire.Get(result, all, key).Of(result) }
	r := &InitResult{Info: get("serverInfo"), Caps: get("capabilities"), Instructions: get("instructions"),
		logging: wire.Path(result, all, "capabilities", "logging").Present()}
	if r.Info != nil {
		r.Members = append([]byte(`,"resultType":"complete","_meta":`), wire.Object([]wire.Change{{Key: wire.MetaPrefix + "serverInfo", Value: r.Info}})...)
	}
	return r
}

// Can reports whether the server declared a flag of a capability, such as tools.listChanged.
func (r *InitResult) Can(capability, flag string) bool {
	return string(wire.Path(r.Caps, wire.Whole(r.Caps), capability, flag).Of(r.Caps)) == "true"
}

// RunsTasks reports whether the server runs calls as tasks (2025-11-25 tasks, Capabilities).
func (r *InitResult) RunsTasks() bool {
	return wire.Path(r.Caps, wire.Whole(r.Caps), "tasks", "requests", "tools", "call").Present()
}

// open dials and performs the handshake. It is independent of the exchange that caused it, since others wait for it too.
func (s *Session) open(info, caps []byte) {
	defer s.opened()
	p := s.pool
	ctx, cancel := context.WithTimeout(proxy.WithForwarded(p.work.Context(), s.forwarded), p.server.HandshakeTimeout())
	defer cancel()
	if s.err = s.handshake(ctx, info, caps); s.err != nil {
		if p.work.Context().Err() != nil {
			s.err = work.ErrClosing()
		}
		p.Discard(s)
	}
}

func (s *Session) handshake(ctx context.Context, info, caps []byte) error {
	p := s.pool
	v, err := p.keeper.Profile(ctx)
	if err != nil {
		return err
	}
	link, err := p.quota.Dial(ctx, p.keeper.Legacy(v), s.principal, s)
	if err != nil {
		return s.fault(err)
	}
	s.link.Set(link)
	m, err := transport.AskLegacy(ctx, link, rules.InitializeRequest(info, caps))
	if err != nil {
		return s.fault(err)
	}
	if m.Kind == wire.Failure {
		return p.keeper.Refused(&m, "initialize")
	}
	s.result = newInitResult(m.Of(m.Result))
	return link.Send(ctx, []byte(rules.Initialized))
}

func (s *Session) fault(err error) error {
	var status *transport.StatusError
	if errors.As(err, &status) {
		s.pool.keeper.Doubt(status)
		return transport.StatusFault(status)
	}
	return err
}

// opened wakes the calls that wait for the session, or for one to be opened.
func (s *Session) opened() {
	close(s.ready)
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.pool.wake()
}

// wait waits until the session is open.
func (s *Session) wait(ex *proxy.Exchange) error {
	select {
	case <-s.ready: // the common case needs no channel to wait on
	default:
		select {
		case <-s.ready:
		case <-ex.Done():
			return ex.Err()
		}
	}
	return s.err
}

func (s *Session) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses++
}

// turn begins a leased turn.
func (s *Session) turn(r *request) *Turn {
	t := &Turn{s: s, leased: true, from: r.from, about: r.about, alone: r.alone}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses++
	t.moved = time.Now()
	s.turns, s.last = append(s.turns, t), t.moved
	if s.pool.single.Load() {
		time.AfterFunc(headStart, s.pool.signal)
	}
	return t
}

// Release ends a use of the session, which Acquire began. An unused session is closed after the idle time.
func (s *Session) Release() { s.release(false) }

// release is Release; lease says that a lease has ended.
func (s *Session) release(lease bool) {
	p := s.pool
	s.mu.Lock()
	s.last = time.Now()
	if s.uses--; s.uses == 0 && !s.dead && s.idle == nil && p.opt.idle() > 0 {
		s.idle = time.AfterFunc(p.opt.idle(), s.expire)
	}
	free := lease || s.uses == 0
	s.mu.Unlock()
	if free {
		p.signal()
	}
}

// untouched is Release for a use that does not restart the idle time; last is when the session was last used before.
func (s *Session) untouched(last time.Time) {
	s.Release()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uses == 0 {
		s.last = last
	}
}

// expire closes the session if it has been idle long enough, and checks again later otherwise: calls do not touch the timer.
func (s *Session) expire() {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.mu.Lock()
	left := p.opt.idle() - time.Since(s.last)
	unused := s.uses == 0
	switch {
	case !unused:
		s.idle = nil // the release of the last call sets another
	case left > 0 && !s.dead:
		s.idle.Reset(left)
	}
	s.mu.Unlock()
	if unused && left <= 0 && !p.closed {
		p.drop(s)
	}
}

// end closes the link after the handshake has ended.
func (s *Session) end() {
	<-s.ready
	s.mu.Lock()
	was := s.dead
	s.dead = true
	if s.idle != nil {
		s.idle.Stop()
	}
	s.inbox.stop()
	s.inbox.drop()
	s.mu.Unlock()
	if link := s.Link(); !was && link != nil {
		_ = link.Close()
	}
	for _, l := range s.pool.listening(s.group) {
		l.SessionEnded(s)
	}
}

// Lost implements transport.Sink.
func (s *Session) Lost(err error) {
	s.pool.keeper.Lost()
	s.pool.work.Note("warn", "a session with the upstream is lost; the next request opens a new one", err)
	s.pool.Discard(s)
}

// WantLevel asks the server for log messages of the given level and above. The level of a session is only ever lowered, since calls
// share it; the replies of each call are filtered by the level that the call wants. An error says that the request was not answered.
func (s *Session) WantLevel(ctx context.Context, level string) error {
	s.mu.Lock()
	if level == "" || !s.result.logging || s.level != "" && rules.Severe(level, s.level) {
		s.mu.Unlock()
		return nil
	}
	s.level = level
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.pool.server.Timeout)
	defer cancel()
	_, err := transport.AskLegacy(ctx, s.Link(), []byte(`{"jsonrpc":"2.0","id":"level","method":"logging/setLevel","params":{"level":"`+level+`"}}`))
	return err // an error response is ignored
}
