// Package idempotency answers a request that came before with the response to the first, so that a client which repeats a call for want
// of an answer does not run a tool twice.
package idempotency

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// What a Policy does about a duplicate.
const (
	Replay = "replay" // answers it from the first call
	Reject = "reject" // refuses it
	Off    = "off"    // does not notice
)

// maxResponse is the size in bytes of the largest response that is cached.
const maxResponse = 64 << 10

// Options configures [New]. All fields but Mode and Now are greater than 0.
type Options struct {
	Mode   string           // Replay, Reject or Off
	Window time.Duration    // for how long a request is remembered after its response
	Max    int              // requests that are remembered, and likewise duplicates that wait for a response
	Bytes  int              // of all that is remembered, overhead included
	Now    func() time.Time // nil: time.Now
}

// Policy answers a duplicate with the response to the first call, even while that call runs.
//
// The name of a request is its key (proxy.Exchange.Key: the header of draft-ietf-httpapi-idempotency-key-header, or what stands for it). A
// key counts for one principal at one server, as the path names it, in any session. In a legacy session, a request without a key has its
// JSON-RPC id as its name, which its sender must not use again there (2025-11-25 basic, Requests). Anonymous callers are one principal:
// their keys have to be unguessable. A request with neither, initialize, ping and subscriptions/listen are not remembered. A retry with the
// answers to questions may have the key of the call: each round is remembered separately.
//
// A duplicate has the same method and the same bytes of params. Members that a sender makes anew for each attempt do not count: the id, and
// in _meta the progress token and the trace context. Another request under a known name is refused (duplicate_request_id). So is a
// duplicate whose response was larger than 64 KiB, which is not kept.
//
// Only the response of the first call is replayed, with the id of the duplicate. Notifications and questions go to the first caller alone.
// A replayed result says so in _meta["io.dragoman/replayed"], which every revision permits; an error has no place for that, since clients
// read the data of some. HTTP adds a header, and an error keeps its status.
//
// A failure whose row in the error table is retryable is not remembered, since sending the request again does no harm; duplicates that
// already wait for it get it too. A call that its client cancels is forgotten, and the first duplicate that waits makes it anew. A waiting
// duplicate holds no goroutine, and none of what the policies inside this one count.
type Policy struct {
	opt    Options
	counts *prometheus.CounterVec
	store  *store
}

// New makes the policy and registers its metrics. Close it.
func New(opt Options, reg prometheus.Registerer) (*Policy, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	p := &Policy{opt: opt, store: newStore(opt)}
	if opt.Mode == Off {
		return p, nil
	}
	r := policies.NewRegistry(reg)
	p.counts = r.Counter("dragoman_idempotent_requests_total",
		"Duplicate requests by outcome (replayed, waited, took_over, other_message, repeat, not_kept, too_many, bad_key).", "outcome")
	r.Gauge("dragoman_idempotent_answers", "Requests remembered with their responses.", func() int { n, _ := p.Kept(); return n })
	r.Gauge("dragoman_idempotent_answers_bytes", "Bytes of the requests remembered with their responses.", func() int { _, n := p.Kept(); return n })
	r.Gauge("dragoman_idempotent_requests_waiting", "Duplicate requests that wait for the response to the first.", p.Waiting)
	return p, r.Err()
}

// Close forgets everything. Requests may still run.
func (p *Policy) Close() { p.store.close() }

// Kept returns how many requests are remembered with their responses, and how many bytes they take.
func (p *Policy) Kept() (requests, bytes int) {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	return p.store.total()
}

// Waiting returns how many duplicates wait for the response to the first call.
func (p *Policy) Waiting() int {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	return p.store.waiting
}

// Wrap returns the handler with the policy around it; next itself in mode Off.
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
		e, w, err := p.enter(ex)
		switch {
		case err != nil:
			return nil, err
		case w != nil:
			w.next = next
			return w, nil
		case e.over:
			p.count("replayed")
			msg, err := e.message(ex)
			if err != nil {
				return nil, err
			}
			return proxy.Reply(msg), nil
		}
		return p.call(next, ex, e)
	}
}

// repeatable is proxy.Repeatable, with the most frequent method first.
func repeatable(m *wire.Message) bool {
	return m.Is("tools/call") && m.Kind == wire.Request || proxy.Repeatable(m)
}

func (p *Policy) count(outcome string) { p.counts.WithLabelValues(outcome).Inc() }

// enter finds what is known of a request: an entry that is over has its response, a duplicate waits for it. Otherwise the entry is new and
// the caller makes the call.
func (p *Policy) enter(ex *proxy.Exchange) (*entry, *duplicate, error) {
	asks, s := contentOf(ex), p.store
	var request fingerprint
	if !asks.large() {
		request = s.seeds.ofContent(&asks)
	}
	s.mu.Lock()
	name, of, fresh := s.name(ex)
	e := s.find(name, of)
	if e == nil {
		e = s.begin(name, request, of)
		if asks.large() {
			unread := asks
			e.unread, e.uncompared = &unread, true
		}
		s.mu.Unlock()
		if sess := ex.Session; fresh { // the exchange ends before
			sess.OnEnd(func() { s.endSession(sess) })
		}
		return e, nil, nil
	}
	defer s.mu.Unlock()
	e.shared = true
	if asks.large() {
		request = s.seeds.ofContent(&asks)
	}
	if e.uncompared && !e.over { // under the lock, since the message may go when its call is given up
		e.request, e.uncompared = s.seeds.ofContent(e.unread), false
	}
	w, err := p.duplicate(ex, e, request)
	return e, w, err
}

// duplicate decides about a request whose name is known: it is refused, waits, or is answered now, if both results are nil. The caller
// holds the store's lock.
func (p *Policy) duplicate(ex *proxy.Exchange, e *entry, request fingerprint) (*duplicate, error) {
	switch {
	case e.request != request && !e.uncompared:
		p.count("other_message")
		return nil, proxy.Errf(proxy.DuplicateID, "%s was used for another message; use a new one", knownBy(ex))
	case p.opt.Mode == Reject:
		p.count("repeat")
		return nil, proxy.Errf(proxy.DuplicateID, "%s was used before, and idempotency.mode lets nothing be repeated; use a new one", knownBy(ex))
	case e.over && e.tooLarge():
		p.count("not_kept")
		return nil, notKept(ex)
	case e.over:
		return nil, nil //nolint:nilnil // it is answered now
	case p.store.waiting >= p.opt.Max:
		p.count("too_many")
		return nil, proxy.Errf(proxy.DuplicateID, "%s is still being served, and idempotency.max repeats, %d, wait already", knownBy(ex), p.opt.Max)
	}
	w := &duplicate{p: p, ex: ex, entry: e, wake: make(chan struct{}, 1)}
	p.store.wait(w)
	return w, nil
}

// maxKey bounds a key, in characters.
const maxKey = 255

// validKey reports whether a key, if there is one, is visible ASCII of a bounded length.
func validKey(key string) bool {
	return len(key) <= maxKey && !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
}

// knownBy names the key or id of a request, for an error message.
func knownBy(ex *proxy.Exchange) string {
	if ex.Key == "" {
		return "request id " + string(ex.Msg.Of(ex.Msg.ID))
	}
	return "idempotency key " + strconv.Quote(ex.Key)
}
