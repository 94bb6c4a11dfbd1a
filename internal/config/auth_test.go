package config

import (
	"strings"
	"testing"

	"dragoman/internal/testkit"
	"dragoman/policies"
)

// Settings that admit no caller or every caller, or files that all users can read, are reported before anything is served.
func TestAuthConfig(t *testing.T) {
	const good = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	f := func(toml, want string) {
		t.Helper()
		_, err := load(t, testkit.WriteFile(t, "c.toml", toml), nil)
		if got := errorLines(err, "c.toml"); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s\n  %s\nwant\n  %s", toml, got, want)
		}
	}
	keys := "[security.api_keys.a]\nhashes = [\"" + good + "\"]\n"
	on := "[security]\napi_keys_enabled = true\n"
	f(on+keys, "")
	f(on, "nobody could get in")
	f(keys, "everybody would get in")
	f("[security]\napi_keys_enabled = false\n"+keys, "")
	f(on+"[security.api_keys.a]\nscopes = [\"x\"]\n", "has no hashes")
	f(on+"[security.api_keys.a]\nhashes = [\"dgm_thekeyitself\"]\n", "is not a hash (it is not shown)")
	f(on+keys+"[security.api_keys.b]\nhashes = [\""+good+"\"]\n", "the same key is a's")
	f(on+keys+"expires = \"tomorrow\"\n", "is not a time")
	f(on+keys+"expires = 2027-01-31\nprincipal = \"x\"\nscopes = [\"a:b\"]\n", "")
	f(on+keys+"scopes = [\"a b\"]\n", "is not a scope")
	f(on+keys+"hashe = \"x\"\n", "did you mean")
	f("[security.jwt]\nissuer = \"https://i\"\n", "but not security.jwt.resource")
	f("[security.jwt]\nresource = \"https://r\"\n", "but no issuer")
	f("[security.jwt]\nissuer = \"http://i.example\"\n", "is not https")
	f("[security.jwt]\nissuer = \"https://i\"\nresource = \"https://r/mcp\"\n", "leave out /mcp")
	f("[security.jwt]\nissuer = \"https://i\"\nresource = \"https://r\"\nalgorithms = [\"HS256\"]\n", "is not a signature that anybody but the issuer could not make")
	f("[security.jwt]\nissuer = \"https://i\"\nresource = \"https://r\"\nalgorithms = [\"none\"]\n", "is not a signature")
	f("[security.jwt]\nissuer = \"https://i\"\nresource = \"https://r\"\nalgorithms = []\n", "no token would be taken")
	f("[security.jwt]\nissuer = \"https://i\"\nresource = \"https://r\"\njwks_url = \"https://i/k\"\njwks_file = \"k\"\n", "excludes jwks_url")
	f("[security.jwt]\nissuer = \"https://i\"\nresource = \"https://r\"\njwks_url = \"https://i/k\"\n", "")
	f("[security.jwt]\nissuer = \"https://i\"\nresource = \"https://r\"\njwks_file = \"k\"\n", "\"k\" cannot be used: no such file")
	f("[security.jwt]\nissuer = \"https://i\"\nresource = \"https://r\"\njwks_file = '"+testkit.WriteFile(t, "k", `{"keys":[]}`)+"'\n", "has no key for signatures")
	f("[tls]\ncert_file = \"c\"\n", "needs key_file")
	f("[tls]\nkey_file = \"k\"\n", "needs cert_file")
	f("[tls]\nclient_auth = \"required\"\n", "needs TLS")
	f("[tls]\nclient_scopes = [\"a\"]\n", "client_scopes: is set, but client_auth is none")
	f("[tls]\ncert_file = \"c\"\nkey_file = \"k\"\n", "cannot be used with key_file")
	up := "[upstreams.a]\nurl = \"http://localhost:1\"\n"
	asked := on + keys + up
	f(asked+"scopes = { \"tool:a*\" = [\"x\"], \"resource:file:///b.md*\" = [\"file:read\"], \"method:tools/list\" = [\"y\"] }\n", "")
	f(up+"scopes = { \"tool:a\" = [\"x\"] }\n", "c.toml:3: upstreams.a.scopes.\"tool:a\": needs scopes, but nobody is asked who he is: everybody would get in without; fix: ask for credentials (security.api_keys_enabled,")
	f("[security]\nallow_anonymous = true\n"+up+"scopes = { \"tool:a\" = [\"x\"] }\n", "everybody would get in without")
	f(up+"access.bob.tools = [\"a\"]\n", "c.toml:3: upstreams.a.access.bob: is about one principal, but nobody is asked who he is")
	f(up+"access.\"*\".tools = [\"a\"]\n", "")
	f(asked+"access.bob.tools = [\"a\"]\n", "")
	f(asked+"scopes = { \"tool:*\" = [\"x\"] }\n", "")
	f(asked+"isolation = \"principal\"\nforward_headers = { X-A = \"X-A\" }\n", "")
	for _, isolation := range []string{"shared", "pool(2)"} {
		f(asked+"isolation = \""+isolation+"\"\nforward_headers = { X-A = \"X-A\" }\n", "c.toml:7: upstreams.a.isolation: lets callers share sessions, but upstreams.a.forward_headers (")
	}
	f(up+"scopes = { \"a\" = [\"x\"] }\n", "does not say what needs scopes")
	f(up+"scopes = { \"tool:*a\" = [\"x\"] }\n", "does not say what needs scopes")
	f(up+"scopes = { \"tool:a\" = [] }\n", "is empty")
	f(up+"oauth.client_id = \"x\"\n", "but not token_url")
	f(up+"oauth.token_url = \"https://t\"\n", "but not client_id")
	f(up+"oauth.token_url = \"http://t.example\"\n", "is not https")
	f(up+"oauth.token_url = \"https://t\"\noauth.client_id = \"x\"\nheaders = { authorization = \"y\" }\n", "and so does headers")
	f("[upstreams.a]\ncommand = [\"true\"]\noauth.token_url = \"https://t\"\n", "only concerns an upstream with a url")
}

