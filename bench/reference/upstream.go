package reference

import (
	"bytes"
	"net"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
)

const (
	maxBody       = 64 << 20
	readBuffer    = 16 << 10
	sessionPrefix = "reference-"
)

// Upstream is an MCP server over streamable HTTP. Legacy clients must open a
// session and name it in each request; anything else about sessions is left out.
type Upstream struct {
	era      Era
	tools    string        // its list, if it is not the one with echo alone
	sessions atomic.Uint64 // as many have been opened, numbered from 1
}

// NewUpstream makes a server of the given era.
func NewUpstream(era Era) *Upstream { return &Upstream{era: era} }

// NewUpstreamOf makes one whose list has n tools: echo, and others that are there to be listed only.
func NewUpstreamOf(era Era, n int) *Upstream {
	return &Upstream{era: era, tools: listOf(n)}
}

// Serve answers on l until l is closed.
func (u *Upstream) Serve(l net.Listener) error {
	server := fasthttp.Server{
		Handler:               u.Handle,
		MaxRequestBodySize:    maxBody,
		ReadBufferSize:        readBuffer,
		NoDefaultServerHeader: true,
		NoDefaultDate:         true,
	}
	return server.Serve(l)
}

// Handle answers one request: Serve for those who have a server of their own.
func (u *Upstream) Handle(ctx *fasthttp.RequestCtx) {
	if !ctx.IsPost() {
		u.handleOther(ctx)
		return
	}
	r := parse(ctx.PostBody())
	r.tools = u.tools
	modern := string(ctx.Request.Header.Peek("MCP-Protocol-Version")) == ModernVersion
	switch {
	case u.era == Modern && !modern && string(r.method) != "initialize":
		answerError(ctx, r.id, `{"code":-32020,"message":"a modern protocol version is required"}`)
		return
	case u.era == Modern:
		modern = true
	case u.era == Legacy && modern:
		answerError(ctx, nil, `{"code":-32000,"message":"unsupported protocol version"}`)
		return
	}
	if !modern && string(r.method) != "initialize" && !u.knows(ctx.Request.Header.Peek("Mcp-Session-Id")) {
		answerError(ctx, nil, `{"code":-32000,"message":"a session is required"}`)
		return
	}
	if r.id == nil {
		ctx.SetStatusCode(fasthttp.StatusAccepted)
		return
	}
	if string(r.method) == "initialize" && !modern {
		id := strconv.AppendUint([]byte(sessionPrefix), u.sessions.Add(1), 10)
		ctx.Response.Header.SetBytesV("Mcp-Session-Id", id)
	}
	u.answer(ctx, &r, modern)
}

// answer writes the response as the call's token wants it.
func (u *Upstream) answer(ctx *fasthttp.RequestCtx, r *request, modern bool) {
	if r.form == FormSSE {
		message, _ := appendAnswer(nil, r, modern)
		ctx.SetContentType("text/event-stream")
		ctx.SetBodyStream(bytes.NewReader(eventstream.AppendMessage(nil, message)), -1)
		return
	}
	body, status := appendAnswer(ctx.Response.SwapBody(nil)[:0], r, modern)
	ctx.Response.SwapBody(body)
	ctx.SetContentType("application/json")
	if modern { // legacy errors travel in a 200
		ctx.SetStatusCode(status)
	}
}

// handleOther answers GET, for which there is no stream, and DELETE.
func (u *Upstream) handleOther(ctx *fasthttp.RequestCtx) {
	if ctx.IsDelete() && u.era != Modern {
		return
	}
	ctx.Response.Header.Set("Allow", "POST")
	ctx.SetStatusCode(fasthttp.StatusMethodNotAllowed)
}

// knows tells whether a session of this id has been opened.
func (u *Upstream) knows(id []byte) bool {
	number, ok := strings.CutPrefix(string(id), sessionPrefix)
	n, err := strconv.ParseUint(number, 10, 64)
	return ok && err == nil && n >= 1 && n <= u.sessions.Load()
}

func answerError(ctx *fasthttp.RequestCtx, id []byte, failure string) {
	if id == nil {
		id = []byte("null")
	}
	ctx.SetStatusCode(fasthttp.StatusBadRequest)
	ctx.SetContentType("application/json")
	body := appendHead(nil, id)
	body = append(body, `"error":`...)
	body = append(body, failure...)
	ctx.SetBody(append(body, '}'))
}
