package rest

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/service"
	"dragoman/internal/testkit"
	"dragoman/proxy"
)

// Seed 000, HealthResponse: its examples and their statuses.
func TestHealth(t *testing.T) {
	h, unknown := service.Health{}, (*proxy.Error)(nil)
	serve := ServeHealth(HealthOptions{Service: "code-graph-rag", Version: func(string) string { return "0.0.24" },
		Health: func(string) (service.Health, *proxy.Error) { return h, unknown }, Now: func() time.Time { return time.Date(2025, 12, 9, 14, 30, 0, 0, time.UTC) }})
	srv, err := httpserver.NewServer(httpserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	srv.Handle(http.MethodGet, "/", func(ctx *fasthttp.RequestCtx) {
		ctx.SetUserValue("server", `a"b`)
		serve(ctx)
	})
	url := "http://" + testkit.Serve(t, srv)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	f := func(given service.Health, ok bool, status int, want string) {
		t.Helper()
		if h, unknown = given, nil; !ok {
			unknown = proxy.Errf(proxy.ServerUnknown, "no server is called %q", `a"b`)
		}
		res, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if _ = res.Body.Close(); err != nil || res.StatusCode != status || want != "" && string(body) != want || !json.Valid(body) ||
			res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%d %s %v\nwant %d %s", res.StatusCode, body, err, status, want)
		}
	}
	memgraph := service.Dependency{Name: "memgraph", Connected: true, Took: 8900 * time.Microsecond}
	f(service.Health{Status: service.StatusHealthy, Uptime: 7200*time.Second + 900*time.Millisecond, Dependencies: []service.Dependency{memgraph}}, true, 200,
		`{"status":"healthy","service":"code-graph-rag","version":"0.0.24","uptime_seconds":7200,`+
			`"dependencies":{"memgraph":{"status":"connected","response_time_ms":8}},"timestamp":"2025-12-09T14:30:00.000Z"}`)
	memgraph = service.Dependency{Name: "memgraph", Error: "Connection timeout after 1000ms", Took: time.Second}
	f(service.Health{Status: service.StatusDegraded, Uptime: 7201 * time.Second, Dependencies: []service.Dependency{memgraph, {Name: "up", Connected: true}}}, true, 200,
		`{"status":"degraded","service":"code-graph-rag","version":"0.0.24","uptime_seconds":7201,`+
			`"dependencies":{"memgraph":{"status":"unavailable","error":"Connection timeout after 1000ms"},"up":{"status":"connected"}},"timestamp":"2025-12-09T14:30:00.000Z"}`)
	f(service.Health{Status: service.StatusUnavailable, Uptime: -1}, true, 503,
		`{"status":"unavailable","service":"code-graph-rag","version":"0.0.24","uptime_seconds":0,"dependencies":{},"timestamp":"2025-12-09T14:30:00.000Z"}`)
	f(service.Health{}, false, 404, "")
}
