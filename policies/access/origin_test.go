package access

import (
	"strings"
	"testing"

	"dragoman/proxy"
)

func TestOrigin(t *testing.T) {
	f := func(opt OriginOptions, host, origin string, want bool) {
		t.Helper()
		err := Origin(opt)(&proxy.Head{Host: []byte(host), Origin: []byte(origin)})
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
	f(local, "localhost:8080", "http://app.localhost:3000", true)
	f(local, "app.localhost:8080", "http://evil.example", false)
	f(local, "evillocalhost", "", false)
	f(local, "app.localhost.evil.example", "", false)
	f(local, "localhost:8080", "http://app.localhost.evil.example", false)
	f(local, "evil.example:8080", "", false)
	f(local, "localhost.evil.example", "", false)
	f(local, "", "", false)
	f(local, "localhost:8080", "http://localhost:3000", true)
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
