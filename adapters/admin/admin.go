// Package admin serves the operators' listener: liveness, readiness, metrics, the log level, the configuration and profiles.
package admin

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/goccy/go-json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/proxy"
)

// Check is one condition of readiness.
type Check struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	Why   string `json:"why,omitempty"` // why it is not ready, or a warning, in words
	State string `json:"state,omitempty"`
}

// Readiness says whether clients should be sent here.
type Readiness struct {
	Ready  bool
	Checks []Check
}

// word returns the readiness in a word: ok, degraded if it is ready although a check is not, or not ready.
func (r Readiness) word() string {
	switch {
	case !r.Ready:
		return "not ready"
	case slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.Ready }):
		return "degraded"
	}
	return "ok"
}

// Options configure the admin handlers. Their functions are called for each request.
type Options struct {
	Service string // heading of the index
	Ready   func() Readiness
	Metrics *prometheus.Registry                  // nil: no /metrics
	Levels  Levels                                // behind /loglevel
	Config  func(to io.Writer, asJSON bool) error // writes the configuration without secrets
	Pprof   func() bool                           // reports whether profiles are served
	Closed  func() *proxy.Error                   // why /config, /loglevel and profiles are not served, and how to change that; nil: they are
}

// Register adds the handlers to a server, each for GET and HEAD. /healthz answers 200 while the process lives. /readyz answers 200 if
// clients should be sent here, else 503, with the checks. /metrics is the registry in the Prometheus text format, /loglevel the log level,
// which PUT changes, /config the configuration in TOML or on request JSON, /debug/pprof/ profiles, and / the index.
func Register(s httpserver.Registrar, opt Options) {
	handle := func(path string, h fasthttp.RequestHandler) {
		s.Handle(fasthttp.MethodGet, path, h)
		s.Handle(fasthttp.MethodHead, path, h)
	}
	handle("/healthz", func(ctx *fasthttp.RequestCtx) { answer(ctx, Readiness{Ready: true}) })
	handle("/readyz", func(ctx *fasthttp.RequestCtx) { answer(ctx, opt.Ready()) })
	if opt.Metrics != nil {
		// Compression takes many times the memory of the text, and the scraper is near.
		h := promhttp.HandlerFor(opt.Metrics, promhttp.HandlerOpts{DisableCompression: true})
		handle("/metrics", fasthttpadaptor.NewFastHTTPHandler(h))
	}
	handle("/config", opt.guarded(opt.config))
	handle("/loglevel", opt.guarded(opt.level))
	s.Handle(fasthttp.MethodPut, "/loglevel", opt.guarded(opt.setLevel))
	profiles := opt.guarded(opt.profile)
	handle("/debug/pprof/{name:*}", profiles)
	s.Handle(fasthttp.MethodPost, "/debug/pprof/symbol", profiles) // used by go tool pprof
	handle("/", func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType("text/plain; charset=utf-8")
		ctx.SetBodyString(opt.index())
	})
}

// index lists what is served now.
func (opt *Options) index() string {
	var b strings.Builder
	b.WriteString(opt.Service + `, for operators

/healthz       200 while the process lives
/readyz        200 if requests can be served, else 503; each server with its state
`)
	if opt.Metrics != nil {
		b.WriteString("/metrics       for Prometheus\n")
	}
	b.WriteString("/config        what `dragoman config print` shows of what holds now; ?format=json\n")
	b.WriteString("/loglevel      the level of the log; PUT {\"level\":\"debug\",\"for\":\"10m\"} changes it\n")
	if opt.Pprof() {
		b.WriteString("/debug/pprof/  profiles of the process\n")
	}
	if err := opt.Closed(); err != nil {
		b.WriteString("\n" + err.Message + "\n")
	}
	return b.String()
}

// guarded refuses requests with the reason of Closed, if there is one.
func (opt *Options) guarded(h fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		ctx.Response.Header.Set("Cache-Control", "no-store")
		if err := opt.Closed(); err != nil {
			refuse(ctx, err)
			return
		}
		h(ctx)
	}
}

func (opt *Options) config(ctx *fasthttp.RequestCtx) {
	asJSON := string(ctx.QueryArgs().Peek("format")) == "json" || bytes.Contains(httpserver.FieldsOf(ctx).Peek("Accept"), []byte("application/json"))
	if err := opt.Config(ctx, asJSON); err != nil {
		failed(ctx, fasthttp.StatusInternalServerError, err.Error())
		return
	}
	ctx.SetContentType("text/plain; charset=utf-8")
	if asJSON {
		ctx.SetContentType("application/json")
	}
}

func answer(ctx *fasthttp.RequestCtx, r Readiness) {
	if !r.Ready {
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
	}
	reply(ctx, struct {
		Status string  `json:"status"`
		Checks []Check `json:"checks,omitempty"`
	}{r.word(), r.Checks})
}

func reply(ctx *fasthttp.RequestCtx, v any) {
	body, err := json.MarshalWithOption(v, json.DisableHTMLEscape())
	if err != nil {
		ctx.SetStatusCode(fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(body)
}

func failed(ctx *fasthttp.RequestCtx, status int, why string) {
	ctx.SetStatusCode(status)
	reply(ctx, struct {
		Error string `json:"error"`
	}{why})
}

// refuse refuses a request, and notes that (mcphttp.Deny).
func refuse(ctx *fasthttp.RequestCtx, err *proxy.Error) {
	mcphttp.Deny(ctx, err)
	failed(ctx, err.Status, err.Message)
}

// Refused answers a request that the listener refuses before any route, with a status.
func Refused(ctx *fasthttp.RequestCtx, status int) {
	mcphttp.Deny(ctx, mcphttp.Refusal(status, httpserver.DefaultBody, httpserver.DefaultHeader))
	failed(ctx, status, fasthttp.StatusMessage(status))
}

// NotFound answers 404 for a path that is not served.
func NotFound(ctx *fasthttp.RequestCtx) {
	refuse(ctx, proxy.Errf(proxy.PathUnknown, "the admin listener does not serve %s; its / lists what it serves", ctx.Path()))
}

// MethodNotAllowed answers 405 for a method that the path does not have.
func MethodNotAllowed(ctx *fasthttp.RequestCtx) {
	refuse(ctx, proxy.Errf(proxy.VerbUnknown, "the admin listener does not serve %s here", ctx.Method()))
}
