package services

import (
	"errors"
	"io"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"

	"dragoman/adapters/grpc/channel"
	"dragoman/adapters/grpc/reply"
	"dragoman/adapters/grpc/schema"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// maxProgress is the longest message of a stream that progress has, in bytes of JSON.
const maxProgress = 1 << 10

// Call implements transport.Link.
func (u *Upstream) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	c := &call{u: u, ex: ex, m: ex.Msg}
	if _, err := c.m.Settle(nil); err != nil {
		return nil, proxy.Errf(proxy.Internal, "a translated request is no message: %w", err)
	}
	c.Writer = reply.Writer{ID: c.m.Of(c.m.ID), Token: c.m.Of(c.m.Token), Info: func() []byte { return u.info }}
	if err := c.begin(); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// call is one modern request to a service, as proxy.Replies. It makes one gRPC call after the other.
type call struct {
	u  *Upstream
	ex *proxy.Exchange
	m  wire.Message // the request, its edits applied
	reply.Writer

	stream *channel.Stream
	take   func(in proto.Message, err error) (*wire.Message, error) // a message of the server, or its end; nil and nil: there is no reply yet
	ready  *wire.Message                                            // a response that needs nothing more of the server
	found  *reflected                                               // what server reflection has said so far
	over   bool
}

// begin makes the first gRPC call for the method.
func (c *call) begin() error {
	switch method := string(c.m.Text(c.m.Method)); method {
	case "server/discover":
		return c.discover()
	case "tools/list":
		return c.withTools(c.list)
	case "tools/call":
		return c.withTools(c.callTool)
	default:
		return proxy.Errf(proxy.MethodNotFound, "method %s is not offered: the server is a gRPC service, whose methods are tools", method)
	}
}

// step makes a gRPC call; take gets its messages and its end.
func (c *call) step(of *channel.Method, request proto.Message, take func(in proto.Message, err error) (*wire.Message, error)) error {
	s, err := c.u.c.Open(c.ex, of, request, of.ClientStreams)
	if err != nil {
		return err
	}
	c.end()
	c.stream, c.take = s, take
	return nil
}

// Next implements proxy.Replies.
func (c *call) Next(until time.Time) (*wire.Message, error) {
	for !c.over {
		if c.ready != nil {
			c.over = true
			return c.ready, nil
		}
		in, err := c.stream.Next(until)
		if err == proxy.ErrNotYet { //nolint:errorlint // a sentinel, never wrapped
			return nil, err
		}
		m, err := c.take(in, err)
		if err != nil {
			return nil, err
		}
		if m != nil {
			c.over = m.IsResponse()
			return m, nil
		}
	}
	return nil, io.EOF
}

// Close implements proxy.Replies.
func (c *call) Close() error {
	c.end()
	return nil
}

func (c *call) end() {
	if c.stream != nil {
		c.stream.Close()
	}
}

// healthMethod asks for the health of a server.
var healthMethod = &channel.Method{Name: healthpb.Health_Check_FullMethodName, Message: func() proto.Message { return new(healthpb.HealthCheckResponse) }}

// discover answers server/discover: if the server serves, as far as it says so.
func (c *call) discover() error {
	return c.step(healthMethod, &healthpb.HealthCheckRequest{}, func(in proto.Message, err error) (*wire.Message, error) {
		switch health, _ := in.(*healthpb.HealthCheckResponse); {
		case proxy.IsFault(err, proxy.MethodNotFound), proxy.IsFault(err, proxy.InvalidParams): // it has no such service, or says nothing of itself
		case err != nil:
			return nil, err
		case health.GetStatus() == healthpb.HealthCheckResponse_NOT_SERVING:
			return nil, proxy.Errf(proxy.Overloaded, "the gRPC server says that it does not serve (grpc.health.v1)")
		}
		b := c.Begin(0)
		b.Add("supportedVersions", append(wire.AppendText([]byte{'['}, rules.ModernVersion), ']'))
		b.Add("capabilities", []byte(`{"tools":{}}`))
		return c.Complete(uncached(b), nil)
	})
}

// uncached says that a result is not to be cached: gRPC does not say how long it is valid, and for whom.
func uncached(b *wire.Builder) *wire.Builder {
	b.Add("ttlMs", []byte("0"))
	b.Add("cacheScope", []byte(`"private"`))
	return b
}

// withTools continues with the tools, which are read first if they are not known. A call does with those that are known.
func (c *call) withTools(then func(of *tools) error) error {
	of, fresh := c.u.known()
	if fresh || of != nil && c.m.Is("tools/call") && of.byName[string(c.m.Text(c.m.Name))] != nil {
		return then(of)
	}
	return c.reflect(reflectionV1, then)
}

// list answers tools/list.
func (c *call) list(of *tools) error {
	size := 0
	for _, t := range of.all {
		size += len(t.Definition) + 1
	}
	b := c.Begin(size + 256)
	b.Key("tools")
	b.Raw = append(b.Raw, '[')
	for _, t := range of.all {
		b.Raw = wire.AppendItem(b.Raw, t.Definition)
	}
	b.Raw = append(b.Raw, ']')
	var err error
	c.ready, err = c.Complete(uncached(b), nil)
	return err
}

// rawMethod returns a method whose messages are bytes in the unknown fields of an empty message: they are translated by their descriptors.
func rawMethod(of protoreflect.MethodDescriptor) *channel.Method {
	return &channel.Method{Name: "/" + string(of.Parent().FullName()) + "/" + string(of.Name()), ServerStreams: of.IsStreamingServer(),
		Message: func() proto.Message { return new(emptypb.Empty) }, Last: func(proto.Message) bool { return !of.IsStreamingServer() }}
}

// callTool calls the method of a tool.
func (c *call) callTool(of *tools) error {
	t := of.byName[string(c.m.Text(c.m.Name))]
	if t == nil {
		return proxy.Errf(proxy.ToolUnknown, "the gRPC service has no tool %q", c.m.Text(c.m.Name))
	}
	arguments := c.m.Of(c.m.Arguments)
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments = []byte("{}")
	}
	if wrong, err := c.u.schemas.Check(t.input, arguments); err == nil && wrong != nil { // what is too costly to check, the codec refuses
		c.ready, err = c.Refuse("the arguments do not match the input schema of the tool: " + wrong.String())
		return err
	}
	raw, err := t.Request(arguments)
	if err != nil {
		c.ready, err = c.Refuse(err.Error())
		return err
	}
	request := new(emptypb.Empty)
	request.ProtoReflect().SetUnknown(raw)
	var messages [][]byte
	size := 0
	return c.step(t.method, request, func(in proto.Message, err error) (*wire.Message, error) {
		switch {
		case errors.Is(err, io.EOF) && t.method.ServerStreams:
			return c.result(schema.Messages(messages))
		case err != nil:
			return c.refused(err)
		}
		json, err := t.Response(in.ProtoReflect().GetUnknown())
		if err != nil {
			return nil, proxy.Errf(proxy.BadAnswer, "%w", err)
		}
		if !t.method.ServerStreams {
			return c.result(json)
		}
		messages, size = append(messages, json), size+len(json)
		if size > c.u.opt.MaxResult {
			return nil, proxy.Errf(proxy.ResponseTooLarge, "the messages of the gRPC server's stream are more than limits.response_body allows (%d bytes)", c.u.opt.MaxResult)
		}
		text := ""
		if len(json) <= maxProgress {
			text = string(json)
		}
		return c.Progress(float64(len(messages)), nil, text)
	})
}

// result returns the response of a tool whose result is a JSON object.
func (c *call) result(json []byte) (*wire.Message, error) {
	b := c.Begin(2*len(json) + 256)
	reply.AddText(b, json)
	b.Add("structuredContent", json)
	return c.Complete(b, nil)
}

// refused returns the result of a call that the service has refused for what it asks for, as the model may correct it; any other failure is an
// error.
func (c *call) refused(err error) (*wire.Message, error) {
	if raw := channel.MCPError(err); raw != nil {
		return c.Failure(raw)
	}
	text, refused := channel.Refusal(err)
	if !refused {
		return nil, err
	}
	return c.Refuse(text)
}
