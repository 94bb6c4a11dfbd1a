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

// buildService makes the state of the service, and begins to check its other dependencies.
func (g *Generation) buildService() error {
	var checks []service.Check
	for _, d := range g.Cfg.Dependencies {
		switch {
		case d.URL != "", d.Address() != "":
			checks = append(checks, service.Check{Name: d.Name, URL: d.URL, Address: d.Address(), Timeout: d.Timeout})
		default:
			g.Log.Warn().Str("key", "dependencies."+d.Name).Msg("is not looked after: it has neither url nor host and port")
		}
	}
	if len(checks) > 0 {
		var err error
		every := g.Cfg.Monitoring.HealthCheckInterval
		if g.Depends, err = keep(g, "dependencies", dependencySettings{checks, every}, spec[*service.Checks]{build: func(prometheus.Registerer) (*service.Checks, error) {
			return service.StartChecks(checks, every)
		}, stage: endsFirst, close: (*service.Checks).Close}); err != nil {
			return err
		}
	}
	var err error
	g.Service, err = keep(g, "service", nil, spec[*service.Service]{build: func(reg prometheus.Registerer) (*service.Service, error) {
		now := &g.App.Current
		s := service.New(service.Options{Upstreams: func() []service.Dependency { return now.Load().upstreamStates() },
			Others: func() []service.Dependency { return now.Load().dependencyStates() },
			Changed: func(from, to service.State) {
				g.Log.Info().Str("from", string(from)).Str("to", string(to)).Msg("state of the service")
			}})
		return s, reg.Register(NewStateGauge(s))
	}})
	return err
}

// dependencySettings is what the checks of dependencies are made from.
type dependencySettings struct {
	all   []service.Check
	every time.Duration
}

// stateGauge shows the state of the service: a series for each state, all from one reading.
type stateGauge struct {
	service *service.Service
	desc    *prometheus.Desc
}

// NewStateGauge returns the metric of the state of s.
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

// watchState reads the state at intervals, so that the log has a change that nobody asked about. It ends with ctx.
func (a *App) watchState(ctx context.Context) {
	for {
		h := a.Current.Load()
		select {
		case <-time.After(h.Cfg.Monitoring.HealthCheckInterval):
			h.Service.Health()
		case <-ctx.Done():
			return
		}
	}
}

// dependencyStates returns the results of the last checks of other dependencies.
func (g *Generation) dependencyStates() []service.Dependency {
	if g.Depends == nil {
		return nil
	}
	return g.Depends.Last()
}

// upstreamStates returns the state of each upstream.
func (g *Generation) upstreamStates() []service.Dependency {
	all := make([]service.Dependency, 0, len(g.Upstreams))
	for _, u := range g.Upstreams {
		all = append(all, g.upstreamState(u))
	}
	return all
}

// health returns the handler of GET /health.
func (g *Generation) health() func(*fasthttp.RequestCtx) { return g.publicHealth(g.healthOf(false)) }

// healthOf returns the handler of GET /health; brief leaves out the dependencies.
func (g *Generation) healthOf(brief bool) func(*fasthttp.RequestCtx) {
	return rest.ServeHealth(rest.HealthOptions{Service: g.Cfg.Service.Name, Version: g.serviceVersion,
		Health: func(server string) (service.Health, bool) {
			all := g.Service.Health()
			if brief {
				all.Dependencies = nil
			}
			if server == "" {
				return all, true
			}
			return all.Only(server), g.Cfg.Upstream(server) != nil
		}})
}

// serviceVersion returns the version of the service: the configured one, else that of the given server, or of the only
// one.
func (g *Generation) serviceVersion(server string) string {
	var info struct{ Version string }
	for _, u := range g.Upstreams {
		if u.Name() == server || server == "" && len(g.Upstreams) == 1 {
			_ = json.Unmarshal(u.ServerInfo(), &info) // invalid info has no version
		}
	}
	return service.Version(g.Cfg.Service.Version, info.Version)
}
