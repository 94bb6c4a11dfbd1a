// Package admin serves the listener that is for operators: whether the process lives, whether it is ready for clients,
// and its metrics.
package admin

import (
	"github.com/goccy/go-json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"

	"dragoman/adapters/httpd"
)

// Check is one thing that readiness depends on.
type Check struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	Why   string `json:"why,omitempty"` // it is not, or not quite well, for people
	State string `json:"state,omitempty"`
}

// Options of the admin handlers.
type Options struct {
	Checks  func() []Check       // what readiness depends on; called for each request
	Metrics *prometheus.Registry // nil: no /metrics
}

// Register puts the handlers on a server: /healthz answers 200 while the process lives, /readyz 200 if every check is
// ready and 503 otherwise, with the checks; /metrics the registry in the Prometheus text format.
func Register(s httpd.Registrar, opt Options) {
	s.Handle(fasthttp.MethodGet, "/healthz", func(ctx *fasthttp.RequestCtx) { answer(ctx, true, nil) })
	s.Handle(fasthttp.MethodGet, "/readyz", func(ctx *fasthttp.RequestCtx) {
		checks := opt.Checks()
		ready := true
		for _, c := range checks {
			ready = ready && c.Ready
		}
		answer(ctx, ready, checks)
	})
	if opt.Metrics != nil {
		// A compressor takes many times the memory that the text has, and the scraper stands beside us.
		h := promhttp.HandlerFor(opt.Metrics, promhttp.HandlerOpts{DisableCompression: true})
		s.Handle(fasthttp.MethodGet, "/metrics", fasthttpadaptor.NewFastHTTPHandler(h))
	}
}

func answer(ctx *fasthttp.RequestCtx, ok bool, checks []Check) {
	status := "ok"
	if !ok {
		status = "not ready"
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
	}
	body, err := json.Marshal(struct {
		Status string  `json:"status"`
		Checks []Check `json:"checks,omitempty"`
	}{status, checks})
	if err != nil {
		ctx.SetStatusCode(fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(body)
}
