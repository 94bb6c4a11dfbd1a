package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/policies/access"
)

// metadata serves the metadata by which clients find the authorization server (RFC 9728), for the service as a whole
// and for each MCP endpoint.
func (g *Generation) metadata(srv httpserver.Registrar) error {
	j := &g.Cfg.Security.Auth.JWT
	if g.identity.auth == nil || j.Issuer == "" {
		return nil
	}
	g.identity.keys.Prefetch()
	resource := strings.TrimSuffix(j.Resource, "/")
	prefix := strings.TrimPrefix(access.MetadataURL(resource, ""), originOf(resource)+access.MetadataPath)
	scopes := slices.Clone(j.Scopes)
	bases := []string{""}
	for _, u := range g.Cfg.Upstreams {
		bases = append(bases, "/servers/"+u.Name)
		for _, r := range u.Scopes {
			scopes = union(scopes, r.Scopes)
		}
	}
	served := map[string]bool{}
	for _, base := range bases {
		for _, path := range []string{"", "/mcp", "/sse", "/mcp/sse"} {
			doc, err := json.Marshal(struct {
				Resource string   `json:"resource"`
				Servers  []string `json:"authorization_servers"`
				Scopes   []string `json:"scopes_supported,omitempty"`
				Methods  []string `json:"bearer_methods_supported"`
				Name     string   `json:"resource_name"`
			}{resource + base + path, []string{j.Issuer}, scopes, []string{"header"}, g.Cfg.Service.Name})
			if err != nil {
				return fmt.Errorf("metadata: %w", err)
			}
			for _, at := range []string{access.MetadataPath + prefix + base + path, access.MetadataPath + base + path} { // a proxy may strip the prefix
				if served[at] {
					continue
				}
				served[at] = true
				handler := func(ctx *fasthttp.RequestCtx) {
					ctx.SetContentType("application/json")
					ctx.Response.Header.Set("Cache-Control", "max-age=300")
					ctx.SetBody(doc)
				}
				srv.Handle(fasthttp.MethodGet, at, handler)
				srv.Handle(fasthttp.MethodHead, at, handler)
			}
		}
	}
	return nil
}

// originOf returns the scheme and authority of a URL.
func originOf(raw string) string {
	if i := strings.Index(raw, "://"); i >= 0 {
		if end := strings.IndexByte(raw[i+3:], '/'); end >= 0 {
			return raw[:i+3+end]
		}
	}
	return raw
}
