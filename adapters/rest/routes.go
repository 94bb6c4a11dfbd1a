package rest

import (
	"strings"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rest/mcpcall"
	"dragoman/adapters/rest/openapi"
	"dragoman/proxy"
)

// Register adds the endpoints to a server, below each of mcphttp.Bases. Each GET has its HEAD (RFC 9110, 9.3.2), of which the listener
// leaves out the body.
func (d *Downstream) Register(s httpserver.Registrar) {
	for _, base := range mcphttp.Bases {
		read := func(path string, h fasthttp.RequestHandler) {
			s.Handle(fasthttp.MethodGet, base+path, h)
			s.Handle(fasthttp.MethodHead, base+path, h)
		}
		get := func(path string, h func(*request)) { read(path, d.serve(shownPath(path), h)) }
		post := func(path string, h func(*request)) {
			s.Handle(fasthttp.MethodPost, base+path, d.serve(shownPath(path), h))
		}
		get("/tools", (*request).tools)
		get("/tools/search", (*request).searchTools)
		post("/call-tool", (*request).callTool)
		post("/tools/{tool:*}", (*request).callNamed)
		get("/resources", (*request).resources)
		post("/read-resource", (*request).readResource)
		get("/prompts", (*request).prompts)
		post("/get-prompt", (*request).getPrompt)
		post("/complete", (*request).complete)
		post("/mcp/{method:*}", (*request).method)
		if d.opt.Health != nil {
			read("/health", d.opt.Health)
		}
		get("/openapi.json", (*request).openapi)
		read("/docs", docs)
	}
}

// shownPath returns a route as errors and logs show it, without its first slash.
func shownPath(path string) string {
	return strings.NewReplacer("{tool:*}", "TOOL", "{method:*}", "METHOD").Replace(path[1:])
}

// docs serves the page that shows /openapi.json.
func docs(ctx *fasthttp.RequestCtx) {
	kind, page := openapi.Page()
	h := &ctx.Response.Header
	h.Set("Content-Security-Policy", openapi.CSP())
	h.Set("X-Content-Type-Options", "nosniff")
	ctx.SetContentType(kind)
	ctx.SetBody(page)
}

// owned are the first segments of the REST endpoints' paths.
var owned = map[string]bool{"tools": true, "call-tool": true, "resources": true, "read-resource": true, "prompts": true, "get-prompt": true,
	"complete": true, "health": true, "openapi.json": true, "docs": true}

// Owns reports whether a path, as it was sent, belongs to the REST endpoints, where every error is an envelope.
func Owns(path string) bool {
	_, path = proxy.CutServer(path)
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return owned[first] || first == "mcp" && rest != "" && rest != "sse"
}

// refuse answers a request that reaches no handler. A status other than 0 replaces the error's own.
func (d *Downstream) refuse(ctx *fasthttp.RequestCtx, err *proxy.Error, status int) {
	mcphttp.Deny(ctx, err)
	r := &request{d: d, ctx: ctx, began: d.opt.Now(), Origin: mcpcall.Origin{ID: requestID(ctx)}}
	a := r.refusal(err)
	if status != 0 {
		a.status = status
	}
	r.write(a)
}

// Refuse answers a request that a gate refuses: with an envelope on the paths of Owns, by next elsewhere.
func (d *Downstream) Refuse(next func(*fasthttp.RequestCtx, *proxy.Error)) func(*fasthttp.RequestCtx, *proxy.Error) {
	return func(ctx *fasthttp.RequestCtx, err *proxy.Error) {
		if !Owns(string(httpserver.PathOf(ctx))) {
			next(ctx, err)
			return
		}
		d.refuse(ctx, err, 0)
	}
}

// Refused answers a request that the HTTP server refuses with a status: with an envelope on the paths of Owns, by next elsewhere.
func (d *Downstream) Refused(next func(*fasthttp.RequestCtx, int)) func(*fasthttp.RequestCtx, int) {
	return func(ctx *fasthttp.RequestCtx, status int) {
		if !Owns(string(httpserver.PathOf(ctx))) {
			next(ctx, status)
			return
		}
		d.refuse(ctx, mcphttp.Refusal(status, d.opt.MaxBody, d.opt.MaxHead), status)
	}
}

// NotFound answers a request for a path that is not served: with an envelope on the paths of Owns, by next elsewhere.
func (d *Downstream) NotFound(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	refuse := d.Refuse(func(ctx *fasthttp.RequestCtx, _ *proxy.Error) { next(ctx) })
	return func(ctx *fasthttp.RequestCtx) {
		refuse(ctx, proxy.Errf(proxy.PathUnknown,
			"nothing is served at %s; tools are listed at /tools and called at /call-tool, also below /servers/NAME and /groups/NAME", ctx.Path()))
	}
}

// MethodNotAllowed answers an HTTP method that a path does not have: with an envelope on the paths of Owns, by next elsewhere.
func (d *Downstream) MethodNotAllowed(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	refuse := d.Refuse(func(ctx *fasthttp.RequestCtx, _ *proxy.Error) { next(ctx) })
	return func(ctx *fasthttp.RequestCtx) {
		refuse(ctx, proxy.Errf(proxy.VerbUnknown, "method %s is not served here", ctx.Method()))
	}
}
