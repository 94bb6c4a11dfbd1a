package wire

import "bytes"

// maxKept bounds the bytes of _meta that a Reader remembers. Hosts send far less.
const maxKept = 2 << 10

// Reader scans the messages of one peer, as [Scan] does. A modern client repeats its name and capabilities in every request (2026-07-28
// basic, _meta). A Reader does not scan that object again if its bytes are the same as before. It is not safe for concurrent use. The
// zero value is ready to use.
type Reader struct {
	meta  []byte // the last params._meta without escapes and without line ends between tokens
	found meta
}

// meta has the positions of the members of params._meta, relative to its beginning.
type meta struct{ version, caps, info, level, subscription, server Span }

// Scan has the same results as the function [Scan].
func (r *Reader) Scan(raw []byte) (Message, error) { return scan(raw, r, Run{}) }

// again returns the position after the params._meta at i if that is the remembered one, else 0.
func (r *Reader) again(raw []byte, i int, m *Message) int {
	if len(r.meta) == 0 || !bytes.HasPrefix(raw[i:], r.meta) {
		return 0
	}
	by := uint32(i) //nolint:gosec // Scan refuses larger input
	m.Version, m.Caps, m.Info = r.found.version.behind(by), r.found.caps.behind(by), r.found.info.behind(by)
	m.LogLevel, m.Subscription, m.Server = r.found.level.behind(by), r.found.subscription.behind(by), r.found.server.behind(by)
	return i + len(r.meta)
}

// keep remembers the params._meta of m, from i to end. One with a progress token is unlikely to be repeated.
func (r *Reader) keep(raw []byte, i, end int, m *Message) {
	if m.Token.Present() || end-i > maxKept || raw[i] != '{' {
		return
	}
	by := -uint32(i) //nolint:gosec // Scan refuses larger input
	r.meta = append(r.meta[:0], raw[i:end]...)
	r.found = meta{m.Version.behind(by), m.Caps.behind(by), m.Info.behind(by), m.LogLevel.behind(by), m.Subscription.behind(by), m.Server.behind(by)}
}

// behind moves a span that is present.
func (s Span) behind(by uint32) Span {
	if !s.Present() {
		return s
	}
	return Span{s.From + by, s.To + by}
}
