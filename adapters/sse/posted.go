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
	// ownBody is from how many bytes on the body of a request is not copied, but taken from its connection.
	ownBody = 64 << 10
	// keptBody is how many bytes of memory for bodies stay with an exchange.
	keptBody = 16 << 10
)

// posted is a request that was taken, with what it needs of its POST, whose memory is another's by then. It is a
// session.Task.
type posted struct {
	d       *Downstream
	ex      *proxy.Exchange
	entry   session.Entry
	arrival proxy.Arrival
	body    []byte // a copy of a small one
	own     []byte // a large one
	serve   func() // serves it; kept, so that a goroutine costs no allocation
}

// take has a request served. It is entered before its POST is answered, that is before the client may send what cancels it.
func (d *Downstream) take(p *mcphttp.Post, sess *proxy.Session) {
	var ex *proxy.Exchange
	if p.Msg.Is("initialize") { // what it says for the whole session may be kept
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
	ex.ID() // settled: the answer to the POST leaves at once
	r.entry = session.Begin(sess, ex)
	if r.serve == nil {
		r.serve = r.follow
	}
	go r.serve() // ends with its request, which ends with the session, or with the cap
}

// keep makes the body of a POST the request's.
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

// follow serves the request to its end.
func (r *posted) follow() {
	session.GrowStack()
	ex := r.ex
	session.Serve(ex, r.d.Cap, r)
	ex.Recycle() // and r with it
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
	if proxy.Poison {
		spoil(r.body)
	}
	*r = posted{body: r.body[:0], serve: r.serve}
}

// spoil has a test fail that looks at memory after it was given back.
func spoil(b []byte) {
	for i := range b {
		b[i] = '!'
	}
}
