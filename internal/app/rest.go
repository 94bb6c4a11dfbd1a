package app

import (
	"fmt"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rest"
	"dragoman/adapters/rest/schema"
	"dragoman/proxy/wire"
)

// restFace makes the face of callers without MCP, nil if it is off, and has what is refused on its paths be envelopes.
func (h *House) restFace(opts *httpserver.HandlerOptions) (*rest.Downstream, error) {
	c := h.Cfg
	if !c.Rest.Enabled {
		opts.Gates = gateway(mcphttp.Refuse, h.gates()...)
		return nil, nil //nolint:nilnil // it is off
	}
	opt := rest.Options{Service: c.Service.Name, Version: c.Service.Version, Info: restInfo(), Caps: c.Rest.Declared(),
		Cap: c.Limits.RequestTime, KeepAlive: c.Keepalive, ToolsTTL: c.Rest.ToolsTTL, MaxBody: c.Limits.RequestBody, MaxHead: c.Limits.Header,
		ToolErrorAsData: c.Rest.ToolError == "data", CheckResults: c.Rest.ValidateResults, Around: h.watching, Draining: h.draining, Log: note(h.Log), Health: h.health()}
	if c.Rest.Validate || c.Rest.ValidateResults {
		opt.Check = schema.NewCache(schema.Options{})
		opt.SkipArguments = !c.Rest.Validate
	}
	down, err := rest.NewDownstream(h.plain, opt)
	if err != nil {
		return nil, fmt.Errorf("rest: %w", err)
	}
	opts.Gates = gateway(down.Refuse(mcphttp.Refuse), h.gates()...)
	opts.Refused, opts.NotFound, opts.MethodNotAllowed = down.Refused(opts.Refused), down.NotFound(opts.NotFound), down.MethodNotAllowed(opts.MethodNotAllowed)
	return down, nil
}

// restInfo is the clientInfo of all REST callers: one, so that they share sessions and children of legacy servers.
func restInfo() []byte {
	return append(wire.AppendText([]byte(`{"name":"REST client","version":`), ReadVersion().Version), '}')
}

// restSpeaks is what a service that speaks the REST envelope is said to speak.
const restSpeaks = "the REST envelope, served to clients as a modern server"
