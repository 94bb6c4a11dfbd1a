package rest

import (
	"strings"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/rest/openapi"
)

// Register adds the endpoints to a server: at the root, and for each upstream server under /servers/{server}. Each GET has its
// HEAD (RFC 9110, 9.3.2), of which the listener leaves out the body.
func (d *Downstream) Register(s httpserver.Registrar) {
	for _, base := range []string{"", "/servers/{server}"} {
		read := func(path string, h fasthttp.RequestHandler) {
			s.Handle(fasthttp.MethodGet, base+path, h)
			s.Handle(fasthttp.MethodHead, base+path, h)
		}
		get := func(path string, h func(*request)) { read(path, d.serve(shownPath(path), h)) }
		post := func(path string, h func(*request)) {
			s.Handle(fasthttp.MethodPost, base+path, d.serve(shownPath(path), h))
		}
		get("/tools", (*request).tools)
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
