//go:build linux

package main

import (
	"context"
	"strings"

	"dragoman/bench/load/drive"
	"dragoman/bench/reference"
)

// contender is one program in one configuration.
type contender struct {
	name string
	what string // shown in tables: how it starts children
	kit  string // what has to be installed for it, a word of --without; empty: nothing
	ours bool
	// The paths of its faces; empty: it does not have the face.
	http, sse, rest string
	// plain: its REST form has a path for each tool, takes the arguments and returns the text. Otherwise it is Dragoman's envelope.
	plain bool
	// upstream: it runs in front of the reference server over HTTP instead of a child.
	upstream bool
	// merges: it runs in front of several such servers, as one.
	merges bool
	// isolates: it starts a child for each session or request.
	isolates bool
	// sessionless: it gives no session ids.
	sessionless bool
	// perRequest: it starts a child for each request. It is left out where sessions are counted.
	perRequest bool
	// idle: its idle timeout of sessions can be set.
	idle bool
	tool string // its name of the tool; empty: the server's
	argv func(p *place) ([]string, error)
	// prepare registers the server at it once it runs, if its command line cannot. It is called until it succeeds.
	prepare func(ctx context.Context, addr, upstream string) error
}

// contenders lists all contenders in the order in which they are shown. They log as little as they can.
func contenders() []contender {
	all := []contender{
		{name: "dragoman", what: "a child for each session (the default)", ours: true, http: "/mcp", sse: "/sse", idle: true, isolates: true,
			argv: dragoman("session")},
		{name: "dragoman-shared", what: "one child for all (isolation = \"shared\")", ours: true, http: "/mcp", sse: "/sse", rest: "/", idle: true,
			argv: dragoman("shared")},
		{name: "dragoman-http", what: "an HTTP server", ours: true, http: "/mcp", upstream: true, idle: true, argv: dragoman("")},
	}
	return append(append(append(append(all, fromNPM()...), fromGo()...), fromPyPI()...), merges()...)
}

func fromNPM() []contender {
	return []contender{
		{name: "supergateway", kit: kitNPM, what: "a child for each session (--stateful)", http: "/mcp", idle: true, isolates: true,
			argv: supergateway("streamableHttp", "--stateful")},
		{name: "supergateway-stateless", kit: kitNPM, what: "a child for each request (the default)", http: "/mcp", sessionless: true, perRequest: true, isolates: true,
			argv: supergateway("streamableHttp")},
		{name: "supergateway-sse", kit: kitNPM, what: "one child for all", sse: "/sse", argv: supergateway("sse")},
		{name: "mcp-proxy", kit: kitNPM, what: "one child for all (the default)", http: "/mcp", sse: "/sse", idle: true, argv: mcpProxy()},
		{name: "mcp-proxy-stateless", kit: kitNPM, what: "one child for all (--stateless)", http: "/mcp", sessionless: true, argv: mcpProxy("--stateless")},
	}
}

func fromGo() []contender {
	return []contender{
		{name: "tbxark", kit: kitTBXark, what: "one child for all, no sessions (streamable-http)", http: "/echo/", sessionless: true, argv: tbxark("streamable-http")},
		{name: "tbxark-sse", kit: kitTBXark, what: "one child for all (sse)", sse: "/echo/sse", argv: tbxark("sse")},
		{name: "tbxark-http", kit: kitTBXark, what: "an HTTP server, no sessions (streamable-http)", http: "/echo/", sessionless: true, upstream: true,
			argv: tbxark("streamable-http")},
	}
}

func fromPyPI() []contender {
	return []contender{
		{name: "mcp-proxy-py", kit: kitMCPProxyPy, what: "one child for all (the default)", http: "/mcp", sse: "/sse", argv: mcpProxyPy()},
		{name: "mcp-proxy-py-stateless", kit: kitMCPProxyPy, what: "one child for all (--stateless)", http: "/mcp", sessionless: true, argv: mcpProxyPy("--stateless")},
		{name: "mcpo", kit: kitMCPO, what: "one child for all, as OpenAPI", rest: "/echo", plain: true, argv: mcpo},
		{name: "contextforge-translate", kit: kitContextForge, what: "one child for all (mcpgateway.translate)", http: "/mcp", sse: "/sse", sessionless: true,
			argv: contextForgeTranslate},
		{name: "contextforge", kit: kitContextForge, what: "an HTTP server (USE_STATEFUL_SESSIONS)", http: "/mcp/", upstream: true, tool: forgeTool,
			argv: contextForge, prepare: registerUpstream},
		{name: "fastmcp", kit: kitFastMCP, what: "one child for all (fastmcp run, as a proxy)", http: "/mcp", argv: fastMCP},
		{name: "fastmcp-http", kit: kitFastMCP, what: "an HTTP server (fastmcp run, as a proxy)", http: "/mcp", upstream: true, argv: fastMCP},
	}
}

// plan describes the calls of a client of this kind and size.
func (c *contender) plan(kind faceKind, addr string, s size) drive.Plan {
	p := drive.Plan{Face: drive.LegacyHTTP, Revision: reference.LegacyVersion, Addr: addr, Host: addr, Path: c.http, Connections: connections,
		Rounds: 1, Timeout: callLimit}
	if c.merges {
		p.Connections = mergedConnections
	}
	switch {
	case kind == httpSSE:
		p.Face, p.Revision, p.Path = drive.SSE, reference.OldestVersion, c.sse
	case kind == restful && c.plain:
		p.Face, p.Revision, p.Path = drive.Plain, "", c.rest
	case kind == restful:
		p.Face, p.Revision, p.Path = drive.REST, "", c.rest
	}
	const name = `"name":"echo`
	call := drive.EchoCall(p.Face, s.Request-max(0, len(c.tool)-len("echo")), s.Answer, false)
	if c.tool != "" {
		call.Params = strings.Replace(call.Params, name, `"name":"`+c.tool, 1)
	}
	p.Calls = []drive.Call{call}
	return p
}

// faces returns its faces.
func (c *contender) faces() []faceKind {
	if c.merges {
		return []faceKind{toSeveral}
	}
	if c.upstream {
		return []faceKind{toHTTP}
	}
	var kinds []faceKind
	if c.http != "" {
		kinds = append(kinds, streamable)
	}
	if c.sse != "" {
		kinds = append(kinds, httpSSE)
	}
	if c.rest != "" {
		kinds = append(kinds, restful)
	}
	return kinds
}

// sessionFaces returns the faces whose clients have sessions, or hold connections in their place.
func (c *contender) sessionFaces() []faceKind {
	var kinds []faceKind
	for _, kind := range c.faces() {
		if kind != restful {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func (c *contender) face() faceKind { return c.faces()[0] }
