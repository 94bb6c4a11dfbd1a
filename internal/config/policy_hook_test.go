package config

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

func TestPolicyHookConfig(t *testing.T) {
	for text, want := range map[string]string{
		"url = \"\"": "",
		"url = \"http://127.0.0.1:8181/v1/data/mcp/allow\"":     "",
		"url = \"http://localhost:8181/v1/data/mcp/allow?x=y\"": "",
		"url = \"https://opa.example/v1/data/mcp/allow\"":       "",
		"url = \"unix:/run/opa.sock\"":                          "",
		"url = \"unix:///run/opa.sock:/v1/data/mcp/allow\"":     "",
		"url = \"http://opa.example/v1/data\"":                  "is not https, and not on this machine",
		"url = \"https://u:p@opa.example/\"":                    "is not a URL",
		"url = \"https://opa.example/#a\"":                      "is not a URL",
		"url = \"tcp://127.0.0.1:8181\"":                        "is not https",
		"url = \"unix:opa.sock\"":                               "is not followed by an absolute path",
		"url = \"unix:/run/opa.sock:v1\"":                       "has no path of a resource behind the socket's",
		"url = \"unix:/" + strings.Repeat("x", 107) + "\"":      "has a path of 108 bytes; an address holds 107",
		"url = 8181": "is not a URL",
		"methods = [\"tools/call\", \"tasks/result\"]": "",
		"methods = []":                        "is empty",
		"methods = [\"tools/list\"]":          "is none of",
		"methods = [\"*\"]":                   "is none of",
		"arguments = \"some\"":                "none, keys, redacted or full",
		"results = \"yes\"":                   "must be true or false",
		"timeout = \"9ms\"":                   "10ms to 30s",
		"timeout = \"31s\"":                   "10ms to 30s",
		"timeout = \"10ms\"":                  "",
		"on_error = \"permit\"":               "deny or allow",
		"cache = 0":                           "",
		"cache = 1000000":                     "",
		"cache = 1000001":                     "1 to 1000000",
		"cache = -1":                          "1 to 1000000",
		"headers = { Host = \"x\" }":          "it is taken from url",
		"headers = { A = \"env:NOT_THERE\" }": "NOT_THERE",
		"ca_file = \"/no/such/file\"":         "policy_hook.ca_file",
		"urls = \"x\"":                        "unknown key",
	} {
		_, err := load(t, testkit.WriteFile(t, "c.toml", "[policy_hook]\n"+text+"\n"), nil)
		if got := errorLines(err, "c.toml"); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%.100s: %s; want %s", text, got, want)
		}
	}
}

// Headers are resolved and never shown; the rest is printed so that it can be read again; each key has a variable.
func TestPolicyHookValues(t *testing.T) {
	text := "[policy_hook]\nurl = \"unix:/run/opa.sock:/v1/data/mcp\"\nresults = true\non_error = \"allow\"\narguments = \"keys\"\nheaders = { X-A = \"env:KEY\" }\n"
	c, err := load(t, testkit.WriteFile(t, "c.toml", text), []string{"KEY=zq-one", "DRAGOMAN_POLICY_HOOK_CACHE=7", "DRAGOMAN_POLICY_HOOK_TIMEOUT=2s"})
	if err != nil {
		t.Fatal(err)
	}
	h := c.PolicyHook
	if h.URL != "unix:/run/opa.sock:/v1/data/mcp" || !h.Results || h.OnError != HookAllows || h.Arguments != "keys" || h.Cache != 7 || h.Timeout != 2*time.Second || len(h.Headers) != 1 || h.Headers[0].Value.Reveal() != "zq-one" {
		t.Errorf("%+v", h)
	}
	var out bytes.Buffer
	if err := c.PrintTOML(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "zq-one") || !strings.Contains(out.String(), `url = "unix:/run/opa.sock:/v1/data/mcp"`) {
		t.Error(out.String())
	}
}
