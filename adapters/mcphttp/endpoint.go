package mcphttp

import (
	"bytes"
	"cmp"
	"mime"
	"strings"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Header names of streamable HTTP.
const (
	HeaderVersion = "MCP-Protocol-Version"
	HeaderSession = "Mcp-Session-Id"
)

// Headers of idempotent requests: the client's key for a request, and the mark of a cached answer.
const (
	HeaderKey      = "Idempotency-Key"
	HeaderReplayed = "Idempotent-Replayed"
)

// Post is one POST that has been read. A modern message borrows the connection's memory until the answer is sent or the
// client disconnects, which ends the exchange. So does a legacy request, but it may outlive both: its memory is then
// kept. Other legacy messages own their memory.
type Post struct {
	Ctx    *fasthttp.RequestCtx
	Msg    wire.Message
	Server string       // name from the path; empty if the path names none
	Caller proxy.Caller // as authenticated
	Key    string       // proxy.Exchange.Key; unused if the body is an array

	Arrival *proxy.Arrival // proxy.Exchange.Arrival
}

// EraHandler judges the POSTs of one era and turns requests into exchanges.
type EraHandler interface {
	// Post returns how p is answered. The zero Plan means that Post has answered p: with an error, or with 202.
	Post(p *Post) Plan
}

// Endpoint serves the URL of streamable HTTP for both eras.
type Endpoint struct{ Modern, Legacy EraHandler }

// Post reads a POST, has the handler of its era make exchanges of it, runs them, and answers.
func (e *Endpoint) Post(ctx *fasthttp.RequestCtx) {
	if err := acceptable(ctx); err != nil {
		var id []byte
		if m, serr := wire.Scan(ctx.PostBody()); serr == nil { // one client stops altogether at an error without the id
			id = m.Of(m.ID)
		}
		Fail(ctx, err.Status, id, err)
		return
	}
	p := ReadPost(ctx)
	if p == nil {
		return
	}
	fields := httpserver.FieldsOf(ctx)
	handler := e.Modern
	if rules.Classify(&p.Msg, string(fields.Peek(HeaderVersion)), func() bool { return len(fields.Peek(HeaderSession)) > 0 }) == proxy.Legacy {
		handler = e.Legacy
		if !lent(&p.Msg) {
			takeBody(ctx, &p.Msg)
			p.Arrival = p.Arrival.Clone()
		}
	}
	plan := handler.Post(p)
	plan.run(ctx)
}

// ReadPost reads a POST. The result borrows the connection's memory until the answer is sent. If the body is not a
// message, ReadPost answers with the error and returns nil.
func ReadPost(ctx *fasthttp.RequestCtx) *Post {
	d := scratchOf(ctx)
	p := &d.post
	var err error
	if p.Msg, err = d.reader.Scan(ctx.PostBody()); err != nil {
		Unreadable(ctx, &p.Msg, err)
		p.Msg = wire.Message{}
		return nil
	}
	p.Ctx, p.Server, p.Caller, p.Arrival, p.Key = ctx, ServerOf(ctx), d.head.Caller, d.head.Arrival, KeyOf(ctx)
	return p
}

// Unreadable answers a body that is not a message, with the request's id if that could be read.
func Unreadable(ctx *fasthttp.RequestCtx, m *wire.Message, err error) {
	f := proxy.InvalidRequest
	if se, ok := err.(*wire.ScanError); ok && se.Code == wire.CodeParse {
		f, m = proxy.Parse, &wire.Message{}
	}
	Fail(ctx, f.Status, m.Of(m.ID), proxy.Errf(f, "the body is no JSON-RPC message: %s", strings.TrimPrefix(err.Error(), "wire: ")))
}

// Bases are what the paths of all endpoints begin with: at the root, for each server, and for each group of servers.
var Bases = [...]string{"", "/servers/{server}", "/groups/{group}"}

// ServerOf returns the server or group that the path names, as proxy.CutServer does; empty if it names none.
func ServerOf(ctx *fasthttp.RequestCtx) string {
	if name, ok := ctx.UserValue("server").(string); ok {
		return cmp.Or(name, "/") // a name that no server has: the path names one, though an empty one
	}
	if name, ok := ctx.UserValue("group").(string); ok {
		return proxy.GroupTarget(name)
	}
	return ""
}

// KeyOf returns the client's Idempotency-Key; empty if there is none. The quotes of a structured field, which not all
// clients send, are removed (draft-ietf-httpapi-idempotency-key-header). Invalid keys stay recognisable: an empty key
// becomes a space, several keys are joined with commas.
func KeyOf(ctx *fasthttp.RequestCtx) string {
	all := httpserver.FieldsOf(ctx).PeekAll(HeaderKey)
	if len(all) == 0 {
		return ""
	}
	key := string(bytes.Join(all, []byte(", ")))
	if n := len(key); n > 1 && key[0] == '"' && key[n-1] == '"' {
		key = key[1 : n-1]
	}
	if key == "" {
		return " "
	}
	return key
}

// acceptable checks Content-Type and Accept of a POST. A client without Accept takes anything (RFC 9110).
func acceptable(ctx *fasthttp.RequestCtx) *proxy.Error {
	fields := httpserver.FieldsOf(ctx)
	if ct := fields.ContentType(); len(ct) > 0 && string(ct) != "application/json" {
		if t, _, err := mime.ParseMediaType(string(ct)); err != nil || t != "application/json" {
			return proxy.Errf(proxy.BadMediaType, "Content-Type is %q; send application/json", ct)
		}
	}
	accept := fields.Peek("Accept")
	if !Accepts(accept, "application/json") || !Accepts(accept, "text/event-stream") {
		return proxy.Errf(proxy.NotAcceptable, "Accept must list both application/json and text/event-stream")
	}
	return nil
}

// commonAccept is the Accept header of most clients.
const commonAccept = "application/json, text/event-stream"

// Accepts reports whether an Accept header allows a media type. Quality values are ignored: no client sends q=0 for
// either of the two types that the protocol requires.
func Accepts(accept []byte, media string) bool {
	if len(accept) == 0 || string(accept) == commonAccept {
		return true
	}
	group := media[:strings.IndexByte(media, '/')+1] + "*"
	for part := range bytes.SplitSeq(accept, []byte(",")) {
		t, _, _ := bytes.Cut(part, []byte(";"))
		t = bytes.TrimSpace(t)
		if bytes.EqualFold(t, []byte(media)) || bytes.EqualFold(t, []byte(group)) || string(t) == "*/*" {
			return true
		}
	}
	return false
}

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

// Register adds the routes to a server, below each of Bases.
func Register(s httpserver.Registrar, r *Routes) {
	for _, base := range Bases {
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
	fail(ctx, fasthttp.StatusServiceUnavailable, nil, err) // there is no request
}

// Unwritable returns the error of an answer for which there is no room.
func Unwritable(limit httpserver.AnswerLimit) *proxy.Error {
	err := proxy.Errf(proxy.Busy, "answers that clients have not read yet take up limits.answer_bytes; try again, or raise it")
	if limit == httpserver.AnswersOfClient {
		err = proxy.Errf(proxy.Busy, "answers that this caller has not read yet take up limits.answer_bytes_per_principal; read them, try again, or raise it")
	}
	err.RetryAfter = 1
	return err
}

// NotFound answers 404 for a path that is not served.
func NotFound(ctx *fasthttp.RequestCtx) {
	Fail(ctx, fasthttp.StatusNotFound, nil, proxy.Errf(proxy.PathUnknown,
		"nothing is served at %s; MCP is at /mcp, HTTP+SSE at /sse, also below /servers/NAME and /groups/NAME", ctx.Path()))
}

// MethodNotAllowed answers 405 for a method that the path does not have.
func MethodNotAllowed(ctx *fasthttp.RequestCtx) {
	Fail(ctx, fasthttp.StatusMethodNotAllowed, nil, proxy.Errf(proxy.VerbUnknown, "method %s is not served here", ctx.Method()))
}
