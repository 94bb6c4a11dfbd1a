package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

const discoverBody = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + modernMeta + `}}`

// A page of another origin in a browser: preflight, request, refusal.
func TestBrowsersOnOtherOrigins(t *testing.T) {
	u := newUpstream(t, "modern")
	r := startRig(t, "[security]\nallowed_origins = [\"https://App.example\"]\n"+u.toml(""), true)
	asks := []string{"Origin", "https://app.example", "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "content-type,mcp-method,mcp-protocol-version,mcp-param-city"}
	for _, path := range []string{"/mcp", "/call-tool", "/servers/up/mcp"} {
		res := r.must("OPTIONS", path, "", asks...)
		if res.status != 204 || res.body != "" || res.header.Get("Access-Control-Allow-Origin") != "https://app.example" ||
			!strings.Contains(res.header.Get("Access-Control-Allow-Headers"), "mcp-param-city") {
			t.Errorf("%s: %d %s %v", path, res.status, res.body, res.header)
		}
	}
	headers := append(modernHeaders("server/discover", ""), "Origin", "https://app.example")
	res := r.must("POST", "/mcp", discoverBody, headers...)
	if res.status != 200 || res.header.Get("Access-Control-Allow-Origin") != "https://app.example" || res.header.Get("Vary") != "Origin" {
		t.Errorf("%d %s %v", res.status, res.body, res.header)
	}
	res = r.must("POST", "/mcp", "{", headers...)
	if res.status != 400 || res.header.Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("a page cannot read why it was refused: %d %v", res.status, res.header)
	}
	res = r.must("GET", "/tools", "", "Origin", "https://app.example")
	if res.status != 200 || res.header.Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("REST: %d %v", res.status, res.header)
	}
	asks[1] = "https://evil.example"
	res = r.must("OPTIONS", "/mcp", "", asks...)
	if res.status != 403 || res.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a foreign page: %d %v", res.status, res.header)
	}
}

// The host that a trusted proxy forwards is used; from other clients it is not.
func TestTrustedProxies(t *testing.T) {
	u := newUpstream(t, "modern")
	common := "allowed_hosts = [\"app.example\"]\n"
	for trusted, want := range map[string]int{`["127.0.0.0/8"]`: 200, `["10.0.0.0/8"]`: 403} {
		r := startRig(t, "[security]\n"+common+"trusted_proxies = "+trusted+"\n"+u.toml(""), true)
		res := r.must("POST", "/mcp", discoverBody, append(modernHeaders("server/discover", ""), "Host", "inner:1", "X-Forwarded-Host", "app.example")...)
		if res.status != want {
			t.Errorf("%s: %d %s", trusted, res.status, res.body)
		}
	}
}

// A request that a gate refuses is refused before its body has arrived, at every path and in the form of each.
func TestRefusedBeforeTheBody(t *testing.T) {
	u := newUpstream(t, "modern")
	r := startRig(t, u.toml(""), true)
	u.forget()
	for path, want := range map[string]string{"/mcp": `"code":-32600`, "/call-tool": `"INVALID_ARGUMENTS"`, "/nowhere": `"code":-32600`} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n", path); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body := make([]byte, 4096)
		n, _ := res.Body.Read(body)
		if res.StatusCode != 403 || !strings.Contains(string(body[:n]), want) {
			t.Errorf("%s: %d %s", path, res.StatusCode, body[:n])
		}
		_ = res.Body.Close()
		_ = conn.Close()
	}
}
