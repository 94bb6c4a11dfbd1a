package rest

import (
	"context"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/rest/catalog"
	"dragoman/adapters/rest/mcpcall"
	"dragoman/proxy"
)

// Options configure a Downstream.
type Options struct {
	Service string // service of ToolsResponse (seed 000, ToolsResponse)
	Version string // version of ToolsResponse; empty: the server's, if it is semantic, else 0.0.0
	Info    []byte // clientInfo towards the servers, raw JSON: one for all callers, so that they can share sessions
	Caps    []byte // ClientCapabilities, raw JSON, of callers that do not declare their own

	Cap       time.Duration // deadline of a request (limits.request_time)
	KeepAlive time.Duration // between comments on a streamed answer without events
	ToolsTTL  time.Duration // how long a list of tools is used again; 0: never
	MaxBody   int           // bytes of a request's body, for the error that names the limit
	MaxHead   int           // bytes of a request's head, likewise

	ToolErrorAsData bool            // a tool's own failure is answered with 200 and the result as data (rest.tool_error)
	Check           catalog.Checker // of arguments before a call; nil: the server checks them
	SkipArguments   bool            // with Check: arguments are not checked
	CheckResults    bool            // with Check: structured results are checked too

	// Around are policies outside the check of calls, so that they see what it refuses. The first is the outermost.
	Around []proxy.Policy

	Health   func(*fasthttp.RequestCtx)             // serves GET /health; nil: it is not served
	Draining context.Context                        // ends when the proxy is about to stop; listens end with it. May be nil
	Log      func(level, message string, err error) // receives what is wrong with schemas; may be nil
	Now      func() time.Time                       // nil: time.Now
}

// Downstream serves callers that do not speak MCP: the endpoints of seed 000 and of seed 001's HTTP transport. Each call
// becomes a modern exchange, so that all policies apply to it.
type Downstream struct {
	opt       Options
	client    *mcpcall.Client
	catalog   *catalog.Catalog
	documents documents
}

// NewDownstream makes the REST endpoints in front of a handler.
func NewDownstream(handle proxy.Handler, opt Options) (*Downstream, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = func(string, string, error) {}
	}
	if opt.KeepAlive <= 0 {
		opt.KeepAlive = 15 * time.Second
	}
	if opt.Caps == nil {
		opt.Caps = []byte("{}")
	}
	d := &Downstream{opt: opt, client: &mcpcall.Client{Info: opt.Info, Cap: opt.Cap}}
	var err error
	d.catalog, err = catalog.New(d.client, catalog.Options{Version: opt.Version, TTL: opt.ToolsTTL, Now: opt.Now,
		Check: opt.Check, SkipArguments: opt.SkipArguments, CheckResults: opt.CheckResults, Log: opt.Log})
	if err != nil {
		return nil, err
	}
	d.client.Handle = proxy.Chain(d.catalog.Policy(handle), opt.Around...)
	d.documents.kept, err = catalog.NewSized[documentKey, *document](maxDocuments)
	return d, err
}
