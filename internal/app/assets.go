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

// Estate is what stays while configurations come and go: each makes a house, of new assets, and of those of the house before that it
// would have made alike.
type Estate struct {
	Log     zerolog.Logger
	Metrics *prometheus.Registry
	Now     atomic.Pointer[House] // the one that is lived in
	number  uint64                // of the last asset
	level   *telemetry.Level      // of the log
	direct  *telemetry.FastLine   // its short way; nil: it has none

	stir        func()                            // is told of each request; nil: nobody is
	clients     atomic.Pointer[httpserver.Server] // the listener for them; nil: there is none
	certificate atomic.Int64                      // when the one ends that it shows, in seconds of Unix; 0: it shows none

	Leaving sync.WaitGroup // what ends because a house was left

	mu     sync.Mutex
	Series []labelled // what counts for servers
}

// labelled are metrics with labels, of which those of a server can be forgotten.
type labelled interface {
	DeletePartialMatch(prometheus.Labels) int
}

// newEstate makes an empty one; lines, if not nil, are where the log goes, as JSON.
func newEstate(log zerolog.Logger, lines *telemetry.BatchWriter) *Estate {
	level := telemetry.NewLevel(log.GetLevel())
	e := &Estate{Log: level.Logger(log), level: level, Metrics: prometheus.NewRegistry()}
	if lines != nil {
		e.direct = &telemetry.FastLine{Out: lines, Level: level}
	}
	return e
}

// forget drops what was counted for a server that there is no more.
func (e *Estate) forget(server string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.Series {
		s.DeletePartialMatch(prometheus.Labels{"server": server})
	}
}

// asset is one thing that a house is made of.
type asset struct {
	number   uint64
	settings any // what it was made from
	value    any
	Metrics  []prometheus.Collector // that are read off it
	stage    stage
	End      func() // lets go of it; nil: the collector does
	bequeath func(heir any)
}

// stage is when an asset ends: those that lead to others first.
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

// made is what is said of an asset when it is made.
type made[V any] struct {
	build func(reg prometheus.Registerer) (V, error)
	stage stage
	end   func(V) // nil: nothing is to be let go of
	// bequeath tells one that is left who has its name now, before it ends; nil: it need not know.
	bequeath func(left, heir V)
}

// keep gives the asset of a name: that of the house before if it was made from equal settings, else a new one. Settings are plain
// values; of another asset, its number.
func keep[V any](h *House, name string, settings any, m made[V]) (V, error) {
	if p := h.former[name]; p != nil && reflect.DeepEqual(p.settings, settings) {
		h.Assets[name] = p
		return p.value.(V), nil
	}
	reg := &ledger{estate: h.Estate}
	v, err := m.build(reg)
	if err != nil {
		return v, err
	}
	h.Estate.number++
	p := &asset{number: h.Estate.number, settings: settings, value: v, Metrics: reg.readings, stage: m.stage}
	if m.end != nil {
		p.End = func() { m.end(v) }
	}
	if m.bequeath != nil {
		p.bequeath = func(heir any) { m.bequeath(v, heir.(V)) }
	}
	h.Assets[name] = p
	return v, nil
}

// number identifies the asset of a name, among the settings of others.
func (h *House) number(name string) uint64 {
	if p := h.Assets[name]; p != nil {
		return p.number
	}
	return 0
}

// ledger registers the metrics of an asset. What counts is shared with the asset that had its place before, and goes on; what is read
// off an asset is registered when its house is lived in.
type ledger struct {
	estate   *Estate
	readings []prometheus.Collector
}

// Register implements prometheus.Registerer.
func (l *ledger) Register(c prometheus.Collector) error {
	switch c := c.(type) {
	case labelled:
		err := l.estate.Metrics.Register(c.(prometheus.Collector))
		if err == nil {
			l.estate.mu.Lock()
			l.estate.Series = append(l.estate.Series, c)
			l.estate.mu.Unlock()
		}
		return err
	case interface{ Inc() }, prometheus.Histogram:
		return l.estate.Metrics.Register(c)
	}
	l.readings = append(l.readings, c)
	return nil
}

// MustRegister implements prometheus.Registerer.
func (l *ledger) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := l.Register(c); err != nil {
			panic(err) // as the interface demands; a test registers all there are
		}
	}
}

// Unregister implements prometheus.Registerer.
func (l *ledger) Unregister(c prometheus.Collector) bool {
	before := len(l.readings)
	l.readings = slices.DeleteFunc(l.readings, func(other prometheus.Collector) bool { return other == c })
	return len(l.readings) < before
}

// moveIn makes the house the one that is lived in, and gives the assets of the one before that are not needed any more.
func (h *House) moveIn() (left map[string]*asset, err error) {
	left = maps.Clone(h.former)
	for name, p := range h.Assets {
		if h.former[name] == p {
			delete(left, name)
		}
	}
	for name, p := range left {
		for _, c := range p.Metrics {
			h.Estate.Metrics.Unregister(c)
		}
		if heir := h.Assets[name]; heir != nil && p.bequeath != nil {
			p.bequeath(heir.value)
		}
	}
	for name, p := range h.Assets {
		if h.former[name] == p {
			continue
		}
		for _, c := range p.Metrics {
			err = errors.Join(err, h.Estate.Metrics.Register(c))
		}
	}
	h.former = nil
	h.Estate.Now.Store(h)
	for _, begin := range h.settled {
		begin()
	}
	h.settled = nil
	return left, err
}

// abandon lets go of what was made for a house that nobody will live in.
func (h *House) abandon() {
	fresh := maps.Clone(h.Assets)
	maps.DeleteFunc(fresh, func(name string, p *asset) bool { return h.former[name] == p })
	endAssets(fresh)
}

// endAssets ends assets, those of one stage at the same time: a server that does not end takes its graces.
func endAssets(assets map[string]*asset) {
	for s := range stages {
		var ends sync.WaitGroup
		for _, p := range assets {
			if p.stage == s && p.End != nil {
				ends.Go(p.End)
			}
		}
		ends.Wait()
	}
}
