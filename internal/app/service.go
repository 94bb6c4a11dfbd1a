package app

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/service"
	"dragoman/internal/app/component"
	"dragoman/internal/config"
)

// serviceState holds the state of the service.
type serviceState struct {
	*service.Service
	depends *service.Checks // checks of other dependencies; nil: there are none
}

// dependencies returns the results of the last checks of other dependencies.
func (s *serviceState) dependencies() []service.Dependency {
	if s.depends == nil {
		return nil
	}
	return s.depends.Last()
}

// buildService makes the state of the service, and begins to check its other dependencies. upstreams and others return
// the states on which it depends, those of the current generation.
func buildService(set *component.Set, cfg *config.Config, log zerolog.Logger, upstreams, others func() []service.Dependency) (s serviceState, err error) {
	var checks []service.Check
	for _, d := range cfg.Dependencies {
		switch {
		case d.URL != "", d.Address() != "":
			checks = append(checks, service.Check{Name: d.Name, URL: d.URL, Address: d.Address(), Timeout: d.Timeout})
		default:
			log.Warn().Str("key", "dependencies."+d.Name).Msg("is not checked: it has neither url nor host and port")
		}
	}
	if len(checks) > 0 {
		every := cfg.Monitoring.HealthCheckInterval
		if s.depends, err = component.Get(set, "dependencies", []any{checks, every}, component.Spec[*service.Checks]{Build: func(prometheus.Registerer) (*service.Checks, error) {
			return service.StartChecks(checks, every)
		}, Stage: component.Callers, Close: (*service.Checks).Close}); err != nil {
			return s, err
		}
	}
	s.Service, err = component.Get(set, "service", nil, component.Spec[*service.Service]{Build: func(reg prometheus.Registerer) (*service.Service, error) {
		made := service.New(service.Options{Upstreams: upstreams, Others: others, Changed: func(from, to service.State) {
			log.Info().Str("from", string(from)).Str("to", string(to)).Msg("state of the service")
		}})
		return made, reg.Register(StateGauge(made))
	}})
	return s, err
}

// StateGauge returns the metric of the state of s.
func StateGauge(s *service.Service) prometheus.Collector {
	return component.NewMultiGauge("dragoman_service_state", "1 for the state that the service is in.", func(tell func(float64, ...string)) {
		now := s.Health().State
		for _, state := range service.States() {
			tell(float64(component.Bool(state == now)), string(state))
		}
	}, "state")
}
