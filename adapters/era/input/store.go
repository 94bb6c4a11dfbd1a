package input

import (
	"cmp"
	"crypto/rand"
	"sync"
	"time"

	"dragoman/adapters/era/seal"
	"dragoman/adapters/era/work"
	"dragoman/proxy"
)

// Options bound the handling of questions across the eras.
type Options struct {
	TTL             time.Duration // how long a suspended call waits for its client; default 10 min
	Settle          time.Duration // questions asked within this time are sent together; usually 8 ms
	LeaseWait       time.Duration // how long a call waits for a free session; zero: not at all
	MaxParked       int           // suspended calls; default 1000
	MaxPerPrincipal int           // suspended calls of one principal; default 100
	Rounds          int           // rounds of questions in one call; default 10
	Key             []byte        // secret that seals requestState; empty: random, for the life of the process
}

// settleMax bounds how long later questions can delay the first.
const settleMax = 50 * time.Millisecond

func (q *Options) fill() {
	q.TTL = cmp.Or(max(q.TTL, 0), 10*time.Minute)
	q.MaxParked = cmp.Or(max(q.MaxParked, 0), 1000)
	q.MaxPerPrincipal = cmp.Or(max(q.MaxPerPrincipal, 0), 100)
	q.Rounds = cmp.Or(max(q.Rounds, 0), 10)
}

// Store holds calls whose legacy server waits for answers of a modern client. All upstreams of a process share one, so
// that its bounds apply to the process. It is safe for concurrent use.
type Store struct {
	opt  Options
	seal *seal.Sealer

	mu           sync.Mutex
	suspended    map[Handle]*Call
	perPrincipal map[string]int // suspended calls by principal
}

// Handle names a suspended call. Each suspension has a new one, so that a requestState can be used once.
type Handle [16]byte

// NewStore returns an empty store. It fails if no key can be derived from the secret.
func NewStore(opt Options) (*Store, error) {
	opt.fill()
	s, err := seal.New(opt.Key)
	if err != nil {
		return nil, err
	}
	return &Store{opt: opt, seal: s, suspended: make(map[Handle]*Call), perPrincipal: make(map[string]int)}, nil
}

// Options returns the bounds of the store, defaults filled in.
func (s *Store) Options() Options { return s.opt }

// Sealer returns the sealer of state that clients bring back.
func (s *Store) Sealer() *seal.Sealer { return s.seal }

// Suspended returns the number of suspended calls.
func (s *Store) Suspended() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.suspended)
}

// suspend adds a call whose questions are being sent. The call is given up if the client does not return within TTL.
func (s *Store) suspend(d *Call) (Handle, *proxy.Error) {
	var h Handle
	_, _ = rand.Read(h[:]) // never fails: crypto/rand ends the process instead
	who := d.inner.Caller.Principal
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.suspended) >= s.opt.MaxParked:
		return h, tooManySuspended("%d calls wait for their clients' answers, as many as questions.max_parked allows", len(s.suspended))
	case s.perPrincipal[who] >= s.opt.MaxPerPrincipal:
		return h, tooManySuspended("%d calls wait for this client's answers, as many as questions.max_parked_per_principal allows", s.perPrincipal[who])
	}
	s.suspended[h] = d
	s.perPrincipal[who]++
	d.expiry = time.AfterFunc(s.opt.TTL, func() {
		if s.take(h) != nil {
			d.giveUp(errUnanswered)
		}
	})
	return h, nil
}

func tooManySuspended(format string, n int) *proxy.Error {
	e := proxy.Errf(proxy.TooManyParked, format, n)
	e.RetryAfter = 30
	return e
}

// find returns a suspended call without removing it.
func (s *Store) find(h Handle) *Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.suspended[h]
}

// take removes and returns a suspended call; nil if it has been taken or has expired. Of two retries with one state only
// one obtains the call.
func (s *Store) take(h Handle) *Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.suspended[h]
	if d != nil {
		s.remove(h, d)
	}
	return d
}

// remove removes a suspended call. The caller holds s.mu.
func (s *Store) remove(h Handle, d *Call) {
	delete(s.suspended, h)
	who := d.inner.Caller.Principal
	if s.perPrincipal[who]--; s.perPrincipal[who] == 0 {
		delete(s.perPrincipal, who)
	}
	d.expiry.Stop()
}

// clear gives up the suspended calls of one server.
func (s *Store) clear(x *Calls) {
	s.mu.Lock()
	var all []*Call
	for h, d := range s.suspended {
		if d.x == x {
			s.remove(h, d)
			all = append(all, d)
		}
	}
	s.mu.Unlock()
	for _, d := range all {
		d.giveUp(work.ErrClosing())
	}
}

// errUnanswered ends a call whose client did not come back.
var errUnanswered = proxy.Errf(proxy.Unanswered, "nobody answered the server's question in time (questions.ttl)")
