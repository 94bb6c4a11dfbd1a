package proxy

import "context"

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
