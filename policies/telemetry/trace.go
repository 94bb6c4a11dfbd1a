package telemetry

import (
	"context"
	"encoding/hex"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Tracing makes spans for requests by the OpenTelemetry semantic conventions for MCP: a server span for each request of
// a client, and below it a client span for each request to an upstream. A span that is not recorded is still
// propagated, as a traceparent with the flags 00, and costs little.
type Tracing struct {
	tracer              trace.Tracer
	server, own, client []trace.SpanStartOption
}

// NewTracing returns the policies for a tracer.
func NewTracing(tracer trace.Tracer) *Tracing {
	kind := func(k trace.SpanKind) []trace.SpanStartOption { return []trace.SpanStartOption{trace.WithSpanKind(k)} }
	return &Tracing{tracer, kind(trace.SpanKindServer), kind(trace.SpanKindInternal), kind(trace.SpanKindClient)}
}

// Serve is the policy of the server span. It runs outside all others, audit included, and makes the id of the trace the
// id of the request unless the client has sent another. The parent is the trace context of the message (SEP-414), else
// that of the HTTP request; if both have one, the span links to the latter (OpenTelemetry, MCP, Context propagation).
// The span ends when the response is delivered, or when the client has left.
func (t *Tracing) Serve(next proxy.Handler) proxy.Handler {
	return func(ex *proxy.Exchange) (proxy.Replies, error) {
		if ex.Msg.Kind != wire.Request {
			return next(ex)
		}
		parent, ambient := said(ex)
		kind := t.server
		if ex.Own {
			kind = t.own
		}
		ctx, span := t.tracer.Start(extracted(parent), methodLabel(ex.Msg.Text(ex.Msg.Method)), kind...)
		ex.Trace = written(trace.SpanContextFromContext(ctx), parent)
		if ex.RequestID == "" {
			if ex.RequestID = ex.Trace.TraceID(); ex.Arrival != nil && ex.Arrival.Given != "" {
				ex.RequestID = ex.Arrival.Given
			}
		}
		if !span.IsRecording() {
			return next(ex)
		}
		describe(span, &ex.Msg)
		describeArrival(span, ex)
		if link := trace.SpanContextFromContext(extracted(ambient)); link.IsValid() {
			span.AddLink(trace.Link{SpanContext: link})
		}
		replies, err := next(ex)
		if ex.Target != "" {
			span.SetAttributes(upstreamKey.String(ex.Target))
		}
		s := &spanned{span: span, ex: ex}
		if err != nil || replies == nil {
			s.failed(err)
			span.End()
			return replies, err
		}
		s.Replies = replies
		return s, nil
	}
}

// Ask returns the policy of the client span for requests to one upstream. It runs inside all others, so that each
// attempt has its own span. Its trace context goes with the request, in _meta and, where the transport has them, in
// headers. The span ends with the upstream's response.
func (t *Tracing) Ask(at Peer) proxy.Policy {
	fixed := at.attributes()
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Msg.Kind != wire.Request || ex.Trace == nil {
				return next(ex)
			}
			ctx := trace.ContextWithSpanContext(context.Background(), trace.SpanContextFromContext(extracted(ex.Trace)).WithRemote(false))
			ctx, span := t.tracer.Start(ctx, methodLabel(ex.Msg.Text(ex.Msg.Method)), t.client...)
			ex.SetOutgoingTrace(written(trace.SpanContextFromContext(ctx), ex.Trace))
			if !span.IsRecording() {
				return next(ex)
			}
			describe(span, &ex.Msg)
			span.SetAttributes(fixed...)
			replies, err := next(ex)
			span.SetAttributes(at.found(&ex.Msg)...)
			if link := trace.SpanContextFromContext(extracted(ex.Continues)); link.IsValid() {
				span.AddLink(trace.Link{SpanContext: link})
			}
			s := &spanned{span: span, ex: ex, asks: true}
			if err != nil || replies == nil {
				s.failed(err)
				return replies, err
			}
			s.Replies = replies
			return s, nil
		}
	}
}

// said returns the trace context of a request, and that of the HTTP request if it is another; nil: none. An exchange
// that was made to serve another one has its trace already. Baggage is that of the message if the message has a parent
// or baggage, else that of the HTTP request.
func said(ex *proxy.Exchange) (parent, ambient *proxy.Trace) {
	if ex.Trace != nil {
		return ex.Trace, nil
	}
	if ex.Arrival != nil {
		ambient = ex.Arrival.Trace
	}
	own := metaTrace(&ex.Msg)
	switch {
	case own == nil:
		return ambient, nil
	case own.Parent != "":
		return own, ambient
	case ambient == nil:
		return own, nil
	case own.Baggage != "":
		return &proxy.Trace{Parent: ambient.Parent, State: ambient.State, Baggage: own.Baggage}, nil
	}
	return ambient, nil
}

// metaTrace reads the trace context of a message, within bounds; nil: it has none. A malformed traceparent counts as
// absent.
func metaTrace(m *wire.Message) *proxy.Trace {
	var t proxy.Trace
	for key, value := range wire.Members(m.Raw, m.Meta) {
		var at *string
		var most int
		switch {
		case key.Is(m.Raw, "traceparent"):
			at, most = &t.Parent, maxTraceparent
		case key.Is(m.Raw, "tracestate"):
			at, most = &t.State, maxTracestate
		case key.Is(m.Raw, "baggage"):
			at, most = &t.Baggage, maxBaggage
		default:
			continue
		}
		if *at = ""; value.IsString(m.Raw) && int(value.To-value.From) <= 6*most+2 { // all bytes as escapes, between quotes
			*at = bounded(value.Text(m.Raw), most)
		}
	}
	if t.Parent != "" && !trace.SpanContextFromContext(extracted(&t)).IsValid() {
		t.Parent = ""
	}
	if t.Parent == "" {
		t.State = ""
	}
	if t == (proxy.Trace{}) {
		return nil
	}
	return &t
}

// extracted returns a context with the span that a trace context names, or without one if it is malformed (W3C Trace
// Context, traceparent). The length is checked because the propagator accepts a dash at the end of version 00.
func extracted(t *proxy.Trace) context.Context {
	const length = 55 // of version 00
	if t == nil || t.Parent == "" || strings.HasPrefix(t.Parent, "00") && len(t.Parent) != length {
		return context.Background()
	}
	return propagation.TraceContext{}.Extract(context.Background(), traceCarrier{t})
}

// traceCarrier presents a trace context to the propagator.
type traceCarrier struct{ *proxy.Trace }

// Get implements propagation.TextMapCarrier.
func (c traceCarrier) Get(key string) string {
	switch key {
	case "traceparent":
		return c.Parent
	case "tracestate":
		return c.State
	}
	return ""
}

// Set implements propagation.TextMapCarrier; nothing is injected.
func (traceCarrier) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (traceCarrier) Keys() []string { return []string{"traceparent", "tracestate"} }

// written returns the trace context of a span, in version 00. The baggage of the request is passed on as it came.
func written(sc trace.SpanContext, of *proxy.Trace) *proxy.Trace {
	id, span := sc.TraceID(), sc.SpanID()
	var text [55]byte
	copy(text[:], "00-")
	hex.Encode(text[3:], id[:])
	text[35] = '-'
	hex.Encode(text[36:], span[:])
	text[52] = '-'
	hex.Encode(text[53:], []byte{byte(sc.TraceFlags() & (trace.FlagsSampled | trace.FlagsRandom))})
	t := &proxy.Trace{Parent: string(text[:]), State: sc.TraceState().String()}
	if of != nil {
		t.Baggage = of.Baggage
	}
	return t
}
