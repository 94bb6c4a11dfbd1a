package app

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/legacy"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/modern"
	"dragoman/adapters/sse"
	"dragoman/internal/app/component"
	"dragoman/internal/app/registry"
	"dragoman/internal/config/field"
	"dragoman/policies/access"
	"dragoman/policies/telemetry"
	"dragoman/proxy"
)

// ClientServer makes the server of the main listener.
func (g *Generation) ClientServer() (*httpserver.Server, error) {
	c := g.Cfg
	handler, err := g.clientHandler()
	if err != nil {
		return nil, err
	}
	srv, err := httpserver.NewServer(httpserver.Options{MaxBody: c.Limits.RequestBody, MaxHeader: c.Limits.Header, MaxConns: c.Limits.Connections,
		MaxStreams: c.Limits.Streams, Overloaded: mcphttp.Crowded,
		MaxAnswers: c.Limits.AnswerBytes, MaxAnswersEach: c.Limits.AnswerBytesPerPrincipal, MinRate: c.Limits.AnswerRate,
		MaxReading: c.Limits.InFlightBytes, ReadTimeout: c.Limits.ReadTime, KeepAlive: c.Keepalive,
		OnRequest: g.noteRequest,
		Logf:      func(format string, args ...any) { g.Log.Warn().Msgf(format, args...) }})
	if err != nil {
		return nil, err
	}
	srv.SetHandler(handler)
	g.clients.Store(srv)
	return srv, nil
}

// clientHandler makes the handler of the main listener.
func (g *Generation) clientHandler() (*httpserver.Handler, error) {
	c := g.Cfg
	opts := httpserver.HandlerOptions{Answered: g.recordRefusal, Refused: mcphttp.Refused(c.Limits.RequestBody, c.Limits.Header), NotFound: mcphttp.NotFound, MethodNotAllowed: mcphttp.MethodNotAllowed}
	down := g.restEndpoint(&opts)
	responses := mcphttp.ResponseOptions{Patience: Patience, KeepAlive: c.Keepalive, Cap: c.Limits.RequestTime, Draining: g.draining,
		Resume: mcphttp.Resume{Events: c.Resume.Events, Bytes: c.Resume.Bytes, Total: c.Resume.Total, Retry: c.Resume.Retry, Hold: c.Resume.Hold, Usage: &g.streams}}
	routes, err := g.routes(responses)
	if err != nil {
		return nil, err
	}
	handler := httpserver.NewHandler(opts)
	mcphttp.Register(handler, routes)
	if down != nil {
		down.Register(handler)
	}
	if c.Subregistry.Enabled {
		err = listServers(handler, g.components, &listing{cfg: c, targets: g.Targets, scopes: g.identity.scopes, described: g.registry.Descriptions})
		if err != nil {
			return nil, err
		}
	}
	return handler, g.metadata(handler)
}

// routes returns the handlers of the eras that are served. Requests that only the other era has are answered as by a
// server that does not know them, so that clients of both eras fall back by themselves.
func (g *Generation) routes(responses mcphttp.ResponseOptions) (*mcphttp.Routes, error) {
	streams, err := component.Get(g.components, "legacy clients", nil, component.Spec[*legacy.Downstream]{Build: func(prometheus.Registerer) (*legacy.Downstream, error) {
		return legacy.NewDownstream(g.Handle, g.shared.sessions, responses), nil
	}})
	if err != nil {
		return nil, err
	}
	newer, older := modern.NewDownstream(g.Handle, responses), streams.With(g.Handle, responses)
	newer.Compat = g.Cfg.ErrorStatus == "compat"
	served := g.Cfg.Served()
	if len(served.Legacy()) == 0 {
		only := modern.Only{Modern: newer}
		return &mcphttp.Routes{Endpoint: &mcphttp.Endpoint{Modern: newer, Legacy: only}, Streams: only, SSE: modern.NoSSE{}}, nil
	}
	streaming := &sse.Downstream{Handle: g.Handle, Store: g.shared.sessions, Cap: g.Cfg.Limits.RequestTime}
	if len(g.Targets.All) > 0 { // otherwise the handler answers by itself, see AssembleHandler
		streaming.Refuse = g.router.Refuse
	}
	r := &mcphttp.Routes{Endpoint: &mcphttp.Endpoint{Modern: newer, Legacy: older}, Streams: older, SSE: streaming}
	if len(served.Modern()) == 0 {
		r.Endpoint.Modern = older
	}
	return r, nil
}

