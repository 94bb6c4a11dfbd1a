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
	if rules.Classify(&p.Msg, string(fields.Peek(HeaderVersion)), len(fields.Peek(HeaderSession)) > 0) == proxy.Legacy {
		handler = e.Legacy
		if !lent(ctx, &p.Msg) {
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

// ServerOf returns the server that the path names; empty if it names none.
func ServerOf(ctx *fasthttp.RequestCtx) string {
	name, _ := ctx.UserValue("server").(string)
	return name
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

// equalFold compares ASCII text, ignoring case.
func equalFold(b []byte, s string) bool {
	return len(b) == len(s) && strings.EqualFold(string(b), s)
}
