package policies

import (
	"crypto/sha256"
	"hash/maphash"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// name is what a request is known by: its id in a session, or its key.
type name struct {
	session *proxy.Session // nil for a key
	caller  string         // of a key: the principal
	sum     [16]byte       // of a key: of what the caller carries
	server  string         // of a key
	id      string         // raw JSON of a request id; or the key
}

func nameOf(ex *proxy.Exchange) name {
	m := &ex.Msg
	if ex.Key == "" {
		return name{session: ex.Session, id: string(m.Of(m.ID))}
	}
	n := name{caller: ex.Caller.Principal, sum: ex.Caller.Sum(), server: ex.Server, id: ex.Key}
	if m.InputResponses.Present() || m.ReqState.Present() { // each round of a call is a request (2026-07-28, SEP-2322)
		h := sha256.New()
		for _, s := range [...]wire.Span{m.ReqState, m.InputResponses} {
			h.Write(m.Of(s))
			h.Write([]byte{0})
		}
		n.id = string(h.Sum(append([]byte(n.id), ' '))) // no key has a space in it
	}
	return n
}

// sum tells messages apart: 128 bits under seeds that nobody outside knows. It costs a small part of what a cryptographic one
// does, which with requests of a megabyte was a quarter of all that is done for them.
type sum [2]uint64

// hasher makes the sums of requests.
type hasher struct{ parts [2]maphash.Hash }

// newHashers makes hashers of the same seeds.
func newHashers() *sync.Pool {
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	return &sync.Pool{New: func() any {
		h := new(hasher)
		for i := range h.parts {
			h.parts[i].SetSeed(seeds[i])
		}
		return h
	}}
}

func (h *hasher) add(b []byte) {
	for i := range h.parts {
		_, _ = h.parts[i].Write(b) // never fails
	}
}

func (h *hasher) sum() (s sum) {
	for i := range h.parts {
		s[i] = h.parts[i].Sum64()
		h.parts[i].Reset()
	}
	return s
}

// anew are the members of _meta that a sender makes anew for each attempt: the progress token, and the trace context
// (2026-07-28 basic, _meta).
var anew = [...]string{"progressToken", "traceparent", "tracestate", "baggage"}

// sumOf is what two requests have in common that ask for the same. The client's revision is part of it, which decides
// the form of the answer.
func (p *Idempotency) sumOf(ex *proxy.Exchange) sum {
	h := p.hashers.Get().(*hasher)
	defer p.hashers.Put(h)
	m := &ex.Msg
	for i := range h.parts {
		_, _ = h.parts[i].WriteString(ex.Client.Version) // never fails
	}
	h.add([]byte{0, byte(ex.Client.Era)})
	h.add(m.Of(m.Method))
	if !m.Meta.IsObject(m.Raw) {
		h.add(m.Of(m.Params))
		return h.sum()
	}
	h.add(m.Raw[m.Params.From:m.Meta.From])
	for key, value := range wire.Members(m.Raw, m.Meta) {
		if !isAnew(m.Raw, key) {
			h.add(m.Raw[key.From:value.To])
		}
	}
	h.add(m.Raw[m.Meta.To:m.Params.To])
	return h.sum()
}

func isAnew(raw []byte, key wire.Span) bool {
	for _, k := range anew {
		if key.Is(raw, k) {
			return true
		}
	}
	return false
}

// memo is what is remembered of a request: that it was made, and, once it is over, what came of it.
type memo struct {
	name name
	sum  sum

	// Of Idempotency.mu until it is over; then they do not change.
	over bool
	outcomeOf
	waiting []*repeat

	until      time.Time // when it is forgotten
	gone       bool      // its session has ended
	prev, next *memo     // of its session
}

// outcomeOf is what came of a request: a response, or a failure, or neither if the response is not kept.
type outcomeOf struct {
	raw    []byte
	err    *proxy.Error
	target string
}

// memoCost is about what a memo costs besides the answer's bytes.
const memoCost = 512

func (m *memo) size() int {
	n := memoCost + len(m.name.id) + len(m.raw)
	if m.err != nil {
		n += len(m.err.Message) + len(m.err.Data)
	}
	return n
}

func (m *memo) notKept() error {
	return proxy.Errf(proxy.DuplicateID, "%s was used before, and its answer was too large to be kept, over %d bytes; use a new one to have it made again", m.name, maxAnswer)
}

// replay gives the outcome to a repeat.
func (m *memo) replay(ex *proxy.Exchange) (proxy.Replies, error) {
	msg, err := m.message(ex)
	if err != nil {
		return nil, err
	}
	return proxy.Reply(msg), nil
}

// mark says in a result that it was given before.
const mark = "io.dragoman/replayed"

// message makes of the outcome the response to ex. What was kept is shared, and not written to.
func (m *memo) message(ex *proxy.Exchange) (wire.Message, error) {
	ex.Target = m.target
	if m.err != nil {
		ex.Replayed = true
		return wire.Message{}, m.err
	}
	if m.raw == nil {
		return wire.Message{}, m.notKept()
	}
	msg, err := wire.Scan(m.raw)
	if err != nil {
		return msg, proxy.Errf(proxy.Internal, "a kept answer is no message: %w", err)
	}
	ex.Replayed = true
	msg.Replace(msg.ID, ex.Msg.Of(ex.Msg.ID))
	switch {
	case msg.Kind != wire.Result || !msg.Result.IsObject(msg.Raw):
	case msg.Meta.IsObject(msg.Raw):
		msg.EditObject(msg.Meta, []wire.Change{{Key: mark, Value: []byte("true")}})
	default:
		msg.EditObject(msg.Result, []wire.Change{{Key: "_meta", Value: []byte(`{"` + mark + `":true}`)}})
	}
	return msg, nil
}

// memos are those of one session.
type memos struct{ head *memo }

// A shelf keeps the memos that are over, the oldest first to go. Those of sessions and those of keys have one each, so that
// neither kind can crowd out the other.
type shelf struct {
	lru   *simplelru.LRU[name, *memo]
	bytes int
}

// The kinds of names.
const (
	ofSessions = iota
	ofKeys
	kinds
)

func (n name) kind() int {
	if n.session != nil {
		return ofSessions
	}
	return ofKeys
}

func newShelf(most int) (shelf, error) {
	lru, err := simplelru.NewLRU[name, *memo](most+1, nil) // it never evicts by itself
	return shelf{lru: lru}, err
}
