package proxy

import (
	"context"
	"encoding/binary"
	"net/netip"
	"slices"
	"time"
)

// Era is the generation of the protocol that a client or server speaks.
type Era uint8

// Legacy is every revision with initialize and sessions; Modern is 2026-07-28 and later.
const (
	Legacy Era = iota
	Modern
)

// String names the era.
func (e Era) String() string { return [...]string{"legacy", "modern"}[e] }

// UpstreamEra is the era in which a request was sent to its server. The zero value means that it was not sent.
type UpstreamEra uint8

// In sets the era.
func (s *UpstreamEra) In(e Era) { *s = UpstreamEra(e) + 1 }

// String names the era; "none" if the request was not sent.
func (s UpstreamEra) String() string { return [...]string{"none", "legacy", "modern"}[s] }

// Client describes the client of a request. The byte slices are raw JSON, borrowed from the message (modern) or from the session
// (legacy).
type Client struct {
	Era      Era
	Version  string // the protocol revision of the request
	Info     []byte // Implementation object; nil if there is none
	Caps     []byte // ClientCapabilities object; nil if there is none
	LogLevel string // the lowest log level that it wants; empty: no log messages
}

// Header is a header field.
type Header struct{ Name, Value string }

// Caller identifies who sends a request, as far as that is known. The zero Caller is anonymous. Compare callers with Is.
type Caller struct {
	// Principal is one string for a person or program, whatever credential it presents. Empty: anonymous. Several users may share
	// it: see Identity.
	Principal string
	// Address is where the request came from; zero if no policy needs it. It is not part of the identity.
	Address netip.Addr
	// Rights are the rights of the credential; nil: there is no authentication, and everything is allowed.
	Rights *Rights
	// Forwarded are the header fields for upstreams; nil: no upstream wants any. Those that identify are part of the identity.
	Forwarded *Forwarded
}

// Rights belong to a credential. Its bearer may have another one with other rights.
type Rights struct {
	Kind    string    // "api_key", "jwt" or "certificate"
	Name    string    // for logs and configuration: the name of the key, the subject of the token or certificate
	Scopes  []string  // granted scopes (RFC 6749, 3.3)
	Expires time.Time // zero: never
}

// Identity tells callers apart. Whatever belongs to a caller is bound to its Identity: sessions, state that a client brings back, cached
// and remembered answers, links. Rights, limits and logs go by the principal alone.
type Identity struct {
	Principal string
	Sum       [16]byte // of the forwarded headers that tell the users of one credential apart
}

// Identity returns the identity of the caller.
func (c Caller) Identity() Identity { return Identity{c.Principal, c.Sum()} }

// Append appends bytes that no other identity gives, nor begins with.
func (i Identity) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(i.Principal)))
	return append(append(dst, i.Principal...), i.Sum[:]...)
}

// Is reports whether both have one identity, whatever credentials they present.
func (c *Caller) Is(other *Caller) bool {
	return c.Principal == other.Principal && (c.Forwarded == other.Forwarded || c.Sum() == other.Sum())
}

// Sum distinguishes forwarded credentials; zero: there are none.
func (c Caller) Sum() (sum [16]byte) {
	if c.Forwarded != nil {
		sum = c.Forwarded.Sum
	}
	return sum
}

// Has reports whether a scope was granted. Without authentication all are.
func (c Caller) Has(scope string) bool {
	return c.Rights == nil || slices.Contains(c.Rights.Scopes, scope)
}

// Forwarded are the header fields of a client's request that go on to some upstream (upstreams.NAME.forward_headers). Nil belongs to no
// client's request; a value without Headers belongs to a request that has none of them. It is immutable.
type Forwarded struct {
	// Headers have each name once, in lower case, and unchanged values that are valid in a request.
	Headers []Header
	// Sum is a keyed sum of the fields that identify the caller; 0 if there are none. Nothing is shared or cached across different
	// sums.
	Sum [16]byte
	// Alone means that only these fields identify the caller: the principal was made of Sum.
	Alone bool
}

// Get returns the value of a field by its name in lower case; false if the request has none.
func (c *Forwarded) Get(name string) (string, bool) {
	if c != nil {
		for i := range c.Headers {
			if c.Headers[i].Name == name {
				return c.Headers[i].Value, true
			}
		}
	}
	return "", false
}

// Identifies reports whether a forwarded field, by its name in lower case, tells callers apart and may be a secret of one. Those for
// tracing differ with each request.
func Identifies(name string) bool {
	switch name {
	case "traceparent", "tracestate", "baggage", "x-request-id", "x-correlation-id":
		return false
	}
	return true
}

// forwardedKey is the context key of Forwarded.
type forwardedKey struct{}

// ForwardedFrom returns the fields of a context. Those of an exchange are its caller's. Nil: the context belongs to no client's request.
func ForwardedFrom(ctx context.Context) *Forwarded {
	c, _ := ctx.Value(forwardedKey{}).(*Forwarded)
	return c
}

// WithForwarded returns a context with the fields, for work on behalf of a client's request that outlives it; ctx itself if c is nil.
func WithForwarded(ctx context.Context, c *Forwarded) context.Context {
	if c == nil {
		return ctx
	}
	return context.WithValue(ctx, forwardedKey{}, c)
}
