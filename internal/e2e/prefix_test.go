package e2e

import (
	"cmp"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
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
			for path, server := range map[string]string{"/openapi.json": cmp.Or(c.want, "/"), "/servers/default/openapi.json": c.want + "/servers/default"} {
				if res := r.must("GET", "/gw"+path, ""); !strings.Contains(res.body, `"servers":[{"url":"`+server+`"}]`) {
					t.Errorf("%s: %.300s", path, res.body)
				}
			}
			if res := r.must("GET", "/gw/docs", ""); res.status != 200 || regexp.MustCompile(`(href|src)="?/`).MatchString(res.body) {
				t.Errorf("a link of /docs leads out of the prefix: %s", res.body)
			}
		})
	}
}

// Descriptions for several prefixes, and for none, are kept apart, and so are their tags.
func TestDescriptionsOfPrefixes(t *testing.T) {
	u := newUpstream(t, "legacy")
	r := startRig(t, "[security]\ntrusted_proxies = [\"127.0.0.0/8\"]\n"+u.toml(""), false)
	tags := map[string]string{}
	for _, prefix := range []string{"/a", "/b", "", "/a"} {
		res := r.must("GET", "/openapi.json", "", "X-Forwarded-Prefix", cmp.Or(prefix, "/"))
		if !strings.Contains(res.body, `"servers":[{"url":"`+cmp.Or(prefix, "/")+`"}]`) {
			t.Errorf("%q: %.300s", prefix, res.body)
		}
		tag := res.header.Get("ETag")
		if before := tags[prefix]; tag == "" || before != "" && before != tag {
			t.Errorf("%q: %s, before %s", prefix, tag, before)
		}
		tags[prefix] = tag
	}
	if tags["/a"] == tags["/b"] || tags["/a"] == tags[""] {
		t.Errorf("one tag for different descriptions: %v", tags)
	}
}
