package idempotency

import (
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// What Policy does about a request that came before.
const (
	Replay = "replay" // answers it from the first call
	Reject = "reject" // refuses it
	Off    = "off"    // does not notice
)

// maxAnswer is the size in bytes of the largest answer that is kept for repeats.
const maxAnswer = 64 << 10

// Options are those of New. All but Mode are greater than 0.
type Options struct {
	Mode   string           // Replay, Reject or Off
	Window time.Duration    // for how long a request is remembered after its answer
	Max    int              // requests that are remembered, and likewise repeats that wait for an answer
	Bytes  int              // of all that is remembered, with what remembering costs
	Now    func() time.Time // nil: time.Now
}

// Policy answers a request that was made before with the answer to the first, also while that is still to come, so
// that whoever repeats a request for want of an answer does not run a tool twice.
//
// A request is known by its key (proxy.Exchange.Key: the header of draft-ietf-httpapi-idempotency-key-header, or what
// stands for it), which counts for one principal at one server, as the path names it, whatever its sessions; else, in a legacy
// session, by its JSON-RPC id, which its sender must not use again there (2025-11-25 basic, Requests). Anonymous callers are one
// principal: their keys have to be unguessable. Without either, and for initialize, ping and subscriptions/listen,
// nothing is remembered. A retry with the answers to questions may have the key of the call: each round is remembered for itself.
//
// The same request is: the same method, and the same bytes of params. What a sender makes anew for each attempt does not count:
// the id, and in _meta the progress token and the trace context. Another request under a known name is refused
// (duplicate_request_id), and so is a repeat whose answer is too large to be kept, 64 KiB.
//
// Of the first call only the response is given again, with the id of the repeat; notifications and questions are
// the first one's. A result that is given again says so in _meta["io.dragoman/replayed"], which every revision leaves open; an
// error has nothing to say it in, since clients read the data of some. HTTP says it in a header besides, and an error with the
// status that it had.
//
// Not remembered is what may be sent again without harm: a failure whose row in the error table is retryable; those who wait for
// the first get it too. What the first client has cancelled is forgotten, and the first of those who wait runs it anew. Who waits
// keeps no goroutine, and nothing of what a policy inside this one counts.
type Policy struct {
	opt    Options
	counts *prometheus.CounterVec

	seeds seeds

	began time.Time // times are told from here

	mu       sync.Mutex
	kept     [kinds]shelf
	sessions map[*proxy.Session]*memos
	numbers  uint64 // given to sessions so far
	spare    spares
	waiting  int // repeats that wait
	sweeper  *time.Timer
	sweeping bool // the sweeper is armed
	closed   bool
}

// New makes the policy and registers its metrics. Close it.
func New(opt Options, reg prometheus.Registerer) (*Policy, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	p := &Policy{opt: opt, seeds: newSeeds(), began: opt.Now(), sessions: make(map[*proxy.Session]*memos)}
	if opt.Mode == Off {
		return p, nil
	}
	p.counts = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dragoman_idempotent_requests_total",
		Help: "Requests that came again, by what became of them (replayed, waited, took_over, other_message, repeat, not_kept, too_many, bad_key)."}, []string{"outcome"})
	var err error
	if p.counts, err = policies.Register(reg, p.counts); err != nil {
		return nil, err
	}
	for _, c := range []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "dragoman_idempotent_answers", Help: "Requests remembered with their answers."},
			func() float64 { n, _ := p.Kept(); return float64(n) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "dragoman_idempotent_answers_bytes", Help: "Bytes of what is remembered."},
			func() float64 { _, n := p.Kept(); return float64(n) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "dragoman_idempotent_requests_waiting", Help: "Requests that wait for the answer to the same one before them."},
			func() float64 { return float64(p.Waiting()) })} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Wrap is the policy; next itself where repeats are ignored.
func (p *Policy) Wrap(next proxy.Handler) proxy.Handler {
	if p.opt.Mode == Off {
		return next
	}
	return func(ex *proxy.Exchange) (proxy.Replies, error) {
		if ex.Session == nil && ex.Key == "" || !repeatable(&ex.Msg) {
			return next(ex)
		}
		if !validKey(ex.Key) {
			p.count("bad_key")
			return nil, proxy.Errf(proxy.InvalidRequest, "an idempotency key is 1 to %d visible ASCII characters, given once", maxKey)
		}
		m, w, err := p.enter(ex)
		switch {
		case err != nil:
			return nil, err
		case w != nil:
			w.next = next
			return w, nil
		case m.over:
			p.count("replayed")
			return m.replay(ex)
		}
		return p.lead(next, ex, m)
	}
}

func repeatable(m *wire.Message) bool {
	return m.Is("tools/call") && m.Kind == wire.Request || proxy.Repeatable(m)
} // what most are first

func (p *Policy) count(outcome string) { p.counts.WithLabelValues(outcome).Inc() }

