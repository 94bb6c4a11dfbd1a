package era

import (
	"crypto/rand"
	"sync"
	"time"

	"dragoman/adapters/era/seal"
	"dragoman/adapters/era/work"
	"dragoman/proxy"
)

// Questions bound what is done to bring a server's questions to clients of the other era.
type Questions struct {
	TTL             time.Duration // a parked call waits so long for its client to come back; 10 min
	Settle          time.Duration // questions asked within so long of one another go out together; 8 ms
	LeaseWait       time.Duration // a call waits so long for a free session with the server; zero: not at all
	MaxParked       int           // calls parked at a time; 1 000
	MaxPerPrincipal int           // of one principal; 100
	Rounds          int           // of questions within one call; 10
	Key             []byte        // secret that requestState is sealed with; empty: random, for the life of the process
}

// Of an upstream without a lot of its own making.
const (
	settleStandard = 8 * time.Millisecond
	leaseStandard  = 30 * time.Second
)

// settleMost bounds how long a server that goes on asking can put off the first question.
const settleMost = 50 * time.Millisecond

func (q *Questions) fill() {
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

// Lot is where calls wait that a legacy server will not finish before a modern client has answered its questions. One
// serves all upstreams of a process, so that its bounds are the process's. It is safe for use by many goroutines.
type Lot struct {
	opt  Questions
	seal *seal.Sealer

	mu     sync.Mutex
	parked map[handle]*dialogue
	of     map[string]int // by principal
}

// handle names a parked call. It is new each time a call is parked, so that a requestState counts once.
type handle [16]byte

// NewLot makes a lot. The error is of a key that none can be derived from.
func NewLot(opt Questions) (*Lot, error) {
	opt.fill()
	s, err := seal.New(opt.Key)
	if err != nil {
		return nil, err
	}
	return &Lot{opt: opt, seal: s, parked: make(map[handle]*dialogue), of: make(map[string]int)}, nil
}

// Parked tells how many calls wait for their client.
func (l *Lot) Parked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.parked)
}

// park takes in a call whose questions are on their way to the client. It is given up when the client has not come back
// in time.
func (l *Lot) park(d *dialogue) (handle, *proxy.Error) {
	var h handle
	_, _ = rand.Read(h[:]) // never fails: crypto/rand ends the process instead
	who := d.principal
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.parked) >= l.opt.MaxParked:
		return h, overfull("%d calls wait for their clients' answers, as many as questions.max_parked allows", len(l.parked))
	case l.of[who] >= l.opt.MaxPerPrincipal:
		return h, overfull("%d calls wait for this client's answers, as many as questions.max_parked_per_principal allows", l.of[who])
	}
	l.parked[h] = d
	l.of[who]++
	d.expiry = time.AfterFunc(l.opt.TTL, func() {
		if l.take(h) != nil {
			d.giveUp(errUnanswered)
		}
	})
	return h, nil
}

func overfull(format string, n int) *proxy.Error {
	e := proxy.Errf(proxy.TooManyParked, format, n)
	e.RetryAfter = 30
	return e
}

// find answers a parked call; it stays where it is.
func (l *Lot) find(h handle) *dialogue {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parked[h]
}

// take takes a parked call out; nil if somebody else has, or its time is over. Of two that come with one state, one gets
// it.
func (l *Lot) take(h handle) *dialogue {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.parked[h]
	if d == nil {
		return nil
	}
	delete(l.parked, h)
	if l.of[d.principal]--; l.of[d.principal] == 0 {
		delete(l.of, d.principal)
	}
	d.expiry.Stop()
	return d
}

// clear gives up what one upstream has parked: it is closing.
func (l *Lot) clear(u *Upstream) {
	l.mu.Lock()
	var all []*dialogue
	for h, d := range l.parked {
		if d.u != u {
			continue
		}
		delete(l.parked, h)
		if l.of[d.principal]--; l.of[d.principal] == 0 {
			delete(l.of, d.principal)
		}
		d.expiry.Stop()
		all = append(all, d)
	}
	l.mu.Unlock()
	for _, d := range all {
		d.giveUp(work.ErrClosing())
	}
}

// errUnanswered ends a call whose client did not come back.
var errUnanswered = proxy.Errf(proxy.Unanswered, "nobody answered the server's question in time (questions.ttl)")

// badState is what a client gets that comes back with a state that is none.
func badState() *proxy.Error {
	return proxy.Errf(proxy.BadState, "requestState is unknown, changed, used or expired; send the request again without it")
}
