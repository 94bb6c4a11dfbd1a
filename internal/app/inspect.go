package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/era"
	"dragoman/adapters/era/input"
	"dragoman/adapters/service"
	"dragoman/internal/app/target"
	"dragoman/policies/idempotency"
	"dragoman/proxy/session"
)

// The methods of this file show the parts of a generation to the tests of the whole program, internal/e2e.

// Upstreams returns the upstreams in the order of the configuration.
func (g *Generation) Upstreams() []*era.Upstream {
	all := make([]*era.Upstream, 0, len(g.targets.All))
	for _, t := range g.targets.All {
		all = append(all, t.Upstream.Upstream)
	}
	return all
}

// Target returns an upstream with its health monitor and transports.
func (g *Generation) Target(name string) *target.Target { return g.targets.Named(name) }

// Sessions returns the sessions of legacy clients.
func (g *Generation) Sessions() *session.Store { return g.shared.sessions }

// Pending returns the calls that wait for answers of modern clients.
func (g *Generation) Pending() *input.Store { return g.shared.pending }

// Duplicates returns the policy for repeated requests.
func (g *Generation) Duplicates() *idempotency.Policy { return g.limiters.duplicates }

// Service returns the state of the service.
func (g *Generation) Service() *service.Service { return g.service.Service }

// Dependencies returns the last states of the service's other dependencies.
func (g *Generation) Dependencies() []service.Dependency { return g.service.dependencies() }

// Collectors returns all metrics, also those that have no series yet.
func (g *Generation) Collectors() []prometheus.Collector { return g.components.Collectors() }

// CloseTracing sends the spans that wait, and ends tracing.
func (g *Generation) CloseTracing() { g.components.CloseOne("tracing") }
