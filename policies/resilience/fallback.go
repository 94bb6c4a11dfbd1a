package resilience

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Fallback diverts requests to another upstream while the own one is in error: those of modern clients, and the
// sessions that legacy clients open meanwhile, with all their messages until they end. Whatever has state at the own
// upstream stays there: a session opened at it, a call that has asked a question, a task.
type Fallback struct {
	to      string
	serves  func() bool
	other   func() proxy.Handler
	counted prometheus.Counter

	away atomic.Int64 // sessions at the other upstream
	mu   sync.RWMutex
	of   map[*proxy.Session]struct{}
}

// NewFallback returns the policy that diverts to the upstream named to while serves returns false. other returns that
// upstream's handler; it is called for each diverted request, and must not return nil. counted counts diverted
// requests.
func NewFallback(to string, serves func() bool, other func() proxy.Handler, counted prometheus.Counter) *Fallback {
	return &Fallback{to: to, serves: serves, other: other, counted: counted, of: make(map[*proxy.Session]struct{})}
}

// Sessions returns how many sessions of legacy clients are at the other upstream.
func (f *Fallback) Sessions() int { return int(f.away.Load()) }

// Policy wraps next, the handler of the own upstream.
func (f *Fallback) Policy(next proxy.Handler) proxy.Handler {
	return func(ex *proxy.Exchange) (proxy.Replies, error) {
		switch {
		case f.isAway(ex.Session):
			return f.divert(ex)
		case !movable(ex):
			return next(ex)
		case !f.serves():
			return f.divert(ex)
		}
		c := &movableCall{f: f, ex: ex, edits: slices.Clone(ex.Msg.Edits), headers: ex.Headers}
		replies, err := next(ex)
		if err == nil {
			c.Replies = replies
			return c, nil
		}
		if f.failed(ex, err) {
			return c.divert()
		}
		return nil, err
	}
}

// movable reports whether an exchange may go to either upstream.
func movable(ex *proxy.Exchange) bool {
	m := &ex.Msg
	switch {
	case m.Kind != wire.Request:
		return false
	case ex.Client.Era == proxy.Legacy:
		return m.Is("initialize")
	}
	return !m.ReqState.Present() && !strings.HasPrefix(string(m.Text(m.Method)), "tasks/")
}

// failed reports whether the own upstream has just proved to be in error without having seen the request. While a few
// calls test whether it is back, the others get upstream_down.
func (f *Fallback) failed(ex *proxy.Exchange, err error) bool {
	e, ok := errors.AsType[*proxy.Error](err)
	if !ok || ex.Err() != nil {
		return false
	}
	return e.Name == proxy.UpstreamDown.Name || (e.Name == proxy.Unreachable.Name || e.Name == proxy.EraUnknown.Name) && !f.serves()
}

func (f *Fallback) isAway(s *proxy.Session) bool {
	if s == nil || f.away.Load() == 0 {
		return false
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	_, away := f.of[s]
	return away
}

// divert sends an exchange to the other upstream. An initialize takes its session there.
func (f *Fallback) divert(ex *proxy.Exchange) (proxy.Replies, error) {
	if ex.Session != nil && ex.Msg.Is("initialize") {
		f.move(ex.Session)
	}
	ex.Target = f.to
	if ex.Msg.Kind == wire.Request {
		f.counted.Inc()
	}
	ex.Clock.Waited()
	return f.other()(ex)
}

// move notes that a session is at the other upstream, until it ends.
func (f *Fallback) move(s *proxy.Session) {
	f.mu.Lock()
	_, was := f.of[s]
	if !was {
		f.of[s] = struct{}{}
		f.away.Add(1)
	}
	f.mu.Unlock()
	if !was {
		s.OnEnd(func() { f.forget(s) })
	}
}

func (f *Fallback) forget(s *proxy.Session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, was := f.of[s]; was {
		delete(f.of, s)
		f.away.Add(-1)
	}
}

// movableCall is a request at the own upstream, which is diverted if that proves to be in error before the first reply.
type movableCall struct {
	proxy.Replies
	f     *Fallback
	ex    *proxy.Exchange
	begun bool

	edits   []wire.Edit    // as the message had them
	headers []proxy.Header // likewise
}

// divert sends the request, as it came, to the other upstream.
func (c *movableCall) divert() (proxy.Replies, error) {
	c.ex.Msg.Edits, c.ex.Headers = c.edits, c.headers
	return c.f.divert(c.ex)
}

// Next implements proxy.Replies.
func (c *movableCall) Next(until time.Time) (*wire.Message, error) {
	m, err := c.Replies.Next(until)
	if c.begun || errors.Is(err, proxy.ErrNotYet) {
		return m, err
	}
	c.begun = true
	if err == nil || !c.f.failed(c.ex, err) {
		return m, err
	}
	replies, derr := c.divert()
	if derr != nil {
		return m, derr
	}
	_ = c.Replies.Close()
	c.Replies = replies
	return c.Replies.Next(until)
}
