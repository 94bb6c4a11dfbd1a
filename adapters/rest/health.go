package rest

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rest/envelope"
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
	// dependencies. It does not block. ok is false if there is no such server.
	Health func(server string) (h service.Health, ok bool)
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
		h, ok := opt.Health(server)
		ctx.SetContentType("application/json")
		ctx.Response.Header.Set("Cache-Control", "no-store")
		if !ok {
			e, status := errorEnvelope(proxy.Errf(proxy.ServerUnknown, "no server is called %q", server))
			e.RequestID, e.Timestamp = requestID(ctx), envelope.Timestamp(opt.Now())
			ctx.Response.Header.Set("X-Request-ID", e.RequestID)
			ctx.SetStatusCode(status)
			ctx.SetBody(e.AppendJSON(nil))
			return
		}
		if h.Status == service.StatusUnavailable {
			ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		}
		ctx.SetBody(appendHealth(nil, &opt, server, &h))
	}
}

func appendHealth(dst []byte, opt *HealthOptions, server string, h *service.Health) []byte {
	dst = wire.AppendText(append(dst, `{"status":`...), string(h.Status))
	dst = wire.AppendText(append(dst, `,"service":`...), opt.Service)
	dst = wire.AppendText(append(dst, `,"version":`...), opt.Version(server))
	dst = strconv.AppendInt(append(dst, `,"uptime_seconds":`...), max(0, int64(h.Uptime/time.Second)), 10)
	dst = append(dst, `,"dependencies":{`...)
	sep := ""
	for i, d := range h.Dependencies {
		if i+1 < len(h.Dependencies) && h.Dependencies[i+1].Name == d.Name { // an upstream and a dependency of one name: the worse one is shown
			if !d.Connected {
				h.Dependencies[i+1] = d
			}
			continue
		}
		dst = append(wire.AppendText(append(dst, sep...), d.Name), ':')
		dst, sep = appendDependency(dst, &d), ","
	}
	dst = wire.AppendText(append(dst, `},"timestamp":`...), envelope.Timestamp(opt.Now()))
	return append(dst, '}')
}

func appendDependency(dst []byte, d *service.Dependency) []byte {
	if !d.Connected {
		dst = append(dst, `{"status":"unavailable"`...)
		if d.Error != "" {
			dst = wire.AppendText(append(dst, `,"error":`...), d.Error)
		}
		return append(appendState(dst, d), '}')
	}
	dst = append(dst, `{"status":"connected"`...)
	if d.Took > 0 {
		dst = strconv.AppendInt(append(dst, `,"response_time_ms":`...), d.Took.Milliseconds(), 10)
	}
	return append(appendState(dst, d), '}')
}

// appendState adds the state of an upstream server (seed 004, BR-006).
func appendState(dst []byte, d *service.Dependency) []byte {
	if d.State != "" {
		dst = wire.AppendText(append(dst, `,"state":`...), d.State)
	}
	if d.Failures > 0 {
		dst = strconv.AppendInt(append(dst, `,"consecutive_failures":`...), int64(d.Failures), 10)
	}
	if !d.CheckedAt.IsZero() {
		dst = wire.AppendText(append(dst, `,"last_health_check":`...), envelope.Timestamp(d.CheckedAt))
	}
	if d.Warning != "" {
		dst = wire.AppendText(append(dst, `,"warning":`...), d.Warning)
	}
	return dst
}
