// Package provider makes an MCP server of a provider: a gRPC service that implements mcp.provider.v1 (adapters/grpc/proto).
//
// To the packages above, a provider is a server of the modern era. A call in which the provider asks the user ends with input_required, and
// waits as the stream of its gRPC call for the client's retry (2026-07-28 multi-round-trip requests).
package provider

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"dragoman/adapters/events"
	"dragoman/adapters/grpc/channel"
	"dragoman/adapters/grpc/providerpb"
	"dragoman/adapters/grpc/reply"
	"dragoman/adapters/rest/schema"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Options configure an Upstream.
type Options struct {
	// Name is that of the provider in the configuration, for errors.
	Name string
	// MaxResult bounds the content that a call collects, in bytes.
	MaxResult int
	Asking    Asking
	// Note writes a line to the log. It must not block.
	Note func(level, msg string, err error)
	// Event takes an event of the provider; nil: nobody does. It must not block. Its error says what is wrong with the event.
	Event func(e *events.Event) error
	// Changed is told of a list or resource that has changed, as an event says, by the notification of that; nil: nobody is. It must not block.
	Changed func(m *wire.Message)
}

// Upstream presents a provider as a modern MCP server. It is one link for all callers.
type Upstream struct {
	c       *channel.Channel
	opt     Options
	info    atomic.Pointer[[]byte] // serverInfo of the provider's last answer, raw JSON
	known   known                  // what is known of definitions
	schemas *schema.Cache
	pending *pending // calls whose client is being asked
	feed    feed
	watch   atomic.Bool // the provider has Watch
}

// New returns the upstream of a provider at the end of a channel, which the caller closes after it.
func New(c *channel.Channel, opt Options) *Upstream {
	return &Upstream{c: c, opt: opt, schemas: schema.NewCache(), pending: newPending(opt.Asking)}
}

// Dial implements transport.Dial, for modern exchanges.
func (u *Upstream) Dial(context.Context, transport.Sink) (transport.Link, error) { return u, nil }

// Send implements transport.Link. It drops the message: the modern era defines none to a server but requests.
func (u *Upstream) Send(context.Context, []byte) error { return nil }

// Close implements transport.Link. It does nothing: the link is that of all callers, see [Upstream.End].
func (u *Upstream) Close() error { return nil }

// End gives up the calls whose clients are being asked, and ends the stream of events.
func (u *Upstream) End() {
	u.pending.clear()
	u.endFeed()
}

// serverInfo returns who the provider is, raw JSON; nil if it has not said that.
func (u *Upstream) serverInfo() []byte {
	if info := u.info.Load(); info != nil {
		return *info
	}
	return nil
}

// watches reports whether the provider has Watch, as far as is known.
func (u *Upstream) watches() bool { return u.watch.Load() }

// LastWords returns the addition to errors about a silent server.
func (u *Upstream) LastWords() string {
	return ": of a provider of mcp.provider.v1 ListCapabilities is asked for"
}

// Call implements transport.Link.
func (u *Upstream) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	c := &call{u: u, ex: ex, m: ex.Msg}
	if _, err := c.m.Settle(nil); err != nil {
		return nil, proxy.Errf(proxy.Internal, "a translated request is no message: %w", err)
	}
	c.Writer = reply.Writer{ID: c.m.Of(c.m.ID), Token: c.m.Of(c.m.Token), Info: u.serverInfo}
	if c.m.Is("subscriptions/listen") {
		return u.listen(ex, &c.m)
	}
	c.level = levelOf(string(c.m.Text(c.m.LogLevel)))
	if err := c.begin(); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// call is one modern request to a provider, as proxy.Replies. It makes one gRPC call, a step, after the other; most methods have one.
type call struct {
	u     *Upstream
	ex    *proxy.Exchange
	m     wire.Message // the request, its edits applied
	level providerpb.LogLevel
	reply.Writer

	stream *channel.Stream
	take   taker
	ready  *wire.Message // a response that needs nothing of the provider
	talk   *talk         // with a client that is asked; nil: none yet
	over   bool
}

// taker turns a message of the provider into a reply; nil: there is none yet.
type taker func(m proto.Message) (*wire.Message, error)

// begin makes the first gRPC call for the method.
func (c *call) begin() error {
	switch method := string(c.m.Text(c.m.Method)); method {
	case "server/discover":
		return c.discover()
	case "tools/list":
		return c.list(providerpb.Kind_KIND_TOOL)
	case "resources/list":
		return c.list(providerpb.Kind_KIND_RESOURCE)
	case "resources/templates/list":
		return c.list(providerpb.Kind_KIND_RESOURCE_TEMPLATE)
	case "prompts/list":
		return c.list(providerpb.Kind_KIND_PROMPT)
	case "tools/call", "resources/read", "prompts/get":
		if c.m.ReqState.Present() {
			return c.resume()
		}
		return c.known()
	case "completion/complete":
		return c.complete()
	default:
		return proxy.Errf(proxy.MethodNotFound, "method %s is not offered: the server is a gRPC provider, which has nothing like it", method)
	}
}

// step makes a gRPC call; take gets its messages.
func (c *call) step(of *channel.Method, request proto.Message, take taker) error {
	s, err := c.u.c.Open(c.ex, of, request, of.ClientStreams)
	if err != nil {
		return err
	}
	if c.stream != nil {
		c.stream.Close()
	}
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
		at, asking := until, false
		if c.talk != nil {
			at, asking = c.talk.due(until)
		}
		in, err := c.stream.Next(at)
		if err == proxy.ErrNotYet && asking && (until.IsZero() || time.Now().Before(until)) { //nolint:errorlint // a sentinel, never wrapped
			return c.ask()
		}
		if err == io.EOF { //nolint:errorlint // likewise
			return nil, proxy.Errf(proxy.Lost, "the provider has ended the call without a result")
		}
		if err != nil {
			if raw := channel.MCPError(err); raw != nil {
				c.over = true
				return c.Failure(raw)
			}
			if proxy.IsFault(err, proxy.MethodNotFound) && c.m.Is("server/discover") {
				err = proxy.Errf(proxy.MethodNotFound, "the gRPC server is no provider of mcp.provider.v1; fix: set upstreams.NAME.grpc.methods, to make tools of its methods (%s)", proxy.AsError(err).Message)
			}
			return nil, c.named(err)
		}
		m, err := c.take(in)
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

// named makes NOT_FOUND the error of what was called: a tool that does not exist, or a resource, whose URI the error has (2026-07-28
// resources, Error Handling).
func (c *call) named(err error) error {
	e := proxy.AsError(err)
	if e.Name != proxy.InvalidParams.Name {
		return err
	}
	switch {
	case c.m.Is("tools/call"):
		c.u.known.forget(providerpb.Kind_KIND_TOOL)
		renamed := *e
		renamed.Fault = proxy.ToolUnknown
		return &renamed
	case c.m.Is("resources/read") && e.Data == nil:
		with := *e
		with.Data = wire.Object([]wire.Change{{Key: "uri", Value: c.m.Of(c.m.URI)}})
		return &with
	}
	return err
}

// Close implements proxy.Replies.
func (c *call) Close() error {
	c.end()
	return nil
}

// end ends the call at the provider, unless it waits for its client.
func (c *call) end() {
	if c.stream != nil {
		c.stream.Close()
	}
}
