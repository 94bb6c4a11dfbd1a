package main

import (
	"context"
	"time"

	"github.com/goccy/go-json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/rest"
	"dragoman/adapters/service"
)

// serviceState makes what Dragoman knows of itself as a service, and begins to look after what it depends on.
func (h *house) serviceState() error {
	var checks []service.Check
	for _, d := range h.cfg.Dependencies {
		switch {
		case d.URL != "", d.Address() != "":
			checks = append(checks, service.Check{Name: d.Name, URL: d.URL, Address: d.Address(), Timeout: d.Timeout})
		default:
			h.log.Warn().Str("key", "dependencies."+d.Name).Msg("is not looked after: it has neither url nor host and port")
		}
	}
	if len(checks) > 0 {
		var err error
		if h.depends, err = service.StartChecks(checks, h.cfg.Monitoring.HealthCheckInterval); err != nil {
			return err
		}
	}
	h.service = service.New(service.Options{Upstreams: h.reached, Checks: h.depends, Changed: func(from, to service.State) {
		h.log.Info().Str("from", string(from)).Str("to", string(to)).Msg("state of the service")
	}})
	for _, state := range service.States() {
		h.metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "dragoman_service_state", Help: "1 for the state that the service is in.",
			ConstLabels: prometheus.Labels{"state": string(state)}}, func() float64 {
			if h.service.Health().State == state {
				return 1
			}
			return 0
		}))
	}
	return nil
}

// follow looks at the state now and then, so that the log tells of a change that nobody asked about. It ends with ctx.
func (h *house) follow(ctx context.Context) {
	tick := time.NewTicker(h.cfg.Monitoring.HealthCheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			h.service.Health()
		case <-ctx.Done():
			return
		}
	}
}

// reached tells how each upstream is.
func (h *house) reached() []service.Dependency {
	all := make([]service.Dependency, 0, len(h.upstreams))
	for _, u := range h.upstreams {
		ok, why := h.sound(u.Name())
		d := service.Dependency{Name: u.Name(), Connected: ok && u.Ready(), Error: why, Upstream: true}
		if !d.Connected && why == "" {
			d.Error = "not reached yet"
		}
		all = append(all, d)
	}
	return all
}

// health serves GET /health.
func (h *house) health() func(*fasthttp.RequestCtx) {
	return rest.ServeHealth(rest.HealthOptions{Service: h.cfg.Service.Name, Version: h.serviceVersion,
		Health: func(server string) (service.Health, bool) {
			all := h.service.Health()
			if server == "" {
				return all, true
			}
			return all.Only(server), h.cfg.Upstream(server) != nil
		}})
}

// serviceVersion is the configured version, else that of the server if there is one alone and it has a semantic one, else
// 0.0.0 (seed 000, ToolsResponse).
func (h *house) serviceVersion(server string) string {
	if v := h.cfg.Service.Version; v != "" {
		return v
	}
	for _, u := range h.upstreams {
		if u.Name() != server && (server != "" || len(h.upstreams) > 1) {
			continue
		}
		var info struct{ Version string }
		if err := json.Unmarshal(u.ServerInfo(), &info); err == nil && semver.MatchString(info.Version) {
			return info.Version
		}
	}
	return "0.0.0"
}
