//go:build unix

package e2e

import (
	"strings"
	"testing"
)

// A path that names a server or a group that there is not is told at once which there are.
func TestPathsOfSeveralServers(t *testing.T) {
	t.Parallel()
	const two = "[upstreams.a]\nurl = \"http://127.0.0.1:1/mcp\"\n[upstreams.b]\nurl = \"http://127.0.0.1:1/mcp\"\n[groups.g]\nservers = [\"a\"]\n"
	r := startRig(t, two, false)
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	for _, x := range []struct{ verb, path, body, wants string }{
		{"GET", "/servers/none/sse", "", `no server \"none\" is configured; there is a, b`},
		{"POST", "/servers/none/mcp", initialize, `no server \"none\" is configured; there is a, b`},
		{"GET", "/servers/g/openapi.json", "", `no server \"g\" is configured; there is a, b`},
		{"GET", "/groups/none/sse", "", `no group \"none\" is configured; there is g`},
		{"POST", "/groups/none/mcp", initialize, `no group \"none\" is configured; there is g`},
		{"GET", "/groups/a/tools", "", `no group \"a\" is configured; there is g`},
	} {
		res := r.must(x.verb, x.path, x.body, "Content-Type", "application/json", "Accept", "application/json, text/event-stream")
		if res.status != 404 && x.verb == "GET" || res.status == 200 && x.verb == "GET" {
			t.Errorf("%s %s: %d %s", x.verb, x.path, res.status, res.body)
		}
		mentions(t, res.body, x.wants, "server_unknown", `"servers":[`)
	}
	for _, path := range []string{"/", "/servers", "/groups", "/groups/g", "/message"} {
		if res := r.must("GET", path, ""); res.status != 404 || !strings.Contains(res.body, "/servers/NAME") {
			t.Errorf("%s: %d %s", path, res.status, res.body)
		}
	}
}

// A path names a server by its name as configured, byte for byte: nothing is decoded, normalised or completed, at any endpoint. Another
// name is refused with the names that there are.
func TestNamesOfServersInPaths(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "modern")
	r := startRig(t, u.toml("")+strings.ReplaceAll(u.toml(""), "upstreams.default", "upstreams.other"), false)
	probeAll(t, r.h)
	u.forget()
	ways := [][3]string{{"POST", "/mcp", discoverBody}, {"GET", "/sse", ""}, {"GET", "/mcp/sse", ""}, {"GET", "/tools", ""}, {"POST", "/call-tool", `{"tool":"x","arguments":{}}`},
		{"POST", "/tools/x", "{}"}, {"POST", "/mcp/tools/list", "{}"}, {"GET", "/resources", ""}, {"GET", "/openapi.json", ""}, {"GET", "/health", ""}}
	headers := append([]string{}, modernHeaders("server/discover", "")...)
	for _, name := range []string{"nobody", "DEFAULT", "Default", "%64efault", "default%2F", "default%2Fmcp", "default%2e", ".", "..", "%2e", "%2e%2e", "default.", "default%00", "default%20", "default;x", "default:1", "d%C3%A9faut", "default,other", "*"} {
		for _, w := range ways {
			path := "/servers/" + name + w[1]
			res := r.must(w[0], path, w[2], headers...)
			if res.status != 404 {
				t.Errorf("%s %s: %d %s", w[0], path, res.status, res.body)
			}
			mentions(t, res.body, `there is default, other`, "server_unknown", `"servers":["default","other"]`)
			if strings.Contains(name, "%") && w[1] != "/health" && !strings.Contains(res.body, name) {
				t.Errorf("%s: the error names another server: %s", path, res.body)
			}
		}
	}
	for _, path := range []string{"/servers", "/servers/", "/servers/default", "/servers/default/", "/servers//mcp", "//servers/default/mcp", "/servers/default//mcp", "/servers/default/mcp/", "/Servers/default/mcp",
		"/servers%2Fdefault/mcp", "/servers/default%2Fmcp", "/servers/default/./mcp", "/servers/nobody/../default/mcp", "/servers/default/%6dcp"} {
		if res := r.must("POST", path, discoverBody, headers...); res.status != 404 || strings.Contains(res.body, `"result"`) {
			t.Errorf("%s: %d %s", path, res.status, res.body)
		}
	}
	if n := u.posts(); n != 0 {
		t.Errorf("%d requests have reached the server", n)
	}
	if res := r.must("POST", "/servers/default/mcp", discoverBody, headers...); res.status != 200 {
		t.Errorf("%d %s", res.status, res.body)
	}
}
