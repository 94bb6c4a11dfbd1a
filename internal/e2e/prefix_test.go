package e2e

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// prefixed is a proxy in front of the rig that serves it under /gw, and sets the given X-Forwarded-Prefix unless that is empty.
func (r *rig) prefixed(header string) *rig {
	to, err := url.Parse(r.base)
	if err != nil {
		r.t.Fatal(err)
	}
	front := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(to)
		if header != "" {
			p.Out.Header.Set("X-Forwarded-Prefix", header)
		}
	}}
	through := *r
	through.base = newTestServer(r.t, http.StripPrefix("/gw", front))
	return &through
}

// Behind a proxy that serves Dragoman under a path, the endpoint that HTTP+SSE names leads through the proxy: by the setting, or by the
// header of a proxy that is trusted.
func TestPathPrefix(t *testing.T) {
	const trusting = "[security]\ntrusted_proxies = [\"127.0.0.0/8\"]\n"
	for name, c := range map[string]struct{ config, header, want string }{
		"the setting":                  {"public_prefix = \"/gw\"\n", "", "/gw"},
		"the header":                   {trusting, "/gw", "/gw"},
		"the header, with a slash":     {trusting, "/gw/", "/gw"},
		"the header beats the setting": {"public_prefix = \"/other\"\n" + trusting, "/gw", "/gw"},
		"none is one too":              {"public_prefix = \"/other\"\n" + trusting, "/", ""},
		"a proxy that is not trusted":  {"", "/gw", ""},
		"another host":                 {trusting, "//evil.example", ""},
		"another host, by a backslash": {trusting, `/\evil.example`, ""},
		"up":                           {trusting, "/gw/../x", ""},
		"a query":                      {trusting, "/gw?x=", ""},
		"an invalid one":               {"public_prefix = \"/gw\"\n" + trusting, "https://evil.example/gw", "/gw"},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, "legacy")
			r := startRig(t, c.config+u.toml(""), false).prefixed(c.header)
			for path, endpoint := range map[string]string{"/sse": "/messages", "/mcp/sse": "/messages", "/servers/default/sse": "/servers/default/messages"} {
				client := r.sse("/gw" + path)
				if !strings.HasPrefix(client.post, c.want+endpoint+"?sessionId=") {
					t.Errorf("%s: %q", path, client.post)
				}
				if c.want == "/gw" {
					client.send(stdioInit)
					client.receives(`{"jsonrpc":"2.0","id":"i","result":{…`)
				}
				_ = client.res.Body.Close()
			}
			if c.header == "" { // the description of the tools is the same for all, and knows the setting only
				if res := r.must("GET", "/gw/openapi.json", ""); !strings.Contains(res.body, `"servers":[{"url":"/gw"}]`) {
					t.Errorf("%.300s", res.body)
				}
				if res := r.must("GET", "/gw/servers/default/openapi.json", ""); !strings.Contains(res.body, `"servers":[{"url":"/gw/servers/default"}]`) {
					t.Errorf("%.300s", res.body)
				}
			}
		})
	}
}
