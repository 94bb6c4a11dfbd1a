package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-json"

	"dragoman/policies"
)

// registryPage is a page of the list of servers.
type registryPage struct {
	Servers []struct {
		Server struct {
			Name, Version, Description string
			Remotes                    []struct{ Type, URL string }
		}
		Meta map[string]struct {
			Status    string
			UpdatedAt string
			IsLatest  bool
		} `json:"_meta"`
	}
	Metadata struct {
		Count      int
		NextCursor string
	}
}

func (p *registryPage) names() string {
	names := make([]string, len(p.Servers))
	for i := range p.Servers {
		names[i] = strings.TrimPrefix(p.Servers[i].Server.Name, "com.example/")
	}
	return strings.Join(names, " ")
}

// listed returns a page of the list of servers.
func (r *rig) listed(path string, headers ...string) (p registryPage) {
	r.t.Helper()
	res := r.must("GET", path, "", headers...)
	if err := json.Unmarshal([]byte(res.body), &p); err != nil || res.status != 200 {
		r.t.Fatalf("%s: %d %s", path, res.status, res.body)
	}
	return p
}

// servers are upstreams that are listed as an MCP registry: those that a caller may use, in pages.
func TestSubregistry(t *testing.T) {
	key := func(name string) string { return "drg_" + strings.Repeat(name, 43) }
	var toml strings.Builder
	fmt.Fprintf(&toml, "[subregistry]\nnamespace = \"com.example\"\n[security]\napi_keys_enabled = true\ntrusted_proxies = [\"127.0.0.0/8\"]\nallowed_hosts = [\"gate.example\", \"127.0.0.1\"]\n[security.api_keys]\nall = { hashes = [%q], scopes = [\"use:c\"] }\nfew = { hashes = [%q] }\n", policies.HashKey(key("a")), policies.HashKey(key("f")))
	for _, name := range []string{"a", "b", "c", "d"} {
		toml.WriteString(strings.Replace(newUpstream(t, "legacy").toml(map[bool]string{true: "scopes = { \"method:*\" = [\"use:c\"] }"}[name == "c"]), "default", name, 1))
	}
	r := startRig(t, toml.String(), true)
	as := func(name string) string { return "Bearer " + key(name) }

	if res := r.must("GET", "/v0.1/servers", ""); res.status != 401 {
		t.Errorf("without a key: %d %s", res.status, res.body)
	}
	for who, want := range map[string]string{"a": "a b c d", "f": "a b d"} {
		if p := r.listed("/v0.1/servers", "Authorization", as(who)); p.names() != want || p.Metadata.Count != len(p.Servers) || p.Metadata.NextCursor != "" {
			t.Errorf("%s: %s", who, p.names())
		}
	}
	// In pages, and selected.
	var pages []string
	next := ""
	for range 4 {
		p := r.listed("/v0.1/servers?limit=2&cursor="+next, "Authorization", as("f"))
		if pages, next = append(pages, p.names()), p.Metadata.NextCursor; next == "" {
			break
		}
	}
	if got := strings.Join(pages, ", "); got != "a b, d" {
		t.Errorf("pages: %s", got)
	}
	for query, want := range map[string]string{"search=EXAMPLE/D": "d", "search=none": "", "version=latest": "a b c d", "version=9.9.9": "", "updated_since=2000-01-01T00:00:00Z": "a b c d", "updated_since=2999-01-01T00:00:00%2B02:00": "", "include_deleted=true": "a b c d"} {
		if p := r.listed("/v0.1/servers?"+query, "Authorization", as("a")); p.names() != want {
			t.Errorf("%s: %s; want %s", query, p.names(), want)
		}
	}
	for path, status := range map[string]int{"?limit=0": 422, "?limit=101": 422, "?limit=x": 422, "?cursor=%20": 422, "?updated_since=now": 422, "?search=a&search=b": 422, "?search=" + strings.Repeat("x", 600): 422,
		"/com.example%2Fnone/versions": 404, "/com.example%2Fa/versions/2.0.0": 404, "/com.example/a/versions": 404, "/com.example%2Fa": 404, "/com.example%2Fa/versions/latest/x": 404} {
		res := r.must("GET", "/v0.1/servers"+path, "", "Authorization", as("a"))
		if res.status != status || !strings.Contains(res.body, fmt.Sprintf(`"status":%d`, status)) {
			t.Errorf("%s: %d %s; want %d", path, res.status, res.body, status)
		}
	}
	// One of them, which others do not see.
	if res := r.must("GET", "/v0.1/servers/com.example%2Fc/versions/latest", "", "Authorization", as("f")); res.status != 404 {
		t.Errorf("one that is not the caller's: %d %s", res.status, res.body)
	}
	p := r.listed("/v0.1/servers/com.example%2Fc/versions", "Authorization", as("a"))
	if len(p.Servers) != 1 {
		t.Fatalf("%+v", p)
	}
	one := p.Servers[0]
	if m := one.Meta["io.modelcontextprotocol.registry/official"]; m.Status != "active" || !m.IsLatest || m.UpdatedAt == "" {
		t.Errorf("%+v", one)
	}
	if remotes := one.Server.Remotes; len(remotes) != 1 || remotes[0].Type != "streamable-http" || remotes[0].URL != r.base+"/servers/c/mcp" || one.Server.Version == "" || one.Server.Description == "" {
		t.Errorf("%+v", one)
	}
	for headers, want := range map[string]string{"X-Forwarded-Host: gate.example, X-Forwarded-Proto: https, X-Forwarded-Prefix: /gw": "https://gate.example/gw/servers/a/mcp", "X-Forwarded-Host: gate.example:8443": "http://gate.example:8443/servers/a/mcp"} {
		all := []string{"Authorization", as("a")}
		for pair := range strings.SplitSeq(headers, ", ") {
			name, text, _ := strings.Cut(pair, ": ")
			all = append(all, name, text)
		}
		res := r.must("GET", "/v0.1/servers/com.example%2Fa/versions/latest", "", all...)
		if !strings.Contains(res.body, `"url":"`+want+`"`) {
			t.Errorf("%s: %s", headers, res.body)
		}
	}
	if res := r.must("GET", "/v0.1/servers", "", "Authorization", as("a"), "X-Forwarded-Host", "evil.example/x"); res.status != 400 && res.status != 403 {
		t.Errorf("no host: %d %s", res.status, res.body)
	}
	// The answer has a tag, and is asked for by it.
	res := r.must("GET", "/v0.1/servers", "", "Authorization", as("a"))
	tag := res.header.Get("ETag")
	if again := r.must("GET", "/v0.1/servers", "", "Authorization", as("a"), "If-None-Match", `"x", W/`+tag); again.status != 304 || again.body != "" || !regexp.MustCompile(`^"[\w-]{22}"$`).MatchString(tag) {
		t.Errorf("%s: %d %s", tag, again.status, again.body)
	}
	if res.header.Get("Cache-Control") != "private, no-cache" || res.header.Get("Content-Type") != "application/json" {
		t.Errorf("%v", res.header)
	}
	if post := r.must("POST", "/v0.1/servers", "{}", "Authorization", as("a")); post.status != 405 {
		t.Errorf("POST: %d", post.status)
	}
}

// It can be switched off.
func TestSubregistryOff(t *testing.T) {
	r := startRig(t, "subregistry.enabled = false\n"+newUpstream(t, "legacy").toml(""), false)
	if res := r.must("GET", "/v0.1/servers", ""); res.status != 404 {
		t.Errorf("%d %s", res.status, res.body)
	}
}
