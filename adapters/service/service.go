// Package service describes Dragoman as a service (seed 000, ServiceConfiguration and HealthResponse): its state, its version and its
// dependencies.
package service

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// State is the state of the service's life cycle (seed 000, State Transitions).
type State string

// The states. A service starts in the first and changes to the second or third when it can serve. From every state it can change to
// the fourth, and from that only to the last.
const (
	Initializing State = "INITIALIZING"  // no upstream has been reached yet
	Healthy      State = "HEALTHY"       // all dependencies are connected
	Degraded     State = "DEGRADED"      // some are not
	ShuttingDown State = "SHUTTING_DOWN" // no new requests are accepted; running ones end
	Stopped      State = "STOPPED"
)

// States lists the states in order.
func States() []State { return []State{Initializing, Healthy, Degraded, ShuttingDown, Stopped} }

// Status is the status that callers see (seed 000, HealthResponse).
type Status string

// The statuses: all dependencies are connected; some are not, and the service can serve; it cannot serve.
const (
	StatusHealthy     Status = "healthy"
	StatusDegraded    Status = "degraded"
	StatusUnavailable Status = "unavailable"
)

// Dependency is the last known state of one thing that the service depends on.
type Dependency struct {
	Name      string
	Connected bool
	Error     string        // why it is not connected, in words for any caller
	Detail    string        // the same with what the server said, for the operator only; empty: Error, or Warning, says all
	Took      time.Duration // duration of the last check; 0: there was none, the state is known otherwise
	Upstream  bool          // it is an upstream server: without any of them the service cannot serve
	// Of upstream servers only; zero values are unknown.
	State     string // seed 004, Server Lifecycle State Machine
	Warning   string // the server can be used, but something is wrong
	Failures  int    // consecutive
	CheckedAt time.Time
}

// Health is a snapshot of the service.
type Health struct {
	State        State
	Status       Status
	Uptime       time.Duration
	Dependencies []Dependency // by name
}

// Options configure a Service.
type Options struct {
	// Upstreams returns the current state of the upstream servers. It does not block.
	Upstreams func() []Dependency
	Others    func() []Dependency  // returns the other dependencies, likewise; nil: there are none
	Changed   func(from, to State) // receives each change, in order; may be nil
}

// Service keeps the state. It is safe for concurrent use.
type Service struct {
	opt   Options
	began time.Time

	mu    sync.Mutex
	state State
}

// New makes a Service whose uptime begins now.
func New(opt Options) *Service { return &Service{opt: opt, began: time.Now(), state: Initializing} }

// Health returns the current health, and updates the state to it.
func (s *Service) Health() Health {
	all := s.opt.Upstreams()
	if s.opt.Others != nil {
		all = append(all, s.opt.Others()...)
	}
	slices.SortStableFunc(all, func(a, b Dependency) int { return strings.Compare(a.Name, b.Name) })
	serves, whole := summarise(all)
	h := Health{State: s.update(serves, whole), Uptime: time.Since(s.began), Dependencies: all}
	h.Status = status(h.State, serves, whole)
	return h
}

// Only returns the health for callers of the given upstreams, without the others.
func (h Health) Only(upstreams []string) Health {
	h.Dependencies = slices.DeleteFunc(slices.Clone(h.Dependencies), func(d Dependency) bool { return d.Upstream && !slices.Contains(upstreams, d.Name) })
	serves, whole := summarise(h.Dependencies)
	h.Status = status(h.State, serves, whole)
	return h
}

// summarise reports whether the service can serve, and whether all dependencies are connected.
func summarise(all []Dependency) (serves, whole bool) {
	return slices.ContainsFunc(all, func(d Dependency) bool { return d.Upstream && d.Connected }),
		!slices.ContainsFunc(all, func(d Dependency) bool { return !d.Connected })
}

func status(state State, serves, whole bool) Status {
	switch {
	case state == Initializing, state == ShuttingDown, state == Stopped, !serves:
		return StatusUnavailable
	case whole:
		return StatusHealthy
	}
	return StatusDegraded
}

// update updates the state of a running service. One that has lost all its servers is degraded, not initializing again.
func (s *Service) update(serves, whole bool) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == ShuttingDown || s.state == Stopped:
	case serves && whole:
		s.setState(Healthy)
	case serves || s.state != Initializing:
		s.setState(Degraded)
	}
	return s.state
}

// ShutDown changes to ShuttingDown.
func (s *Service) ShutDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != Stopped {
		s.setState(ShuttingDown)
	}
}

// Stop changes to Stopped, when all requests have ended. It follows ShutDown.
func (s *Service) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == ShuttingDown {
		s.setState(Stopped)
	}
}

// setState sets the state. The caller holds mu.
func (s *Service) setState(to State) {
	from := s.state
	if s.state = to; from != to && s.opt.Changed != nil {
		s.opt.Changed(from, to)
	}
}
