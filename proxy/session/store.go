// Package session keeps the sessions of legacy clients, within limits of number and idle time, and records what a client may have missed
// of their streams. It knows neither transports nor revisions.
package session

import (
	"crypto/rand"
	"encoding/base64"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"dragoman/proxy"
)

// Options configure a Store.
type Options struct {
	IdleTTL         time.Duration // a session expires after so long without activity
	Max             int           // sessions in total; beyond it the least recently used one without a request in flight expires
	MaxPerPrincipal int           // sessions of one principal; beyond it its least recently used one expires; 0: no such limit. Anonymous callers have none
	Repeats         bool          // see proxy.Session
	Refused         proxy.Handler // see proxy.Session
	Now             func() time.Time
}

// Store holds sessions in memory. Create, Find and Remove are safe for concurrent use.
type Store struct {
	now func() time.Time

	mu   sync.Mutex
	opt  Options
	byID map[string]*proxy.Session
	used *simplelru.LRU[*proxy.Session, struct{}] // in the order of their use
	of   map[string]int                           // sessions per principal
	over map[string]int                           // per transport
	stop chan struct{}
	done chan struct{}
}

// NewStore makes a Store and starts its sweeper, which Close ends.
func NewStore(opt Options) (*Store, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	// One more than the maximum: eviction happens in this package, which spares sessions with a request in flight.
	used, err := simplelru.NewLRU[*proxy.Session, struct{}](opt.Max+1, nil)
	if err != nil {
		return nil, err
	}
	s := &Store{opt: opt, now: opt.Now, byID: make(map[string]*proxy.Session), used: used, of: make(map[string]int), over: make(map[string]int), stop: make(chan struct{}), done: make(chan struct{})}
	go s.sweep()
	return s, nil
}

// NewID returns a new session id: 256 random bits as visible ASCII (2025-11-25 transports, Session Management).
func NewID() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Create opens a session. It fails if all sessions that could be evicted have requests in flight.
func (s *Store) Create(transport, server string, caller proxy.Caller) (*proxy.Session, *proxy.Error) {
	sess := proxy.NewSession(NewID(), transport, server, caller, s.now())
	s.mu.Lock()
	sess.Repeats, sess.Refused = s.opt.Repeats, s.opt.Refused
	var victim *proxy.Session
	key := "sessions.max"
	switch {
	case s.opt.MaxPerPrincipal > 0 && caller.Principal != "" && s.of[caller.Principal] >= s.opt.MaxPerPrincipal:
		key = "sessions.max_per_principal"
		victim = s.oldest(func(o *proxy.Session) bool { return o.Caller.Principal == caller.Principal })
	case s.used.Len() >= s.opt.Max:
		victim = s.oldest(func(*proxy.Session) bool { return true })
	default:
		s.add(sess)
		s.mu.Unlock()
		return sess, nil
	}
	if victim == nil {
		s.mu.Unlock()
		return nil, proxy.Errf(proxy.TooManySessions, "as many sessions as %s allows have requests in flight; raise it", key)
	}
	s.remove(victim)
	s.add(sess)
	s.mu.Unlock()
	victim.End(proxy.Expired)
	return sess, nil
}

// Refuse returns the error that refuses a request for which there is no session, and has it recorded.
func (s *Store) Refuse(ex *proxy.Exchange, err *proxy.Error) error {
	s.mu.Lock()
	refused := s.opt.Refused
	s.mu.Unlock()
	return refuse(ex, err, refused)
}

func (s *Store) add(sess *proxy.Session) {
	s.byID[sess.ID] = sess
	s.used.Add(sess, struct{}{})
	s.of[sess.Caller.Principal]++
	s.over[sess.Transport]++
}

func (s *Store) remove(sess *proxy.Session) bool {
	if !s.used.Remove(sess) {
		return false
	}
	delete(s.byID, sess.ID)
	s.over[sess.Transport]--
	if s.of[sess.Caller.Principal]--; s.of[sess.Caller.Principal] == 0 {
		delete(s.of, sess.Caller.Principal)
	}
	return true
}

