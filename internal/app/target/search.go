package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/classification"
	"dragoman/adapters/merge/find"
	"dragoman/adapters/merge/metatools"
	"dragoman/adapters/search"
	"dragoman/adapters/search/embedding"
	"dragoman/adapters/search/embedding/bert"
	embeddings "dragoman/adapters/search/embedding/endpoint"
	"dragoman/adapters/search/vectors"
	"dragoman/adapters/search/vectors/postgres"
	"dragoman/adapters/search/vectors/sqlite"
	"dragoman/internal/app/component"
	"dragoman/internal/app/sorting"
	"dragoman/internal/config"
	"dragoman/proxy"
)

// search makes what finds tools. It costs nothing until it is used.
func (b *Builder) search() (err error) {
	c := &b.Config.Search
	roots, _ := os.ReadFile(c.CAFile) // it was readable when it was checked
	settings := []any{*c, string(roots), placeOf(b.Config), b.Components.Number(catalogueComponent)}
	b.finder, err = component.Get(b.Components, "search", settings, component.Spec[*search.Engine]{Build: func(reg prometheus.Registerer) (*search.Engine, error) {
		meaning, err := b.meaning()
		if err != nil {
			return nil, err
		}
		e := search.New(search.Options{Catalogue: b.catalogue, Categories: b.sorter.Of, Kinds: kindsOf(b.sorter), Meaning: meaning})
		return e, component.Register(reg, meaningMetrics(e)...)
	}, Stage: component.Callers, Close: (*search.Engine).Close})
	if err != nil {
		return err
	}
	b.counts, err = component.Get(b.Components, "context", nil, component.Spec[*find.Counts]{Build: func(reg prometheus.Registerer) (*find.Counts, error) {
		counts := new(find.Counts)
		total := func(name, help string, read func() int64) prometheus.Collector {
			return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(read()) })
		}
		return counts, component.Register(reg,
			total("dragoman_context_lists_total", "Lists of tools that were answered to clients whose context is search or auto.", counts.Lists.Load),
			total("dragoman_context_listed_bytes_total", "Bytes of definitions of tools that those lists had.", counts.Bytes.Load),
			total("dragoman_context_spared_bytes_total", "Bytes of definitions of tools that those lists left out.", counts.Spared.Load),
			total("dragoman_tool_searches_total", "Searches for tools.", counts.Searches.Load))
	}})
	return err
}

// categories makes what sorts tools into categories, beside the catalogue.
func (b *Builder) categories(t *Set) (err error) {
	b.sorter, err = component.Get(b.Components, "categories", nil, component.Spec[*sorting.Sorter]{Build: func(prometheus.Registerer) (*sorting.Sorter, error) { return new(sorting.Sorter), nil }})
	if err != nil {
		return err
	}
	sorter := b.sorter
	t.Sorter = sorter
	if b.Config.Classification.Mode == config.ClassifyNothing {
		b.Components.OnActivation(func() { sorter.Use(nil) })
		return nil
	}
	c := b.Config.Classification
	roots, _ := os.ReadFile(c.CAFile) // it was readable when it was checked
	settings := []any{c, string(roots), b.Config.Categories(), placeOf(b.Config), b.Components.Number(catalogueComponent)}
	made, err := component.Get(b.Components, "classification", settings, component.Spec[*sorting.Engine]{Build: func(reg prometheus.Registerer) (*sorting.Engine, error) {
		opt := sorting.Options{Config: b.Config, Catalogue: b.catalogue, Store: b.classifications(), Log: b.Log}
		if b.Config.Catalogue.URL.Reveal() != "" {
			opt.Instance = instance(b.Config)
		}
		e, metrics, err := sorting.New(sorter, opt)
		if err != nil {
			return nil, err
		}
		return e, component.Register(reg, metrics...)
	}, Stage: component.Callers, Close: (*sorting.Engine).Close})
	if err != nil {
		return err
	}
	b.Components.OnActivation(func() { sorter.Use(made) })
	return nil
}

// kindsOf returns what tells the categories that a sorter has.
func kindsOf(sorter *sorting.Sorter) func() []search.Kind {
	return func() (all []search.Kind) {
		for _, one := range sorter.Engine().Counts() {
			text := strings.ReplaceAll(one.Name, "_", " ") + ". " + one.Description + ". " + strings.Join(one.Keywords, ", ")
			all = append(all, search.Kind{Name: one.Name, Text: text})
		}
		return all
	}
}

