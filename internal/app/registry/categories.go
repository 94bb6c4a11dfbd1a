package registry

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/aggregator"
	"dragoman/adapters/catalogue"
	"dragoman/adapters/classification"
)

// categories returns what the API does about categories of tools.
func (r *Registry) categories() aggregator.Categories {
	engine := func() *classification.Engine {
		_, targets := r.opt.Now()
		return targets.Sorter.Engine()
	}
	return aggregator.Categories{
		List: r.listCategories,
		Put: func(ctx context.Context, c classification.Category) error {
			return categoryProblem(engine().PutCategory(ctx, c), c.Name, "")
		},
		Remove: func(ctx context.Context, name string) error {
			return categoryProblem(engine().RemoveCategory(ctx, name), name, "")
		},
		Reset: func(ctx context.Context, name string) error {
			return categoryProblem(engine().ResetCategory(ctx, name), name, "")
		},
		Classify: r.classify,
		Reclassify: func(ctx context.Context, server, tool string) (int, error) {
			n, err := engine().Reclassify(ctx, server, tool)
			return n, categoryProblem(err, "", strings.TrimSuffix(server+"."+tool, "."))
		},
	}
}

func (r *Registry) listCategories() (all []aggregator.Category) {
	cfg, targets := r.opt.Now()
	given := aggregator.Configuration
	if len(cfg.OwnCategories) == 0 {
		given = aggregator.Standard
	}
	for _, one := range targets.Sorter.Engine().Counts() {
		c := aggregator.Category{Name: one.Name, Description: one.Description, Keywords: append([]string{}, one.Keywords...), Source: given, Tools: one.Tools, Primary: one.Primary}
		if one.Changed {
			c.Source = aggregator.Changed
		}
		all = append(all, c)
	}
	return all
}

// classify has a person say which categories a tool has, and returns the tool.
func (r *Registry) classify(ctx context.Context, server, name string, categories []string) (tool aggregator.Tool, err error) {
	cfg, targets := r.opt.Now()
	if err := targets.Sorter.Engine().Correct(ctx, server, name, categories); err != nil {
		return tool, categoryProblem(err, strings.Join(categories, ", "), server+"."+name)
	}
	of, t := targets.Catalogue.Snapshot().Server(server), targets.Named(server)
	if of != nil && of.Lists[catalogue.Tools] != nil && t != nil {
		items := of.Lists[catalogue.Tools].Items
		if at := slices.IndexFunc(items, func(item catalogue.Item) bool { return item.Key == name }); at >= 0 {
			return toolOf(of, &items[at], publicTools(cfg, targets)[server][name], t.Definitions(), targets.Sorter), nil
		}
	}
	return tool, categoryProblem(classification.ErrNoTool, "", server+"."+name) // it went away meanwhile
}

// categoryProblem returns the answer for an error about a category or a tool.
func categoryProblem(err error, category, tool string) error {
	answer := func(status int, text string) error { return &aggregator.Problem{Status: status, Detail: text} }
	switch {
	case err == nil:
		return nil
	case errors.Is(err, classification.ErrNoTool):
		return answer(fasthttp.StatusNotFound, "Tool not found: "+tool)
	case errors.Is(err, classification.ErrNoCategory):
		return answer(fasthttp.StatusNotFound, "Category not found: "+category)
	case errors.Is(err, classification.ErrTooMany):
		return answer(fasthttp.StatusConflict, "There are as many categories as there may be; remove one")
	case errors.Is(err, classification.ErrLast):
		return answer(fasthttp.StatusConflict, "It is the last category; add another one, or set classification.mode to off")
	case errors.Is(err, classification.ErrOff):
		return answer(fasthttp.StatusConflict, "Nothing sorts tools into categories: that needs several servers, and classification.mode local or llm")
	}
	return refused(err)
}