// oldest returns the least recently used session that fits and has nothing in flight.
func (s *Store) oldest(fits func(*proxy.Session) bool) *proxy.Session {
	for _, o := range s.used.Keys() {
		if fits(o) {
			if _, busy := o.Idle(); !busy {
				return o
			}
		}
	}
	return nil
}

// Find returns the session with the given id, of this caller and for this server, and records activity. It does not find sessions of other
// callers, whose existence must not be visible.
func (s *Store) Find(id []byte, server string, caller proxy.Caller) *proxy.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.byID[string(id)]
	if sess == nil || !sess.Caller.Is(&caller) || sess.Server != server || sess.State() >= proxy.Closed {
		return nil
	}
	s.used.Get(sess)
	sess.Touch(s.now())
	return sess
}

// Remove ends a session that its client has closed.
func (s *Store) Remove(sess *proxy.Session) {
	s.mu.Lock()
	s.remove(sess)
	s.mu.Unlock()
	sess.End(proxy.Closed)
}

// Of returns the open sessions for a server.
func (s *Store) Of(server string) (all []*proxy.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sess := range s.used.Keys() {
		if sess.Server == server {
			all = append(all, sess)
		}
	}
	return all
}

// Len returns the number of open sessions.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used.Len()
}

// Over returns the number of open sessions of a transport.
func (s *Store) Over(transport string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over[transport]
}

func (s *Store) sweep() {
	defer close(s.done)
	t := time.NewTimer(s.period())
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
			s.Expire()
			t.Reset(s.period())
		}
	}
}

// period is the interval of the sweeper. A shortened TTL takes effect after 15 s at the latest.
func (s *Store) period() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(max(s.opt.IdleTTL/20, 10*time.Millisecond), 15*time.Second)
}

// Adjust changes the options, except for Now. Sessions beyond the new bounds are evicted as by Create: those with a request in flight stay.
// Repeats and Refused apply to new sessions.
func (s *Store) Adjust(opt Options) {
	s.mu.Lock()
	opt.Now = s.opt.Now
	s.opt = opt
	var gone []*proxy.Session
	for s.used.Len() > opt.Max {
		victim := s.oldest(func(*proxy.Session) bool { return true })
		if victim == nil {
			break
		}
		s.remove(victim)
		gone = append(gone, victim)
	}
	s.used.Resize(max(opt.Max, s.used.Len()) + 1)
	s.mu.Unlock()
	for _, victim := range gone {
		victim.End(proxy.Expired)
	}
}

// Expire ends the sessions that have been idle for the TTL. The sweeper calls it, and tests with their own clock. A session with a request
// in flight or an open stream is in use.
func (s *Store) Expire() {
	now := s.now()
	var gone []*proxy.Session
	s.mu.Lock()
	limit := now.Add(-s.opt.IdleTTL)
	for _, sess := range s.used.Keys() {
		last, busy := sess.Idle()
		if busy = busy || sess.HasOutlet(); busy {
			sess.Touch(now) // the idle time begins when the request or the stream has ended
		}
		if sess.State() >= proxy.Closed || !busy && !last.After(limit) {
			s.remove(sess)
			gone = append(gone, sess)
		}
	}
	s.mu.Unlock()
	for _, sess := range gone {
		sess.End(proxy.Expired)
	}
}

// Close ends the sweeper and all sessions.
func (s *Store) Close() {
	close(s.stop)
	<-s.done
	s.mu.Lock()
	all := s.used.Keys()
	s.used.Purge()
	clear(s.byID)
	s.of, s.over = make(map[string]int), make(map[string]int)
	s.mu.Unlock()
	for _, sess := range all {
		sess.EndFor(proxy.Closed, proxy.Errf(proxy.ShuttingDown, "the proxy is shutting down"))
	}
}
