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
		every := h.cfg.Monitoring.HealthCheckInterval
		if h.depends, err = keep(h, "dependencies", dependencies{checks, every}, made[*service.Checks]{build: func(prometheus.Registerer) (*service.Checks, error) {
			return service.StartChecks(checks, every)
		}, stage: endsFirst, end: (*service.Checks).Close}); err != nil {
			return err
		}
	}
	var err error
	h.service, err = keep(h, "service", nil, made[*service.Service]{build: func(reg prometheus.Registerer) (*service.Service, error) {
		now := &h.estate.now
		s := service.New(service.Options{Upstreams: func() []service.Dependency { return now.Load().reached() },
			Others: func() []service.Dependency { return now.Load().others() },
			Changed: func(from, to service.State) {
				h.log.Info().Str("from", string(from)).Str("to", string(to)).Msg("state of the service")
			}})
		return s, reg.Register(newStateGauge(s))
	}})
	return err
}

// dependencies is what their checks are made from.
type dependencies struct {
	all   []service.Check
	every time.Duration
}

// stateGauge shows the state of the service: a gauge for each that there is, all of one look.
type stateGauge struct {
	service *service.Service
	desc    *prometheus.Desc
}

func newStateGauge(s *service.Service) stateGauge {
	return stateGauge{s, prometheus.NewDesc("dragoman_service_state", "1 for the state that the service is in.", []string{"state"}, nil)}
}

// Describe implements prometheus.Collector.
func (g stateGauge) Describe(to chan<- *prometheus.Desc) { to <- g.desc }

// Collect implements prometheus.Collector.
func (g stateGauge) Collect(to chan<- prometheus.Metric) {
	now := g.service.Health().State
	for _, state := range service.States() {
		value := 0.0
		if state == now {
			value = 1
		}
		to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, value, string(state))
	}
}

// follow looks at the state now and then, so that the log tells of a change that nobody asked about. It ends with ctx.
func (e *estate) follow(ctx context.Context) {
	for {
		h := e.now.Load()
		select {
		case <-time.After(h.cfg.Monitoring.HealthCheckInterval):
			h.service.Health()
		case <-ctx.Done():
			return
		}
	}
}

// others tells how what else is depended on was last seen.
func (h *house) others() []service.Dependency {
	if h.depends == nil {
		return nil
	}
	return h.depends.Last()
}

// reached tells how each upstream is.
func (h *house) reached() []service.Dependency {
	all := make([]service.Dependency, 0, len(h.upstreams))
	for _, u := range h.upstreams {
		all = append(all, h.state(u))
	}
	return all
}

// health serves GET /health.
func (h *house) health() func(*fasthttp.RequestCtx) { return h.brief(h.healthOf(false)) }

// healthOf serves it with what the service depends on, or without.
func (h *house) healthOf(brief bool) func(*fasthttp.RequestCtx) {
	return rest.ServeHealth(rest.HealthOptions{Service: h.cfg.Service.Name, Version: h.serviceVersion,
		Health: func(server string) (service.Health, bool) {
			all := h.service.Health()
			if brief {
				all.Dependencies = nil
			}
			if server == "" {
				return all, true
			}
			return all.Only(server), h.cfg.Upstream(server) != nil
		}})
}

// serviceVersion is the version of the service as a whole, or as far as it is one server's: that of the server counts if there is
// one alone.
func (h *house) serviceVersion(server string) string {
	var info struct{ Version string }
	for _, u := range h.upstreams {
		if u.Name() == server || server == "" && len(h.upstreams) == 1 {
			_ = json.Unmarshal(u.ServerInfo(), &info) // what is none has no version
		}
	}
	return service.Version(h.cfg.Service.Version, info.Version)
}
