package config

import (
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// Rights of a principal that no key has bind nobody, which is said; a token or a certificate may name anybody.
func TestGrantsOfNobody(t *testing.T) {
	const upstream = "\n[upstreams.a]\nurl = \"http://a.example\"\n[upstreams.a.access.%s]\ndeny_tools = [\"x\"]\n"
	const key = "hashes = [\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"]\n"
	const keys = "[security]\napi_keys_enabled = true\n[security.api_keys.ann]\n" + key + "[security.api_keys.bot]\nprincipal = \"robots\"\n" + "hashes = [\"sha256:1111111111111111111111111111111111111111111111111111111111111111\"]\n" + upstream
	f := func(principal, more, want string) {
		t.Helper()
		c, err := LoadConfig(LoadOptions{File: testkit.WriteFile(t, "c.toml", strings.Replace(keys, "%s", principal, 1)+more)})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(c.Warnings, "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", principal, got, want)
		}
	}
	f("ann", "", "")
	f("robots", "", "")
	f(`"*"`, "", "")
	f("bot", "", "upstreams.a.access.bot is about a principal that no API key has, so it binds nobody")
	f("anne", "", "did you mean ann?")
	f("anybody", "[security.jwt]\nissuer = \"https://id.example\"\nresource = \"https://mcp.example\"\n", "")
}