// enter finds what is known of a request: a memo that is over holds its answer, a repeat waits for it. Else the memo is new, and
// the caller's to lead.
func (p *Policy) enter(ex *proxy.Exchange) (*memo, *repeat, error) {
	asks := wantedIn(ex)
	var sum sum
	if !asks.large() {
		sum = p.sumOf(&asks)
	}
	p.mu.Lock()
	of, fresh := p.memosOf(ex)
	n := p.nameOf(ex, of)
	kind := kindOf(of)
	s := &p.kept[kind]
	i, m := p.find(s, n)
	if m == nil {
		m = p.spare.take()
		m.name, m.sum, m.kind = n, sum, kind
		if asks.large() {
			late := asks
			m.late, m.owes = &late, true
		}
		s.begin(i, m, of)
		p.mu.Unlock()
		if sess := ex.Session; fresh { // the exchange ends before
			sess.OnEnd(func() { p.forget(sess) })
		}
		return m, nil, nil
	}
	defer p.mu.Unlock()
	s.share(i)
	if asks.large() { // under the lock, because the other's message may go when that is given up
		sum = p.sumOf(&asks)
	}
	if m.owes && !m.over {
		m.sum, m.owes = p.sumOf(m.late), false
	}
	switch {
	case m.sum != sum && !m.owes:
		p.count("other_message")
		return nil, nil, proxy.Errf(proxy.DuplicateID, "%s was used for another message; use a new one", knownBy(ex))
	case p.opt.Mode == Reject:
		p.count("repeat")
		return nil, nil, proxy.Errf(proxy.DuplicateID, "%s was used before, and idempotency.mode lets nothing be repeated; use a new one", knownBy(ex))
	case m.over && m.err == nil && m.raw == nil:
		p.count("not_kept")
		return nil, nil, notKept(ex)
	case m.over:
		return m, nil, nil
	case p.waiting >= p.opt.Max:
		p.count("too_many")
		return nil, nil, proxy.Errf(proxy.DuplicateID, "%s is still being served, and idempotency.max repeats, %d, wait already", knownBy(ex), p.opt.Max)
	}
	if m.waiting == nil {
		m.waiting = new([]*repeat)
	}
	w := &repeat{p: p, ex: ex, memo: m, at: len(*m.waiting), wake: make(chan struct{}, 1)}
	*m.waiting = append(*m.waiting, w)
	p.waiting++
	return m, w, nil
}

// lead makes a request, for all who will wait for it.
func (p *Policy) lead(next proxy.Handler, ex *proxy.Exchange, m *memo) (proxy.Replies, error) {
	replies, err := next(ex)
	f := proxy.Lend[first](ex, firstRoom)
	*f = first{Replies: replies, p: p, ex: ex, memo: m}
	if err == nil && replies != nil {
		return f, nil
	}
	f.failed(err)
	f.ended()
	return nil, err
}

var firstRoom = proxy.NewSlot()

// first are the replies to a request that is made.
type first struct {
	proxy.Replies
	p    *Policy
	ex   *proxy.Exchange
	memo *memo // nil once it is settled
}

// Clear implements proxy.Clearer.
func (f *first) Clear() { *f = first{} }

// Next implements proxy.Replies.
func (f *first) Next(until time.Time) (m *wire.Message, err error) {
	m, err = f.Replies.Next(until)
	switch {
	case f.memo == nil || errors.Is(err, proxy.ErrNotYet) || errors.Is(err, io.EOF):
	case err != nil:
		f.failed(err)
	case m.IsResponse():
		f.answered(m)
	}
	return m, err
}

// Close implements proxy.Replies. The call is over before another may take its place.
func (f *first) Close() error {
	err := f.Replies.Close()
	f.ended()
	return err
}

func (f *first) answered(m *wire.Message) {
	var raw []byte
	if size := m.Size(); size <= maxAnswer && m.ID.Present() && f.p.opt.Mode == Replay {
		raw = m.Append(f.memo.room(size))
	}
	f.settle(raw, nil, true)
}

// failed settles what the failure itself says; what the client has cancelled is left to ended.
func (f *first) failed(err error) {
	var own *proxy.Error
	if cause := f.ex.Err(); err == nil || cause != nil && !errors.As(cause, &own) {
		return
	}
	if e := proxy.AsError(f.ex.Why(err)); e.Name != proxy.Cancelled.Name {
		f.settle(nil, e, !e.Retryable)
	}
}

// ended settles what is over without a response: it took too long, or nobody wants it any more.
func (f *first) ended() {
	switch {
	case f.memo == nil:
	case f.ex.Late():
		f.settle(nil, proxy.Overdue(f.ex.Limit()), true)
	default:
		f.p.abandon(f.memo)
		f.memo = nil
	}
}

func (f *first) settle(raw []byte, err *proxy.Error, keep bool) {
	m := f.memo
	f.memo = nil
	f.p.settle(m, outcomeOf{raw: raw, err: err, target: f.ex.Target}, keep)
}

// maxKey bounds a key, in characters.
const maxKey = 255

// validKey tells whether a key, if there is one, is visible ASCII of a bounded length.
func validKey(key string) bool {
	for i := range len(key) {
		if key[i] < 0x21 || key[i] > 0x7e {
			return false
		}
	}
	return len(key) <= maxKey
}

// knownBy says in a message to the client what a request was known by.
func knownBy(ex *proxy.Exchange) string {
	if ex.Key == "" {
		return "request id " + string(ex.Msg.Of(ex.Msg.ID))
	}
	return "idempotency key " + strconv.Quote(ex.Key)
}