// Names with dots are names in api_keys_file, too.
func TestKeysFileNames(t *testing.T) {
	keys := testkit.WriteFile(t, "keys.toml", "[\"a.b\"]\nhashes = [\""+policies.HashKey(policies.NewKey())+"\"]\nscopes = [\"x\"]\n")
	c, err := load(t, testkit.WriteFile(t, "c.yaml", "security: {api_keys_enabled: true, api_keys_file: '"+keys+"'}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if all := c.Security.Auth.Keys; len(all) != 1 || all[0].Name != "a.b" || len(all[0].Hashes) != 1 || printedValue(t, c, `security.api_keys."a.b".scopes`) != `["x"]` {
		t.Errorf("%+v", all)
	}
}

// An address other than the loopback is served only if callers must authenticate.
func TestServeRequiresCredentials(t *testing.T) {
	up := "listen = \"0.0.0.0:8080\"\n"
	end := "[upstreams.a]\nurl = \"http://localhost:1\"\n"
	toml := "[security.api_keys.a]\nhashes = [\"" + policies.HashKey(policies.NewKey()) + "\"]\n"
	for text, want := range map[string]bool{"": false, "[security]\napi_keys_enabled = true\n" + toml: true,
		"[security.jwt]\nissuer = \"https://i\"\nresource = \"https://r\"\n": true} {
		c, err := load(t, testkit.WriteFile(t, "c.toml", up+text+end), nil)
		if err != nil {
			t.Fatal(err)
		}
		opt := c.Loaded
		opt.For = OnServe
		if _, err := LoadConfig(opt); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A key may have a rate of its own, and two keys of one principal have the same.
func TestKeyRates(t *testing.T) {
	key := func(name, more string) string {
		return "[security.api_keys." + name + "]\nhashes = [\"" + policies.HashKey(policies.NewKey()) + "\"]\n" + more
	}
	const on = "[security]\napi_keys_enabled = true\n"
	c, err := load(t, testkit.WriteFile(t, "c.toml", on+key("a", "rate_limit = 7\nprincipal = \"p\"\n")+key("b", "")+key("c", "rate_limit = 7\nprincipal = \"p\"\n")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if rates := c.KeyRates(); len(rates) != 1 || rates["p"] != 7 {
		t.Errorf("%v", rates)
	}
	for _, other := range []string{"rate_limit = 8\n", ""} {
		_, err := load(t, testkit.WriteFile(t, "c.toml", on+key("p", "rate_limit = 7\n")+key("b", "principal = \"p\"\n"+other)), nil)
		if err == nil || !strings.Contains(err.Error(), "security.api_keys.b.rate_limit: differs from that of p") {
			t.Errorf("%v", err)
		}
	}
	if c, err := load(t, testkit.WriteFile(t, "c.toml", "[upstreams.a]\nurl = \"http://a\"\n"), nil); err != nil || c.KeyRates() != nil {
		t.Errorf("%v", err)
	}
}
