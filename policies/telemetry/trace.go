package telemetry

import (
	"context"
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
		parent, ambient := incomingTraces(ex)
		kind := t.server
		if ex.Own {
			kind = t.own
		}
		ctx, span := t.tracer.Start(extracted(parent), methodLabel(ex.Msg.Text(ex.Msg.Method)), kind...)
		ex.Trace = spanTrace(ctx, parent)
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
		if err != nil {
			s.failed(err)
			span.End()
			return nil, err
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
			ex.SetOutgoingTrace(spanTrace(ctx, ex.Trace))
			if !span.IsRecording() {
				return next(ex)
			}
			describe(span, &ex.Msg)
			span.SetAttributes(fixed...)
			replies, err := next(ex)
			span.SetAttributes(at.sentAttributes(&ex.Msg)...)
			if link := trace.SpanContextFromContext(extracted(ex.Continues)); link.IsValid() {
				span.AddLink(trace.Link{SpanContext: link})
			}
			s := &spanned{span: span, ex: ex, upstream: true}
			if err != nil {
				s.failed(err)
				return nil, err
			}
			s.Replies = replies
			return s, nil
		}
	}
}

// incomingTraces returns the trace context of a request, and that of the HTTP request if it is another; nil: none. An
// exchange that was made to serve another one has its trace already. Baggage is that of the message if the message has a
// parent or baggage, else that of the HTTP request.
func incomingTraces(ex *proxy.Exchange) (parent, ambient *proxy.Trace) {
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

// spanTrace returns the trace context of the span of ctx, in version 00. The baggage of the request is passed on as it
// came.
func spanTrace(ctx context.Context, request *proxy.Trace) *proxy.Trace {
	t := new(proxy.Trace)
	propagation.TraceContext{}.Inject(ctx, traceCarrier{t})
	if request != nil {
		t.Baggage = request.Baggage
	}
	return t
}

// traceCarrier presents a trace context to the propagator.
type traceCarrier struct{ *proxy.Trace }

// Get implements propagation.TextMapCarrier.
func (c traceCarrier) Get(key string) string {
	if key == "traceparent" {
		return c.Parent
	}
	return c.State
}

// Set implements propagation.TextMapCarrier.
func (c traceCarrier) Set(key, value string) {
	if key == "traceparent" {
		c.Parent = value
	} else {
		c.State = value
	}
}

// Keys implements propagation.TextMapCarrier.
func (traceCarrier) Keys() []string { return propagation.TraceContext{}.Fields() }
