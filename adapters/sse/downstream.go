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
	// Refuse returns the error of a stream for a server name that leads nowhere, else nil. If it is nil, no stream is refused.
	Refuse func(server string) *proxy.Error
}

// Get opens a session and its stream. The first event names the path to post to, without a host: a proxy in front may use
// another host. A prefix that the proxy has removed from the path is put before it.
func (d *Downstream) Get(ctx *fasthttp.RequestCtx) {
	if d.Refuse != nil {
		if err := d.Refuse(mcphttp.ServerOf(ctx)); err != nil {
			mcphttp.Fail(ctx, fasthttp.StatusNotFound, nil, err)
			return
		}
	}
	sess, err := d.Store.Create("sse", mcphttp.ServerOf(ctx), mcphttp.CallerOf(ctx))
	if err != nil {
		mcphttp.Fail(ctx, fasthttp.StatusServiceUnavailable, nil, err)
		return
	}
	first := eventstream.Append(nil, "endpoint", nil, []byte(endpoint(mcphttp.PrefixOf(ctx)+string(httpserver.PathOf(ctx)), sess.ID)))
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

const (
	// ownBody is the size in bytes from which a request's body is taken over from its connection instead of copied.
	ownBody = 64 << 10
	// keptBody is the largest body buffer, in bytes, that stays with a recycled exchange.
	keptBody = 16 << 10
)

// posted is an accepted request with its own copy of what it needs from its POST, whose memory is reused. It implements
// session.Task.
type posted struct {
	d       *Downstream
	ex      *proxy.Exchange
	entry   session.Entry
	arrival proxy.Arrival
	body    []byte // copy of a small body
	own     []byte // large body, taken over
	serve   func() // the follow method; kept, so that starting a goroutine does not allocate
}

// take serves a request in a goroutine. The request is entered in the session before its POST is answered, so that a
// later cancellation finds it.
func (d *Downstream) take(p *mcphttp.Post, sess *proxy.Session) {
	var ex *proxy.Exchange
	if p.Msg.Is("initialize") { // the session may keep parts of it
		ex = new(proxy.Exchange)
	} else {
		ex = proxy.Borrow()
	}
	r := proxy.Lend[posted](ex, proxy.SlotDownstream)
	r.d, r.ex = d, ex
	ex.Msg, ex.Key, ex.Caller, ex.Below = p.Msg, p.Key, p.Caller, "sse"
	ex.Msg.Raw = r.keep(p)
	if p.Arrival != nil {
		r.arrival = *p.Arrival
		ex.Arrival = &r.arrival
	}
	ex.ID() // chosen now: the POST is answered at once
	r.entry = session.Begin(sess, ex)
	if r.serve == nil {
		r.serve = r.follow
	}
	go r.serve() // ends with the request: with the session or the cap at the latest
}

// keep makes the body independent of its connection and returns it.
func (r *posted) keep(p *mcphttp.Post) []byte {
	raw := p.Msg.Raw
	if len(raw) >= ownBody {
		if r.own = httpserver.TakeBody(p.Ctx); r.own == nil {
			return bytes.Clone(raw)
		}
		return r.own
	}
	r.body = append(r.body[:0], raw...)
	return r.body
}

// follow serves the request until it ends.
func (r *posted) follow() {
	session.GrowStack()
	ex := r.ex
	session.Serve(ex, r.d.Cap, r)
	ex.Recycle() // recycles r too
}

// Run implements session.Task.
func (r *posted) Run(*proxy.Exchange) (proxy.Replies, error) { return r.entry.Run(r.d.Handle) }

// Write implements session.Task.
func (r *posted) Write(m *wire.Message) error { return r.ex.Session.Reply(m) }

// Clear implements proxy.Clearer.
func (r *posted) Clear() {
	if r.own != nil {
		httpserver.RecycleBody(r.own)
	}
	if cap(r.body) > keptBody {
		r.body = nil
	}
	proxy.Overwrite(r.body)
	*r = posted{body: r.body[:0], serve: r.serve}
}
