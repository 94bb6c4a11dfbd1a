package idempotency

import (
	"hash/maphash"
	"unsafe"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// sum tells names, and messages, apart: 128 bits under seeds that nobody outside knows. It costs a small part of what a
// cryptographic one does, which with requests of a megabyte was a quarter of all that is done for them.
type sum [2]uint64

// seeds are what the sums of one policy are made with.
type seeds [len(sum{})]maphash.Seed

func newSeeds() (s seeds) {
	for i := range s {
		s[i] = maphash.MakeSeed()
	}
	return s
}

// add goes on with a part. Where one part ends and the next begins makes a difference.
func (s *seeds) add(to *sum, part []byte) {
	s.text(to, unsafe.String(unsafe.SliceData(part), len(part))) //nolint:gosec // looked at here only, while nobody writes there
}

// text is add for a string. It is summed as a key of a map would be, as a whole: Bytes and String take it in pieces of 128 bytes, which
// costs four times as much.
func (s *seeds) text(to *sum, part string) {
	for i := range s {
		to[i] = to[i]*0x9e3779b97f4a7c15 + maphash.Comparable(s[i], part)
	}
}

// nameOf gives what a request is known by: its id in its session, or its key.
func (p *Policy) nameOf(ex *proxy.Exchange, of *memos) (n sum) {
	m := &ex.Msg
	if of != nil {
		n[0], n[1] = of.number, of.number
		p.seeds.add(&n, m.Of(m.ID))
		return n
	}
	carried := ex.Caller.Sum()
	p.seeds.text(&n, ex.Caller.Principal)
	p.seeds.add(&n, carried[:])
	p.seeds.text(&n, ex.Server)
	p.seeds.text(&n, ex.Key)
	if m.InputResponses.Present() || m.ReqState.Present() { // each round of a call is a request (2026-07-28, SEP-2322)
		p.seeds.add(&n, m.Of(m.ReqState))
		p.seeds.add(&n, m.Of(m.InputResponses))
	}
	return n
}

// wanted is what of a request two have in common that ask for the same. The client's revision is part of it, which decides the form of
// the answer. It borrows the message.
type wanted struct {
	era                  proxy.Era
	version              string
	raw                  []byte
	method, params, meta wire.Span
}

func wantedIn(ex *proxy.Exchange) wanted {
	m := &ex.Msg
	return wanted{era: ex.Client.Era, version: ex.Client.Version, raw: m.Raw, method: m.Method, params: m.Params, meta: m.Meta}
}

// lateSum is from how many bytes on a request is summed when its sum is wanted: when its answer is to be kept, or it comes again. Of one
// whose answer is too large for that, as of large requests many are, nobody ever wants it.
const lateSum = 16 << 10

func (x *wanted) large() bool { return len(x.raw) >= lateSum }

func (p *Policy) sumOf(x *wanted) (s sum) {
	s[0], s[1] = uint64(x.era), uint64(x.era)
	p.seeds.text(&s, x.version)
	p.seeds.add(&s, x.method.Of(x.raw))
	if !x.meta.IsObject(x.raw) {
		p.seeds.add(&s, x.params.Of(x.raw))
		return s
	}
	p.seeds.add(&s, x.raw[x.params.From:x.meta.From])
	for key, value := range wire.Members(x.raw, x.meta) {
		if !policies.VariesByAttempt(x.raw, key) {
			p.seeds.add(&s, x.raw[key.From:value.To])
		}
	}
	p.seeds.add(&s, x.raw[x.meta.To:x.params.To])
	return s
}

// memo is what is remembered of a request: that it was made, and, once it is over, what came of it. It takes two cache lines: see shelf.
type memo struct {
	name sum
	sum  sum
	buf  []byte // for its answer; the one who leads it writes there

	// Of Policy.mu until it is over; then it does not change.
	over bool

	// Of Policy.mu.
	owes   bool   // the sum: it is to be made of late, or, if nothing is kept of the answer, never
	shared bool   // somebody else has found it while it ran
	kind   uint8  // of the shelf that it is for
	run    uint32 // its number there while it runs; 0: it does not, or its session has ended

	outcomeOf // as over

	late    *wanted    // what is summed late, while the one who has made the memo leads; his
	waiting *[]*repeat // of Policy.mu; nil: nobody has come yet
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
	n := memoCost + cap(m.buf)
	if m.err != nil {
		n += len(m.err.Message) + len(m.err.Data)
	}
	return n
}

// room gives memory for an answer of so many bytes.
func (m *memo) room(size int) []byte {
	if size > cap(m.buf) || 4*size < cap(m.buf) {
		m.buf = make([]byte, 0, size)
	}
	return m.buf[:0]
}

func notKept(ex *proxy.Exchange) error {
	return proxy.Errf(proxy.DuplicateID, "%s was used before, and its answer was too large to be kept, over %d bytes; use a new one to have it made again", knownBy(ex), maxAnswer)
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
		return wire.Message{}, notKept(ex)
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
type memos struct {
	number uint64 // of the session
	runs   uint32 // the number on the shelf of the first of those that run; 0: none does
	last   uint64 // the number of the place of the one that was over last; less than that of the oldest: there is none
}

// The kinds of memos.
const (
	ofSessions = iota
	ofKeys
	kinds
)

// kindOf is which memos those of a session, or of keys, are.
func kindOf(of *memos) uint8 {
	if of != nil {
		return ofSessions
	}
	return ofKeys
}

// spares are memos that were let go of and that nobody holds any more: a proxy whose shelves are full makes no new ones. They are as
// they were: to clear them is to look at them, which is for those who take them to do.
type spares struct {
	all   [mostSpare]spare
	count int
	bytes int // of answers and failures that are still in them
}

type spare struct {
	m     *memo
	bytes int
}

// Bounds on what is spare: memos, and bytes for the answers of all.
const (
	mostSpare  = 64
	spareBytes = 512 << 10
)

func (s *spares) take() *memo {
	if s.count == 0 {
		return new(memo)
	}
	s.count--
	x := s.all[s.count]
	s.all[s.count] = spare{}
	s.bytes -= x.bytes
	*x.m = memo{buf: x.m.buf}
	return x.m
}

func (s *spares) give(x place) {
	if x.shared || s.count == mostSpare {
		return
	}
	bytes := int(x.size) - memoCost
	if s.bytes+bytes > spareBytes {
		*x.m, bytes = memo{}, 0
	}
	s.all[s.count] = spare{m: x.m, bytes: bytes}
	s.count++
	s.bytes += bytes
}
