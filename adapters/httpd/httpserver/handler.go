package httpserver

import (
	"slices"
	"strings"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"
)

// HandlerOptions configure a Handler.
type HandlerOptions struct {
	// Gates judge a request by its head, before its body is read unless that is small (8 KiB). A gate that returns false has
	// written the response.
	Gates []func(*fasthttp.RequestCtx) bool
	// NotFound and MethodNotAllowed answer requests without a route. Allow is set already (ctx.Error would reset it). Nil: a bare
	// status.
	NotFound, MethodNotAllowed fasthttp.RequestHandler
	// Refused writes the body of a refusal before any route: the status is set, one of 400, 408, 413, 431, 503. After a panic of a
	// handler it is called with 500. Nil: the status text.
	Refused func(ctx *fasthttp.RequestCtx, status int)
}

// Handler is the routes of a Server and the gates before them.
type Handler struct {
	opts   HandlerOptions
	router *router.Router
	exact  map[string]fasthttp.RequestHandler // by method, blank and path, of paths without variables
}

// Registrar registers routes: a Handler, or a Server for its first one.
type Registrar interface {
	Handle(method, path string, h fasthttp.RequestHandler)
}

// NewHandler makes a Handler without routes.
func NewHandler(opts HandlerOptions) *Handler {
	h := &Handler{opts: opts, router: router.New(), exact: map[string]fasthttp.RequestHandler{}}
	h.router.RedirectTrailingSlash, h.router.RedirectFixedPath, h.router.HandleOPTIONS = false, false, false
	h.router.NotFound, h.router.MethodNotAllowed = opts.NotFound, withoutOptions(opts.MethodNotAllowed)
	return h
}

// Handle registers a route for a method and a path, in which {name} stands for one segment and {name:*} for the rest
// (ctx.UserValue("name")). All routes must be registered before SetHandler.
func (h *Handler) Handle(method, path string, f fasthttp.RequestHandler) {
	h.router.Handle(method, path, f)
	if !strings.ContainsRune(path, '{') {
		h.exact[method+" "+path] = f
	}
}

// pass runs the gates.
func (h *Handler) pass(ctx *fasthttp.RequestCtx) bool {
	for _, gate := range h.opts.Gates {
		if !gate(ctx) {
			return false
		}
	}
	return true
}

// refused writes the body of a refusal.
func (h *Handler) refused(ctx *fasthttp.RequestCtx, status int) {
	if h.opts.Refused != nil {
		h.opts.Refused(ctx, status)
		return
	}
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(fasthttp.StatusMessage(status))
}

// withoutOptions removes OPTIONS from Allow, where the router always lists it although no route has it.
func withoutOptions(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	if next == nil {
		return nil
	}
	return func(ctx *fasthttp.RequestCtx) {
		methods := strings.Split(string(ctx.Response.Header.Peek("Allow")), ", ")
		methods = slices.DeleteFunc(methods, func(m string) bool { return m == fasthttp.MethodOptions })
		ctx.Response.Header.Set("Allow", strings.Join(methods, ", "))
		next(ctx)
	}
}
