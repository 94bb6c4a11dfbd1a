package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/legacy"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/modern"
	"dragoman/adapters/sse"
	"dragoman/internal/app/component"
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
	opts := httpserver.HandlerOptions{Refused: mcphttp.Refused(c.Limits.RequestBody, c.Limits.Header), NotFound: mcphttp.NotFound, MethodNotAllowed: mcphttp.MethodNotAllowed}
	down := g.restEndpoint(&opts)
	manner := mcphttp.ResponseOptions{Patience: Patience, KeepAlive: c.Keepalive, Cap: c.Limits.RequestTime, Draining: g.shared.draining.ctx,
		Resume: mcphttp.Resume{Events: c.Resume.Events, Bytes: c.Resume.Bytes, Total: c.Resume.Total, Retry: c.Resume.Retry, Hold: c.Resume.Hold, Usage: g.shared.streams}}
	routes, err := g.routes(manner)
	if err != nil {
		return nil, err
	}
	handler := httpserver.NewHandler(opts)
	mcphttp.Register(handler, routes)
	if down != nil {
		down.Register(handler)
	}
	return handler, g.metadata(handler)
}

// routes returns the handlers of the eras that are served. Requests that only the other era has are answered as by a
// server that does not know them, so that clients of both eras fall back by themselves.
func (g *Generation) routes(manner mcphttp.ResponseOptions) (*mcphttp.Routes, error) {
	streams, err := component.Get(g.components, "legacy clients", nil, component.Spec[*legacy.Downstream]{Build: func(prometheus.Registerer) (*legacy.Downstream, error) {
		return legacy.NewDownstream(g.Handle, g.shared.sessions, manner), nil
	}})
	if err != nil {
		return nil, err
	}
	newer, older := modern.NewDownstream(g.Handle, manner), streams.With(g.Handle, manner)
	newer.Compat = g.Cfg.ErrorStatus == "compat"
	served := g.Cfg.Served()
	if len(served.Legacy()) == 0 {
		only := modern.Only{Modern: newer}
		return &mcphttp.Routes{Endpoint: &mcphttp.Endpoint{Modern: newer, Legacy: only}, Streams: only, SSE: modern.NoSSE{}}, nil
	}
	r := &mcphttp.Routes{Endpoint: &mcphttp.Endpoint{Modern: newer, Legacy: older}, Streams: older,
		SSE: &sse.Downstream{Handle: g.Handle, Store: g.shared.sessions, Cap: g.Cfg.Limits.RequestTime}}
	if len(served.Modern()) == 0 {
		r.Endpoint.Modern = older
	}
	return r, nil
}

// Patience is how long a response may be silent before it becomes an event stream, which can be kept alive.
const Patience = 5 * time.Second
