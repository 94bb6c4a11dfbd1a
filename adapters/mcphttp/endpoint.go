package mcphttp

import (
	"bytes"
	"mime"
	"strings"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Header names of the protocol.
const (
	HeaderVersion = "MCP-Protocol-Version"
	HeaderSession = "Mcp-Session-Id"
)

// Headers of requests that may come again: the client's name for one, and what says that its answer was given before.
const (
	HeaderKey      = "Idempotency-Key"
	HeaderReplayed = "Idempotent-Replayed"
)

// Post is one POST that was read. The message of a modern client is the connection's, until the answer has left or the client has:
// with that its exchange ends. So is a request of a legacy one, but it may outlive both: Manner.DoKept has its memory kept then. What else
// legacy clients send borrows nothing.
type Post struct {
	Ctx    *fasthttp.RequestCtx
	Msg    wire.Message
	Server string       // from the path; empty: the only one
	Caller proxy.Caller // who asks
	Key    string       // proxy.Exchange.Key: of a request, or of nobody's if this is an array

	Arrival *proxy.Arrival // proxy.Exchange.Arrival
}

// EraHandler serves the messages of one era.
type EraHandler interface {
	// Post answers p, which is the handler's until it returns.
	Post(p *Post)
}

// Endpoint is the one URL of streamable HTTP.
type Endpoint struct{ Modern, Legacy EraHandler }

// Post reads a POST and hands it to its era.
func (e *Endpoint) Post(ctx *fasthttp.RequestCtx) {
	if err := acceptable(ctx); err != nil {
		var id []byte
		if m, serr := wire.Scan(ctx.PostBody()); serr == nil { // one client ends altogether on a refusal without the id
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
	if rules.Classify(&p.Msg, string(fields.Peek(HeaderVersion)), len(fields.Peek(HeaderSession)) > 0) == proxy.Modern {
		e.Modern.Post(p)
		return
	}
	if !lent(ctx, &p.Msg) {
		takeBody(ctx, &p.Msg)
		p.Arrival = p.Arrival.Clone()
	}
	e.Legacy.Post(p)
}

// ReadPost reads a POST, of which all is the connection's until its answer has left. If it is no message it is answered, and nil.
func ReadPost(ctx *fasthttp.RequestCtx) *Post {
	desk := scratchOf(ctx)
	p := &desk.post
	var err error
	if p.Msg, err = desk.reader.Scan(ctx.PostBody()); err != nil {
		Unreadable(ctx, &p.Msg, err)
		return nil
	}
	p.Ctx, p.Server, p.Caller, p.Arrival, p.Key = ctx, ServerOf(ctx), desk.head.Caller, desk.head.Arrival, KeyOf(ctx)
	return p
}

// Unreadable answers a body that is no message; with the request's id, if that could be read.
func Unreadable(ctx *fasthttp.RequestCtx, m *wire.Message, err error) {
	f := proxy.InvalidRequest
	if se, ok := err.(*wire.ScanError); ok && se.Code == wire.CodeParse {
		f, m = proxy.Parse, &wire.Message{}
	}
	Fail(ctx, f.Status, m.Of(m.ID), proxy.Errf(f, "the body is no JSON-RPC message: %s", strings.TrimPrefix(err.Error(), "wire: ")))
}

// ServerOf gives the server that the path names; empty if it names none.
func ServerOf(ctx *fasthttp.RequestCtx) string {
	name, _ := ctx.UserValue("server").(string)
	return name
}

// KeyOf gives the client's Idempotency-Key, without the quotes of a structured field, in which not all write it
// (draft-ietf-httpapi-idempotency-key-header); empty if there is none. What is no key is not hidden: an empty one becomes a space,
// several are listed.
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

// acceptable checks the media types of a POST. A client without Accept takes anything (RFC 9110).
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

// commonAccept is the Accept of most clients.
const commonAccept = "application/json, text/event-stream"

// Accepts tells whether a client that sends this Accept takes a media type. Quality values are not weighed: 0 for one of the two types that
// the protocol demands does not occur.
func Accepts(accept []byte, media string) bool {
	if len(accept) == 0 || string(accept) == commonAccept {
		return true
	}
	kind, _, _ := strings.Cut(media, "/")
	for part := range bytes.SplitSeq(accept, []byte(",")) {
		t, _, _ := bytes.Cut(part, []byte(";"))
		t = bytes.TrimSpace(t)
		if equalFold(t, media) || string(t) == "*/*" || len(t) == len(kind)+2 && equalFold(t[:len(kind)], kind) && string(t[len(kind):]) == "/*" {
			return true
		}
	}
	return false
}

// equalFold compares ASCII without regard to case.
func equalFold(b []byte, s string) bool {
	return len(b) == len(s) && strings.EqualFold(string(b), s)
}
