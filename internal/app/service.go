package app

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
func (h *House) serviceState() error {
	var checks []service.Check
	for _, d := range h.Cfg.Dependencies {
		switch {
		case d.URL != "", d.Address() != "":
			checks = append(checks, service.Check{Name: d.Name, URL: d.URL, Address: d.Address(), Timeout: d.Timeout})
		default:
			h.Log.Warn().Str("key", "dependencies."+d.Name).Msg("is not looked after: it has neither url nor host and port")
		}
	}
	if len(checks) > 0 {
		var err error
		every := h.Cfg.Monitoring.HealthCheckInterval
		if h.Depends, err = keep(h, "dependencies", dependencies{checks, every}, made[*service.Checks]{build: func(prometheus.Registerer) (*service.Checks, error) {
			return service.StartChecks(checks, every)
		}, stage: endsFirst, end: (*service.Checks).Close}); err != nil {
			return err
		}
	}
	var err error
	h.Service, err = keep(h, "service", nil, made[*service.Service]{build: func(reg prometheus.Registerer) (*service.Service, error) {
		now := &h.Estate.Now
		s := service.New(service.Options{Upstreams: func() []service.Dependency { return now.Load().reached() },
			Others: func() []service.Dependency { return now.Load().others() },
			Changed: func(from, to service.State) {
				h.Log.Info().Str("from", string(from)).Str("to", string(to)).Msg("state of the service")
			}})
		return s, reg.Register(NewStateGauge(s))
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

func NewStateGauge(s *service.Service) stateGauge {
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
func (e *Estate) follow(ctx context.Context) {
	for {
		h := e.Now.Load()
		select {
		case <-time.After(h.Cfg.Monitoring.HealthCheckInterval):
			h.Service.Health()
		case <-ctx.Done():
			return
		}
	}
}

// others tells how what else is depended on was last seen.
func (h *House) others() []service.Dependency {
	if h.Depends == nil {
		return nil
	}
	return h.Depends.Last()
}

// reached tells how each upstream is.
func (h *House) reached() []service.Dependency {
	all := make([]service.Dependency, 0, len(h.Upstreams))
	for _, u := range h.Upstreams {
		all = append(all, h.state(u))
	}
	return all
}

// health serves GET /health.
func (h *House) health() func(*fasthttp.RequestCtx) { return h.brief(h.healthOf(false)) }

// healthOf serves it with what the service depends on, or without.
func (h *House) healthOf(brief bool) func(*fasthttp.RequestCtx) {
	return rest.ServeHealth(rest.HealthOptions{Service: h.Cfg.Service.Name, Version: h.serviceVersion,
		Health: func(server string) (service.Health, bool) {
			all := h.Service.Health()
			if brief {
				all.Dependencies = nil
			}
			if server == "" {
				return all, true
			}
			return all.Only(server), h.Cfg.Upstream(server) != nil
		}})
}

// serviceVersion is the version of the service as a whole, or as far as it is one server's: that of the server counts if there is
// one alone.
func (h *House) serviceVersion(server string) string {
	var info struct{ Version string }
	for _, u := range h.Upstreams {
		if u.Name() == server || server == "" && len(h.Upstreams) == 1 {
			_ = json.Unmarshal(u.ServerInfo(), &info) // what is none has no version
		}
	}
	return service.Version(h.Cfg.Service.Version, info.Version)
}
