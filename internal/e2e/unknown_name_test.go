package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// A server that answers "method not found" for an unknown tool, prompt, resource or completion means the name, not the method: over HTTP
// that would be status 404, which tells modern clients that the server is none of this revision.
func TestUnknownNames(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			refuse := func(c *call) { c.error(404, `{"code":-32601,"message":"no such thing","data":{"x":1}}`) }
			for _, method := range []string{"tools/call", "prompts/get", "resources/read", "completion/complete", "vendor/method", "resources/templates/list"} {
				u.on(method, refuse)
			}
			r := startRig(t, u.toml(""), true)
			f := func(method, name, params string, status, code int) {
				t.Helper()
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s}}`, method, params, modernMeta)
				res := r.must("POST", "/mcp", body, modernHeaders(method, name)...)
				if want := fmt.Sprintf(`"error":{"code":%d,"message":"no such thing"`, code); res.status != status || !strings.Contains(res.body, want) {
					t.Errorf("%s: %d %s", method, res.status, res.body)
				}
			}
			f("tools/call", "a", `"name":"a","arguments":{},`, 200, -32602)
			f("prompts/get", "a", `"name":"a",`, 200, -32602)
			f("resources/read", "a:b", `"uri":"a:b",`, 200, -32602)
			f("completion/complete", "", `"ref":{"type":"ref/prompt","name":"a"},"argument":{"name":"a","value":""},`, 200, -32602)
			f("vendor/method", "", "", 404, -32601)
			f("resources/templates/list", "", "", 404, -32601)
			// legacy clients have the code in a message with status 200, and get the server's own
			id := r.open("2025-11-25", "{}")
			if res := r.must("POST", "/mcp", legacyCall("2", "a"), legacyHeaders(id)...); res.status != 200 || !strings.Contains(res.body, `"error":{"code":-32601,"message":"no such thing","data":{"x":1}}`) {
				t.Errorf("a legacy client: %d %s", res.status, res.body)
			}
		})
	}
}
