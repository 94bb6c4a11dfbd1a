package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/era/input"
	"dragoman/adapters/service"
	"dragoman/policies/idempotency"
	"dragoman/proxy/session"
)

// The methods of this file give the tests of internal/e2e access to the parts of a generation.

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
