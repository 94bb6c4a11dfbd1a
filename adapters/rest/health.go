package rest

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rest/envelope"
	"dragoman/adapters/rest/mcpcall"
	"dragoman/adapters/service"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// HealthOptions configure GET /health.
type HealthOptions struct {
	Service string
	// Version returns the version of the service, or of the server that the path names.
	Version func(server string) string
	// Health returns the health of the service, or of the server that the path names together with the service's other
	// dependencies, or the error of a name that is no server's. It does not block.
	Health func(server string) (service.Health, *proxy.Error)
	Now    func() time.Time // nil: time.Now
}

// ServeHealth returns the handler of GET /health. Its answer is bare (seed 000, HealthResponse): 200 if the service can serve,
// degraded or not, else 503. An unknown server is an error in an envelope.
func ServeHealth(opt HealthOptions) func(*fasthttp.RequestCtx) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return func(ctx *fasthttp.RequestCtx) {
		server := mcphttp.ServerOf(ctx)
		h, err := opt.Health(server)
		ctx.SetContentType("application/json")
		ctx.Response.Header.Set("Cache-Control", "no-store")
		if err != nil {
			mcphttp.Deny(ctx, err)
			e, status := errorEnvelope(err)
			e.RequestID, e.Timestamp = requestID(ctx), envelope.Timestamp(opt.Now())
			ctx.Response.Header.Set("X-Request-ID", e.RequestID)
			ctx.SetStatusCode(status)
			ctx.SetBody(e.AppendJSON(nil))
			return
		}
		if h.Status == service.StatusUnavailable {
			ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		}
		ctx.SetBody(healthResponse(&opt, server, &h))
	}
}

func healthResponse(opt *HealthOptions, server string, h *service.Health) []byte {
	var p, dependencies mcpcall.Members
	for i, d := range h.Dependencies {
		if i+1 < len(h.Dependencies) && h.Dependencies[i+1].Name == d.Name { // an upstream and a dependency of one name: the worse one is shown
			if !d.Connected {
				h.Dependencies[i+1] = d
			}
			continue
		}
		dependencies.AddRaw(wire.AppendText(nil, d.Name), dependency(&d))
	}
	p.AddText("status", string(h.Status))
	p.AddText("service", opt.Service)
	p.AddText("version", opt.Version(server))
	p.Add("uptime_seconds", strconv.AppendInt(nil, max(0, int64(h.Uptime/time.Second)), 10))
	p.Add("dependencies", dependencies.Object())
	p.AddText("timestamp", envelope.Timestamp(opt.Now()))
	return p.Object()
}

// dependency returns the state of a dependency, with more members for an upstream server (seed 004, BR-006).
func dependency(d *service.Dependency) []byte {
	var p mcpcall.Members
	if d.Connected {
		p.AddText("status", "connected")
	} else {
		p.AddText("status", "unavailable")
	}
	if !d.Connected && d.Error != "" {
		p.AddText("error", d.Error)
	}
	if d.Connected && d.Took > 0 {
		p.Add("response_time_ms", strconv.AppendInt(nil, d.Took.Milliseconds(), 10))
	}
	if d.State != "" {
		p.AddText("state", d.State)
	}
	if d.Failures > 0 {
		p.Add("consecutive_failures", strconv.AppendInt(nil, int64(d.Failures), 10))
	}
	if !d.CheckedAt.IsZero() {
		p.AddText("last_health_check", envelope.Timestamp(d.CheckedAt))
	}
	if d.Warning != "" {
		p.AddText("warning", d.Warning)
	}
	return p.Object()
}
