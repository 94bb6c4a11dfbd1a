package aggregator

import (
	"context"
	"strconv"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/classification"
)

// Category is a category of tools, which seed 004 calls a skill.
type Category struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Keywords    []string `json:"keywords"`
	Source      string   `json:"source"`        // changed: by an operator; configuration; or standard
	Tools       int      `json:"tool_count"`    // that have it
	Primary     int      `json:"primary_count"` // that have it first
}

// Values of Category.Source, besides Configuration.
const (
	Changed  = "changed"
	Standard = "standard"
)

// Categories configure what the API does about categories of tools.
type Categories struct {
	// List returns all; nil: nothing sorts tools into categories.
	List func() []Category
	// Put adds a category, or replaces that of the same name.
	Put func(ctx context.Context, c classification.Category) error
	// Remove removes a category, and Reset takes back what was changed of one.
	Remove, Reset func(ctx context.Context, name string) error
	// Classify says which categories a tool of a server has, the primary one first; without any that is found out again.
	Classify func(ctx context.Context, server, tool string, categories []string) (Tool, error)
	// Reclassify has tools classified again: those of a server, one of it, or all. It returns how many they are.
	Reclassify func(ctx context.Context, server, tool string) (int, error)
}

// Reclassified is the answer to a request that has tools classified again.
type Reclassified struct {
	Tools int `json:"tools"`
}

func categoryOf(ctx *fasthttp.RequestCtx) string {
	name, _ := ctx.UserValue("category").(string)
	return name
}

func (a *api) categories(ctx *fasthttp.RequestCtx) (int, any, error) {
	page, err := paged(ctx, a.opt.Categories.List())
	return fasthttp.StatusOK, page, err
}

func (a *api) putCategory(ctx *fasthttp.RequestCtx) (int, any, error) {
	var body struct {
		Description string   `json:"description"`
		Keywords    []string `json:"keywords"`
	}
	if err := read(ctx.PostBody(), &body, "description", "keywords"); err != nil {
		return 0, nil, err
	}
	c := classification.Category{Name: categoryOf(ctx), Description: body.Description, Keywords: body.Keywords}
	var wrong mistakes
	if utf8.RuneCountInString(c.Description) > maxDescription {
		wrong.add("is longer than "+strconv.Itoa(maxDescription)+" characters", "description")
	}
	if len(c.Keywords) > classification.MaxKeywords {
		wrong.add("has more than "+strconv.Itoa(classification.MaxKeywords)+" elements", "keywords")
	}
	for i, keyword := range c.Keywords {
		if !classification.KeywordOK(keyword) {
			wrong.add("must be a word or a few, of at most 100 characters", "keywords", strconv.Itoa(i))
		}
	}
	if err := wrong.problem(); err != nil {
		return 0, nil, err
	}
	if !classification.NameOK(c.Name) {
		return 0, nil, Wrong("must be at most 64 lower-case letters, digits and single underscores, a letter first", "path", "category")
	}
	within, cancel := patience()
	defer cancel()
	if err := a.opt.Categories.Put(within, c); err != nil {
		return 0, nil, err
	}
	for _, one := range a.opt.Categories.List() {
		if one.Name == c.Name {
			return fasthttp.StatusOK, one, nil
		}
	}
	return 0, nil, noCategory(c.Name) // removed at once by somebody else
}

// noCategory is the Problem of a category that is not there.
func noCategory(name string) *Problem {
	return &Problem{fasthttp.StatusNotFound, "Category not found: " + name}
}

func (a *api) removeCategory(ctx *fasthttp.RequestCtx) (int, any, error) {
	within, cancel := patience()
	defer cancel()
	return fasthttp.StatusNoContent, nil, a.opt.Categories.Remove(within, categoryOf(ctx))
}

func (a *api) resetCategory(ctx *fasthttp.RequestCtx) (int, any, error) {
	within, cancel := patience()
	defer cancel()
	return fasthttp.StatusNoContent, nil, a.opt.Categories.Reset(within, categoryOf(ctx))
}

func (a *api) classify(ctx *fasthttp.RequestCtx) (int, any, error) {
	var body struct {
		Tool   string   `json:"tool"`
		Skills []string `json:"skill_ids"`
	}
	if err := read(ctx.PostBody(), &body, "tool", "skill_ids"); err != nil {
		return 0, nil, err
	}
	var wrong mistakes
	if body.Tool == "" {
		wrong.add("is required: the name of a tool at its server", "tool")
	}
	switch {
	case body.Skills == nil:
		wrong.add("is required: names of categories, the primary one first; an empty one takes back what was said", "skill_ids")
	case len(body.Skills) > classification.MostCategories:
		wrong.add("has more than "+strconv.Itoa(classification.MostCategories)+" elements", "skill_ids")
	}
	if err := wrong.problem(); err != nil {
		return 0, nil, err
	}
	s, err := a.find(ctx, false)
	if err != nil {
		return 0, nil, err
	}
	ctx.SetUserValue("id", s.Name)
	within, cancel := patience()
	defer cancel()
	tool, err := a.opt.Categories.Classify(within, s.Name, body.Tool, body.Skills)
	if err != nil {
		return 0, nil, err
	}
	return fasthttp.StatusOK, inspected([]Tool{tool})[0], nil
}

func (a *api) reclassify(ctx *fasthttp.RequestCtx) (int, any, error) {
	var body struct {
		Server string `json:"server"`
		Tool   string `json:"tool"`
	}
	if len(ctx.PostBody()) > 0 {
		if err := read(ctx.PostBody(), &body, "server", "tool"); err != nil {
			return 0, nil, err
		}
	}
	if body.Tool != "" && body.Server == "" {
		return 0, nil, Wrong("is required with a tool", "body", "server")
	}
	ctx.SetUserValue("id", body.Server)
	within, cancel := patience()
	defer cancel()
	n, err := a.opt.Categories.Reclassify(within, body.Server, body.Tool)
	return fasthttp.StatusAccepted, Reclassified{n}, err
}
