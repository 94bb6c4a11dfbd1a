package telemetry

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"dragoman/policies"
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

// Decide begins the client span of a question to the policy hook, below the span of its request, and returns it as the question carries it.
// end is called with the outcome.
func (t *Tracing) Decide(of *proxy.Trace, phase string) (own *proxy.Trace, end func(outcome string)) {
	ctx := trace.ContextWithSpanContext(context.Background(), trace.SpanContextFromContext(extracted(of)).WithRemote(false))
	ctx, span := t.tracer.Start(ctx, "policy_hook "+phase, t.client...)
	return spanTrace(ctx, nil), func(outcome string) {
		span.SetAttributes(outcomeKey.String(outcome))
		if outcome == "failed" {
			span.SetStatus(codes.Error, "")
		}
		span.End()
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

// Attributes of spans, from OpenTelemetry's registry. Those that begin with dragoman are our own.
const (
	methodKey    = attribute.Key("mcp.method.name")
	revisionKey  = attribute.Key("mcp.protocol.version")
	sessionKey   = attribute.Key("mcp.session.id")
	resourceKey  = attribute.Key("mcp.resource.uri")
	callKey      = attribute.Key("jsonrpc.request.id")
	toolKey      = attribute.Key("gen_ai.tool.name")
	promptKey    = attribute.Key("gen_ai.prompt.name")
	operationKey = attribute.Key("gen_ai.operation.name")
	statusKey    = attribute.Key("rpc.response.status_code")
	errorKey     = attribute.Key("error.type")
	carriedByKey = attribute.Key("network.transport")
	protocolKey  = attribute.Key("network.protocol.name")
	httpKey      = attribute.Key("network.protocol.version")
	serverKey    = attribute.Key("server.address")
	portKey      = attribute.Key("server.port")
	clientKey    = attribute.Key("client.address")
	upstreamKey  = attribute.Key("dragoman.upstream")
	requestKey   = attribute.Key("dragoman.request_id")
	eraKey       = attribute.Key("dragoman.client.era")
	outcomeKey   = attribute.Key("dragoman.outcome")
)

// Events of spans.
const (
	eventQuestion = "dragoman.question"       // a server asks a question during its call
	eventParked   = "dragoman.input_required" // its result asks for input: the call waits for the client's retry
	eventResumed  = "dragoman.input_responses"
)

// Peer describes an upstream for its spans.
type Peer struct {
	Name      string
	Transport string        // "tcp", "unix" or "pipe"
	Protocol  string        // "http"; empty: unknown
	Address   string        // host, or path of a Unix socket; empty: none
	Port      int           // 0: none
	Revision  func() string // MCP revision of the server; empty: not known yet
}

func (p *Peer) attributes() []attribute.KeyValue {
	all := []attribute.KeyValue{upstreamKey.String(p.Name), carriedByKey.String(p.Transport)}
	if p.Protocol != "" {
		all = append(all, protocolKey.String(p.Protocol), httpKey.String("1.1"))
	}
	if p.Address != "" {
		all = append(all, serverKey.String(p.Address))
	}
	if p.Port != 0 {
		all = append(all, portKey.Int(p.Port))
	}
	return all
}

// sentAttributes returns what is known once a request has been sent: the revision, and the request's id if the message
// was sent with another one than it came with.
func (p *Peer) sentAttributes(m *wire.Message) (all []attribute.KeyValue) {
	if v := p.Revision(); v != "" {
		all = append(all, revisionKey.String(v))
	}
	if m.Edited(m.ID) {
		all = append(all, callKey.String(attributeText(bytes.Trim(m.AppendPart(nil, m.ID), `"`))))
	}
	return all
}

// describe names a span and says what the request is about. Text from outside is cut and made valid UTF-8, since
// invalid text would spoil the whole batch.
func describe(span trace.Span, m *wire.Message) {
	all := append(make([]attribute.KeyValue, 0, 4), methodKey.String(attributeText(m.Text(m.Method))))
	switch {
	case m.Is("tools/call"):
		all = append(all, operationKey.String("execute_tool"), namedAfter(span, m, toolKey))
	case m.Is("prompts/get"):
		all = append(all, namedAfter(span, m, promptKey))
	case m.URI.IsString(m.Raw):
		all = append(all, resourceKey.String(attributeText(m.Text(m.URI))))
	}
	span.SetAttributes(all...)
}

// namedAfter returns the attribute of a tool or prompt, and adds its name to the name of the span.
func namedAfter(span trace.Span, m *wire.Message, key attribute.Key) attribute.KeyValue {
	name := attributeText(m.Text(m.Name))
	if name != "" {
		span.SetName(string(m.Text(m.Method)) + " " + name)
	}
	return key.String(name)
}

// describeArrival says who sent the request, and how. The id of the session is shortened as in the log: whoever has all
// of it may be able to use the session.
func describeArrival(span trace.Span, ex *proxy.Exchange) {
	all := append(make([]attribute.KeyValue, 0, 12), requestKey.String(ex.ID()), eraKey.String(ex.Client.Era.String()))
	if id := ex.Msg.ID; id.IsString(ex.Msg.Raw) {
		all = append(all, callKey.String(attributeText(ex.Msg.Text(id))))
	} else {
		all = append(all, callKey.String(attributeText(ex.Msg.Of(id))))
	}
	if ex.Client.Version != "" {
		all = append(all, revisionKey.String(attributeText([]byte(ex.Client.Version))))
	}
	if s := ex.Session; s != nil {
		all = append(all, sessionKey.String(s.ID[:min(6, len(s.ID))]))
	}
	switch a := ex.Arrival; {
	case a == nil:
		all = append(all, carriedByKey.String("pipe"))
	case a.Address.IsValid():
		all = append(all, carriedByKey.String("tcp"), protocolKey.String("http"), httpKey.String("1.1"), clientKey.String(a.Address.String()))
	default:
		all = append(all, carriedByKey.String("unix"), protocolKey.String("http"), httpKey.String("1.1"))
	}
	span.SetAttributes(all...)
	if ex.Msg.InputResponses.Present() || ex.Msg.ReqState.Present() {
		span.AddEvent(eventResumed)
	}
}

// attributeText returns a text from outside as it may be shown, which is valid UTF-8.
func attributeText(text []byte) string { return wire.Shown(text) }

// spanned wraps the replies of a request that has a span.
type spanned struct {
	proxy.Replies
	span     trace.Span
	ex       *proxy.Exchange
	upstream bool // the span is that of a request to an upstream, and ends with the response
	settled  bool
}

// Next implements proxy.Replies.
func (s *spanned) Next(until time.Time) (*wire.Message, error) {
	m, err := s.Replies.Next(until)
	switch {
	case s.settled || policies.Pending(err):
	case err != nil:
		s.failed(err)
	case m.Kind == wire.Request:
		s.span.AddEvent(eventQuestion, trace.WithAttributes(methodKey.String(attributeText(m.Text(m.Method)))))
	case m.IsResponse():
		s.answered(m)
	}
	return m, err
}

// answered records the outcome that the response shows.
func (s *spanned) answered(m *wire.Message) {
	s.settled = true
	switch {
	case m.Kind == wire.Failure:
		code := strconv.Itoa(m.ErrorCode)
		s.span.SetAttributes(statusKey.String(code), errorKey.String(code), outcomeKey.String("server_error"))
		s.span.SetStatus(codes.Error, attributeText(m.Text(m.ErrorText)))
	case s.ex.Msg.Is("tools/call") && m.ToolFailed():
		s.span.SetAttributes(errorKey.String("tool_error"), outcomeKey.String("tool_error"))
		s.span.SetStatus(codes.Error, "")
	case m.ResultType.Is(m.Raw, "input_required"):
		s.span.AddEvent(eventParked)
	}
	s.over()
}

// over ends the span of a request to an upstream: it is over with the response, whatever the client does with it.
func (s *spanned) over() {
	if s.upstream {
		s.span.End()
	}
}

// failed records why a request has no response. The server span has the code of the error, which the client is sent
// unless it has left. A request to an upstream has no such code.
func (s *spanned) failed(err error) {
	if s.settled {
		return
	}
	s.settled = true
	if !errors.Is(err, proxy.ErrDraining) {
		e := proxy.AsError(err)
		kind := e.Name
		if !s.upstream && !errors.Is(err, proxy.ErrCancelled) {
			kind = strconv.Itoa(e.Code)
			s.span.SetAttributes(statusKey.String(kind))
		}
		s.span.SetAttributes(errorKey.String(kind), outcomeKey.String(e.Name))
		s.span.SetStatus(codes.Error, attributeText([]byte(e.Message)))
	}
	s.over()
}

// Close implements proxy.Replies. A response that nobody waited for is an outcome too.
func (s *spanned) Close() error {
	s.failed(policies.Unanswered(s.ex))
	s.span.End() // without effect if it has ended
	return s.Replies.Close()
}
