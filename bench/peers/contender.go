//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"dragoman/bench/load"
)

// faceKind is how clients reach a contender.
type faceKind string

const (
	streamable faceKind = "streamable HTTP"
	httpSSE    faceKind = "HTTP+SSE"
)

// contender is one program in one configuration.
type contender struct {
	name string
	what string // for people: whose children they are
	ours bool
	// paths of the faces that it has.
	http, sse string
	// sessionless contenders give no session ids out.
	sessionless bool
	// perRequest: a child for each request. It is left out where sessions are counted.
	perRequest bool
	// idle tells that it ends sessions after a time of idleness that can be set.
	idle bool
	argv func(p *place) ([]string, error)
}

// place is what a contender is started with.
type place struct {
	settings *settings
	dir      string   // of its own, for its configuration
	port     string   // to listen on, on the loopback
	child    []string // argv
	idleTTL  time.Duration
	// extra is for Dragoman's upstream in its configuration: lines of TOML.
	extra string
}

// contenders is all there are, in the order in which they are shown. All are told to log nothing, or as little as they can.
func contenders() []contender {
	return []contender{
		{name: "dragoman", what: "a child for each session (the default)", ours: true, http: "/mcp", sse: "/sse", idle: true,
			argv: dragoman("session")},
		{name: "dragoman-shared", what: "one child for all (isolation = \"shared\")", ours: true, http: "/mcp", sse: "/sse", idle: true,
			argv: dragoman("shared")},
		{name: "supergateway", what: "a child for each session (--stateful)", http: "/mcp", idle: true,
			argv: supergateway("streamableHttp", "--stateful")},
		{name: "supergateway-stateless", what: "a child for each request (the default)", http: "/mcp", sessionless: true, perRequest: true,
			argv: supergateway("streamableHttp")},
		{name: "supergateway-sse", what: "one child for all", sse: "/sse", argv: supergateway("sse")},
		{name: "mcp-proxy", what: "one child for all (the default)", http: "/mcp", sse: "/sse", idle: true, argv: mcpProxy()},
		{name: "mcp-proxy-stateless", what: "one child for all (--stateless)", http: "/mcp", sessionless: true, argv: mcpProxy("--stateless")},
		{name: "tbxark", what: "one child for all, no sessions (streamable-http)", http: "/echo/", sessionless: true, argv: tbxark("streamable-http")},
		{name: "tbxark-sse", what: "one child for all (sse)", sse: "/echo/sse", argv: tbxark("sse")},
	}
}

// plan is how a client speaks to it.
func (c *contender) plan(kind faceKind, addr string) load.Plan {
	p := load.Plan{Addr: addr, Path: c.http, Era: load.Legacy, Sessionless: c.sessionless, Connections: connections, Size: smallCall}
	if kind == httpSSE {
		p.Path, p.Transport = c.sse, load.TwoWay
	}
	return p
}

// faces is what it has.
func (c *contender) faces() []faceKind {
	var kinds []faceKind
	if c.http != "" {
		kinds = append(kinds, streamable)
	}
	if c.sse != "" {
		kinds = append(kinds, httpSSE)
	}
	return kinds
}

func (c *contender) face() faceKind { return c.faces()[0] }

const dragomanConfig = `listen = "127.0.0.1:%s"
[admin]
listen = "off"
[log]
level = "error"
[sessions]
max = 100000
max_per_principal = 100000
%s[upstreams.echo]
command = %s
isolation = %q
max_processes = 5000
%s
`

func dragoman(isolation string) func(p *place) ([]string, error) {
	return func(p *place) ([]string, error) {
		argv, err := json.Marshal(p.child) // strings of JSON are strings of TOML
		if err != nil {
			return nil, err
		}
		idle := ""
		if p.idleTTL > 0 {
			idle = fmt.Sprintf("idle_ttl = %q\n", p.idleTTL)
		}
		file := filepath.Join(p.dir, "dragoman.toml")
		text := fmt.Sprintf(dragomanConfig, p.port, idle, argv, isolation, p.extra)
		if err = writeFile(file, text); err != nil {
			return nil, err
		}
		return []string{p.settings.dragoman, "serve", "--config", file}, nil
	}
}

func supergateway(transport string, more ...string) func(p *place) ([]string, error) {
	return func(p *place) ([]string, error) {
		argv := []string{p.settings.node, filepath.Join(p.settings.npm, "supergateway/dist/index.js"),
			"--stdio", strings.Join(p.child, " "), "--outputTransport", transport, "--port", p.port, "--logLevel", "none"}
		argv = append(argv, more...)
		if p.idleTTL > 0 {
			argv = append(argv, "--sessionTimeout", millis(p.idleTTL))
		}
		return argv, nil
	}
}

func mcpProxy(more ...string) func(p *place) ([]string, error) {
	return func(p *place) ([]string, error) {
		argv := []string{p.settings.node, filepath.Join(p.settings.npm, "mcp-proxy/dist/bin/mcp-proxy.mjs"), "--host", "127.0.0.1", "--port", p.port}
		argv = append(argv, more...)
		if p.idleTTL > 0 {
			argv = append(argv, "--sessionIdleTimeout", millis(p.idleTTL))
		}
		return append(append(argv, "--"), p.child...), nil
	}
}

func tbxark(kind string) func(p *place) ([]string, error) {
	return func(p *place) ([]string, error) {
		options := map[string]any{"panicIfInvalid": true, "logEnabled": false}
		text, err := json.Marshal(map[string]any{
			"mcpProxy": map[string]any{"baseURL": "http://127.0.0.1:" + p.port, "addr": "127.0.0.1:" + p.port,
				"name": "peers", "version": "1", "type": kind, "options": options},
			"mcpServers": map[string]any{"echo": map[string]any{"command": p.child[0], "args": p.child[1:], "options": options}},
		})
		if err != nil {
			return nil, err
		}
		file := filepath.Join(p.dir, "tbxark.json")
		if err = writeFile(file, string(text)); err != nil {
			return nil, err
		}
		return []string{p.settings.tbxark, "--config", file}, nil
	}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
