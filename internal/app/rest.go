package app

import (
	"fmt"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rest"
	"dragoman/adapters/rest/schema"
	"dragoman/proxy/wire"
)

// restEndpoint makes the endpoint of callers without MCP, or nil if it is off. Refusals on its paths are sent in a REST
// envelope.
func (g *Generation) restEndpoint(opts *httpserver.HandlerOptions) (*rest.Downstream, error) {
	c := g.Cfg
	if !c.Rest.Enabled {
		opts.Gates = gateway(mcphttp.Refuse, g.gates()...)
		return nil, nil //nolint:nilnil // it is off
	}
	opt := rest.Options{Service: c.Service.Name, Version: c.Service.Version, Info: restInfo(), Caps: c.Rest.Declared(),
		Cap: c.Limits.RequestTime, KeepAlive: c.Keepalive, ToolsTTL: c.Rest.ToolsTTL, MaxBody: c.Limits.RequestBody, MaxHead: c.Limits.Header,
		ToolErrorAsData: c.Rest.ToolError == "data", CheckResults: c.Rest.ValidateResults, Around: g.observers, Draining: g.draining, Log: upstreamLog(g.Log), Health: g.health()}
	if c.Rest.Validate || c.Rest.ValidateResults {
		opt.Check = schema.NewCache(schema.Options{})
		opt.SkipArguments = !c.Rest.Validate
	}
	down, err := rest.NewDownstream(g.plain, opt)
	if err != nil {
		return nil, fmt.Errorf("rest: %w", err)
	}
	opts.Gates = gateway(down.Refuse(mcphttp.Refuse), g.gates()...)
	opts.Refused, opts.NotFound, opts.MethodNotAllowed = down.Refused(opts.Refused), down.NotFound(opts.NotFound), down.MethodNotAllowed(opts.MethodNotAllowed)
	return down, nil
}

// restInfo returns the clientInfo of all REST callers. They have the same one, so that they share sessions and child
// processes of legacy servers.
func restInfo() []byte {
	return append(wire.AppendText([]byte(`{"name":"REST client","version":`), ReadVersion().Version), '}')
}

// restSpeaks is what a probe says that a REST service speaks.
const restSpeaks = "the REST envelope, served to clients as a modern server"
