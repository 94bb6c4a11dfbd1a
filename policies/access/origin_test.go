package access

import (
	"strings"
	"testing"

	"dragoman/proxy"
)

func TestOrigin(t *testing.T) {
	f := func(opt OriginOptions, host, origin string, want bool) {
		t.Helper()
		lines := []string{"Host: " + host, "Content-Type: application/json"}
		if origin != "" {
			lines = append(lines, "Origin: "+origin)
		}
		err := Origin(opt)(headOf(t, lines...))
		if (err == nil) != want {
			t.Errorf("%+v Host %q Origin %q: %v", opt, host, origin, err)
		}
		if err != nil && err.Status != 403 {
			t.Errorf("status %d", err.Status)
		}
	}
	local := OriginOptions{Loopback: true}
	f(local, "localhost:8080", "", true)
	f(local, "127.0.0.1:8080", "", true)
	f(local, "127.8.9.1", "", true)
	f(local, "[::1]:8080", "", true)
	f(local, "LOCALHOST:8080", "", true)
	f(local, "app.localhost:8080", "", true) // RFC 6761 §6.3: loopback, as in the check of service.host
	f(local, "localhost.:8080", "", false)
	f(local, "app.localhost.", "", false)
	f(local, "[::ffff:127.0.0.1]:8080", "", true)
	f(local, "localhost:8080", "http://app.localhost:3000", false)
	f(local, "localhost:8080", "http://localhost:8080", true)
	f(local, "LOCALHOST:8080", "http://localhost:8080", true)
	f(local, "127.0.0.1:8080", "http://127.0.0.1:8080", true)
	f(local, "[::1]:8080", "http://[::1]:8080", true)
	f(local, "127.0.0.1:8080", "http://localhost:8080", false)
	f(local, "localhost:8080", "https://localhost:8080", false)
	f(local, "localhost:8080", "http://localhost", false)
	f(local, "localhost:8080", "http://localhost:8080/", false)
	f(local, "localhost:8080", "http://x@localhost:8080", false)
	f(local, "localhost:8080", "http:localhost:8080", false)
	f(local, "localhost:8080", "ws://localhost:8080", false)
	f(local, "localhost", "http://localhost", true)
	f(local, "localhost:80", "http://localhost", true)
	f(local, "localhost", "http://localhost:80", true)
	f(local, "localhost:443", "http://localhost", false)
	f(local, "localhost", "http://", false)
	f(local, "localhost", "http://:80", false)
	f(local, "app.localhost:8080", "http://evil.example", false)
	f(local, "evillocalhost", "", false)
	f(local, "app.localhost.evil.example", "", false)
	f(local, "localhost:8080", "http://app.localhost.evil.example", false)
	f(local, "evil.example:8080", "", false)
	f(local, "localhost.evil.example", "", false)
	f(local, "", "", false)
	f(local, "localhost:8080", "http://localhost:3000", false)
	f(OriginOptions{Loopback: true, Origins: []string{"http://localhost:3000"}}, "localhost:8080", "http://LOCALHOST:3000", true)
	f(local, "localhost:8080", "http://evil.example", false)
	f(local, "evil.example", "http://evil.example", false)
	f(local, "localhost:8080", "null", false)
	f(local, "localhost:8080", "file://localhost", false)
	f(OriginOptions{Loopback: true, Hosts: []string{"mcp.test"}}, "mcp.test:1234", "", true)
	f(OriginOptions{Loopback: true, Hosts: []string{"mcp.test"}}, "localhost", "", true)
	open := OriginOptions{}
	f(open, "anything.example", "", true)
	f(open, "a.example:8080", "http://a.example:8080", true)
	f(open, "a.example:8080", "http://b.example:8080", false)
	f(open, "a.example:8080", "http://localhost", false)
	f(open, "a.example:8080", "http://app.localhost", false)
	listed := OriginOptions{Hosts: []string{"a.example"}, Origins: []string{"https://app.example"}}
	f(listed, "a.example", "https://app.example", true)
	f(listed, "b.example", "", false)
}

// The origin of a listener with TLS, or behind a trusted proxy that has it, is https.
func TestOriginOverTLS(t *testing.T) {
	gate := Origin(OriginOptions{})
	for origin, want := range map[string]bool{"https://a.example": true, "https://a.example:443": true, "http://a.example": false, "https://a.example:80": false} {
		h := headOf(t, "Host: a.example", "Content-Type: application/json", "Origin: "+origin)
		h.Secure = true
		if err := gate(h); (err == nil) != want {
			t.Errorf("%s: %v", origin, err)
		}
	}
}

