package mcphttp

import (
	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/proxy"
)

// Streams serves the HTTP methods that only legacy streamable HTTP has.
type Streams interface {
	// Get opens the session's stream, or resumes a broken one.
	Get(ctx *fasthttp.RequestCtx)
	// Delete ends the session.
	Delete(ctx *fasthttp.RequestCtx)
}

// SSE serves HTTP+SSE.
type SSE interface {
	// Get opens a session and its stream.
	Get(ctx *fasthttp.RequestCtx)
	// Post accepts one message of a session.
	Post(ctx *fasthttp.RequestCtx)
}

// Routes are the handlers of a listener's paths.
type Routes struct {
	Endpoint *Endpoint
	Streams  Streams
	SSE      SSE
}

// Register adds the routes to a server: at the root, and for each server under /servers/{server}.
func Register(s httpserver.Registrar, r *Routes) {
	for _, base := range []string{"", "/servers/{server}"} {
		s.Handle(fasthttp.MethodPost, base+"/mcp", r.Endpoint.Post)
		s.Handle(fasthttp.MethodGet, base+"/mcp", r.Streams.Get)
		s.Handle(fasthttp.MethodDelete, base+"/mcp", r.Streams.Delete)
		s.Handle(fasthttp.MethodGet, base+"/sse", r.SSE.Get)
		s.Handle(fasthttp.MethodGet, base+"/mcp/sse", r.SSE.Get)
		s.Handle(fasthttp.MethodPost, base+"/messages", r.SSE.Post)
	}
}

// Refused returns a function that answers requests that the listener refused before a handler ran. body and header are
// the limits that the error names, in bytes.
func Refused(body, header int) func(ctx *fasthttp.RequestCtx, status int) {
	return func(ctx *fasthttp.RequestCtx, status int) { Fail(ctx, status, nil, Refusal(status, body, header)) }
}

// Refusal returns the error of a request that the listener refused with this status. body and header are the limits, in
// bytes.
func Refusal(status, body, header int) *proxy.Error {
	switch status {
	case fasthttp.StatusRequestEntityTooLarge:
		return proxy.Errf(proxy.RequestTooLarge, "the request body is larger than limits.request_body, %d bytes", body)
	case fasthttp.StatusRequestHeaderFieldsTooLarge:
		return proxy.Errf(proxy.HeadTooLarge, "the request's head is larger than limits.header, %d bytes", header)
	case fasthttp.StatusRequestTimeout:
		return proxy.Errf(proxy.RequestSlow, "the request did not come in time; send it faster, or raise limits.read_time")
	case fasthttp.StatusServiceUnavailable:
		err := proxy.Errf(proxy.Busy, "bodies of other requests that are being read take up limits.in_flight_bytes; try again, or raise it")
		err.RetryAfter = 1
		return err
	case fasthttp.StatusInternalServerError:
		return proxy.Errf(proxy.Internal, "internal error; the log of Dragoman has the cause")
	}
	return proxy.Errf(proxy.InvalidRequest, "the request is not HTTP/1.1 as it should be")
}

// Crowded refuses a connection beyond limits.connections with 503.
func Crowded(ctx *fasthttp.RequestCtx) {
	err := proxy.Errf(proxy.Busy, "as many connections are at work as limits.connections allows; try again, or raise it")
	err.RetryAfter = 1
	Fail(ctx, fasthttp.StatusServiceUnavailable, nil, err)
}

// NotFound answers 404 for a path that is not served.
func NotFound(ctx *fasthttp.RequestCtx) {
	Fail(ctx, fasthttp.StatusNotFound, nil, proxy.Errf(proxy.PathUnknown,
		"nothing is served at %s; MCP is at /mcp, HTTP+SSE at /sse", ctx.Path()))
}

// MethodNotAllowed answers 405 for a method that the path does not have.
func MethodNotAllowed(ctx *fasthttp.RequestCtx) {
	Fail(ctx, fasthttp.StatusMethodNotAllowed, nil, proxy.Errf(proxy.VerbUnknown, "method %s is not served here", ctx.Method()))
}
