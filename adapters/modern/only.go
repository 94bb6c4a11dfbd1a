package modern

import (
	"github.com/valyala/fasthttp"

	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Only replaces the legacy handlers on a listener that serves no legacy revision. It answers as a modern-only server
// does: initialize with an error that lists the supported revisions (2026-07-28 versioning, Backward Compatibility),
// everything else by the rules of modern requests.
type Only struct{ Modern *Downstream }

// Post implements mcphttp.EraHandler.
func (o Only) Post(p *mcphttp.Post) mcphttp.Plan {
	if m := &p.Msg; m.Kind == wire.Request && m.Is("initialize") {
		o.Modern.refuse(p, rules.NoHandshake(string(m.Text(m.ParamsVersion))))
		return mcphttp.Plan{}
	}
	return o.Modern.Post(p)
}

// Get implements mcphttp.Streams. It answers 405: without sessions there is no GET stream.
func (o Only) Get(ctx *fasthttp.RequestCtx) { postOnly(ctx) }

// Delete implements mcphttp.Streams. It answers 405.
func (o Only) Delete(ctx *fasthttp.RequestCtx) { postOnly(ctx) }

func postOnly(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.Set("Allow", "POST")
	mcphttp.Fail(ctx, fasthttp.StatusMethodNotAllowed, nil, proxy.Errf(proxy.InvalidRequest, "this listener has no sessions; POST is the only method"))
}

// NoSSE replaces HTTP+SSE on such a listener.
type NoSSE struct{}

// Get implements mcphttp.SSE.
func (NoSSE) Get(ctx *fasthttp.RequestCtx) { noSSE(ctx) }

// Post implements mcphttp.SSE.
func (NoSSE) Post(ctx *fasthttp.RequestCtx) { noSSE(ctx) }

func noSSE(ctx *fasthttp.RequestCtx) {
	mcphttp.Fail(ctx, fasthttp.StatusNotFound, nil, proxy.Errf(proxy.InvalidRequest, "HTTP+SSE is not served here: eras has no legacy revision"))
}
