package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/httpd"
	"dragoman/adapters/legacy"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/modern"
	"dragoman/adapters/sse"
)

// faces makes the listener for clients.
func (h *house) faces() (*httpd.Server, error) {
	c := h.cfg
	face, err := h.face()
	if err != nil {
		return nil, err
	}
	srv, err := httpd.NewServer(httpd.Options{MaxBody: c.Limits.RequestBody, MaxHeader: c.Limits.Header, MaxConns: c.Limits.Connections,
		MaxStreams: c.Limits.Streams, Crowded: mcphttp.Crowded,
		MaxReading: c.Limits.InFlightBytes, ReadTimeout: c.Limits.ReadTime, KeepAlive: c.Keepalive,
		Stir: h.stir,
		Logf: func(format string, args ...any) { h.log.Warn().Msgf(format, args...) }})
	if err != nil {
		return nil, err
	}
	srv.Show(face)
	h.clients.Store(srv)
	return srv, nil
}

// face is what the listener for clients shows.
func (h *house) face() (*httpd.Face, error) {
	c := h.cfg
	opts := httpd.FaceOptions{Refused: mcphttp.Refused(c.Limits.RequestBody, c.Limits.Header), NotFound: mcphttp.NotFound, MethodNotAllowed: mcphttp.MethodNotAllowed}
	down, err := h.restFace(&opts)
	if err != nil {
		return nil, err
	}
	manner := mcphttp.Manner{Patience: patience, KeepAlive: c.Keepalive, Cap: c.Limits.RequestTime, Draining: h.draining,
		Resume: mcphttp.Resume{Events: c.Resume.Events, Bytes: c.Resume.Bytes, Total: c.Resume.Total, Retry: c.Resume.Retry, Hold: c.Resume.Hold, Usage: h.kept}}
	routes, err := h.routes(manner)
	if err != nil {
		return nil, err
	}
	face := httpd.NewFace(opts)
	mcphttp.Register(face, routes)
	if down != nil {
		down.Register(face)
	}
	return face, h.metadata(face)
}

// routes are the faces for the eras that are served. What only the other era knows is answered as a server answers that
// has never heard of it: then clients that speak both find the way by themselves.
func (h *house) routes(manner mcphttp.Manner) (*mcphttp.Routes, error) {
	streams, err := keep(h, "legacy clients", nil, made[*legacy.Downstream]{build: func(prometheus.Registerer) (*legacy.Downstream, error) {
		return legacy.NewDownstream(h.handle, h.store, manner), nil
	}})
	if err != nil {
		return nil, err
	}
	newer, older := modern.NewDownstream(h.handle, manner), streams.With(h.handle, manner)
	newer.Compat = h.cfg.ErrorStatus == "compat"
	served := h.cfg.Served()
	if len(served.Legacy()) == 0 {
		only := modern.Only{Modern: newer}
		return &mcphttp.Routes{Endpoint: &mcphttp.Endpoint{Modern: newer, Legacy: only}, Streams: only, SSE: modern.NoSSE{}}, nil
	}
	r := &mcphttp.Routes{Endpoint: &mcphttp.Endpoint{Modern: newer, Legacy: older}, Streams: older,
		SSE: &sse.Downstream{Handle: h.handle, Store: h.store, Cap: h.cfg.Limits.RequestTime}}
	if len(served.Modern()) == 0 {
		r.Endpoint.Modern = older
	}
	return r, nil
}

// patience is how long an answer may be silent before it becomes an event stream that can be kept alive.
const patience = 5 * time.Second
