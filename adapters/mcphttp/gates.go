package mcphttp

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// scratch holds the state of a request before its handler runs.
type scratch struct {
	head   proxy.Head // input of the gates; their findings stay after they have run
	host   []byte     // of the head, for OriginOf
	post   Post
	reader wire.Reader  // for the messages on this connection
	denied *proxy.Error // see Deny
}

func scratchOf(ctx *fasthttp.RequestCtx) *scratch {
	at := httpserver.ScratchOf(ctx)
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
	d.head, d.host, d.post, d.denied = proxy.Head{Reply: reply[:0]}, nil, Post{}, nil
}

// Gates combines gates, in order, into one function for an HTTP server. The function reports whether the request may
// proceed. refuse answers with the error of the gate that refused.
func Gates(refuse func(*fasthttp.RequestCtx, *proxy.Error), gates ...proxy.Gate) func(*fasthttp.RequestCtx) bool {
	return func(ctx *fasthttp.RequestCtx) bool {
		h := &scratchOf(ctx).head
		readHead(ctx, h)
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
			setReply(ctx, h)
			return false
		}
		scratchOf(ctx).host = h.Host // valid as long as the request is
		arrived(ctx, h)
		httpserver.SetOwner(ctx, h.Caller.Principal, h.Address)
		setReply(ctx, h)
		return true
	}
}

// Deny notes that a request is refused before it becomes an exchange, so that it is recorded when it has been answered. A failure of
// Dragoman itself is no refusal.
func Deny(ctx *fasthttp.RequestCtx, err *proxy.Error) {
	if err.Name != proxy.Internal.Name {
		scratchOf(ctx).denied = err
	}
}

// RefusalOf returns the error of Deny; nil if the request was not refused, or became an exchange.
func RefusalOf(ctx *fasthttp.RequestCtx) *proxy.Error { return scratchOf(ctx).denied }

// MethodOf returns the method of the message in a POST; nil if none was read.
func MethodOf(ctx *fasthttp.RequestCtx) []byte {
	m := &scratchOf(ctx).post.Msg
	return m.Text(m.Method)
}

// HeaderRequestID is the header of a request's correlation id, in requests and answers.
const HeaderRequestID = "X-Request-Id"

// ArrivalOf returns how a request arrived; nil if no gate has recorded it.
func ArrivalOf(ctx *fasthttp.RequestCtx) *proxy.Arrival { return scratchOf(ctx).head.Arrival.Clone() }

// arrived records the client's address and sets the request id in the answer, including a refusal.
func arrived(ctx *fasthttp.RequestCtx, h *proxy.Head) {
	if h.Arrival != nil {
		h.Arrival.Address, h.Arrival.Departures = h.Address, httpserver.DeparturesOf(ctx)
		var room [64]byte
		ctx.Response.Header.SetCanonical(requestIDName, h.Arrival.AppendID(room[:0]))
	}
}

var requestIDName = []byte(HeaderRequestID)

// correlated sets a request id that was chosen after the gates, from a trace, in the answer.
func correlated(ctx *fasthttp.RequestCtx, ex *proxy.Exchange) {
	if a := ex.Arrival; a != nil && ex.RequestID != "" && !a.Has(ex.RequestID) {
		ctx.Response.Header.SetCanonical(requestIDName, []byte(ex.RequestID))
	}
}

// CallerOf returns the authenticated caller; the anonymous caller if no gate has authenticated the request.
func CallerOf(ctx *fasthttp.RequestCtx) proxy.Caller { return scratchOf(ctx).head.Caller }

// PrefixOf returns the path under which a proxy in front serves the listener, without a slash at its end; empty if there is none.
func PrefixOf(ctx *fasthttp.RequestCtx) string { return scratchOf(ctx).head.Prefix }

// OriginOf returns the host of the listener as the client knows it, and whether its connection is TLS. A trusted proxy says both.
func OriginOf(ctx *fasthttp.RequestCtx) (host string, secure bool) {
	d := scratchOf(ctx)
	return string(d.host), d.head.Secure
}

// readHead fills h, which Clear has emptied.
func readHead(ctx *fasthttp.RequestCtx, h *proxy.Head) {
	fields := httpserver.FieldsOf(ctx)
	h.Method, h.Path, h.Host, h.Origin = ctx.Method(), httpserver.PathOf(ctx), httpserver.HostOf(ctx), fields.Peek("Origin")
	h.Length, h.Secure, h.Fields, h.Address = httpserver.LengthOf(ctx), ctx.IsTLS(), fields, httpserver.AddrOf(ctx)
	if h.Secure {
		h.Cert = certificate(ctx.TLSConnectionState())
	}
}

// certificate returns the client's certificate, if the handshake has verified it; else nil.
func certificate(state *tls.ConnectionState) *x509.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	return state.VerifiedChains[0][0]
}

func setReply(ctx *fasthttp.RequestCtx, h *proxy.Head) {
	for _, x := range h.Reply {
		ctx.Response.Header.Add(x.Name, x.Value)
	}
}

// Refuse answers with the error of a gate. It sends the request's id if the body has been read, because some clients stop
// altogether at an error without the id.
func Refuse(ctx *fasthttp.RequestCtx, err *proxy.Error) {
	m, _ := wire.Scan(ctx.PostBody())
	Fail(ctx, err.Status, m.Of(m.ID), err)
}
