// Package special has the servers that only measurements of several servers as one need: one that answers with a constant, and one that
// misbehaves when it is told to.
package special

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/bench/reference"
	"dragoman/proxy/wire"
)

// askLimit bounds the request for what a static server answers.
const askLimit = 20 * time.Second

// ServeStatic answers every request on l, until l is closed, with what the server at a URL answers to a modern client's tools/list, under the
// id of the request. It has Dragoman's own listener and nothing behind it, so that it shows what the listener costs.
func ServeStatic(l net.Listener, url string) error {
	answer, err := ListAt(url)
	if err != nil {
		return err
	}
	m, err := wire.Scan(answer)
	if err != nil || m.Kind != wire.Result {
		return fmt.Errorf("special: %s has no list: %.200s", url, answer)
	}
	server, err := httpserver.NewServer(httpserver.Options{})
	if err != nil {
		return err
	}
	server.Handle(http.MethodPost, "/mcp", func(ctx *fasthttp.RequestCtx) {
		asked, err := wire.Scan(ctx.PostBody())
		if id := asked.Of(asked.ID); err == nil && bodyOf(ctx).fill(answer, &m, id) {
			ctx.SetContentType("application/json")
			ctx.Response.SetBodyRaw(bodyOf(ctx).raw)
			return
		}
		ctx.SetStatusCode(fasthttp.StatusBadRequest)
	})
	return server.Serve(l)
}

// body is the answer of one connection, in which only the id changes.
type body struct {
	raw []byte
	id  int // its length
}

// Clear implements httpserver.Scratch. The answer stays.
func (b *body) Clear() {}

func bodyOf(ctx *fasthttp.RequestCtx) *body {
	at := httpserver.ScratchOf(ctx)
	b, ok := (*at).(*body)
	if !ok {
		b = &body{}
		*at = b
	}
	return b
}

// fill writes an id, which always has the same length, into the answer.
func (b *body) fill(answer []byte, m *wire.Message, id []byte) bool {
	if b.raw == nil {
		b.raw = append(append(append(b.raw, answer[:m.ID.From]...), id...), answer[m.ID.To:]...)
		b.id = len(id)
	}
	return copy(b.raw[m.ID.From:], id) == b.id
}

// ListAt asks the server at a URL for its tools, as a modern client, and returns the answer.
func ListAt(url string) ([]byte, error) {
	const ask = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + reference.ModernVersion +
		`","io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(ask))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": reference.ModernVersion, "Mcp-Method": "tools/list"} {
		req.Header.Set(name, value)
	}
	client := http.Client{Timeout: askLimit}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(io.LimitReader(resp.Body, reference.MaxText))
}
