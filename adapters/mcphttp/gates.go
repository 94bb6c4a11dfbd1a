package mcphttp

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// heads are lent to the gates: what is handed to a function that is not known escapes.
var heads = sync.Pool{New: func() any { return new(proxy.Head) }}

// Gates makes of gates of the waist, in their order, one of a server. refuse writes the answer to what one of them refuses.
func Gates(refuse func(*fasthttp.RequestCtx, *proxy.Error), gates ...proxy.Gate) func(*fasthttp.RequestCtx) bool {
	return func(ctx *fasthttp.RequestCtx) bool {
		h := heads.Get().(*proxy.Head)
		defer giveBack(h)
		read(ctx, h)
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
		if h.Caller != (proxy.Caller{}) {
			ctx.SetUserValue(callerKey, h.Caller)
		}
		return true
	}
}

// HeaderRequestID carries a request's correlation id, both ways.
const HeaderRequestID = "X-Request-Id"

// arrivalKey is under which a request has what its head says of it.
const arrivalKey = "arrival"

// ArrivalOf gives how a request came; nil if nobody looked.
func ArrivalOf(ctx *fasthttp.RequestCtx) *proxy.Arrival {
	a, _ := ctx.UserValue(arrivalKey).(*proxy.Arrival)
	return a
}

// arrived keeps how a request came, and says its id in the head of the answer, also of a refusal.
func arrived(ctx *fasthttp.RequestCtx, h *proxy.Head) {
	if h.Arrival != nil {
		h.Arrival.Address = h.Address
		ctx.SetUserValue(arrivalKey, h.Arrival)
		ctx.Response.Header.Set(HeaderRequestID, h.Arrival.ID)
	}
}

// correlated says a request's id that was settled after the gates, a trace's, in the head of the answer.
func correlated(ctx *fasthttp.RequestCtx, ex *proxy.Exchange) {
	if a := ex.Arrival; a != nil && ex.RequestID != "" && ex.RequestID != a.ID {
		ctx.Response.Header.Set(HeaderRequestID, ex.RequestID)
	}
}

// callerKey is under which a request has what authentication found out.
const callerKey = "caller"

// CallerOf gives who asks, as authentication found out; the anonymous caller if nobody looked.
func CallerOf(ctx *fasthttp.RequestCtx) proxy.Caller {
	c, _ := ctx.UserValue(callerKey).(proxy.Caller)
	return c
}

// giveBack keeps nothing of the request: credentials among it.
func giveBack(h *proxy.Head) {
	clear(h.Reply)
	*h = proxy.Head{Reply: h.Reply[:0]}
	heads.Put(h)
}

func read(ctx *fasthttp.RequestCtx, h *proxy.Head) {
	fields := httpd.FieldsOf(ctx)
	*h = proxy.Head{Method: ctx.Method(), Path: ctx.URI().PathOriginal(), Host: ctx.Host(), Origin: fields.Peek("Origin"),
		Length: ctx.Request.Header.ContentLength(), Secure: ctx.IsTLS(), Fields: fields, Reply: h.Reply[:0]}
	if h.Secure {
		h.Cert = certificate(ctx.TLSConnectionState())
	}
	if tcp, ok := ctx.RemoteAddr().(*net.TCPAddr); ok {
		h.Address = tcp.AddrPort().Addr().Unmap()
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