// Requests of a browser without an Origin, and what a page may send.
func TestFetchMetadata(t *testing.T) {
	gate := Origin(OriginOptions{Loopback: true, Origins: []string{"https://app.example"}})
	f := func(status int, method, path string, lines ...string) {
		t.Helper()
		h := headOf(t, append(lines, "Host: localhost:1")...)
		h.Method, h.Path = []byte(method), []byte(path)
		got := 0
		if err := gate(h); err != nil {
			got = err.Status
		}
		if got != status {
			t.Errorf("%s %s %q: %d, want %d", method, path, lines, got, status)
		}
	}
	const (
		same, none, sibling, cross = "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none", "Sec-Fetch-Site: same-site", "Sec-Fetch-Site: cross-site"
		own, app, evil             = "Origin: http://localhost:1", "Origin: https://app.example", "Origin: https://evil.example"
		inJSON                     = "Content-Type: application/json"
		navigate, document, frame  = "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-Dest: iframe"
	)
	for _, method := range []string{"GET", "HEAD"} {
		f(0, method, "/tools", same)
		f(0, method, "/tools", none)
		f(403, method, "/tools", sibling)
		f(403, method, "/sse", cross)
		f(403, method, "/tools", "Sec-Fetch-Site: new-word")
		f(403, method, "/tools", cross, navigate, document)
		f(0, method, "/docs", cross, navigate, document)
		f(0, method, "/servers/a/docs", sibling, navigate, document)
		f(403, method, "/docs", cross, navigate, frame)
		f(403, method, "/docs", cross, document)
		f(403, method, "/docs", sibling)
	}
	f(0, "GET", "/tools", app, cross)
	f(403, "GET", "/tools", evil, cross)
	f(403, "GET", "/tools", evil, same)
	f(403, "GET", "/tools", own, cross) // a request that another site has redirected
	f(403, "GET", "/tools", app, evil)
	f(0, "POST", "/mcp", own, same, inJSON)
	f(0, "POST", "/mcp", same, inJSON)
	f(0, "POST", "/mcp", own, none, inJSON)
	f(403, "POST", "/mcp", none, inJSON)
	f(403, "POST", "/docs", cross, navigate, document, inJSON)
	f(0, "POST", "/mcp", own, "Content-Type: Application/JSON; charset=utf-8")
	f(0, "POST", "/mcp", app, cross, inJSON)
	f(415, "POST", "/mcp", own)
	f(415, "POST", "/mcp", app, cross)
	f(415, "POST", "/mcp", same)
	f(415, "POST", "/mcp", own, "Content-Type: text/plain")
	f(415, "POST", "/mcp", own, "Content-Type: text/plain; application/json")
	f(415, "PUT", "/loglevel", own, "Content-Type: application/x-www-form-urlencoded")
	f(0, "DELETE", "/mcp", own)
	f(0, "OPTIONS", "/mcp", app)
	f(0, "POST", "/mcp", "Content-Type: text/plain") // no browser: the endpoint judges
	f(0, "POST", "/mcp")
}

func saidOf(h *proxy.Head, name string) string {
	var all []string
	for _, x := range h.Reply {
		if x.Name == name {
			all = append(all, x.Value)
		}
	}
	return strings.Join(all, "|")
}

func TestCORS(t *testing.T) {
	gate := CORS([]string{"https://app.example"})
	preflight := func(origin, headers string) *proxy.Head {
		h := headOf(t, "Origin: "+origin, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: "+headers)
		h.Method = []byte("OPTIONS")
		return h
	}
	h := preflight("https://App.example", "content-type,mcp-method, Mcp-Param-City ,mcp-param-, mcp-param-a b, x-other,\r\nmcp-param-z")
	if err := gate(h); err != nil || h.Status != 204 {
		t.Fatalf("%d, %v", h.Status, err)
	}
	if got := saidOf(h, "Access-Control-Allow-Origin"); got != "https://App.example" {
		t.Errorf("origin %q: a browser compares it with its own", got)
	}
	allowed := saidOf(h, "Access-Control-Allow-Headers")
	for _, want := range []string{"Mcp-Method", "Mcp-Name", "Mcp-Session-Id", "Last-Event-ID", "MCP-Protocol-Version", "Authorization", ", Mcp-Param-City"} {
		if !strings.Contains(allowed, want) {
			t.Errorf("%q lacks %s", allowed, want)
		}
	}
	if strings.Contains(allowed, "x-other") || strings.Contains(allowed, "a b") || strings.HasSuffix(allowed, "mcp-param-") || strings.ContainsAny(allowed, "\r\n") {
		t.Errorf("%q has a forbidden field", allowed)
	}

	if h = preflight("https://evil.example", "content-type"); gate(h) != nil || h.Status != 0 || saidOf(h, "Access-Control-Allow-Origin") != "" || saidOf(h, "Vary") != "Origin" {
		t.Errorf("a foreign page: %+v", h)
	}
	if h = headOf(t, "Origin: https://app.example"); gate(h) != nil || h.Status != 0 || saidOf(h, "Access-Control-Allow-Origin") != "https://app.example" ||
		!strings.Contains(saidOf(h, "Access-Control-Expose-Headers"), "Mcp-Session-Id") || saidOf(h, "Vary") != "Origin" {
		t.Errorf("a request: %+v", h)
	}
	if h = headOf(t, "Origin: https://app.example"); true {
		h.Method = []byte("OPTIONS")
		if gate(h) != nil || h.Status != 0 {
			t.Errorf("OPTIONS without a preflight: %+v", h)
		}
	}
	if h = headOf(t, "Host: a"); gate(h) != nil || len(h.Reply) != 0 {
		t.Errorf("no browser: %+v", h)
	}
	if h = preflight("https://app.example", strings.Repeat("mcp-param-x,", maxAsked)); gate(h) != nil || len(saidOf(h, "Access-Control-Allow-Headers")) > 1000 {
		t.Error("the requested list is not bounded")
	}
	if CORS(nil) != nil {
		t.Error("there is a gate without origins")
	}
}
