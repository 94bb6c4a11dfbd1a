package modern

import (
	"github.com/valyala/fasthttp"

	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Only takes the place of the legacy faces at a listener that serves no legacy revision. It answers as a modern-only
// server does: initialize with an error that names the revisions (2026-07-28 versioning, Backward Compatibility), all
// else by the rules of modern requests.
type Only struct{ Modern *Downstream }

// Post implements mcphttp.EraHandler.
func (o Only) Post(p *mcphttp.Post) {
	if m := &p.Msg; m.Kind == wire.Request && m.Is("initialize") {
		o.Modern.refuse(p, rules.NoHandshake(string(m.Text(m.ParamsVersion))))
		o.Modern.settleStatus(p)
		return
	}
	o.Modern.Post(p)
}

// Get implements mcphttp.Streams: there is no stream without a session.
func (o Only) Get(ctx *fasthttp.RequestCtx) { postOnly(ctx) }

// Delete implements mcphttp.Streams.
func (o Only) Delete(ctx *fasthttp.RequestCtx) { postOnly(ctx) }

func postOnly(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.Set("Allow", "POST")
	mcphttp.Fail(ctx, fasthttp.StatusMethodNotAllowed, nil, proxy.Errf(proxy.InvalidRequest, "this listener has no sessions; POST is the only method"))
}

// NoSSE takes the place of HTTP+SSE at such a listener.
type NoSSE struct{}

// Get implements mcphttp.SSE.
func (NoSSE) Get(ctx *fasthttp.RequestCtx) { noSSE(ctx) }

// Post implements mcphttp.SSE.
func (NoSSE) Post(ctx *fasthttp.RequestCtx) { noSSE(ctx) }

func noSSE(ctx *fasthttp.RequestCtx) {
	mcphttp.Fail(ctx, fasthttp.StatusNotFound, nil, proxy.Errf(proxy.InvalidRequest, "HTTP+SSE is not served here: eras has no legacy revision"))
}
