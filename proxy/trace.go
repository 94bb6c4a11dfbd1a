package proxy

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net/netip"
)

// Arrival is what the head of an HTTP request says of the request besides who asks. It is not changed once the gates are through.
type Arrival struct {
	// Given is the correlation id that the client has sent as X-Request-Id; empty: none that may be one, so one was made (Correlate).
	Given string
	made  correlationID
	// Trace is the trace context of the fields traceparent, tracestate and baggage, as it came; nil: none, or nobody traces.
	Trace   *Trace
	Address netip.Addr // of the client, as Head.Address
}

// Correlate gives the arrival the id that the client has sent, or makes one, if that is empty.
func (a *Arrival) Correlate(given string) {
	if a.Given = given; given == "" {
		a.made = newCorrelationID()
	}
}

// ID is the correlation id, which the head of the answer has; empty if there is none yet.
func (a *Arrival) ID() string {
	if a.Given != "" || a.made == (correlationID{}) {
		return a.Given
	}
	return string(a.made[:])
}

// AppendID appends the correlation id to dst: a string of one that was made would be memory for each request.
func (a *Arrival) AppendID(dst []byte) []byte {
	if a.Given != "" || a.made == (correlationID{}) {
		return append(dst, a.Given...)
	}
	return append(dst, a.made[:]...)
}

// Has tells whether that is the correlation id.
func (a *Arrival) Has(id string) bool {
	if a.Given != "" {
		return id == a.Given
	}
	return id == string(a.made[:])
}

// Clone gives a copy; nil of nil.
func (a *Arrival) Clone() *Arrival {
	if a == nil {
		return nil
	}
	own := *a
	return &own
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

// OutgoingTrace is the trace that the exchange's server is told to be in; nil: it is told nothing but what the client has said.
func (ex *Exchange) OutgoingTrace() *Trace { return ex.outgoing.Load() }

// SetOutgoingTrace says in which trace the exchange goes on from here; a request that is made again goes on in another.
func (ex *Exchange) SetOutgoingTrace(t *Trace) { ex.outgoing.Store(t) }

// Inherit makes the exchange, which Dragoman has made to serve another, part of that: it has its ids and its trace.
func (ex *Exchange) Inherit(of *Exchange) {
	ex.RequestID, ex.Trace = of.RequestID, of.Trace
	if of.Arrival != nil {
		own := Lend[arrived](ex, SlotDownstream) // it may outlive of
		own.Arrival = *of.Arrival
		ex.Arrival = &own.Arrival
	}
	ex.SetOutgoingTrace(of.OutgoingTrace())
}

// arrived is the arrival of an exchange that stands for another.
type arrived struct{ Arrival }

// Clear implements Lent.
func (a *arrived) Clear() { *a = arrived{} }

// ID is the correlation id of the request: by it the lines of logs, the answer's X-Request-Id and the REST envelope's request_id
// are known to be about the same. It is RequestID, else the id of the arrival, else one that is made now, and it stays. Only the
// goroutine that the exchange belongs to may ask.
func (ex *Exchange) ID() string {
	if ex.RequestID == "" && ex.Arrival != nil {
		ex.RequestID = ex.Arrival.ID()
	}
	if ex.RequestID == "" {
		ex.RequestID = NewRequestID()
	}
	return ex.RequestID
}

// PendingID tells whether the id is the one that was made when the request arrived, and nobody has asked for it as a string yet: it is
// Arrival.AppendID's, digits and hyphens, and need not become one.
func (ex *Exchange) PendingID() bool {
	return ex.RequestID == "" && ex.Arrival != nil && ex.Arrival.made != (correlationID{})
}

// correlationID is the text of a UUID of version 4.
type correlationID [36]byte

// NewRequestID makes a correlation id: a UUID of version 4 (RFC 9562). It tells requests apart, and is no secret.
func NewRequestID() string {
	id := newCorrelationID()
	return string(id[:])
}

func newCorrelationID() (id correlationID) {
	hi, lo := rand.Uint64(), rand.Uint64()        //nolint:gosec // guards nothing
	hi, lo = hi&^0xf000|0x4000, lo&^(3<<62)|1<<63 // version 4, variant 1 (RFC 9562 §5.4)
	binary.BigEndian.PutUint64(id[:], hexadecimal(hi>>32))
	times, node := hexadecimal(hi&math.MaxUint32), hexadecimal(lo>>32)
	binary.BigEndian.PutUint32(id[9:], uint32(times>>32)) //nolint:gosec // half of it each time
	binary.BigEndian.PutUint32(id[14:], uint32(times))    //nolint:gosec // the other
	binary.BigEndian.PutUint32(id[19:], uint32(node>>32)) //nolint:gosec // the same
	binary.BigEndian.PutUint32(id[24:], uint32(node))     //nolint:gosec // the same
	binary.BigEndian.PutUint64(id[28:], hexadecimal(lo&math.MaxUint32))
	id[8], id[13], id[18], id[23] = '-', '-', '-', '-'
	return id
}

// hexadecimal gives the eight digits of 32 bits, a byte each: the bits are spread over the bytes, and those from ten on lifted to a.
func hexadecimal(v uint64) uint64 {
	v = v&0xffff0000<<16 | v&0xffff
	v = v&0xff000000ff00<<8 | v&0xff000000ff
	v = v&0xf000f000f000f0<<4 | v&0xf000f000f000f
	letters := (v + 0x0606060606060606) >> 4 & 0x0101010101010101
	return v + '0'*0x0101010101010101 + letters*('a'-'0'-10)
}
