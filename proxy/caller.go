package proxy

import (
	"net/netip"
	"slices"
	"time"
)

// Caller is who asks, as far as anybody found out. The zero Caller is the anonymous one. Compare callers with Is.
type Caller struct {
	// Principal is whose sessions, parked calls, pooled connections and cached answers this caller has: one text for a person or
	// program, whatever it presented. Empty: anonymous.
	Principal string
	// Address is where the request came from; the zero one if nobody needs to know. It is no part of who the caller is.
	Address netip.Addr
	// Rights is what it presented allows; nil: nobody asked, and it may do everything.
	Rights *Rights
	// Forwarded is what the request brought along for upstreams; nil: nobody looked, since none wants anything. It is no part of who
	// the caller is, but where nothing else is known of him.
	Forwarded *Forwarded
}

// Rights are what a credential says of its bearer, who may have another with other rights.
type Rights struct {
	Kind    string    // "api_key", "jwt" or "certificate"
	Name    string    // for logs and configuration: the key's name, the token's subject, the certificate's
	Scopes  []string  // that were granted (RFC 6749, 3.3)
	Expires time.Time // zero: never
}

// Is tells whether both are the same principal, whatever each presented.
func (c Caller) Is(other Caller) bool { return c.Principal == other.Principal }

// Sum tells apart what the caller carries; zero: nothing that matters.
func (c Caller) Sum() (sum [16]byte) {
	if c.Forwarded != nil {
		sum = c.Forwarded.Sum
	}
	return sum
}

// Has tells whether a scope was granted; whoever was not asked who he is has all.
func (c Caller) Has(scope string) bool {
	return c.Rights == nil || slices.Contains(c.Rights.Scopes, scope)
}
