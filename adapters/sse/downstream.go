package sse

import (
	"bytes"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// Downstream serves HTTP+SSE clients.
type Downstream struct {
	Handle proxy.Handler
	Store  *session.Store
	Cap    time.Duration // time after which a request without a response is given up
}

// Get opens a session and its stream. The first event names the path to post to, without a host: a proxy in front may use
// another host.
func (d *Downstream) Get(ctx *fasthttp.RequestCtx) {
	sess, err := d.Store.Create("sse", mcphttp.ServerOf(ctx), mcphttp.CallerOf(ctx))
	if err != nil {
		mcphttp.Fail(ctx, fasthttp.StatusServiceUnavailable, nil, err)
		return
	}
	first := eventstream.Append(nil, "endpoint", nil, []byte(endpoint(string(ctx.Path()), sess.ID)))
	if err := mcphttp.Open(ctx, sess, first, func() { d.Store.Remove(sess) }); err != nil {
		d.Store.Remove(sess)
		mcphttp.Fail(ctx, fasthttp.StatusServiceUnavailable, nil, proxy.Errf(proxy.TooManySessions, "too many streams are open; raise limits.streams"))
	}
}

// endpoint returns the path to post to for the path of the stream: /sse → /messages, /servers/x/sse →
// /servers/x/messages, /mcp/sse → /messages.
func endpoint(path, id string) string {
	base := strings.TrimSuffix(strings.TrimSuffix(path, "/sse"), "/mcp")
	return base + "/messages?sessionId=" + id
}

// Post accepts one message of a session. Its answer only acknowledges the message; the reply goes to the stream.
func (d *Downstream) Post(ctx *fasthttp.RequestCtx) {
	sess := d.Store.Find(sessionID(ctx), mcphttp.ServerOf(ctx), mcphttp.CallerOf(ctx))
	if sess == nil || sess.Transport != "sse" {
		mcphttp.Fail(ctx, fasthttp.StatusNotFound, nil, proxy.Errf(proxy.SessionUnknown, "no such session; open the stream anew"))
		return
	}
	p := mcphttp.ReadPost(ctx)
	if p == nil {
		return
	}
	switch p.Msg.Kind {
	case wire.Batch:
		mcphttp.Fail(ctx, fasthttp.StatusBadRequest, nil, proxy.Errf(proxy.InvalidRequest, "this transport has no arrays of messages"))
		return
	case wire.Request:
		d.take(p, sess)
	default:
		p.Msg.Raw = bytes.Clone(p.Msg.Raw)
		session.Deliver(sess, &proxy.Exchange{Msg: p.Msg, Caller: p.Caller}, d.Handle)
	}
	mcphttp.Accepted(ctx)
}

// sessionID returns the session id in a POST's query.
func sessionID(ctx *fasthttp.RequestCtx) []byte {
	if id := httpserver.QueryOf(ctx, "sessionId"); id != nil {
		return id
	}
	return ctx.QueryArgs().Peek("sessionId")
}
