package target

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/classification"
	"dragoman/adapters/classification/chat"
	"dragoman/internal/app/component"
	"dragoman/internal/config"
)

// Sorter knows the categories of tools. It outlives the Engine that finds them out, so that other categories end no session.
type Sorter struct {
	engine atomic.Pointer[classification.Engine] // nil: tools have no categories
	shown  atomic.Bool                           // some clients are told of categories in a list
}

// Engine returns what finds out categories; nil: nothing does.
func (s *Sorter) Engine() *classification.Engine { return s.engine.Load() }

// Of returns the categories of a tool, the primary one first.
func (s *Sorter) Of(server, name string) []string { return s.Engine().Of(server, name) }

// classifying is an Engine with what it uses.
type classifying struct {
	*classification.Engine
	store catalogue.Classifications
	chat  *chat.Classifier // nil: there is none
}

// categories makes what sorts tools into categories, beside the catalogue.
func (b *Builder) categories(t *Set) (err error) {
	b.sorter, err = component.Get(b.Components, "categories", nil, component.Spec[*Sorter]{Build: func(prometheus.Registerer) (*Sorter, error) { return new(Sorter), nil }})
	if err != nil {
		return err
	}
	sorter := b.sorter
	t.Sorter = sorter
	if b.Config.Classification.Mode == config.ClassifyNothing {
		b.Components.OnActivation(func() { sorter.engine.Store(nil) })
		return nil
	}
	c := b.Config.Classification
	roots, _ := os.ReadFile(c.CAFile) // it was readable when it was checked
	settings := []any{c, string(roots), b.Config.Categories(), placeOf(b.Config), b.Components.Number(catalogueComponent)}
	made, err := component.Get(b.Components, "classification", settings, component.Spec[*classifying]{Build: func(prometheus.Registerer) (*classifying, error) { return b.classifier(sorter) },
		Stage: component.Callers, Close: b.closeClassifier})
	if err != nil {
		return fmt.Errorf("classification: %w", err)
	}
	b.Components.OnActivation(func() {
		sorter.engine.Store(made.Engine)
		made.Start()
	})
	return nil
}

// classifier makes the Engine of the configuration.
func (b *Builder) classifier(sorter *Sorter) (*classifying, error) {
	c, all := &b.Config.Classification, b.Config.Categories()
	made := &classifying{store: b.classifications()}
	opt := classification.Options{Catalogue: b.catalogue, Store: made.store, Categories: all, Classifier: classification.NewLocal(all)}
	if c.Mode == config.ClassifyByModel {
		var err error
		if made.chat, err = chat.New(chat.Options{URL: c.URL, Model: c.Model, Key: c.Key.Reveal(), CAFile: c.CAFile, Timeout: c.Timeout, Categories: all}); err != nil {
			return nil, err
		}
		if c.Fallback {
			opt.Fallback = opt.Classifier
		}
		opt.Classifier = made.chat
	}
	if b.Config.Catalogue.URL.Reveal() != "" {
		opt.Instance = instance(b.Config)
	}
	log, cat := b.Log, b.catalogue
	opt.Note = func(what string, err error) {
		if err != nil {
			log.Warn().Err(err).Msg(what + " fails: tools wait for their categories, and can be found without; it is tried again")
			return
		}
		log.Info().Msg(what + " works again")
	}
	opt.Changed = func() {
		if sorter.shown.Load() { // find_tools tells of categories
			cat.Renew()
		}
	}
	made.Engine = classification.New(opt)
	return made, nil
}

// classifications opens the store of categories, beside the catalogue. If it cannot be used, categories are found out again after a restart,
// which the log says.
func (b *Builder) classifications() catalogue.Classifications {
	if b.Rehearsal {
		return &catalogue.MemoryClassifications{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	stored, err := OpenStore(ctx, b.Config, nil)
	if err != nil {
		b.Log.Warn().Err(err).Msg("categories of tools are kept in memory: corrections are lost at the end; set catalogue.path to a file in a directory that can be written, or catalogue.url to a database")
	}
	if err != nil || stored == nil {
		return &catalogue.MemoryClassifications{}
	}
	return stored
}

func (b *Builder) closeClassifier(c *classifying) {
	c.Close()
	if c.chat != nil {
		c.chat.Close()
	}
	if closer, ok := c.store.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			b.Log.Warn().Err(err).Msg("closing the store of categories")
		}
	}
}
