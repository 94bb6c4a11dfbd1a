// Package sorting has the tools of several servers sorted into categories as the configuration says.
package sorting

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/classification"
	"dragoman/adapters/classification/chat"
	"dragoman/internal/config"
)

// Sorter knows the categories of tools. It outlives the Engine that finds them out, so that other categories end no session.
type Sorter struct {
	engine  atomic.Pointer[classification.Engine] // nil: tools have no categories
	changed atomic.Pointer[func()]                // nil: nobody is told
}

// Engine returns what finds out categories; nil: nothing does. It may be called on a nil Sorter.
func (s *Sorter) Engine() *classification.Engine {
	if s == nil {
		return nil
	}
	return s.engine.Load()
}

// Of returns the categories of a tool, the primary one first.
func (s *Sorter) Of(server, name string) []string { return s.Engine().Of(server, name) }

// Tell has f called after categories of tools have changed.
func (s *Sorter) Tell(f func()) { s.changed.Store(&f) }

func (s *Sorter) tell() {
	if f := s.changed.Load(); f != nil {
		(*f)()
	}
}

// Use makes an Engine that of the Sorter, and starts it; nil: tools have no categories.
func (s *Sorter) Use(e *Engine) {
	if e == nil {
		if s.engine.Swap(nil) != nil {
			s.tell()
		}
		return
	}
	s.engine.Store(e.Engine)
	e.Start()
}

// Engine is a classification.Engine with what it uses.
type Engine struct {
	*classification.Engine
	store   classification.Store
	service *chat.Service // nil: there is none
	log     zerolog.Logger
}

// Options configure an Engine.
type Options struct {
	Config    *config.Config
	Catalogue *catalogue.Catalogue
	// Store is closed with the Engine if it is an io.Closer.
	Store classification.Store
	// Instance tells apart Dragomans that share the store; empty: it is not shared.
	Instance string
	Log      zerolog.Logger
}

// New returns the Engine of a configuration, which is started by [Sorter.Use], and its metrics. The caller closes it.
func New(s *Sorter, opt Options) (*Engine, []prometheus.Collector, error) {
	made := &Engine{store: opt.Store, log: opt.Log}
	c := &opt.Config.Classification
	if c.Mode == config.ClassifyByModel {
		var err error
		if made.service, err = chat.New(chat.Options{URL: c.URL, Model: c.Model, Key: c.Key.Reveal(), CAFile: c.CAFile, Timeout: c.Timeout}); err != nil {
			return nil, nil, fmt.Errorf("classification: %w", err)
		}
	}
	fallback := c.Fallback
	made.Engine = classification.New(classification.Options{Catalogue: opt.Catalogue, Store: opt.Store, Categories: opt.Config.Categories(), Instance: opt.Instance,
		Classifiers: func(all []classification.Category) (first, standIn classification.Classifier) {
			switch local := classification.NewLocal(all); {
			case made.service == nil:
				return local, nil
			case fallback:
				return made.service.Classifier(all), local
			}
			return made.service.Classifier(all), nil
		},
		Note:    made.note,
		Changed: s.tell})
	return made, metrics(made.Engine), nil
}

func (e *Engine) note(what string, err error) {
	if err != nil {
		e.log.Warn().Err(err).Msg(what + " fails: tools wait for their categories, and can be found without; it is tried again")
		return
	}
	e.log.Info().Msg(what + " works again")
}

// Close ends what the Engine does.
func (e *Engine) Close() {
	e.Engine.Close()
	if e.service != nil {
		e.service.Close()
	}
	if closer, ok := e.store.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			e.log.Warn().Err(err).Msg("closing the store of categories")
		}
	}
}

// metrics returns the metrics of an Engine.
func metrics(e *classification.Engine) (all []prometheus.Collector) {
	for _, state := range []catalogue.ClassState{catalogue.Discovered, catalogue.Classifying, catalogue.Classified, catalogue.Unclassified} {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "dragoman_classification_tools", Help: "Tools of several servers, by the state of their classification.",
			ConstLabels: prometheus.Labels{"state": strings.ToLower(string(state))}}, func() float64 { return float64(e.Stats().States[state]) }))
	}
	for outcome, read := range map[string]func(classification.Stats) int64{
		"classified": func(s classification.Stats) int64 { return s.Done },
		"fallback":   func(s classification.Stats) int64 { return s.StoodIn },
		"failed":     func(s classification.Stats) int64 { return s.Failed },
	} {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "dragoman_classification_batches_total",
			Help:        "Batches of at most ten tools that were to be sorted into categories, by what became of them: classified; sorted by their words, since the model failed (fallback); not sorted (failed).",
			ConstLabels: prometheus.Labels{"outcome": outcome}}, func() float64 { return float64(read(e.Stats())) }))
	}
	return all
}
