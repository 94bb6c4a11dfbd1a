package rest

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd"
	"dragoman/adapters/rest/openapi"
	"dragoman/adapters/rest/schema"
	"dragoman/proxy"
)

// Checker validates an instance against a JSON Schema, both as raw JSON: nil, nil where it fits. An error says that the schema
// itself cannot be used. Notes says what of a schema is not checked, a line each. It is a *schema.Cache.
type Checker interface {
	Check(schemaJSON, instance []byte) (*schema.Violation, error)
	Notes(schemaJSON []byte) ([]string, error)
}

// Options are what a Downstream is made with.
type Options struct {
	Service string // service of ToolsResponse (seed 000, ToolsResponse)
	Version string // version likewise; empty: the server's, if it is semantic, else 0.0.0
	Info    []byte // clientInfo towards the servers, raw JSON: one for all callers, so that they share what can be shared
	Caps    []byte // what callers can be asked, raw ClientCapabilities; a call may declare others

	Cap       time.Duration // a request without response is given up after so long (limits.request_time)
	KeepAlive time.Duration // between comments on a streamed answer without events
	ToolsTTL  time.Duration // how long a list of tools is used again; 0: never
	MaxBody   int           // bytes of a request's body, for the error that names it
	MaxHead   int           // bytes of a request's head, likewise

	ToolErrorAsData bool    // a tool's own failure is answered with 200 and the result as data (rest.tool_error)
	Check           Checker // of arguments before a call; nil: the server checks them
	Trusting        bool    // with Check: arguments are not checked after all
	CheckResults    bool    // with Check: structured results are checked, too

	Around []proxy.Policy // stand around what the face checks of a call, so that they see what it refuses; the first is the outermost

	Health   func(*fasthttp.RequestCtx)             // serves GET /health; nil: it is not served
	Draining context.Context                        // ends when the proxy is about to; listens end with it. May be nil
	Note     func(level, message string, err error) // is told of schemas that cannot be used, as a whole or in part; may be nil
	Now      func() time.Time                       // nil: time.Now
}

// Downstream serves callers without MCP: the endpoints of seed 000, and those of seed 001's HTTP transport. It turns each call
// into a modern exchange, so that whatever stands before the servers counts for it, too.
type Downstream struct {
	handle    proxy.Handler // with what stands around it
	opt       Options
	ids       atomic.Uint64
	lists     *listCache
	documents documents
	told      *lru.Cache[telling, struct{}]
}

// maxTold is how many things are remembered to have been told.
const maxTold = 4096

// NewDownstream makes the REST face before a handler.
func NewDownstream(handle proxy.Handler, opt Options) (*Downstream, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Note == nil {
		opt.Note = func(string, string, error) {}
	}
	if opt.KeepAlive <= 0 {
		opt.KeepAlive = 15 * time.Second
	}
	if opt.Caps == nil {
		opt.Caps = []byte("{}")
	}
	d := &Downstream{opt: opt}
	d.handle = proxy.Chain(d.judging(handle), opt.Around...)
	var err error
	if d.lists, err = newListCache(); err != nil {
		return nil, err
	}
	if d.documents.kept, err = newShelf[documentKey, *document](maxDocuments); err != nil {
		return nil, err
	}
	if d.told, err = lru.New[telling, struct{}](maxTold); err != nil {
		return nil, err
	}
	return d, nil
}

// Register puts the endpoints on a server: at the root, and for each server under /servers/{server}. What is there to be got has
// its head to be had, too (RFC 9110, 9.3.2): the listener leaves out the body.
func (d *Downstream) Register(s httpd.Registrar) {
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

// shownPath is a path as people are told it.
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
