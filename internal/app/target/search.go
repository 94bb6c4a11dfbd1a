package target

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/merge/find"
	"dragoman/adapters/merge/metatools"
	"dragoman/adapters/search"
	"dragoman/internal/app/component"
	"dragoman/proxy"
)

// search makes what finds tools. It costs nothing until it is used.
func (b *Builder) search() (err error) {
	b.finder, err = component.Get(b.Components, "search", b.Components.Number(catalogueComponent), component.Spec[*search.Engine]{Build: func(prometheus.Registerer) (*search.Engine, error) {
		return search.New(search.Options{Catalogue: b.catalogue}), nil
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
