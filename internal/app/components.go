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

// App is what lasts while configurations come and go. Each configuration makes a generation, of new components and of those
// components of the generation before that it would have made alike.
type App struct {
	Log     zerolog.Logger
	Metrics *prometheus.Registry
	Current atomic.Pointer[Generation] // the generation that serves
	number  uint64                     // of the last component
	level   *telemetry.Level           // of the log
	fastLog *telemetry.FastLine        // its short way; nil: it has none

	noteRequest func()                            // is told of each request; nil: nobody is
	clients     atomic.Pointer[httpserver.Server] // the listener for them; nil: there is none
	certificate atomic.Int64                      // when the one ends that it shows, in seconds of Unix; 0: it shows none

	Retiring sync.WaitGroup // what ends because a generation was replaced

	mu     sync.Mutex
	Series []labelled // what counts for servers
}

// labelled are metrics with labels, of which those of a server can be forgotten.
type labelled interface {
	DeletePartialMatch(prometheus.Labels) int
}

// newApp makes an empty one; lines, if not nil, are where the log goes, as JSON.
func newApp(log zerolog.Logger, lines *telemetry.BatchWriter) *App {
	level := telemetry.NewLevel(log.GetLevel())
	e := &App{Log: level.Logger(log), level: level, Metrics: prometheus.NewRegistry()}
	if lines != nil {
		e.fastLog = &telemetry.FastLine{Out: lines, Level: level}
	}
	return e
}

// forget drops what was counted for a server that there is no more.
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
	Metrics  []prometheus.Collector // that are read off it
	stage    stage
	Close    func() // lets go of it; nil: the collector does
	handOver func(heir any)
}

// stage is when a component closes: those that lead to others first.
type stage int

const (
	endsFirst stage = iota // what asks servers by itself
	endsSessions
	endsRepeats
	endsUpstreams
	endsReaper
	endsLast
	stages
)

// spec is how a component is made and closed.
type spec[V any] struct {
	build func(reg prometheus.Registerer) (V, error)
	stage stage
	close func(V) // nil: nothing is to be let go of
	// handOver tells one that is left who has its name now, before it ends; nil: it need not know.
	handOver func(left, heir V)
}

// keep returns the component of a name: that of the generation before if it was made from equal settings, else a new one. Settings
// are plain values; another component is named by its number.
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

// number identifies the component of a name among the settings of others; 0 if there is none.
func (g *Generation) number(name string) uint64 {
	if p := g.Components[name]; p != nil {
		return p.number
	}
	return 0
}

// registerer registers the metrics of a component. Counters and histograms are shared with the component that had the name before, and
// go on; what is read from the component itself is registered on activation.
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
			panic(err) // as the interface demands; a test registers all there are
		}
	}
}

// Unregister implements prometheus.Registerer.
func (l *registerer) Unregister(c prometheus.Collector) bool {
	before := len(l.readings)
	l.readings = slices.DeleteFunc(l.readings, func(other prometheus.Collector) bool { return other == c })
	return len(l.readings) < before
}

// activate makes g the current generation and returns the components of the one before that are not needed any more.
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

// discard closes what was made for a generation that is never activated.
func (g *Generation) discard() {
	fresh := maps.Clone(g.Components)
	maps.DeleteFunc(fresh, func(name string, p *component) bool { return g.previous[name] == p })
	closeComponents(fresh)
}

// closeComponents closes components stage by stage, those of one stage at the same time: a server that does not end takes its whole
// grace period.
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