// classifications opens the store of categories, beside the catalogue. If it cannot be used, categories are found out again after a restart,
// which the log says.
func (b *Builder) classifications() classification.Store {
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

// Through returns the policy that makes calls through call_tool those of the tools that they name; nil: no endpoint offers that.
func (t *Set) Through() proxy.Policy {
	if len(t.contexts) == 0 {
		return nil
	}
	return metatools.Through(func(server string) *metatools.Rules { return t.contexts[server] })
}

// Context describes how an endpoint of several servers lists its tools.
type Context struct {
	Path  string // /mcp or /groups/NAME
	Sizes []find.Size
}

// Contexts returns those of all endpoints, that of all servers first.
func (t *Set) Contexts() (all []Context) {
	for _, name := range slices.Sorted(maps.Keys(t.merged)) {
		path := "/" + name
		if name == "" {
			path = "/mcp"
		}
		all = append(all, Context{path, t.merged[name].Sizes()})
	}
	return all
}

// meaning returns what searching by meaning needs; nil: it is off.
func (b *Builder) meaning() (*search.Meaning, error) {
	c := b.Config.Search
	if !c.On() || b.Rehearsal {
		return nil, nil //nolint:nilnil // it is off
	}
	if c.Vectors == config.VectorsInQdrant && !hasQdrant {
		return nil, errors.New(`search.vectors.store: this build has no client of Qdrant; fix: build it with "make build TAGS=qdrant", or choose another store`)
	}
	model, err := modelOf(&c)
	if err != nil {
		return nil, fmt.Errorf("search.embeddings: %w", err)
	}
	log := b.Log
	return &search.Meaning{Model: model, Patience: c.Timeout, Shared: c.Vectors == config.VectorsInPostgres || c.Vectors == config.VectorsInQdrant,
		Open: func(ctx context.Context, space vectors.Space) (vectors.Store, error) {
			return openVectors(ctx, b.Config, space)
		},
		Failed: func(err error) {
			if err == nil {
				log.Info().Msg("tools are found by meaning again")
				return
			}
			log.Warn().Err(err).Msg("tools are found by words alone, since the model or the store of vectors fails; further failures are counted")
		}}, nil
}

// modelOf makes the model of a configuration.
func modelOf(c *config.SearchConfig) (embedding.Model, error) {
	if c.Path != "" {
		return bert.Open(c.Path)
	}
	return embeddings.New(embeddings.Options{URL: c.URL, Model: c.Model, Key: c.Key.Reveal(), CAFile: c.CAFile, Dimension: c.Dimension})
}

// openVectors opens the store of vectors of a configuration.
func openVectors(ctx context.Context, c *config.Config, space vectors.Space) (vectors.Store, error) {
	url := cmp.Or(c.Search.VectorsURL.Reveal(), c.Catalogue.URL.Reveal())
	switch c.Search.Vectors {
	case config.VectorsInPostgres:
		return postgres.Open(ctx, url, space)
	case config.VectorsInQdrant:
		return openQdrant(url, c.Search.VectorsKey.Reveal(), space)
	}
	if c.Search.Vectors == config.InMemory || c.Catalogue.Path == config.InMemory {
		return vectors.NewMemory(space)
	}
	path, err := cataloguePath(c)
	if err != nil {
		return nil, err
	}
	return sqlite.Open(ctx, strings.TrimSuffix(path, ".db")+"-vectors.db", space)
}

// meaningMetrics returns the metrics of searches by meaning.
func meaningMetrics(e *search.Engine) []prometheus.Collector {
	if !e.State().On {
		return nil
	}
	total := func(outcome string, read func(search.State) int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "dragoman_meaning_searches_total", Help: "Searches for tools that were to go by meaning: those that did, and those that went by words alone, because the model or the store of vectors failed or was not ready.",
			ConstLabels: prometheus.Labels{"outcome": outcome}}, func() float64 { return float64(read(e.State())) })
	}
	return []prometheus.Collector{
		total("meaning", func(s search.State) int64 { return s.Searches - s.Failed }),
		total("words", func(s search.State) int64 { return s.Failed }),
		component.Gauge("dragoman_meaning_tools", "Tools that have a vector.", "", func() int { return e.State().Tools }),
	}
}
