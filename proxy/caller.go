package proxy

import (
	"net/netip"
	"slices"
	"time"
)

// Caller identifies who sends a request, as far as that is known. The zero Caller is anonymous. Compare callers with Is.
type Caller struct {
	// Principal owns the sessions, suspended calls, pooled connections and cached answers: one string for a person or program,
	// whatever credential it presents. Empty: anonymous.
	Principal string
	// Address is where the request came from; zero if no policy needs it. It is not part of the identity.
	Address netip.Addr
	// Rights are the rights of the credential; nil: there is no authentication, and everything is allowed.
	Rights *Rights
	// Forwarded are the header fields for upstreams; nil: no upstream wants any. They are part of the identity only if nothing else
	// identifies the caller.
	Forwarded *Forwarded
}

// Rights belong to a credential. Its bearer may have another one with other rights.
type Rights struct {
	Kind    string    // "api_key", "jwt" or "certificate"
	Name    string    // for logs and configuration: the name of the key, the subject of the token or certificate
	Scopes  []string  // granted scopes (RFC 6749, 3.3)
	Expires time.Time // zero: never
}

// Is reports whether both are the same principal, whatever credentials they present.
func (c Caller) Is(other Caller) bool { return c.Principal == other.Principal }

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
