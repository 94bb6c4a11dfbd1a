//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const dragomanConfig = `listen = "127.0.0.1:%s"
[admin]
listen = "off"
[log]
level = "error"
[sessions]
max = 100000
max_per_principal = 100000
%s[upstreams.echo]
%s
`

// dragoman starts Dragoman with children of this isolation, or, if that is empty, in front of an HTTP server.
func dragoman(isolation string) func(p *place) ([]string, error) {
	return func(p *place) ([]string, error) {
		argv, err := json.Marshal(p.child) // a JSON array of strings is a TOML array
		if err != nil {
			return nil, err
		}
		idle := ""
		if p.idleTTL > 0 {
			idle = fmt.Sprintf("idle_ttl = %q\n", p.idleTTL)
		}
		upstream := fmt.Sprintf("command = %s\nisolation = %q\nmax_processes = 5000\n%s", argv, isolation, p.extra)
		if isolation == "" {
			upstream = fmt.Sprintf("url = %q\n%s", p.upstream, p.extra)
		}
		file := filepath.Join(p.dir, "dragoman.toml")
		if err = writeFile(file, fmt.Sprintf(dragomanConfig, p.port, idle, upstream)); err != nil {
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

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func tbxark(kind string) func(p *place) ([]string, error) {
	return func(p *place) ([]string, error) {
		options := map[string]any{"panicIfInvalid": true, "logEnabled": false}
		server := map[string]any{"command": p.child[0], "args": p.child[1:], "options": options}
		if p.upstream != "" {
			server = map[string]any{"transportType": "streamable-http", "url": p.upstream, "options": options}
		}
		return p.withJSON("--config", p.settings.tbxark, map[string]any{
			"mcpProxy": map[string]any{"baseURL": "http://127.0.0.1:" + p.port, "addr": "127.0.0.1:" + p.port,
				"name": "peers", "version": "1", "type": kind, "options": options},
			"mcpServers": map[string]any{"echo": server},
		})
	}
}
