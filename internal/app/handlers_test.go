package app

import "testing"

func TestPublicOrigin(t *testing.T) {
	for resource, want := range map[string]string{"": "", "mcp": "", "https://MCP.example/base": "https://mcp.example", "http://a:8080": "http://a:8080"} {
		got := publicOrigin(resource)
		if want == "" && got != nil || want != "" && (len(got) != 1 || got[0] != want) {
			t.Errorf("%q: %q", resource, got)
		}
	}
}
