package app

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/policies/telemetry"
)

// App is what lasts while configurations come and go. Each configuration makes a generation, of new components and of
// those components of the previous generation that have equal settings.
type App struct {
	Log     zerolog.Logger
	Metrics *prometheus.Registry
	Current atomic.Pointer[Generation] // the generation that serves
	number  uint64                     // of the last component
	level   *telemetry.Level           // of the log
	fastLog *telemetry.FastLine        // its fast path for the access log; nil: it has none

	noteRequest func()                            // called for each request; nil: not called
	clients     atomic.Pointer[httpserver.Server] // server of the main listener; nil: there is none
	certificate atomic.Int64                      // expiry of the main listener's certificate, in Unix seconds; 0: there is none

	Retiring sync.WaitGroup // closing of components that a generation has left behind

	mu     sync.Mutex
	Series []labelled // metrics with series by server
}

// labelled is a metric with labels, whose series for one server can be dropped.
type labelled interface {
	DeletePartialMatch(prometheus.Labels) int
}

// newApp returns an App without a generation. lines, if not nil, is where log goes, as JSON.
func newApp(log zerolog.Logger, lines *telemetry.BatchWriter) *App {
	level := telemetry.NewLevel(log.GetLevel())
	e := &App{Log: level.Logger(log), level: level, Metrics: prometheus.NewRegistry()}
	if lines != nil {
		e.fastLog = &telemetry.FastLine{Out: lines, Level: level}
	}
	return e
}

// forget drops the series of a server that has been removed.
func (a *App) forget(server string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.Series {
		s.DeletePartialMatch(prometheus.Labels{"server": server})
	}
}

// component is a part of a generation that can be handed over to the next.
type component struct {
	number   uint64
	settings any // what it was made from
	value    any
	Metrics  []prometheus.Collector // read from it at each scrape
	stage    stage
	Close    func() // nil: nothing is to be closed
	handOver func(heir any)
}

// stage is when a component closes. Components that lead to others close first.
type stage int

const (
	endsFirst stage = iota // what sends requests of its own
	endsSessions
	endsRepeats
	endsUpstreams
	endsReaper
	endsLast
	stages
)

// spec says how a component is made and closed.
type spec[V any] struct {
	build func(reg prometheus.Registerer) (V, error)
	stage stage
	close func(V) // nil: nothing is to be closed
	// handOver tells a component that is left behind its successor of the same name, before it closes; nil: not called.
	handOver func(left, heir V)
}

// keep returns the component of a name: that of the previous generation if its settings are equal, else a new one.
// Settings are plain values; they name another component by its number.
func keep[V any](g *Generation, name string, settings any, m spec[V]) (V, error) {
	if p := g.previous[name]; p != nil && reflect.DeepEqual(p.settings, settings) {
		g.Components[name] = p
		return p.value.(V), nil
	}
	reg := &registerer{app: g.App}
	v, err := m.build(reg)
	if err != nil {
		return v, err
	}
	g.App.number++
	p := &component{number: g.App.number, settings: settings, value: v, Metrics: reg.readings, stage: m.stage}
	if m.close != nil {
		p.Close = func() { m.close(v) }
	}
	if m.handOver != nil {
		p.handOver = func(heir any) { m.handOver(v, heir.(V)) }
	}
	g.Components[name] = p
	return v, nil
}

// number identifies the component of a name in the settings of others; 0 if there is none.
func (g *Generation) number(name string) uint64 {
	if p := g.Components[name]; p != nil {
		return p.number
	}
	return 0
}

// registerer registers the metrics of a component. Counters and histograms are shared with the previous component of
// the name, and go on. Metrics that are read from the component itself are registered on activation.
type registerer struct {
	app      *App
	readings []prometheus.Collector
}

// Register implements prometheus.Registerer.
func (l *registerer) Register(c prometheus.Collector) error {
	switch c := c.(type) {
	case labelled:
		err := l.app.Metrics.Register(c.(prometheus.Collector))
		if err == nil {
			l.app.mu.Lock()
			l.app.Series = append(l.app.Series, c)
			l.app.mu.Unlock()
		}
		return err
	case interface{ Inc() }, prometheus.Histogram:
		return l.app.Metrics.Register(c)
	}
	l.readings = append(l.readings, c)
	return nil
}

// MustRegister implements prometheus.Registerer.
func (l *registerer) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := l.Register(c); err != nil {
			panic(err) // as the interface demands; a test registers all metrics
		}
	}
}

// Unregister implements prometheus.Registerer.
func (l *registerer) Unregister(c prometheus.Collector) bool {
	before := len(l.readings)
	l.readings = slices.DeleteFunc(l.readings, func(other prometheus.Collector) bool { return other == c })
	return len(l.readings) < before
}

// activate makes g the current generation, and returns the components of the previous one that are no longer needed.
func (g *Generation) activate() (left map[string]*component, err error) {
	left = maps.Clone(g.previous)
	for name, p := range g.Components {
		if g.previous[name] == p {
			delete(left, name)
		}
	}
	for name, p := range left {
		for _, c := range p.Metrics {
			g.App.Metrics.Unregister(c)
		}
		if heir := g.Components[name]; heir != nil && p.handOver != nil {
			p.handOver(heir.value)
		}
	}
	for name, p := range g.Components {
		if g.previous[name] == p {
			continue
		}
		for _, c := range p.Metrics {
			err = errors.Join(err, g.App.Metrics.Register(c))
		}
	}
	g.previous = nil
	g.App.Current.Store(g)
	for _, begin := range g.onActivation {
		begin()
	}
	g.onActivation = nil
	return left, err
}

// discard closes the new components of a generation that is never activated.
func (g *Generation) discard() {
	fresh := maps.Clone(g.Components)
	maps.DeleteFunc(fresh, func(name string, p *component) bool { return g.previous[name] == p })
	closeComponents(fresh)
}

// closeComponents closes components stage by stage, those of one stage in parallel: a server that does not end takes
// its whole grace period.
func closeComponents(components map[string]*component) {
	for s := range stages {
		var ends sync.WaitGroup
		for _, p := range components {
			if p.stage == s && p.Close != nil {
				ends.Go(p.Close)
			}
		}
		ends.Wait()
	}
}
