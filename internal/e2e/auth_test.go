package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"dragoman/policies"
)

// API keys: in either header, several of one client, expired and wrong ones, at every endpoint.
func TestAPIKeys(t *testing.T) {
	u := newUpstream(t, "modern")
	old, fresh, gone := policies.NewKey(), policies.NewKey(), policies.NewKey()
	file := filepath.Join(t.TempDir(), "keys.toml")
	filed := policies.NewKey()
	if err := os.WriteFile(file, []byte(fmt.Sprintf("[filed]\nhashes = [%q]\n", policies.HashKey(filed))), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startRig(t, fmt.Sprintf("[security]\napi_keys_enabled = true\napi_keys_file = %q\n[security.api_keys.ci]\nhashes = [%q, %q]\n[security.api_keys.gone]\nhashes = [%q]\nexpires = 2020-01-01\n%s",
		file, policies.HashKey(old), policies.HashKey(fresh), policies.HashKey(gone), u.toml("")), true)
	u.forget()
	for _, key := range []string{old, fresh, filed} {
		if res := r.ask("Authorization", "Bearer "+key); res.status != 200 {
			t.Errorf("a good key as bearer: %d %s", res.status, res.body)
		}
		if res := r.ask("X-API-Key", key); res.status != 200 {
			t.Errorf("a good key as X-API-Key: %d %s", res.status, res.body)
		}
	}
	if res := r.must("GET", "/tools", "", "X-API-Key", old); res.status == 401 {
		t.Errorf("REST: %d %s", res.status, res.body)
	}
	asked := len(u.all("server/discover"))
	bad := map[string][]string{
		"unknown":             {"Authorization", "Bearer " + policies.NewKey()},
		"expired":             {"X-API-Key", gone},
		"empty":               {"X-API-Key", ""},
		"another scheme":      {"Authorization", "Basic " + old},
		"two of different":    {"X-API-Key", filed, "Authorization", "Bearer " + old},
		"one good, one wrong": {"X-API-Key", "nonsense", "Authorization", "Bearer " + old},
		"twice":               {"Authorization", "Bearer " + old, "Authorization", "Bearer " + old},
		"a hash":              {"X-API-Key", policies.HashKey(old)},
	}
	for what, headers := range bad {
		challenged(t, what, r.ask(headers...), 401, `error="invalid_token"`)
	}
	for _, ask := range []struct{ verb, path string }{{"POST", "/mcp"}, {"GET", "/mcp"}, {"DELETE", "/mcp"}, {"GET", "/sse"}, {"POST", "/messages?sessionId=a"}, {"GET", "/tools"},
		{"POST", "/call-tool"}, {"POST", "/docs"}, {"GET", "/docs/"}, {"GET", "//docs"}, {"GET", "/servers/default/docs/"}, {"GET", "/servers/default/tools/docs"}, {"GET", "/servers/default/openapi.json"}, {"GET", "/openapi.json"}, {"GET", "/nowhere"}, {"GET", "/health/"}, {"GET", "//health"}, {"GET", "/tools/../health"}, {"GET", "/servers/%2e%2e%2f.well-known%2foauth-protected-resource%2fx/tools"}, {"POST", "/health"}, {"GET", "/servers/default/health"}} {
		res := r.must(ask.verb, ask.path, "{}", "Content-Type", jsonType)
		challenged(t, ask.verb+" "+ask.path, res, 401, "Bearer realm")
		if strings.Contains(res.header.Get("WWW-Authenticate"), "error") {
			t.Errorf("%s: an error code without a credential: %s", ask.path, res.header.Get("WWW-Authenticate"))
		}
	}
	if n := len(u.all("server/discover")); n != asked {
		t.Errorf("%d unauthenticated requests have reached the server", n-asked)
	}
	for want, headers := range map[string][]string{`"code":"unauthenticated"`: nil, `"code":"invalid_credentials"`: {"X-API-Key", gone}} {
		if res := r.must("GET", "/tools", "", headers...); !strings.Contains(res.body, want) || !strings.Contains(res.body, `"success":false`) {
			t.Errorf("REST: %s; want %s", res.body, want)
		}
	}
	for _, path := range []string{"/docs", "/servers/default/docs"} { // the same for everybody: it asks for a key itself
		res := r.must("GET", path, "")
		if res.status != 200 || !strings.Contains(res.body, "API key or token") || res.body != r.must("GET", path, "", "X-API-Key", old).body {
			t.Errorf("%s without a key: %d %.300s", path, res.status, res.body)
		}
	}
	if res := r.must("GET", "/health", ""); res.status != 200 || strings.Contains(res.body, "default") {
		t.Errorf("/health without a key: %d %s", res.status, res.body)
	}
	if res := r.must("GET", "/health", "", "X-API-Key", old); res.status != 200 || !strings.Contains(res.body, `"default":`) {
		t.Errorf("/health with a key: %d %s", res.status, res.body)
	}
	if log := r.logs.String(); strings.Contains(log, old) || strings.Contains(log, gone) || !strings.Contains(log, "invalid_credentials") || !strings.Contains(log, `"principal":"ci"`) {
		t.Errorf("the log: %s", log)
	}
}

// Without a credential: only on the loopback, only if configured, and not through a proxy.
func TestAnonymousOnLoopback(t *testing.T) {
	u := newUpstream(t, "modern")
	toml, keys := keysToml("ci")
	r := startRig(t, "[security]\napi_keys_enabled = true\nanonymous = \"loopback\"\n"+toml+u.toml(`scopes = { "tool:delete_*" = ["files:write"] }`), true)
	if res := r.ask(); res.status != 200 {
		t.Errorf("%d %s", res.status, res.body)
	}
	for _, header := range []string{"X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"} {
		challenged(t, header, r.ask(header, "127.0.0.1"), 401)
	}
	challenged(t, "a wrong key", r.ask("X-API-Key", "wrong"), 401)
	res := r.must("POST", "/mcp", modernCall("1", "delete_all", ""), modernHeaders("tools/call", "delete_all")...)
	challenged(t, "a tool that needs a scope", res, 401, `scope="files:write"`)
	_ = keys
}

// Bearer tokens: the challenge names the audience, the metadata URLs it names are served, and scopes are enforced.
func TestBearerTokens(t *testing.T) {
	u := newUpstream(t, "modern")
	u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
	u.on("tools/list", func(c *call) {
		c.result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"delete_all","inputSchema":{"type":"object"}}]}`)
	})
	i := newIssuer(t, "rsa", "ec", "ed")
	r := startRig(t, i.toml(`scopes = ["mcp:use"]`)+u.toml(`scopes = { "tool:delete_*" = ["files:write"], "method:tools/call" = ["tools"], "prompt:p" = ["prompts"] }`), true)
	challenged(t, "nothing", r.ask(), 401, `resource_metadata="`+authResource+`/.well-known/oauth-protected-resource/mcp"`, `scope="mcp:use"`)
	for path, resource := range map[string]string{"": "", "/mcp": "/mcp", "/sse": "/sse", "/servers/default/mcp": "/servers/default/mcp"} {
		res := r.must("GET", "/.well-known/oauth-protected-resource"+path, "")
		var doc struct {
			Resource             string
			AuthorizationServers []string `json:"authorization_servers"`
			Scopes               []string `json:"scopes_supported"`
		}
		if err := json.Unmarshal([]byte(res.body), &doc); err != nil || res.status != 200 || doc.Resource != authResource+resource || doc.AuthorizationServers[0] != i.url || len(doc.Scopes) != 4 {
			t.Errorf("%s: %d %s %v", path, res.status, res.body, err)
		}
	}
	if res := r.must("GET", "/.well-known/oauth-protected-resource/servers/nosuch/mcp", ""); res.status != 404 {
		t.Errorf("%d %s", res.status, res.body)
	}
	algs := map[jose.SignatureAlgorithm]string{jose.RS256: "rsa", jose.PS256: "rsa", jose.ES256: "ec", jose.EdDSA: "ed"}
	for alg, kid := range algs {
		if res := r.ask("Authorization", "Bearer "+i.token(kid, alg, nil)); res.status != 200 {
			t.Errorf("%s: %d %s", alg, res.status, res.body)
		}
	}
	if n := i.fetched(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
	challenged(t, "a scope that all need", r.ask("Authorization", "Bearer "+i.token("rsa", jose.RS256, map[string]any{"scope": "other"})), 403, `error="insufficient_scope"`, `scope="mcp:use"`)
	call := func(tool, scope string) *response {
		return r.must("POST", "/mcp", modernCall("1", tool, ""), bearing(i.token("ec", jose.ES256, map[string]any{"scope": scope}), modernHeaders("tools/call", tool))...)
	}
	challenged(t, "a tool's scopes", call("delete_all", "mcp:use"), 403, `error="insufficient_scope"`, `scope="mcp:use tools files:write"`, "/mcp\"")
	challenged(t, "one of two", call("delete_all", "mcp:use tools"), 403)
	for tool, scope := range map[string]string{"delete_all": "mcp:use tools files:write", "read": "mcp:use tools"} {
		if res := call(tool, scope); res.status != 200 {
			t.Errorf("%s with %s: %d %s", tool, scope, res.status, res.body)
		}
	}
	bare := bearing(i.token("ec", jose.ES256, map[string]any{"aud": authResource}), []string{"Content-Type", jsonType})
	res := r.must("POST", "/call-tool", `{"tool":"delete_all","arguments":{}}`, bare...)
	challenged(t, "REST", res, 403, `error="insufficient_scope"`)
	if !strings.Contains(res.body, `"success":false`) || !strings.Contains(res.body, `"code":"insufficient_scope"`) {
		t.Errorf("REST: %s", res.body)
	}
}

// A refusal for lack of scopes is not cached, and cached answers are not given without the scopes: they are checked each time. Legacy
// clients get the status, too.
func TestScopesComeBeforeRepeats(t *testing.T) {
	u := newUpstream(t, "legacy")
	u.on("tools/call", func(c *call) { c.result(`{"content":[{"type":"text","text":"secret"}]}`) })
	i := newIssuer(t, "rsa")
	r := startRig(t, i.toml("")+u.toml(`scopes = { "tool:a" = ["s"] }`), true)
	poor, rich := i.token("rsa", jose.RS256, nil), i.token("rsa", jose.RS256, map[string]any{"scope": "s"})
	r.http.Transport = bearerTransport{r.http.Transport, poor}
	session := r.open("2025-11-25", "{}")
	r.http.Transport = r.http.Transport.(bearerTransport).RoundTripper
	call := func(token string) *response {
		return r.must("POST", "/mcp", legacyCall("1", "a"), bearing(token, legacyHeaders(session))...)
	}
	challenged(t, "too few", call(poor), 403, `scope="s"`)
	if res := call(rich); res.status != 200 || !strings.Contains(res.body, "secret") {
		t.Errorf("%d %s", res.status, res.body)
	}
	challenged(t, "too few, again", call(poor), 403)
}

type bearerTransport struct {
	http.RoundTripper
	token string
}

// RoundTrip implements http.RoundTripper.
func (b bearerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Authorization") == "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.RoundTripper.RoundTrip(req)
}

// client is a client without a credential.
func (b bearerTransport) client() *http.Client { return &http.Client{Transport: b.RoundTripper} }
