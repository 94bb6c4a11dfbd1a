// Package component keeps the parts of a running proxy that can outlive a configuration. Each configuration has a [Set]
// of components. A component whose settings are the same in the next configuration is taken over with all that it has
// in memory; any other is made anew, and the old one closes.
package component

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/proxy"
)

// Set holds the components of one configuration by name. It is filled by [Get], then either activated or discarded.
// It is not safe for concurrent use until then.
type Set struct {
	registry     *Registry
	all          map[string]*component
	previous     map[string]*component // of the set that is active while this one is filled
	onActivation []func()
}

// component is a part of a configuration.
type component struct {
	number   uint64
	settings any // what it was made from
	value    any
	readings []prometheus.Collector // metrics that are read from it at each scrape
	stage    Stage
	close    func() // nil: nothing is to be closed
	handOver func(heir any)
}

// Stage says when a component closes. Components that lead to others close first.
type Stage int

// The stages, in their order.
const (
	Callers   Stage = iota // what sends requests of its own
	Sessions               // of clients
	Repeats                // of requests
	Upstreams              // connections to servers
	Processes              // what holds child processes
	Reports                // what tells others of all these
	Last                   // what all others use, such as logs
)

// Spec says how a component is made and closed.
type Spec[V any] struct {
	// Build makes the component. Its counters and histograms go on where those of a previous component of the name
	// ended; metrics that are read from the component itself appear with its activation.
	Build func(reg prometheus.Registerer) (V, error)
	// Stage orders closing: components of an earlier stage close first.
	Stage Stage
	// Close closes the component; nil: nothing is to be closed.
	Close func(V)
	// HandOver tells a component that is left behind its successor of the same name, before it closes; nil: not called.
	HandOver func(left, heir V)
}

// NewSet returns an empty set that takes over components of the active set, active; nil: there is none yet.
func (r *Registry) NewSet(active *Set) *Set {
	s := &Set{registry: r, all: make(map[string]*component)}
	if active != nil {
		s.previous = active.all
	}
	return s
}

// Get returns the component of a name: that of the active set if its settings are deeply equal, else a new one.
// Settings are plain values; they refer to another component by its [Set.Number].
func Get[V any](s *Set, name string, settings any, spec Spec[V]) (V, error) {
	if c := s.previous[name]; c != nil && reflect.DeepEqual(c.settings, settings) {
		s.all[name] = c
		return c.value.(V), nil
	}
	reg := &registerer{registry: s.registry}
	v, err := spec.Build(reg)
	if err != nil {
		return v, err
	}
	c := &component{number: s.registry.nextNumber(), settings: settings, value: v, readings: reg.readings, stage: spec.Stage}
	if spec.Close != nil {
		c.close = func() { spec.Close(v) }
	}
	if spec.HandOver != nil {
		c.handOver = func(heir any) { spec.HandOver(v, heir.(V)) }
	}
	s.all[name] = c
	return v, nil
}

// GetPolicy is [Get] for a policy with state and without metrics.
func GetPolicy(s *Set, name string, settings any, build func() proxy.Policy) (proxy.Policy, error) {
	return Get(s, name, settings, Spec[proxy.Policy]{Build: func(prometheus.Registerer) (proxy.Policy, error) { return build(), nil }})
}

// Number identifies the component of a name in the settings of others; 0 if there is none.
func (s *Set) Number(name string) uint64 {
	if c := s.all[name]; c != nil {
		return c.number
	}
	return 0
}

// Fresh reports whether the component of a name was made for this set.
func (s *Set) Fresh(name string) bool { return s.all[name] != s.previous[name] }

// OnActivation adds a function that [Set.Activate] calls.
func (s *Set) OnActivation(f func()) { s.onActivation = append(s.onActivation, f) }

// Activate replaces the active set by s. It calls publish, then the functions of [Set.OnActivation] in their order, and
// returns the components that s has not taken over, which the caller closes. An error says which metrics could not be
// registered; s is active all the same.
func (s *Set) Activate(publish func()) (left Left, err error) {
	left = maps.Clone(s.previous)
	for name := range s.all {
		if !s.Fresh(name) {
			delete(left, name)
		}
	}
	for name, c := range left {
		for _, m := range c.readings {
			s.registry.metrics.Unregister(m)
		}
		if heir := s.all[name]; heir != nil && c.handOver != nil {
			c.handOver(heir.value)
		}
	}
	for name, c := range s.all {
		if s.Fresh(name) {
			err = errors.Join(err, Register(s.registry.metrics, c.readings...))
		}
	}
	begin := s.onActivation
	s.previous, s.onActivation = nil, nil
	publish()
	for _, f := range begin {
		f()
	}
	return left, err
}

// Discard closes the components that were made for s, which is never activated.
func (s *Set) Discard() {
	fresh := maps.Clone(s.all)
	maps.DeleteFunc(fresh, func(name string, _ *component) bool { return !s.Fresh(name) })
	Left(fresh).Close()
}

// Close closes all components of s.
func (s *Set) Close() { Left(s.all).Close() }

// CloseOne closes the component of a name alone, for tests of how it ends.
func (s *Set) CloseOne(name string) { s.all[name].close() }

// Left holds components that no set needs any more.
type Left map[string]*component

// Close closes the components stage by stage, those of one stage in parallel: a child process that does not end takes
// its whole grace period.
func (l Left) Close() {
	stages := make(map[Stage][]func())
	for _, c := range l {
		if c.close != nil {
			stages[c.stage] = append(stages[c.stage], c.close)
		}
	}
	for _, stage := range slices.Sorted(maps.Keys(stages)) {
		var ends sync.WaitGroup
		for _, end := range stages[stage] {
			ends.Go(end)
		}
		ends.Wait()
	}
}

// Values returns the components of one type.
func Values[V any](l Left) (all []V) {
	for _, c := range l {
		if v, ok := c.value.(V); ok {
			all = append(all, v)
		}
	}
	return all
}
