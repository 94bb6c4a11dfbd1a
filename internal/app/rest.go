package app

import (
	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rest"
	"dragoman/adapters/rest/catalog"
	"dragoman/adapters/rest/schema"
	"dragoman/adapters/service"
	"dragoman/internal/app/logging"
	"dragoman/proxy"
)

// restEndpoint makes the endpoint of callers without MCP, or nil if it is off. Refusals on its paths are sent in a REST
// envelope.
func (g *Generation) restEndpoint(opts *httpserver.HandlerOptions) *rest.Downstream {
	c := g.Cfg
	if !c.Rest.Enabled {
		opts.Gates = gateway(mcphttp.Refuse, g.gates()...)
		return nil
	}
	tools := catalog.Options{Version: c.Service.Version, TTL: c.Rest.ToolsTTL, SkipArguments: !c.Rest.Validate, CheckResults: c.Rest.ValidateResults, Log: logging.Notes(g.Log),
		Behind: func(server string) ([]string, bool) { return g.Targets.Behind(server), g.Targets.Several(server) },
		Refuse: func(ex *proxy.Exchange) error { return g.Targets.Named(ex.Target).Refuse(ex) }}
	if c.Rest.Validate || c.Rest.ValidateResults {
		tools.Check = schema.NewCache()
	}
	down := rest.NewDownstream(g.plain, rest.Options{Options: tools, Service: c.Service.Name, Info: restInfo(), Caps: c.Rest.Declared(),
		Cap: c.Limits.RequestTime, KeepAlive: c.Keepalive, MaxBody: c.Limits.RequestBody, MaxHead: c.Limits.Header,
		ToolErrorAsData: c.Rest.ToolError == "data", Around: append([]proxy.Policy{g.through}, g.telemetry.policies...), Draining: g.draining, Health: g.health()})
	opts.Gates = gateway(down.Refuse(mcphttp.Refuse), g.gates()...)
	opts.Refused, opts.NotFound, opts.MethodNotAllowed = down.Refused(opts.Refused), down.NotFound(opts.NotFound), down.MethodNotAllowed(opts.MethodNotAllowed)
	return down
}

// health returns the handler of GET /health, which hides the dependencies from unauthenticated callers.
func (g *Generation) health() func(*fasthttp.RequestCtx) {
	full := g.healthOf(false)
	if g.identity.auth == nil {
		return full
	}
	short := g.healthOf(true)
	return func(ctx *fasthttp.RequestCtx) {
		if mcphttp.CallerOf(ctx).Rights == nil {
			short(ctx)
			return
		}
		full(ctx)
	}
}

// healthOf returns the handler of GET /health; brief leaves out the dependencies.
func (g *Generation) healthOf(brief bool) func(*fasthttp.RequestCtx) {
	return rest.ServeHealth(rest.HealthOptions{Service: g.Cfg.Service.Name, Version: g.serviceVersion,
		Health: func(server string) (service.Health, *proxy.Error) {
			all := g.service.Health()
			if brief {
				all.Dependencies = nil
			}
			if server == "" {
				return all, nil
			}
			return all.Only(g.Targets.Behind(server)), g.router.Refuse(server)
		}})
}

// serviceVersion returns the version of the service: the configured one, else that of the given server, or of the only
// one.
func (g *Generation) serviceVersion(server string) string {
	var info struct{ Version string }
	for _, t := range g.Targets.All {
		if t.Name() == server || server == "" && len(g.Targets.All) == 1 {
			_ = json.Unmarshal(t.ServerInfo(), &info) // invalid info has no version
		}
	}
	return service.Version(g.Cfg.Service.Version, info.Version)
}

// restSpeaks names the protocol of a REST service in the output of a probe.
const restSpeaks = "the REST envelope, served to clients as a modern server"
