package app

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/mcphttp"
	"dragoman/internal/config"
	"dragoman/internal/config/field"
	"dragoman/policies/access"
	"dragoman/policies/telemetry"
	"dragoman/proxy"
)

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
		access.TrustProxies(trusted),
		access.Origin(access.OriginOptions{Loopback: proxy.IsLoopbackHost(g.Cfg.Service.Host), Hosts: hosts, Origins: origins}),
		access.CORS(origins, forwardedHeaders(g.Cfg)...),
		g.limiters.rate.Gate(),
		g.identity.auth.Gate(),
		g.identity.forward,
		g.limiters.rate.Where(),
	}
}

// forwardedHeaders returns the headers of clients that some upstream gets.
func forwardedHeaders(c *config.Config) (names []string) {
	for _, u := range c.Upstreams {
		for _, f := range u.Forward {
			if !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, f.From) }) {
				names = append(names, f.From)
			}
		}
	}
	return names
}

func lower(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strings.ToLower(s)
	}
	return out
}

// gateway combines the gates that are on into the form that a listener takes.
func gateway(refuse func(*fasthttp.RequestCtx, *proxy.Error), gates ...proxy.Gate) []func(*fasthttp.RequestCtx) bool {
	on := make([]proxy.Gate, 0, len(gates))
	for _, gate := range gates {
		if gate != nil {
			on = append(on, gate)
		}
	}
	return []func(*fasthttp.RequestCtx) bool{mcphttp.Gates(refuse, on...)}
}
