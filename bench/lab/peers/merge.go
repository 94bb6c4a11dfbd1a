//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
)

// The size of a merge: so many servers, each with so many tools. One process serves all of them.
const (
	mergedServers = 50
	mergedTools   = 200
	// mergedConnections is less than connections: with as many one of the peers does not answer within callLimit.
	mergedConnections = 4
)

// merges returns the contenders that make one server of several. Each has its own way to tell the tools of two servers apart.
func merges() []contender {
	return []contender{
		{name: "dragoman-merge", what: "50 HTTP servers of 200 tools as one", ours: true, http: "/mcp", upstream: true, merges: true, tool: "s00.echo", argv: dragomanMerge},
		{name: "fastmcp-merge", kit: kitFastMCP, what: "50 HTTP servers of 200 tools as one (fastmcp run)", http: "/mcp", upstream: true, merges: true, tool: "s00_echo", argv: fastMCP},
		{name: "contextforge-merge", kit: kitContextForge, what: "50 HTTP servers of 200 tools as one (USE_STATEFUL_SESSIONS)", http: "/mcp/", upstream: true, merges: true, tool: "s00-echo",
			argv: contextForge, prepare: registerAll},
	}
}

// servers returns the HTTP servers behind a contender, by name, with their URLs.
func (p *place) servers() map[string]string {
	switch {
	case p.upstream == "":
		return nil
	case !p.merges:
		return map[string]string{"echo": p.upstream}
	}
	all := make(map[string]string, mergedServers)
	for i := range mergedServers {
		all[mergedName(i)] = p.upstream
	}
	return all
}

// serves is the number of tools of the server behind a contender, as the argument of serveWord.
func (c *contender) serves() string {
	if c.merges {
		return strconv.Itoa(mergedTools)
	}
	return "1"
}

func mergedName(i int) string { return fmt.Sprintf("s%02d", i) }

// dragomanMerge starts Dragoman in front of all servers.
func dragomanMerge(p *place) ([]string, error) {
	var lines strings.Builder
	fmt.Fprintf(&lines, "listen = \"127.0.0.1:%s\"\nadmin.listen = \"off\"\nlog.level = \"error\"\ncatalogue.path = \"memory\"\n", p.port)
	for i := range mergedServers {
		fmt.Fprintf(&lines, "[upstreams.%s]\nurl = %q\n", mergedName(i), p.upstream)
	}
	file := filepath.Join(p.dir, "dragoman.toml")
	return []string{p.settings.dragoman, "serve", "--config", file}, writeFile(file, lines.String())
}

// registerAll registers all servers at ContextForge, and fails until it lists them.
func registerAll(ctx context.Context, addr, upstream string) error {
	at := "http://" + addr + "/gateways"
	known, err := askAPI(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	missing := 0
	for i := range mergedServers {
		name := mergedName(i)
		if strings.Contains(known, `"name":"`+name+`"`) {
			continue
		}
		missing++
		body, err := json.Marshal(map[string]string{"name": name, "url": upstream + "?server=" + name, "transport": "STREAMABLEHTTP", "visibility": "public"})
		if err != nil {
			return err
		}
		if _, err = askAPI(ctx, http.MethodPost, at, body); err != nil {
			return err
		}
	}
	if missing > 0 {
		return errors.New("peers: contextforge does not list all servers yet")
	}
	return nil
}
