package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"dragoman/internal/config"
	"dragoman/internal/testkit"
)

// A REST service gets them too, and its health check is sent without them.
func TestForwardREST(t *testing.T) {
	var mu sync.Mutex
	got := map[string][]string{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got[r.URL.Path] = append(got[r.URL.Path], r.Header.Get("Authorization"))
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/health":
			_, _ = w.Write([]byte(`{"status":"healthy"}`))
		case "/tools":
			_, _ = w.Write([]byte(`{"service":"s","version":"1.0.0","tools":[{"name":"a","description":"of ` + r.Header.Get("Authorization") + `","inputSchema":{"type":"object"}}]}`))
		case "/call-tool":
			_ = json.NewEncoder(w).Encode(map[string]any{"success": true, "data": r.Header.Get("Authorization")})
		default:
			w.WriteHeader(404)
		}
	}))
	t.Cleanup(srv.Close)
	r := startRig(t, fmt.Sprintf("[upstreams.default]\nurl = %q\ntransport = \"rest\"\n%s", srv.URL, forwarding), true)
	for _, who := range []string{"alice", "bob"} {
		c := r.sending(userToken, who, "Authorization", "mine")
		c.said(who, c.callModern(), who)
		session := c.open("2025-11-25", "{}")
		c.said(who+", legacy", c.callLegacy(session), who)
		if res := c.must("GET", "/tools", ""); !strings.Contains(res.body, "of "+who) {
			t.Errorf("%s: %s", who, res.body)
		}
		if res := c.must("POST", "/call-tool", `{"tool":"a","arguments":{}}`, "Content-Type", jsonType); !strings.Contains(res.body, who) {
			t.Errorf("%s: %s", who, res.body)
		}
	}
	if ok, _, why := r.h.Targets.Named("default").Service.Healthy(); !ok {
		t.Error(why)
	}
	if err := r.h.Targets.Named("default").Service.Check(t.Context()); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if h := got["/health"]; h[len(h)-1] != "" {
		t.Errorf("a health check came with %q", h[len(h)-1])
	}
	if slices.Contains(got["/call-tool"], "mine") || slices.Contains(got["/tools"], "mine") {
		t.Errorf("the service got %v", got)
	}
}

// Ambiguous settings, and those that would share one caller's data, are refused before anything is served.
func TestForwardConfig(t *testing.T) {
	f := func(toml, want string) {
		t.Helper()
		_, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "c.toml", toml)})
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s\n  %s\nwant\n  %s", toml, got, want)
		}
	}
	up := "[upstreams.a]\nurl = \"http://localhost:1\"\n"
	f(up+forwarding, "")
	f(up+"transport = \"rest\"\n"+forwarding, "")
	f(up+"transport = \"sse\"\nisolation = \"principal\"\n"+forwarding, "")
	f(up+"forward_headers = { Cookie = \"Cookie\" }\n", "")
	for _, name := range []string{"Host", "Connection", "content-length", "Mcp-Session-Id", "Mcp-Param-x", "Mcp-Foo", "Accept", "Transfer-Encoding", "TE", "Last-Event-ID", "Proxy-Authorization", "Expect"} {
		f(up+"forward_headers = { "+name+" = \"X-A\" }\n", "cannot be passed on")
		f(up+"forward_headers = { X-A = \""+name+"\" }\n", "cannot be passed on")
	}
	f(up+"forward_headers = { \"a b\" = \"X-A\" }\n", "is not a header name")
	f(up+"forward_headers = { X-A = \"a\\r\\nb: c\" }\n", "is not a header name")
	f(up+"forward_headers = { X-A = \"\" }\n", "is not a header name")
	f(up+"forward_headers = { X-A = 5 }\n", "is not a header name")
	f(up+"forward_headers = \"X-A\"\n", "must be a table")
	f(up+"forward_headers = { X-A = \"X-C\", X-B = \"x-c\" }\n", "and so does another")
	f(up+"headers = { x-tenant = \"t\" }\n"+forwarding, "and so does upstreams.a.headers")
	f(up+"oauth.token_url = \"https://t\"\noauth.client_id = \"x\"\n"+forwarding, "and so does upstreams.a.oauth")
	f(up+"isolation = \"pool(3)\"\n"+forwarding, "lets callers share sessions")
	f(up+"isolation = \"shared\"\n"+forwarding, "lets callers share sessions")
	f("[upstreams.a]\ncommand = [\"true\"]\n"+forwarding, "only concerns an upstream with a url")
	f("[upstreams.a]\nurl = \"tcp://localhost:1\"\n"+forwarding, "only concerns an upstream with an http or https url")

	toml, _ := keysToml("k")
	c, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "c.toml", "[security]\napi_keys_enabled = true\n"+toml+up+"forward_headers = { authorization = \"Authorization\", X-API-Key = \"X-Key\", X-Tenant = \"X-Tenant\" }\n")})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) != 2 || !strings.Contains(c.Warnings[0]+c.Warnings[1], "specification forbids") {
		t.Errorf("warnings: %q", c.Warnings)
	}
	var out strings.Builder
	if err := c.PrintTOML(&out); err != nil || !strings.Contains(out.String(), `forward_headers.X-Tenant = "X-Tenant"`) {
		t.Errorf("%v, %s", err, out.String())
	}
	if again, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "d.toml", out.String())}); err == nil && !slices.Equal(again.Upstreams[0].Forward, c.Upstreams[0].Forward) {
		t.Errorf("%v became %v", c.Upstreams[0].Forward, again.Upstreams[0].Forward)
	}
}
