package wire

import "bytes"

// maxKept is how many bytes of _meta a Reader remembers: what hosts send in it is shorter by far.
const maxKept = 2 << 10

// Reader reads the messages of one peer, as [Scan] does, and remembers. A modern client says in every request who it is and what it
// can (2026-07-28 basic, _meta): what was found in that object is known when it comes once more, to the byte. It is for one
// goroutine at a time; its zero value remembers nothing.
type Reader struct {
	meta  []byte // an object that Scan has read as params._meta: without escapes, without line ends between tokens
	found meta
}

// meta is where the members of params._meta lie, counted from its beginning.
type meta struct{ version, caps, info, level, subscription Span }

// Scan is the function [Scan], with the same results.
func (r *Reader) Scan(raw []byte) (Message, error) { return scan(raw, r, Run{}) }

// again gives the place behind the params._meta at i if it is the one that is remembered; 0: it is not.
func (r *Reader) again(raw []byte, i int, m *Message) int {
	if len(r.meta) == 0 || !bytes.HasPrefix(raw[i:], r.meta) {
		return 0
	}
	by := uint32(i) //nolint:gosec // Scan refuses what does not fit
	m.Version, m.Caps, m.Info = r.found.version.behind(by), r.found.caps.behind(by), r.found.info.behind(by)
	m.LogLevel, m.Subscription = r.found.level.behind(by), r.found.subscription.behind(by)
	return i + len(r.meta)
}

// keep remembers the params._meta of m, from i to end. One with a progress token will hardly come again.
func (r *Reader) keep(raw []byte, i, end int, m *Message) {
	if m.Token.Present() || end-i > maxKept || raw[i] != '{' {
		return
	}
	by := -uint32(i) //nolint:gosec // Scan refuses what does not fit
	r.meta = append(r.meta[:0], raw[i:end]...)
	r.found = meta{m.Version.behind(by), m.Caps.behind(by), m.Info.behind(by), m.LogLevel.behind(by), m.Subscription.behind(by)}
}

// behind moves a span, if it is one.
func (s Span) behind(by uint32) Span {
	if !s.Present() {
		return s
	}
	return Span{s.From + by, s.To + by}
}
