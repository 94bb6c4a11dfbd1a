package era

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

// pooled is one session, opening or open.
type pooled struct {
	u         *Upstream
	number    uint64
	key       [32]byte
	group     [32]byte // the client, whatever its capabilities
	principal string
	carried   *proxy.Forwarded // with which it is opened
	turn      chan struct{}    // of subscribing
	ready     chan struct{}    // closed when opened or failed
	err       error
	link      transport.Ref
	hello     *hello
	// declared are the client capabilities that it was opened with.
	declared []byte

	mu    sync.Mutex
	uses  int  // calls, and listens
	lease bool // one of the calls may be asked, and no second one may be added
	idle  *time.Timer
	last  time.Time
	level string // what logging/setLevel asked so far
	dead  bool
	talks
}

// hello is what the server said in its InitializeResult, as raw JSON.
type hello struct {
	info, caps, instr []byte
	members           []byte // of most results for modern clients, with the comma before them; nil: the server has no name
	logging           bool
}

func newHello(result []byte) *hello {
	all := wire.Whole(result)
	get := func(key string) []byte { return wire.Get(result, all, key).Of(result) }
	h := &hello{info: get("serverInfo"), caps: get("capabilities"), instr: get("instructions"),
		logging: wire.Path(result, all, "capabilities", "logging").Present()}
	if h.info != nil {
		h.members = append([]byte(`,"resultType":"complete","_meta":`), wire.Object([]wire.Change{{Key: wire.MetaPrefix + "serverInfo", Value: h.info}})...)
	}
	return h
}

// open dials and shakes hands. It is not bound to the exchange that caused it: others wait for it too.
func (s *pooled) open(info, caps []byte) {
	defer s.opened()
	ctx, cancel := context.WithTimeout(proxy.WithForwarded(s.u.work.Context(), s.carried), s.u.opt.patience())
	defer cancel()
	if s.err = s.shake(ctx, info, caps); s.err != nil {
		if s.u.work.Context().Err() != nil {
			s.err = work.ErrClosing()
		}
		s.u.pool.discard(s)
	}
}

func (s *pooled) shake(ctx context.Context, info, caps []byte) error {
	v, err := s.u.Profile(ctx)
	if err != nil {
		return err
	}
	dial := s.u.opt.Wires.Legacy
	if v.SSE {
		dial = s.u.opt.Wires.SSE
	}
	link, err := s.u.dial(ctx, dial, s.principal, s)
	if err != nil {
		return s.fault(err)
	}
	s.link.Set(link)
	ex, err := transport.NewExchange(proxy.Legacy, rules.InitializeRequest(info, caps))
	if err != nil {
		return proxy.AsError(err)
	}
	m, err := transport.Ask(ctx, s.link.Get(), ex)
	if err != nil {
		return s.fault(err)
	}
	if m.Kind == wire.Failure {
		return s.u.keeper.Refused(&m, "initialize")
	}
	s.hello = newHello(m.Of(m.Result))
	return s.link.Get().Send(ctx, []byte(rules.Initialized))
}

func (s *pooled) fault(err error) error {
	var status *transport.StatusError
	if errors.As(err, &status) {
		s.u.keeper.Doubt(status)
		return transport.StatusFault(status)
	}
	return err
}

// opened lets those go on that wait for the session, or for another's turn.
func (s *pooled) opened() {
	close(s.ready)
	s.u.pool.mu.Lock()
	defer s.u.pool.mu.Unlock()
	s.u.pool.wake()
}

// wait waits until the session is open. It is released if it cannot be used.
func (s *pooled) wait(ex *proxy.Exchange, lease bool) error {
	select {
	case <-s.ready: // who need not wait makes no channel to wait on
	default:
		select {
		case <-s.ready:
		case <-ex.Done():
			s.release(lease)
			return ex.Err()
		}
	}
	if s.err != nil {
		s.release(lease)
	}
	return s.err
}

func (s *pooled) hold(lease bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses++
	s.lease = s.lease || lease
}

// release gives the session back; without use it is closed after the idle time.
func (s *pooled) release(lease bool) {
	s.mu.Lock()
	s.last = time.Now()
	if lease {
		s.lease = false
	}
	if s.uses--; s.uses == 0 && !s.dead && s.idle == nil && s.u.opt.pooledIdle() > 0 {
		s.idle = time.AfterFunc(s.u.opt.pooledIdle(), s.expire)
	}
	free := lease || s.uses == 0
	s.mu.Unlock()
	if free && s.u.pool.awaited.Load() {
		s.u.pool.mu.Lock()
		s.u.pool.wake()
		s.u.pool.mu.Unlock()
	}
}

// expire closes the session if it has been without calls long enough, or looks again later: calls come and go without
// touching the timer.
func (s *pooled) expire() {
	s.u.pool.mu.Lock()
	defer s.u.pool.mu.Unlock()
	s.mu.Lock()
	left := s.u.opt.pooledIdle() - time.Since(s.last)
	unused := s.uses == 0
	switch {
	case !unused:
		s.idle = nil // the release of the last call sets another
	case left > 0 && !s.dead:
		s.idle.Reset(left)
	}
	s.mu.Unlock()
	if unused && left <= 0 && !s.u.pool.closed {
		s.u.pool.drop(s)
	}
}

// end closes the link, once it is there.
func (s *pooled) end() {
	<-s.ready
	s.mu.Lock()
	was := s.dead
	s.dead = true
	if s.idle != nil {
		s.idle.Stop()
	}
	if s.refusal != nil {
		s.refusal.Stop()
	}
	s.mu.Unlock()
	if link := s.link.Get(); !was && link != nil {
		_ = link.Close()
	}
	for _, h := range s.u.pool.heard(s.group) {
		h.moved(s)
	}
}

// Lost implements Sink.
func (s *pooled) Lost(err error) {
	s.u.keeper.Lost()
	s.u.work.Note("warn", "a session with the upstream is lost; the next request opens a new one", err)
	s.u.pool.discard(s)
}

// wantLevel makes the server send log messages down to the given level. The level of a shared session only ever sinks;
// each call's replies are filtered by what it asked for.
func (s *pooled) wantLevel(ctx context.Context, level string) error {
	s.mu.Lock()
	if level == "" || !s.hello.logging || s.level != "" && rules.Severe(level, s.level) {
		s.mu.Unlock()
		return nil
	}
	s.level = level
	s.mu.Unlock()
	ex, err := transport.NewExchange(proxy.Legacy, []byte(`{"jsonrpc":"2.0","id":"level","method":"logging/setLevel","params":{"level":"`+level+`"}}`))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.u.opt.ProbeTimeout)
	defer cancel()
	_, err = transport.Ask(ctx, s.link.Get(), ex) // a refusal is the server's choice: it then sends what it sends
	return err
}
