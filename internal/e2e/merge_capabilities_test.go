package e2e

import (
	"slices"
	"strings"
	"testing"
)

// A modern server lists some tools only to clients that can be asked. Through a merge each modern client sees what it would see there.
func TestListsForClientsWithCapabilities(t *testing.T) {
	u, other := newUpstream(t, "modern"), newUpstream(t, "modern")
	tool := func(name string) string { return `{"name":"` + name + `","inputSchema":{"type":"object"}}` }
	u.on("tools/list", func(c *call) {
		tools := tool("plain")
		if strings.Contains(c.body, `"elicitation"`) {
			tools += "," + tool("asks")
		}
		if strings.Contains(c.body, `"sampling"`) {
			tools += "," + tool("samples")
		}
		c.result(`{"resultType":"complete","tools":[` + tools + `],"ttlMs":60000,"cacheScope":"public"}`)
	})
	other.on("tools/list", func(c *call) {
		c.result(`{"resultType":"complete","tools":[` + tool("x") + `],"ttlMs":60000,"cacheScope":"public"}`)
	})
	r := startRig(t, strings.Replace(u.toml(""), "default", "a", 1)+strings.Replace(other.toml(""), "default", "b", 1), true)
	for range 2 {
		for _, test := range []struct{ caps, want string }{
			{`{}`, "plain"}, {`{"elicitation":{}}`, "plain asks"}, {`{"sampling":{}}`, "plain samples"}, {`{"sampling":{},"elicitation":{}}`, "plain asks samples"},
		} {
			want := strings.Fields(test.want)
			for at, prefix := range map[string]string{"/servers/a/mcp": "", "/mcp": "a."} {
				body := strings.Replace(modernBody(1, "tools/list", ""), `clientCapabilities":{}`, `clientCapabilities":`+test.caps, 1)
				got := r.must("POST", at, body, modernHeaders("tools/list", "")...)
				names := toolsOf(t, got.body)
				wanted := []string{}
				for _, name := range want {
					wanted = append(wanted, prefix+name)
				}
				if prefix != "" {
					wanted = append(wanted, "b.x")
				}
				slices.Sort(wanted)
				if !slices.Equal(names, wanted) {
					t.Errorf("a client with %s sees %v at %s, want %v", test.caps, names, at, wanted)
				}
			}
		}
	}
	for range 3 {
		u.forget()
		r.must("POST", "/mcp", modernBody(1, "tools/list", ""), modernHeaders("tools/list", "")...)
		if n := len(u.all("tools/list")); n != 0 {
			t.Errorf("the server is asked %d times for what is known", n)
		}
	}
}
