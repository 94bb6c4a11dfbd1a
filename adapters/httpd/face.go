package httpd

import (
	"slices"
	"strings"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"
)

// FaceOptions are what a Face is made with.
type FaceOptions struct {
	// Gates judge a request by its head, before its body is read unless that is small (8 KiB). A gate that returns false has
	// written the answer.
	Gates []func(*fasthttp.RequestCtx) bool
	// NotFound and MethodNotAllowed answer what no handler is registered for. Allow is set already (ctx.Error would reset
	// it). Nil: a bare status.
	NotFound, MethodNotAllowed fasthttp.RequestHandler
	// Refused writes the body of a refusal that comes before any handler: the status is set, one of 400, 408, 413, 431, 503.
	// After a panic of a handler it is called with 500. Nil: the status text.
	Refused func(ctx *fasthttp.RequestCtx, status int)
}

// Face is what a Server shows to clients: handlers, and the gates before them. It can be exchanged while connections stay.
type Face struct {
	opts   FaceOptions
	router *router.Router
	exact  map[string]fasthttp.RequestHandler // by the request line up to the version; paths in which nothing is a variable
}

// Registrar takes handlers: a Face, or a Server for its first one.
type Registrar interface {
	Handle(method, path string, h fasthttp.RequestHandler)
}

// NewFace makes a face without handlers.
func NewFace(opts FaceOptions) *Face {
	f := &Face{opts: opts, router: router.New(), exact: map[string]fasthttp.RequestHandler{}}
	f.router.RedirectTrailingSlash, f.router.RedirectFixedPath, f.router.HandleOPTIONS = false, false, false
	f.router.NotFound, f.router.MethodNotAllowed = opts.NotFound, honest(opts.MethodNotAllowed)
	return f
}

// Handle registers a handler for a method and a path, in which {name} stands for one segment and {name:*} for the rest
// (ctx.UserValue("name")). All handlers must be registered before the face is shown.
func (f *Face) Handle(method, path string, h fasthttp.RequestHandler) {
	f.router.Handle(method, path, h)
	if !strings.ContainsRune(path, '{') {
		f.exact[method+" "+path] = h
	}
}

func (f *Face) pass(ctx *fasthttp.RequestCtx) bool {
	for _, gate := range f.opts.Gates {
		if !gate(ctx) {
			return false
		}
	}
	return true
}

// honest takes out of Allow the OPTIONS that the router names always: no handler is registered for it.
func honest(next fasthttp.RequestHandler) fasthttp.RequestHandler {
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
