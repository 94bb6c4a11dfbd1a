package input

import (
	"crypto/rand"
	"sync"
	"time"

	"dragoman/adapters/era/seal"
	"dragoman/adapters/era/work"
	"dragoman/proxy"
)

// Options bound what is done to bring a server's questions to clients of the other era.
type Options struct {
	TTL             time.Duration // a suspended call waits so long for its client to come back; 10 min
	Settle          time.Duration // questions asked within so long of one another go out together; 8 ms
	LeaseWait       time.Duration // a call waits so long for a free session with the server; zero: not at all
	MaxParked       int           // calls suspended at a time; 1 000
	MaxPerPrincipal int           // of one principal; 100
	Rounds          int           // of questions within one call; 10
	Key             []byte        // secret that requestState is sealed with; empty: random, for the life of the process
}

// settleMax bounds how long further questions can delay the first.
const settleMax = 50 * time.Millisecond

func (q *Options) fill() {
	num := func(n *int, std int) {
		if *n <= 0 {
			*n = std
		}
	}
	if q.TTL <= 0 {
		q.TTL = 10 * time.Minute
	}
	num(&q.MaxParked, 1000)
	num(&q.MaxPerPrincipal, 100)
	num(&q.Rounds, 10)
}

// Store is where calls wait that a legacy server will not finish before a modern client has answered its questions. One
// serves all upstreams of a process, so that its bounds are the process's. It is safe for use by many goroutines.
type Store struct {
	opt  Options
	seal *seal.Sealer

	mu           sync.Mutex
	suspended    map[Handle]*Call
	perPrincipal map[string]int // by principal
}

// Handle names a suspended call. It is new each time a call is suspended, so that a requestState counts once.
type Handle [16]byte

// NewStore makes a store. The error is of a secret that no key can be derived from.
func NewStore(opt Options) (*Store, error) {
	opt.fill()
	s, err := seal.New(opt.Key)
	if err != nil {
		return nil, err
	}
	return &Store{opt: opt, seal: s, suspended: make(map[Handle]*Call), perPrincipal: make(map[string]int)}, nil
}

// Options are the bounds of the store.
func (s *Store) Options() Options { return s.opt }

// Sealer seals what a client brings back.
func (s *Store) Sealer() *seal.Sealer { return s.seal }

// Suspended is how many calls wait for their client.
func (s *Store) Suspended() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.suspended)
}

// suspend takes in a call whose questions are on their way to the client. The call is given up when the client has not come back
// in time.
func (s *Store) suspend(d *Call) (Handle, *proxy.Error) {
	var h Handle
	_, _ = rand.Read(h[:]) // never fails: crypto/rand ends the process instead
	who := d.principal
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

// find returns a suspended call, and leaves it where it is.
func (s *Store) find(h Handle) *Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.suspended[h]
}

// take takes a suspended call out; nil if another retry has, or its time is over. Of two retries with one state one gets the call.
func (s *Store) take(h Handle) *Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.suspended[h]
	if d == nil {
		return nil
	}
	delete(s.suspended, h)
	if s.perPrincipal[d.principal]--; s.perPrincipal[d.principal] == 0 {
		delete(s.perPrincipal, d.principal)
	}
	d.expiry.Stop()
	return d
}

// clear gives up the suspended calls of one server, which is closing.
func (s *Store) clear(x *Calls) {
	s.mu.Lock()
	var all []*Call
	for h, d := range s.suspended {
		if d.x != x {
			continue
		}
		delete(s.suspended, h)
		if s.perPrincipal[d.principal]--; s.perPrincipal[d.principal] == 0 {
			delete(s.perPrincipal, d.principal)
		}
		d.expiry.Stop()
		all = append(all, d)
	}
	s.mu.Unlock()
	for _, d := range all {
		d.giveUp(work.ErrClosing())
	}
}

// errUnanswered ends a call whose client did not come back.
var errUnanswered = proxy.Errf(proxy.Unanswered, "nobody answered the server's question in time (questions.ttl)")

// BadState is the error of a requestState that does not open, or whose call is gone.
func BadState() *proxy.Error {
	return proxy.Errf(proxy.BadState, "requestState is unknown, changed, used or expired; send the request again without it")
}