// Patience is how long a response may be silent before it becomes an event stream, which can be kept alive.
const Patience = 5 * time.Second

// gates returns the gates of the main listener, in the order in which they judge a request by its head.
func (g *Generation) gates() []proxy.Gate {
	c := g.Cfg.Security
	var trusted []netip.Prefix
	for _, text := range c.TrustedProxies {
		if p, err := field.Network(text); err == nil { // the configuration was checked
			trusted = append(trusted, p)
		}
	}
	hosts, origins := lower(c.AllowedHosts), lower(c.AllowedOrigins)
	return []proxy.Gate{
		telemetry.Correlate(g.telemetry.tracing != nil),
		g.mark.Gate(),
		access.TrustProxies(trusted, g.Cfg.PublicPrefix),
		access.Origin(access.OriginOptions{Loopback: proxy.IsLoopbackHost(g.Cfg.Service.Host), Hosts: hosts, Origins: slices.Concat(origins, publicOrigin(c.Auth.JWT.Resource))}),
		access.CORS(origins, forwardedHeaders(g.Cfg)...),
		g.limiters.rate.Gate(),
		g.identity.auth.Gate(),
		g.identity.forward,
		g.limiters.rate.Where(),
	}
}

// publicOrigin returns the origin of the main listener as clients know it, which differs from the one that it sees behind
// a proxy that ends TLS; nil if it is not configured.
func publicOrigin(resource string) []string {
	u, err := url.Parse(resource)
	if err != nil || u.Host == "" {
		return nil
	}
	return []string{strings.ToLower(u.Scheme + "://" + u.Host)}
}

// gateway combines the gates that are on into the form that a listener takes.
func gateway(refuse func(*fasthttp.RequestCtx, *proxy.Error), gates ...proxy.Gate) []func(*fasthttp.RequestCtx) bool {
	on := slices.DeleteFunc(gates, func(gate proxy.Gate) bool { return gate == nil })
	return []func(*fasthttp.RequestCtx) bool{mcphttp.Gates(refuse, on...)}
}

// recordRefusal records an answered request if it was refused before it became an exchange. Policies record the others.
func (g *Generation) recordRefusal(ctx *fasthttp.RequestCtx) {
	err := mcphttp.RefusalOf(ctx)
	if err == nil {
		return
	}
	r := telemetry.Refused{Method: mcphttp.MethodOf(ctx), Arrival: mcphttp.ArrivalOf(ctx), Address: httpserver.AddrOf(ctx), Caller: mcphttp.CallerOf(ctx)}
	if len(httpserver.FieldsOf(ctx).Raw()) > 0 {
		r.Verb, r.Path = ctx.Method(), ctx.Path()
	}
	r.Action, r.Server, r.Role = registry.Asked(ctx)
	g.telemetry.refused.Record(r, err)
}

// metadata serves the metadata by which clients find the authorization server (RFC 9728), for the service as a whole
// and for each MCP endpoint.
func (g *Generation) metadata(srv httpserver.Registrar) error {
	j := &g.Cfg.Security.Auth.JWT
	if g.identity.auth == nil || j.Issuer == "" {
		return nil
	}
	g.identity.keys.Prefetch()
	resource := strings.TrimSuffix(j.Resource, "/")
	_, prefix, _ := strings.Cut(access.MetadataURL(resource, ""), access.MetadataPath) // the path of resource
	scopes := slices.Clone(j.Scopes)
	bases := []string{""}
	for _, u := range g.Cfg.Upstreams {
		bases = append(bases, proxy.ServerPath(u.Name))
		for _, r := range u.Scopes {
			scopes = union(scopes, r.Scopes)
		}
	}
	for _, group := range g.Cfg.Groups {
		bases = append(bases, proxy.ServerPath(proxy.GroupTarget(group.Name)))
		scopes = union(scopes, group.Scopes)
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
