package proxy

import (
	"context"
	"math/rand/v2"
	"net/netip"
)

// Arrival is what the head of an HTTP request says of the request besides who asks. It is not changed once the gates are through.
type Arrival struct {
	// ID is a correlation id: what the client has sent as X-Request-Id, if that is one, else one that was made. The head of the
	// answer has it.
	ID    string
	Given bool // the client has sent it
	// Trace is the trace context of the fields traceparent, tracestate and baggage, as it came; nil: none, or nobody traces.
	Trace   *Trace
	Address netip.Addr // of the client, as Head.Address
}

// Trace is the place of a request in a trace, in the words of W3C Trace Context (traceparent, tracestate) and W3C Baggage. What
// came from outside is bounded, but not checked until somebody reads it. It is not changed once it is made.
type Trace struct {
	Parent  string // traceparent
	State   string // tracestate; empty: none
	Baggage string // baggage; empty: none
}

// TraceID is the 32 hexadecimal digits by which the trace is known, of a traceparent that is well formed; empty if it is not.
func (t *Trace) TraceID() string {
	const from, to = 3, 35
	if t == nil || len(t.Parent) < to {
		return ""
	}
	return t.Parent[from:to]
}

// traceKey is under which a context has the trace that goes on to a server.
type traceKey struct{}

// TraceIn gives the trace in which what is done in a context goes on to a server: an exchange's is Onward. nil: nobody traces, or
// it is about no client's request.
func TraceIn(ctx context.Context) *Trace {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return t
}

// Onward is the trace that the exchange's server is told to be in; nil: it is told nothing but what the client has said.
func (ex *Exchange) Onward() *Trace { return ex.onward.Load() }

// SetOnward says in which trace the exchange goes on from here; a request that is made again goes on in another.
func (ex *Exchange) SetOnward(t *Trace) { ex.onward.Store(t) }

// Continue makes the exchange, which Dragoman has made to serve another, part of that: it has its ids and its trace.
func (ex *Exchange) Continue(of *Exchange) {
	ex.RequestID, ex.Arrival, ex.Trace = of.RequestID, of.Arrival, of.Trace
	ex.SetOnward(of.Onward())
}

// ID is the correlation id of the request: by it the lines of logs, the answer's X-Request-Id and the REST envelope's request_id
// are known to be about the same. It is RequestID, else the id of the arrival, else one that is made now, and it stays. Only the
// goroutine that the exchange belongs to may ask.
func (ex *Exchange) ID() string {
	if ex.RequestID == "" {
		if ex.Arrival != nil {
			ex.RequestID = ex.Arrival.ID
		} else {
			ex.RequestID = NewRequestID()
		}
	}
	return ex.RequestID
}

// NewRequestID makes a correlation id: a UUID of version 4 (RFC 9562). It tells requests apart, and is no secret.
func NewRequestID() string {
	hi, lo := rand.Uint64(), rand.Uint64()        //nolint:gosec // guards nothing
	hi, lo = hi&^0xf000|0x4000, lo&^(3<<62)|1<<63 // version 4, variant 1 (RFC 9562 §5.4)
	var plain [32]byte
	for i := range 8 {
		copy(plain[2*i:], hexadecimal[hi>>(56-8*i)&0xff][:])
		copy(plain[16+2*i:], hexadecimal[lo>>(56-8*i)&0xff][:])
	}
	var text [36]byte
	copy(text[:8], plain[:8])
	copy(text[9:13], plain[8:12])
	copy(text[14:18], plain[12:16])
	copy(text[19:23], plain[16:20])
	copy(text[24:], plain[20:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

// hexadecimal has the digits of each byte.
var hexadecimal = func() (table [256][2]byte) {
	const digits = "0123456789abcdef"
	for b := range table {
		table[b] = [2]byte{digits[b>>4], digits[b&15]}
	}
	return table
}()
