package telemetry

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

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

// maxAttribute bounds the text from outside in one attribute, in bytes.
const maxAttribute = 256

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

// sentAttributes returns what is known once a request has been sent: the revision, and the request's id if the message was sent
// with another one than it came with.
func (p *Peer) sentAttributes(m *wire.Message) (all []attribute.KeyValue) {
	if p.Revision != nil {
		if v := p.Revision(); v != "" {
			all = append(all, revisionKey.String(v))
		}
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

// attributeText returns a text from outside, cut to maxAttribute bytes and made valid UTF-8.
func attributeText(text []byte) string {
	return strings.ToValidUTF8(string(text[:min(len(text), maxAttribute)]), "")
}

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
