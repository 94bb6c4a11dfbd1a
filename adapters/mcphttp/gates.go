package mcphttp

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// scratch is what is known of a request before its handler runs.
type scratch struct {
	head   proxy.Head // for the gates; of what they have found out the rest stays
	post   Post
	reader wire.Reader // of what comes on this connection
}

// scratchKey is under which a request that no server of ours has read has its desk.
const scratchKey = "desk"

func scratchOf(ctx *fasthttp.RequestCtx) *scratch {
	at := httpserver.ScratchOf(ctx)
	if at == nil {
		d, ok := ctx.UserValue(scratchKey).(*scratch)
		if !ok {
			d = new(scratch)
			ctx.SetUserValue(scratchKey, d)
		}
		return d
	}
	d, ok := (*at).(*scratch)
	if !ok {
		d = new(scratch)
		*at = d
	}
	return d
}

// Clear implements httpserver.Scratch.
func (d *scratch) Clear() {
	reply := d.head.Reply
	clear(reply)
	d.head, d.post = proxy.Head{Reply: reply[:0]}, Post{}
}

// Gates makes of gates of the waist, in their order, one of a server. refuse writes the answer to what one of them refuses.
func Gates(refuse func(*fasthttp.RequestCtx, *proxy.Error), gates ...proxy.Gate) func(*fasthttp.RequestCtx) bool {
	return func(ctx *fasthttp.RequestCtx) bool {
		h := &scratchOf(ctx).head
		read(ctx, h)
		defer h.Release()
		for _, gate := range gates {
			err := gate(h)
			if err == nil && h.Status == 0 {
				continue
			}
			arrived(ctx, h)
			if err != nil {
				refuse(ctx, err)
			} else {
				ctx.SetStatusCode(h.Status)
			}
			say(ctx, h)
			return false
		}
		arrived(ctx, h)
		say(ctx, h)
		return true
	}
}

// HeaderRequestID carries a request's correlation id, both ways.
const HeaderRequestID = "X-Request-Id"

// ArrivalOf gives how a request came; nil if nobody looked.
func ArrivalOf(ctx *fasthttp.RequestCtx) *proxy.Arrival { return scratchOf(ctx).head.Arrival.Clone() }

// arrived keeps how a request came, and says its id in the head of the answer, also of a refusal.
func arrived(ctx *fasthttp.RequestCtx, h *proxy.Head) {
	if h.Arrival != nil {
		h.Arrival.Address = h.Address
		var room [64]byte
		ctx.Response.Header.SetCanonical(requestIDName, h.Arrival.AppendID(room[:0]))
	}
}

var requestIDName = []byte(HeaderRequestID)

// correlated says a request's id that was settled after the gates, a trace's, in the head of the answer.
func correlated(ctx *fasthttp.RequestCtx, ex *proxy.Exchange) {
	if a := ex.Arrival; a != nil && ex.RequestID != "" && !a.Has(ex.RequestID) {
		ctx.Response.Header.SetCanonical(requestIDName, []byte(ex.RequestID))
	}
}

// CallerOf gives who asks, as authentication found out; the anonymous caller if nobody looked.
func CallerOf(ctx *fasthttp.RequestCtx) proxy.Caller { return scratchOf(ctx).head.Caller }

func read(ctx *fasthttp.RequestCtx, h *proxy.Head) {
	fields := httpserver.FieldsOf(ctx)
	*h = proxy.Head{Method: ctx.Method(), Path: httpserver.PathOf(ctx), Host: httpserver.HostOf(ctx), Origin: fields.Peek("Origin"),
		Length: httpserver.LengthOf(ctx), Secure: ctx.IsTLS(), Fields: fields, Address: httpserver.AddrOf(ctx), Reply: h.Reply[:0]}
	if h.Secure {
		h.Cert = certificate(ctx.TLSConnectionState())
	}
}

// certificate is the client's, if the handshake has verified it.
func certificate(state *tls.ConnectionState) *x509.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	return state.VerifiedChains[0][0]
}

func say(ctx *fasthttp.RequestCtx, h *proxy.Head) {
	for _, x := range h.Reply {
		ctx.Response.Header.Add(x.Name, x.Value)
	}
}

// Refuse answers what a gate has refused: with the request's id, if its body is here already, because some clients end
// altogether at a refusal without it.
func Refuse(ctx *fasthttp.RequestCtx, err *proxy.Error) {
	m, _ := wire.Scan(ctx.PostBody())
	Fail(ctx, err.Status, m.Of(m.ID), err)
}
