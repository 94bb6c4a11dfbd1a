package proxy

import "context"

// Forwarded is what a client's request had of the header fields that go on to some upstream (upstreams.NAME.forward_headers). A nil
// one is of no client's request; one without Headers is of a request that had none of them. It is not changed once it is made.
type Forwarded struct {
	// Headers are the fields: names in lower case, each once; values as they came, and such that they may be sent on.
	Headers []Header
	// Sum tells apart what says who asks, under a secret: 0 if nothing of that came. What differs by it is never shared, nor kept for
	// another.
	Sum [16]byte
	// Alone says that nobody but these fields vouches for who asks: the principal was made of Sum.
	Alone bool
}

// Get gives the value of a field, by its name in lower case; false if the request had none.
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

// forwardedKey is under which a context has what is carried.
type forwardedKey struct{}

// ForwardedFrom gives what is carried in a context: an exchange's is its caller's. nil: it is about no client's request.
func ForwardedFrom(ctx context.Context) *Forwarded {
	c, _ := ctx.Value(forwardedKey{}).(*Forwarded)
	return c
}

// WithForwarded makes a context in which c is carried, for what is done on behalf of a client's request but outlives it; ctx itself if c
// is nil.
func WithForwarded(ctx context.Context, c *Forwarded) context.Context {
	if c == nil {
		return ctx
	}
	return context.WithValue(ctx, forwardedKey{}, c)
}
