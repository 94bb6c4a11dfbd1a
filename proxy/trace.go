package proxy

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net/netip"
)

// Arrival holds the facts about a request in its HTTP head, besides the caller. It is immutable after the gates.
type Arrival struct {
	// Given is the correlation id of the client's X-Request-Id; empty: it has sent no valid one.
	Given string
	made  correlationID
	// Trace has the fields traceparent, tracestate and baggage unchanged; nil: none, or there is no tracing.
	Trace   *Trace
	Address netip.Addr // of the client, as Head.Address
	Via     string     // the intermediaries that the request has passed (RFC 9110 §7.6.3); empty: it names none
	// Departures returns when the exchanges of all clients that have left before the call are cancelled, as far as the system tells; nil:
	// it does not.
	Departures func()
}

// Correlate sets the client's id, or generates one if that is empty.
func (a *Arrival) Correlate(given string) {
	if a.Given = given; given == "" {
		a.made = newCorrelationID()
	}
}

// ID returns the correlation id, which the head of the answer has; empty if there is none yet.
func (a *Arrival) ID() string {
	if a.Given != "" || a.made == (correlationID{}) {
		return a.Given
	}
	return string(a.made[:])
}

// AppendID appends the correlation id, without the allocation of ID.
func (a *Arrival) AppendID(dst []byte) []byte {
	if a.Given != "" || a.made == (correlationID{}) {
		return append(dst, a.Given...)
	}
	return append(dst, a.made[:]...)
}

// Has reports whether id is the correlation id.
func (a *Arrival) Has(id string) bool {
	if a.Given != "" {
		return id == a.Given
	}
	return id == string(a.made[:])
}

// Clear implements Clearer.
func (a *Arrival) Clear() { *a = Arrival{} }

// Clone returns a copy; nil of nil.
func (a *Arrival) Clone() *Arrival {
	if a == nil {
		return nil
	}
	own := *a
	return &own
}

// Trace is the position of a request in a trace, as W3C Trace Context (traceparent, tracestate) and W3C Baggage. Values of clients are
// bounded, but not validated. It is immutable.
type Trace struct {
	Parent  string // traceparent
	State   string // tracestate; empty: none
	Baggage string // baggage; empty: none
}

// TraceID returns the 32 hexadecimal digits of the trace id; empty if traceparent is too short.
func (t *Trace) TraceID() string {
	const from, to = 3, 35
	if t == nil || len(t.Parent) < to {
		return ""
	}
	return t.Parent[from:to]
}

// traceKey is the context key of the outgoing trace.
type traceKey struct{}

// TraceIn returns the outgoing trace of a context; that of an exchange is OutgoingTrace. Nil: there is no tracing, or the context belongs
// to no client's request.
func TraceIn(ctx context.Context) *Trace {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return t
}

// WithTrace returns a context with an outgoing trace, for a request that serves no exchange alone.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// viaKey is the context key of Arrival.Via.
type viaKey struct{}

// ViaIn returns the intermediaries that the client's request of a context has passed; empty: it names none, or the context belongs to no
// client's request.
func ViaIn(ctx context.Context) string {
	via, _ := ctx.Value(viaKey{}).(string)
	return via
}

// OutgoingTrace returns the trace context that is sent to the server; nil: that of the client, if any.
func (ex *Exchange) OutgoingTrace() *Trace { return ex.outgoing.Load() }

// SetOutgoingTrace sets the trace context that is sent to the server. Each attempt of a request has its own.
func (ex *Exchange) SetOutgoingTrace(t *Trace) { ex.outgoing.Store(t) }

// Inherit gives an exchange that serves another one the ids and the trace of that.
func (ex *Exchange) Inherit(of *Exchange) {
	ex.RequestID, ex.Trace = of.RequestID, of.Trace
	if of.Arrival != nil {
		own := Lend[Arrival](ex, SlotDownstream) // it may outlive of
		*own = *of.Arrival
		ex.Arrival = own
	}
	ex.SetOutgoingTrace(of.OutgoingTrace())
}

// ID returns the correlation id of the request, which log lines, the answer's X-Request-Id and the REST envelope's request_id have in
// common: RequestID, else the id of the arrival, else a new one. Only the goroutine that owns the exchange may call it.
func (ex *Exchange) ID() string {
	if ex.RequestID == "" && ex.Arrival != nil {
		ex.RequestID = ex.Arrival.ID()
	}
	if ex.RequestID == "" {
		ex.RequestID = NewRequestID()
	}
	return ex.RequestID
}

// PendingID reports whether the id was generated on arrival and is not a string yet. Then Arrival.AppendID returns it without an
// allocation.
func (ex *Exchange) PendingID() bool {
	return ex.RequestID == "" && ex.Arrival != nil && ex.Arrival.made != (correlationID{})
}

// correlationID is the text of a UUID of version 4.
type correlationID [36]byte

// NewRequestID returns a new correlation id: a UUID of version 4 (RFC 9562). It is unique, but not secret.
func NewRequestID() string {
	id := newCorrelationID()
	return string(id[:])
}

func newCorrelationID() (id correlationID) {
	hi, lo := rand.Uint64(), rand.Uint64()        //nolint:gosec // guards nothing
	hi, lo = hi&^0xf000|0x4000, lo&^(3<<62)|1<<63 // version 4, variant 1 (RFC 9562 §5.4)
	binary.BigEndian.PutUint64(id[:], hexadecimal(hi>>32))
	times, node := hexadecimal(hi&math.MaxUint32), hexadecimal(lo>>32)
	binary.BigEndian.PutUint32(id[9:], uint32(times>>32))
	binary.BigEndian.PutUint32(id[14:], uint32(times)) //nolint:gosec // the other
	binary.BigEndian.PutUint32(id[19:], uint32(node>>32))
	binary.BigEndian.PutUint32(id[24:], uint32(node)) //nolint:gosec // the same
	binary.BigEndian.PutUint64(id[28:], hexadecimal(lo&math.MaxUint32))
	id[8], id[13], id[18], id[23] = '-', '-', '-', '-'
	return id
}

// hexadecimal returns the eight hexadecimal digits of 32 bits as bytes: it spreads the nibbles over the bytes, and lifts those above nine
// to letters.
func hexadecimal(v uint64) uint64 {
	v = v&0xffff0000<<16 | v&0xffff
	v = v&0xff000000ff00<<8 | v&0xff000000ff
	v = v&0xf000f000f000f0<<4 | v&0xf000f000f000f
	letters := (v + 0x0606060606060606) >> 4 & 0x0101010101010101
	return v + '0'*0x0101010101010101 + letters*('a'-'0'-10)
}
