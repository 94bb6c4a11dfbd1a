package era

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// pool holds the sessions with a legacy server that modern clients share. A session belongs to one principal, one
// clientInfo and one set of capabilities: all that initialize fixed (strategy S1: nothing leaks between principals).
type pool struct {
	u *Upstream

	mu       sync.Mutex
	sessions map[[32]byte]*pooled
	closed   bool
}

func (p *pool) init(u *Upstream) { p.u, p.sessions = u, make(map[[32]byte]*pooled) }

// pooled is one session, opening or open.
type pooled struct {
	u     *Upstream
	key   [32]byte
	ready chan struct{} // closed when opened or failed
	err   error
	link  linked
	hello *hello

	mu    sync.Mutex
	uses  int
	idle  *time.Timer
	last  time.Time
	level string // what logging/setLevel asked so far
	dead  bool
}

// hello is what the server said in its InitializeResult, as raw JSON.
type hello struct {
	info, caps, instr []byte
	logging           bool
}

func newHello(result []byte) *hello {
	all := wire.Span{From: 0, To: uint32(len(result))} //nolint:gosec // part of a message
	get := func(key string) []byte { return wire.Get(result, all, key).Of(result) }
	return &hello{info: get("serverInfo"), caps: get("capabilities"), instr: get("instructions"),
		logging: wire.Path(result, all, "capabilities", "logging").Present()}
}

// acquire answers the session for an exchange, opening it if need be. Release it when the call has ended.
func (p *pool) acquire(ex *proxy.Exchange) (*pooled, error) {
	info := ex.Client.Info
	if info == nil {
		info = p.u.opt.Self
	}
	caps, principal := legacyCaps(ex.Client.Caps), ex.Caller.Principal
	if p.u.opt.Shared {
		info, caps, principal = p.u.opt.Self, []byte("{}"), ""
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(principal), info, caps} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	key := [32]byte(h.Sum(nil))
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, proxy.Errf(proxy.ShuttingDown, "the proxy is shutting down")
	}
	s := p.sessions[key]
	if s == nil {
		if err := p.makeRoom(); err != nil {
			p.mu.Unlock()
			return nil, err
		}
		s = &pooled{u: p.u, key: key, ready: make(chan struct{}), last: time.Now()}
		p.sessions[key] = s
		p.u.group.Go(func() { s.open(info, caps) })
	}
	s.hold()
	p.mu.Unlock()
	select {
	case <-s.ready:
	case <-ex.Done():
		s.release()
		return nil, ex.Err()
	}
	if s.err != nil {
		s.release()
		return nil, s.err
	}
	return s, nil
}

// makeRoom closes the longest unused session if there are as many as may be. The caller holds p.mu.
func (p *pool) makeRoom() error {
	if len(p.sessions) < p.u.opt.MaxSessions {
		return nil
	}
	var oldest *pooled
	for _, s := range p.sessions {
		s.mu.Lock()
		if s.uses == 0 && (oldest == nil || s.last.Before(oldest.last)) {
			oldest = s
		}
		s.mu.Unlock()
	}
	if oldest == nil {
		return proxy.Errf(proxy.TooManySessions, "all %d sessions with the upstream are in use; raise upstreams.%s.max_sessions", len(p.sessions), p.u.opt.Name)
	}
	p.drop(oldest)
	return nil
}

// drop takes a session out and closes it. The caller holds p.mu.
func (p *pool) drop(s *pooled) {
	if p.sessions[s.key] == s {
		delete(p.sessions, s.key)
	}
	p.u.group.Go(s.end)
}

// discard drops a session that has proved dead.
func (p *pool) discard(s *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(s)
}

func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	all := p.sessions
	p.sessions = map[[32]byte]*pooled{}
	p.mu.Unlock()
	for _, s := range all {
		s.end()
	}
	return nil
}

// open dials and shakes hands. It is not bound to the exchange that caused it: others wait for it too.
func (s *pooled) open(info, caps []byte) {
	defer close(s.ready)
	ctx, cancel := context.WithTimeout(s.u.ctx, s.u.opt.ProbeTimeout)
	defer cancel()
	if s.err = s.shake(ctx, info, caps); s.err != nil {
		s.u.pool.discard(s)
	}
}

func (s *pooled) shake(ctx context.Context, info, caps []byte) error {
	v, err := s.u.Verdict(ctx)
	if err != nil {
		return err
	}
	dial := s.u.opt.Wires.Legacy
	if v.SSE {
		dial = s.u.opt.Wires.SSE
	}
	link, err := dial(ctx, s)
	if err != nil {
		return s.fault(err)
	}
	s.link.set(link)
	ex, err := exchange(proxy.Legacy, initializeRequest(info, caps))
	if err != nil {
		return proxy.AsError(err)
	}
	m, err := ask(ctx, s.link.get(), ex)
	if err != nil {
		return s.fault(err)
	}
	if m.Kind == wire.Failure {
		s.u.doubt(errors.New(string(m.Text(m.ErrorText))))
		return proxy.Errf(proxy.BadAnswer, "the upstream server refused initialize: %s (code %d)", m.Text(m.ErrorText), m.ErrorCode)
	}
	s.hello = newHello(m.Of(m.Result))
	return s.link.get().Send(ctx, []byte(initialized))
}

func (s *pooled) fault(err error) error {
	var status *StatusError
	if errors.As(err, &status) {
		s.u.doubt(status)
		return StatusFault(status)
	}
	return err
}

func (s *pooled) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses++
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
}

// release gives the session back; without use it is closed after the idle time.
func (s *pooled) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	if s.uses--; s.uses == 0 && !s.dead && s.u.opt.IdleTTL > 0 {
		s.idle = time.AfterFunc(s.u.opt.IdleTTL, s.expire)
	}
}

func (s *pooled) expire() {
	s.u.pool.mu.Lock()
	defer s.u.pool.mu.Unlock()
	s.mu.Lock()
	unused := s.uses == 0
	s.mu.Unlock()
	if unused && !s.u.pool.closed {
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
	s.mu.Unlock()
	if link := s.link.get(); !was && link != nil {
		_ = link.Close()
	}
}

// Message implements Sink: what a shared session receives outside any call belongs to nobody.
func (s *pooled) Message(m *wire.Message) bool {
	if m.Kind == wire.Request {
		refuse(s.u, s.link.get(), m)
		return true
	}
	return false
}

// Lost implements Sink.
func (s *pooled) Lost(err error) {
	s.u.opt.Note("warn", "a session with the upstream is lost; the next request opens a new one", err)
	s.u.pool.discard(s)
}

// wantLevel makes the server send log messages down to the given level. The level of a shared session only ever sinks;
// each call's replies are filtered by what it asked for.
func (s *pooled) wantLevel(ctx context.Context, level string) error {
	s.mu.Lock()
	if level == "" || !s.hello.logging || s.level != "" && severe(level, s.level) {
		s.mu.Unlock()
		return nil
	}
	s.level = level
	s.mu.Unlock()
	ex, err := exchange(proxy.Legacy, []byte(`{"jsonrpc":"2.0","id":"level","method":"logging/setLevel","params":{"level":"`+level+`"}}`))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.u.opt.ProbeTimeout)
	defer cancel()
	_, err = ask(ctx, s.link.get(), ex) // a refusal is the server's choice: it then sends what it sends
	return err
}
