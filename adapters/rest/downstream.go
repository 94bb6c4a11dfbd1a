// Package rest serves the REST envelope (seed 000, entities 1–7): callers that do not speak MCP reach any MCP server through it.
// Its subpackage upstream makes an MCP server of a service that speaks the envelope.
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
	catalog.Options // Now and Behind may be nil

	Service string // service of ToolsResponse (seed 000, ToolsResponse)
	Info    []byte // clientInfo towards the servers, raw JSON: one for all callers, so that they can share sessions
	Caps    []byte // ClientCapabilities, raw JSON, of callers that do not declare their own

	Cap       time.Duration // deadline of a request (limits.request_time)
	KeepAlive time.Duration // between comments on a streamed answer without events
	MaxBody   int           // bytes of a request's body, for the error that names the limit
	MaxHead   int           // bytes of a request's head, likewise

	ToolErrorAsData bool // a tool's own failure is answered with 200 and the result as data (rest.tool_error)

	// Around are policies outside the check of calls, so that they see what it refuses. The first is the outermost.
	Around []proxy.Policy

	Health   func(*fasthttp.RequestCtx) // serves GET /health; nil: it is not served
	Draining context.Context            // ends when the proxy is about to stop; listens end with it. May be nil
}

// Downstream serves callers that do not speak MCP: the endpoints of seed 000 and of seed 001's HTTP transport. Each call
// becomes a modern exchange, so that all policies apply to it.
type Downstream struct {
	opt       Options
	client    *mcpcall.Client
	catalog   *catalog.Catalog
	documents *documents
}

// NewDownstream makes the REST endpoints in front of a handler.
func NewDownstream(handle proxy.Handler, opt Options) *Downstream {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Behind == nil {
		opt.Behind = func(server string) ([]string, bool) { return []string{server}, false }
	}
	client := &mcpcall.Client{Info: opt.Info, Cap: opt.Cap}
	tools := catalog.New(client, opt.Options)
	client.Handle = proxy.Chain(tools.Policy(handle), opt.Around...)
	return &Downstream{opt: opt, client: client, catalog: tools, documents: newDocuments()}
}
