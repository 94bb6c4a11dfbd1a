package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// tenantTransport adds the header of a tenant to each request.
type tenantTransport struct {
	http.RoundTripper
	tenant string
}

// RoundTrip implements http.RoundTripper.
func (x tenantTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("X-Tenant", x.tenant)
	return x.RoundTripper.RoundTrip(req)
}

// A server lists to each tenant what it lists to nobody else. So does a merge of it with another, to clients of every kind, and so it calls.
func TestListsOfTenantsAtSeveralServers(t *testing.T) {
	for _, kind := range []string{"modern", "legacy"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			u, other := newUpstream(t, kind), newUpstream(t, "legacy")
			tool := func(name string) string { return `{"name":"` + name + `","inputSchema":{"type":"object"}}` }
			u.on("tools/list", func(c *call) {
				tenant := c.header.Get("X-Tenant")
				c.result(`{"tools":[` + tool("common") + `,` + tool("secret-"+tenant) + `]}`)
			})
			u.on("tools/call", func(c *call) {
				c.result(`{"content":[{"type":"text","text":"for ` + c.header.Get("X-Tenant") + `"}]}`)
			})
			other.on("tools/list", func(c *call) { c.result(`{"tools":[` + tool("shared") + `]}`) })
			r := startRig(t, strings.Replace(u.toml("forward_headers = { X-Tenant = \"X-Tenant\" }"), "default", "a", 1)+strings.Replace(other.toml(""), "default", "b", 1), true)
			for _, tenant := range []string{"ann", "bob", ""} {
				r := *r
				if tenant != "" {
					r.http = &http.Client{Transport: tenantTransport{r.http.Transport, tenant}}
				}
				legacy := newHTTPTestClient(&r)
				legacy.open("2025-11-25", "{}")
				n := 0
				ask := map[string]func(method, name string) string{
					"modern": func(method, name string) string {
						return r.must("POST", "/mcp", modernAsk(method, fmt.Sprintf(`"name":%q,"arguments":{}`, name)), modernHeaders(method, name)...).body
					},
					"legacy": func(method, name string) string {
						n++
						id := fmt.Sprint(n)
						legacy.send(id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"name":%q,"arguments":{}}}`, id, method, name))
						return legacy.receives(id)
					},
				}
				for era, ask := range ask {
					who := fmt.Sprintf("%s client of %q", era, tenant)
					list := ask("tools/list", "")
					if got := toolsOf(t, list); !slices.Equal(got, []string{"a.common", "a.secret-" + tenant, "b.shared"}) || strings.Contains(list, "io.dragoman/servers") {
						t.Errorf("%s sees %s", who, list)
					}
					for _, of := range []string{"ann", "bob"} {
						got := ask("tools/call", "secret-"+of)
						if want := map[bool]string{true: `"text":"for ` + of + `"`, false: "Tool not found: secret-" + of}[of == tenant]; !strings.Contains(got, want) {
							t.Errorf("%s calls what is listed to %s: %s", who, of, got)
						}
					}
				}
			}
		})
	}
}
