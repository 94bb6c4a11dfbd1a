package schema

import (
	"fmt"
	"slices"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// soften removes from the schemas what is not checked, and returns notes of it. A pattern that cannot be run matches everything,
// so everything that fails because something matches (not, if, oneOf, maxContains) is removed with it.
func (g *graph) soften() []string {
	var notes []string
	loose := map[*js.Schema]bool{}
	for _, s := range g.all {
		s.Format = nil
		if p, ok := s.Pattern.(*pattern); ok && p.re == nil {
			notes = append(notes, fmt.Sprintf("%s: the pattern %s cannot be run in linear time and is not checked",
				place(s), quote(p.source)))
			s.Pattern, loose[s] = nil, true
		}
		for re := range s.PatternProperties {
			if p, ok := re.(*pattern); ok && p.re == nil {
				notes = append(notes, fmt.Sprintf("%s: the pattern %s of properties cannot be run in linear time: these are not checked, "+
					"and all names may occur", place(s), quote(p.source)))
				delete(s.PatternProperties, re)
				s.AdditionalProperties, loose[s] = nil, true
			}
		}
	}
	if len(loose) == 0 {
		return nil
	}
	g.spread(loose)
	for _, s := range g.all {
		relax(s, loose)
	}
	slices.Sort(notes)
	return slices.Compact(notes)
}

// spread marks all schemas that reach a loose one, which is one that accepts too much.
func (g *graph) spread(loose map[*js.Schema]bool) {
	users := map[*js.Schema][]*js.Schema{}
	var todo []*js.Schema
	for _, s := range g.all {
		for _, sub := range append(g.same(s), below(s)...) {
			users[sub] = append(users[sub], s)
		}
		if loose[s] {
			todo = append(todo, s)
		}
	}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, user := range users[s] {
			if !loose[user] {
				loose[user] = true
				todo = append(todo, user)
			}
		}
	}
}

// relax removes from s what may fail because a loose subschema accepts too much.
func relax(s *js.Schema, loose map[*js.Schema]bool) {
	if s.Not != nil && loose[s.Not] {
		s.Not = nil
	}
	if s.If != nil && loose[s.If] {
		s.If, s.Then, s.Else = nil, nil, nil
	}
	if slices.ContainsFunc(s.OneOf, func(sub *js.Schema) bool { return loose[sub] }) {
		s.OneOf = nil
	}
	if s.Contains != nil && loose[s.Contains] {
		s.MaxContains = nil
	}
	if loose[s] { // it is unknown what a loose subschema would have evaluated
		s.UnevaluatedProperties, s.UnevaluatedItems = nil, nil
	}
}
