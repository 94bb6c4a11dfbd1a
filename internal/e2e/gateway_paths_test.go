//go:build unix

package e2e

import (
	"strings"
	"testing"
)

// Behind several servers, no path without a name hangs or answers 200: each is told at once where the servers are.
func TestPathsOfSeveralServers(t *testing.T) {
	t.Parallel()
	const two = "[upstreams.a]\nurl = \"http://127.0.0.1:1/mcp\"\n[upstreams.b]\nurl = \"http://127.0.0.1:1/mcp\"\n"
	r := startRig(t, two, false)
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	for _, x := range []struct{ verb, path, body, wants string }{
		{"GET", "/sse", "", "/servers/NAME/sse"},
		{"GET", "/mcp/sse", "", "/servers/NAME/"},
		{"POST", "/mcp", initialize, "/servers/NAME/mcp"},
		{"GET", "/openapi.json", "", "/servers/NAME/openapi.json"},
		{"GET", "/servers/none/sse", "", `no server \"none\" is configured; there is a, b`},
		{"POST", "/servers/none/mcp", initialize, `no server \"none\" is configured; there is a, b`},
	} {
		res := r.must(x.verb, x.path, x.body, "Content-Type", "application/json", "Accept", "application/json, text/event-stream")
		if res.status != 404 && x.verb == "GET" || res.status == 200 && x.verb == "GET" {
			t.Errorf("%s %s: %d %s", x.verb, x.path, res.status, res.body)
		}
		mentions(t, res.body, x.wants, "server_unknown", `"servers":["a","b"]`)
	}
	for _, path := range []string{"/", "/servers", "/message"} {
		if res := r.must("GET", path, ""); res.status != 404 || !strings.Contains(res.body, "/servers/NAME") {
			t.Errorf("%s: %d %s", path, res.status, res.body)
		}
	}
}
