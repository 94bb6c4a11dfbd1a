package sse

import (
	"bytes"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

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
