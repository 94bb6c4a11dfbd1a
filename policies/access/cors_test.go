package access

import (
	"strings"
	"testing"

	"dragoman/proxy"
)

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
