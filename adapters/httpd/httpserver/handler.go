package httpserver

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/netpoll"
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
	// Answered is called once for each request, before its response is written, and not for a Stream; it must not wait. Nil: nothing.
	Answered func(ctx *fasthttp.RequestCtx)
}

// Handler holds the routes of a Server and the gates before them.
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

// answered reports a request with its response.
func (h *Handler) answered(ctx *fasthttp.RequestCtx) {
	if h.opts.Answered != nil {
		h.opts.Answered(ctx)
	}
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

// Options configure a Server. A zero value stands for the default at the end of each comment.
type Options struct {
	MaxBody        int           // bytes of a request body, else 413; 4 MiB
	MaxHeader      int           // bytes of a request's head, else 431; 16 KiB, and the size of each connection's buffer
	MaxReading     int           // bytes of large bodies (over 8 KiB) that are being read at once, else 503; 100 MiB
	MaxAnswers     int           // bytes of large answers (from 64 KiB) that are being written at once, and of what slow readers leave; no bound
	MaxAnswersEach int           // of these, of one client; see SetOwner; no bound
	MinRate        int           // bytes per second that a client must read of an answer that waits for it, else it is broken off; 1 KiB, negative: none
	MaxConns       int           // connections at once; those without a request give way to new ones, then 503. 262144, or 3/4 of the open files allowed
	MaxStreams     int           // Streams at once, else ErrTooManyStreams; 10000
	ReadTimeout    time.Duration // for a whole request, from its first byte; 30 s
	IdleTimeout    time.Duration // between requests; 75 s
	WriteTimeout   time.Duration // over which MinRate is measured; a third of the time for 256 KiB over TLS without SecureListener; 10 s
	KeepAlive      time.Duration // between keep-alive comments on Streams; 15 s

	HandlerOptions // of the first Handler; see SetHandler
	// Overloaded writes the body of the 503 for a connection beyond MaxConns, before anything of it is read. Nil: the status text.
	Overloaded func(ctx *fasthttp.RequestCtx)
	// OnRequest is called at the beginning of each request; it must not wait. Nil: nothing.
	OnRequest func()
	// Logf logs what concerns no single request. Nil: nothing.
	Logf func(format string, args ...any)
}

// The limits of a Server without others, in bytes.
const (
	DefaultBody   = 4 << 20  // Options.MaxBody
	DefaultHeader = 16 << 10 // Options.MaxHeader
)

func (o *Options) setDefaults() {
	o.MaxBody = cmp.Or(o.MaxBody, DefaultBody)
	o.MaxHeader = cmp.Or(o.MaxHeader, DefaultHeader)
	o.MaxReading = cmp.Or(o.MaxReading, 100<<20)
	o.MaxConns = cmp.Or(o.MaxConns, maxConns())
	o.MaxStreams = cmp.Or(o.MaxStreams, 10000)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 30*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 75*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 10*time.Second)
	o.MinRate = cmp.Or(o.MinRate, 1<<10)
	o.KeepAlive = cmp.Or(o.KeepAlive, 15*time.Second)
}

// maxConns leaves a quarter of the open files for connections to upstreams.
func maxConns() int {
	if n := netpoll.MaxOpenFiles(); n > 0 {
		return max(1, min(fasthttp.DefaultConcurrency, n/4*3))
	}
	return fasthttp.DefaultConcurrency
}
