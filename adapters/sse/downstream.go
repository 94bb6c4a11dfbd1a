package sse

import (
	"bytes"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/mcphttp"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// Downstream serves HTTP+SSE clients.
type Downstream struct {
	Handle proxy.Handler
	Store  *session.Store
	Cap    time.Duration // a request without response is given up after so long
}

// Get opens a session and its stream. The first event names where to post, relative to the URL that was asked for: a
// proxy in front may have given it another host.
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

// endpoint gives the path to post to for the path of the stream: /sse → /messages, /servers/x/sse → /servers/x/messages,
// /mcp/sse → /messages.
func endpoint(path, id string) string {
	base := strings.TrimSuffix(strings.TrimSuffix(path, "/sse"), "/mcp")
	return base + "/messages?sessionId=" + id
}

// Post takes one message of a session. The answer says only that it was taken; what comes of it goes to the stream.
func (d *Downstream) Post(ctx *fasthttp.RequestCtx) {
	sess := d.Store.Get(string(ctx.QueryArgs().Peek("sessionId")), mcphttp.ServerOf(ctx), mcphttp.CallerOf(ctx))
	if sess == nil || sess.Transport != "sse" {
		mcphttp.Fail(ctx, fasthttp.StatusNotFound, nil, proxy.Errf(proxy.SessionUnknown, "no such session; open the stream anew"))
		return
	}
	m, err := wire.Scan(bytes.Clone(ctx.PostBody()))
	if err != nil {
		mcphttp.Unreadable(ctx, &m, err)
		return
	}
	switch m.Kind {
	case wire.Batch:
		mcphttp.Fail(ctx, fasthttp.StatusBadRequest, nil, proxy.Errf(proxy.InvalidRequest, "this transport has no arrays of messages"))
		return
	case wire.Request:
		ex := &proxy.Exchange{Msg: m, Key: mcphttp.KeyOf(ctx), Caller: mcphttp.CallerOf(ctx), Arrival: mcphttp.ArrivalOf(ctx)}
		ex.ID() // settled: the answer to the POST leaves at once

		run := session.Enter(sess, ex, d.Handle) // before the client may send what cancels it
		// The goroutine ends with its request, which ends with the session, or with the cap.
		go session.Pump(ex, run, d.Cap, func(m *wire.Message) error { return sess.Push(m.AppendLine(nil)) })
	default:
		session.Tell(sess, &proxy.Exchange{Msg: m, Caller: mcphttp.CallerOf(ctx)}, d.Handle)
	}
	mcphttp.Accepted(ctx)
}
