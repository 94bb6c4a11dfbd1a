// Package service is what Dragoman says of itself as a service (seed 000, ServiceConfiguration and HealthResponse): the state
// it is in, and what it depends on.
package service

import (
	"slices"
	"sync"
	"time"
)

// State is where the service is in its life (seed 000, State Transitions).
type State string

// The states. A service starts in the first and comes to the second or third once it can serve; from any it can come to the
// fourth, and from that only to the last.
const (
	Initializing State = "INITIALIZING"  // no upstream has been reached yet
	Healthy      State = "HEALTHY"       // everything that it depends on is there
	Degraded     State = "DEGRADED"      // something is not
	ShuttingDown State = "SHUTTING_DOWN" // no new requests; those in flight are finished
	Stopped      State = "STOPPED"
)

// States lists them in order.
func States() []State { return []State{Initializing, Healthy, Degraded, ShuttingDown, Stopped} }

// Status is what callers are told (seed 000, HealthResponse).
type Status string

// The statuses: all that the service depends on is there; some of it is not, and it serves; it cannot serve.
const (
	StatusHealthy     Status = "healthy"
	StatusDegraded    Status = "degraded"
	StatusUnavailable Status = "unavailable"
)

// Dependency is one thing that the service depends on, as it was last seen.
type Dependency struct {
	Name      string
	Connected bool
	Error     string        // why not, for people
	Took      time.Duration // the last check; 0: it is not asked, but known
	Upstream  bool          // it is one of the servers behind: without any of them nothing can be served
	// What is known besides of a server behind; the zero values: nothing.
	State     string // seed 004, Server Lifecycle State Machine
	Warning   string // it serves, and is not quite well
	Failures  int    // in a row
	CheckedAt time.Time
}

// Health is the service at a moment.
type Health struct {
	State        State
	Status       Status
	Uptime       time.Duration
	Dependencies []Dependency // by name
}

// Options of a Service.
type Options struct {
	// Upstreams gives the servers behind as they are now. It does not wait.
	Upstreams func() []Dependency
	Others    func() []Dependency  // gives what else is depended on, likewise; nil: nothing
	Changed   func(from, to State) // told of each change, in order; nil: nobody
}

// Service keeps the state. Its methods may be called by any goroutine.
type Service struct {
	opt   Options
	began time.Time

	mu    sync.Mutex
	state State
}

// New makes a service that begins now.
func New(opt Options) *Service { return &Service{opt: opt, began: time.Now(), state: Initializing} }

// Health looks, and moves the state on to what it sees.
func (s *Service) Health() Health {
	all := s.opt.Upstreams()
	if s.opt.Others != nil {
		all = append(all, s.opt.Others()...)
	}
	slices.SortStableFunc(all, func(a, b Dependency) int {
		switch {
		case a.Name < b.Name:
			return -1
		case a.Name > b.Name:
			return 1
		}
		return 0
	})
	serves, whole := judge(all)
	h := Health{State: s.see(serves, whole), Uptime: time.Since(s.began), Dependencies: all}
	h.Status = status(h.State, serves, whole)
	return h
}

// Only is the same for those who use one of the upstreams: what the others are like does not concern them.
func (h Health) Only(upstream string) Health {
	h.Dependencies = slices.DeleteFunc(slices.Clone(h.Dependencies), func(d Dependency) bool { return d.Upstream && d.Name != upstream })
	serves, whole := judge(h.Dependencies)
	h.Status = status(h.State, serves, whole)
	return h
}

// judge tells whether anything can be served, and whether everything is there.
func judge(all []Dependency) (serves, whole bool) {
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

// see moves between the states of a service that lives. One that has served and has lost all its servers is degraded, not
// new again.
func (s *Service) see(serves, whole bool) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == ShuttingDown || s.state == Stopped:
	case serves && whole:
		s.become(Healthy)
	case serves || s.state != Initializing:
		s.become(Degraded)
	}
	return s.state
}

// ShutDown says that the end has begun.
func (s *Service) ShutDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != Stopped {
		s.become(ShuttingDown)
	}
}

// Stop says that everything in flight has been finished. It follows on ShutDown.
func (s *Service) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == ShuttingDown {
		s.become(Stopped)
	}
}

// become notes the state. The caller holds mu.
func (s *Service) become(to State) {
	from := s.state
	if s.state = to; from != to && s.opt.Changed != nil {
		s.opt.Changed(from, to)
	}
}
