package config

import (
	"bytes"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// Names and URIs with dots and stars are names, in TOML and YAML, and print writes them so that they can be read again.
func TestAccessTables(t *testing.T) {
	toml := `
security.jwt = { issuer = "https://id.example", resource = "https://r.example" }
[upstreams.a]
url = "https://a.example/mcp"
[upstreams.a.tools."v1.read"]
rename = "read"
timeout = 7
[upstreams.a.resources."file:///srv/a.txt"]
enabled = false
[upstreams.a.access."https://id.example#ann"]
tools = ["v1.*"]
`
	yaml := `
security: {jwt: {issuer: "https://id.example", resource: "https://r.example"}}
upstreams:
  a:
    url: https://a.example/mcp
    tools: {v1.read: {rename: read, timeout: 7}}
    resources: {"file:///srv/a.txt": {enabled: false}}
    access: {"https://id.example#ann": {tools: ["v1.*"]}}
`
	for name, text := range map[string]string{"c.toml": toml, "c.yaml": yaml} {
		c, err := load(t, testkit.WriteFile(t, name, text), nil)
		if err != nil {
			t.Fatal(err)
		}
		u := c.Upstream("a")
		opt := u.AccessOptions()
		if opt.Renamed.Tools["v1.read"] != "read" || len(opt.Disabled.Resources) != 1 || opt.Disabled.Resources[0] != "file:///srv/a.txt" ||
			opt.Grants["https://id.example#ann"].Tools.Allow[0] != "v1.*" || u.Tools[0].Timeout.Seconds() != 7 {
			t.Errorf("%s: %+v", name, opt)
		}
		var out bytes.Buffer
		if err := c.PrintTOML(&out); err != nil {
			t.Fatal(err)
		}
		again, err := load(t, testkit.WriteFile(t, "again.toml", out.String()), nil)
		if err != nil || len(again.Upstream("a").Tools) != 1 || again.Upstream("a").Tools[0].Rename != "read" || len(again.Upstream("a").Access) != 1 {
			t.Errorf("%s: printed and read again: %v\n%s", name, err, out.String())
		}
	}
}

func TestAccessTablesRefuse(t *testing.T) {
	for text, want := range map[string]string{
		"[upstreams.a.tools.\"a*b\"]\nenabled = false":                                 `"a*b" is not a name`,
		"[upstreams.a.tools.\"a*\"]\nrename = \"b\"":                                   "either both names end in *, or neither",
		"[upstreams.a.tools.a]\nrename = \"b*\"":                                       "either both names end in *, or neither",
		"[upstreams.a.tools.a]\nrename = \"c\"\n[upstreams.a.tools.b]\nrename = \"c\"": `"a" and "b" would both be called "c"`,
		"[upstreams.a.tools.a]\ntimeuot = 5":                                           "did you mean upstreams.a.tools.a.timeout?",
		"[upstreams.a.tools]\na = 5":                                                   "must be a table, not",
		"[upstreams.a.tools.a]\ntimeout = 301":                                         "out of range",
		"[upstreams.a.access.\"*\"]\ntools = [\"a*b\"]":                                `"a*b" is not a name`,
		"[upstreams.a.resources.\"a:b\"]\nenabled = \"no\"":                            "enabled",
		"[upstreams.a.prompts.p]\nrename = 5":                                          "must be text",
	} {
		for _, kind := range []string{`url = "https://a.example/mcp"`, `url = "tcp://localhost:1"`, `command = ["true"]`} {
			_, err := load(t, testkit.WriteFile(t, "c.toml", "[upstreams.a]\n"+kind+"\n"+text+"\n"), nil)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s\n%s\ngives %v\nwant %s", kind, text, err, want)
			}
		}
	}
}
