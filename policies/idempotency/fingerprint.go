package idempotency

import (
	"hash/maphash"
	"unsafe"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// fingerprint identifies a name or a message: a hash of 128 bits with secret seeds. For a request of a megabyte, a cryptographic hash would
// be a quarter of the cost of the call.
type fingerprint [2]uint64

// seeds are the secret of one policy's fingerprints.
type seeds [len(fingerprint{})]maphash.Seed

func newSeeds() (s seeds) {
	for i := range s {
		s[i] = maphash.MakeSeed()
	}
	return s
}

// bytes adds a part to a fingerprint. The boundaries between parts count.
func (s *seeds) bytes(to *fingerprint, part []byte) {
	s.text(to, unsafe.String(unsafe.SliceData(part), len(part))) //nolint:gosec // read here only, while nobody writes there
}

// text is bytes for a string. Comparable hashes it as a whole, as a map does; maphash.Bytes and String go by pieces of 128 bytes, which
// takes four times as long.
func (s *seeds) text(to *fingerprint, part string) {
	for i := range s {
		to[i] = to[i]*0x9e3779b97f4a7c15 + maphash.Comparable(s[i], part)
	}
}

// ofID returns the name of a request that has an id in a session.
func (s *seeds) ofID(ex *proxy.Exchange, session uint64) fingerprint {
	n := fingerprint{session, session}
	s.bytes(&n, ex.Msg.Of(ex.Msg.ID))
	return n
}

// ofKey returns the name of a request that has an idempotency key, which counts for one caller at one server.
func (s *seeds) ofKey(ex *proxy.Exchange) (n fingerprint) {
	m, who := &ex.Msg, ex.Caller.Identity()
	s.text(&n, who.Principal)
	s.bytes(&n, who.Sum[:])
	s.text(&n, ex.Server)
	s.text(&n, ex.Key)
	if m.InputResponses.Present() || m.ReqState.Present() { // each round of a call is a request (2026-07-28, SEP-2322)
		s.bytes(&n, m.Of(m.ReqState))
		s.bytes(&n, m.Of(m.InputResponses))
	}
	return n
}

// content is the part of a request that its duplicates share. The client's revision belongs to it, since it decides the form of the answer.
// It is borrowed from the message.
type content struct {
	era                  proxy.Era
	version              string
	raw                  []byte
	method, params, meta wire.Span
}

func contentOf(ex *proxy.Exchange) content {
	m := &ex.Msg
	return content{era: ex.Client.Era, version: ex.Client.Version, raw: m.Raw, method: m.Method, params: m.Params, meta: m.Meta}
}

// largeRequest is the size in bytes from which a request's fingerprint is computed only when it is needed: when its answer is kept, or a
// duplicate comes. The answers to many large requests are too large to be kept.
const largeRequest = 16 << 10

func (c *content) large() bool { return len(c.raw) >= largeRequest }

func (s *seeds) ofContent(c *content) (f fingerprint) {
	f[0], f[1] = uint64(c.era), uint64(c.era)
	s.text(&f, c.version)
	s.bytes(&f, c.method.Of(c.raw))
	if !c.meta.IsObject(c.raw) {
		s.bytes(&f, c.params.Of(c.raw))
		return f
	}
	s.bytes(&f, c.raw[c.params.From:c.meta.From])
	for key, value := range wire.Members(c.raw, c.meta) {
		if !policies.VariesByAttempt(c.raw, key) {
			s.bytes(&f, c.raw[key.From:value.To])
		}
	}
	s.bytes(&f, c.raw[c.meta.To:c.params.To])
	return f
}
