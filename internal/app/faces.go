package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/legacy"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/modern"
	"dragoman/adapters/sse"
)

// Faces makes the listener for clients.
func (h *House) Faces() (*httpserver.Server, error) {
	c := h.Cfg
	face, err := h.face()
	if err != nil {
		return nil, err
	}
	srv, err := httpserver.NewServer(httpserver.Options{MaxBody: c.Limits.RequestBody, MaxHeader: c.Limits.Header, MaxConns: c.Limits.Connections,
		MaxStreams: c.Limits.Streams, Overloaded: mcphttp.Crowded,
		MaxReading: c.Limits.InFlightBytes, ReadTimeout: c.Limits.ReadTime, KeepAlive: c.Keepalive,
		OnRequest: h.stir,
		Logf:      func(format string, args ...any) { h.Log.Warn().Msgf(format, args...) }})
	if err != nil {
		return nil, err
	}
	srv.SetHandler(face)
	h.clients.Store(srv)
	return srv, nil
}

// face is what the listener for clients shows.
func (h *House) face() (*httpserver.Handler, error) {
	c := h.Cfg
	opts := httpserver.HandlerOptions{Refused: mcphttp.Refused(c.Limits.RequestBody, c.Limits.Header), NotFound: mcphttp.NotFound, MethodNotAllowed: mcphttp.MethodNotAllowed}
	down, err := h.restFace(&opts)
	if err != nil {
		return nil, err
	}
	manner := mcphttp.ResponseOptions{Patience: Patience, KeepAlive: c.Keepalive, Cap: c.Limits.RequestTime, Draining: h.draining,
		Resume: mcphttp.Resume{Events: c.Resume.Events, Bytes: c.Resume.Bytes, Total: c.Resume.Total, Retry: c.Resume.Retry, Hold: c.Resume.Hold, Usage: h.kept}}
	routes, err := h.routes(manner)
	if err != nil {
		return nil, err
	}
	face := httpserver.NewHandler(opts)
	mcphttp.Register(face, routes)
	if down != nil {
		down.Register(face)
	}
	return face, h.metadata(face)
}

// routes are the faces for the eras that are served. What only the other era knows is answered as a server answers that
// has never heard of it: then clients that speak both find the way by themselves.
func (h *House) routes(manner mcphttp.ResponseOptions) (*mcphttp.Routes, error) {
	streams, err := keep(h, "legacy clients", nil, made[*legacy.Downstream]{build: func(prometheus.Registerer) (*legacy.Downstream, error) {
		return legacy.NewDownstream(h.Handle, h.Store, manner), nil
	}})
	if err != nil {
		return nil, err
	}
	newer, older := modern.NewDownstream(h.Handle, manner), streams.With(h.Handle, manner)
	newer.Compat = h.Cfg.ErrorStatus == "compat"
	served := h.Cfg.Served()
	if len(served.Legacy()) == 0 {
		only := modern.Only{Modern: newer}
		return &mcphttp.Routes{Endpoint: &mcphttp.Endpoint{Modern: newer, Legacy: only}, Streams: only, SSE: modern.NoSSE{}}, nil
	}
	r := &mcphttp.Routes{Endpoint: &mcphttp.Endpoint{Modern: newer, Legacy: older}, Streams: older,
		SSE: &sse.Downstream{Handle: h.Handle, Store: h.Store, Cap: h.Cfg.Limits.RequestTime}}
	if len(served.Modern()) == 0 {
		r.Endpoint.Modern = older
	}
	return r, nil
}

// Patience is how long an answer may be silent before it becomes an event stream that can be kept alive.
const Patience = 5 * time.Second
