package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// maxChain bounds the chains of subschemas that apply to the same value. The library recurses over them: a chain of 1 300 for each
// of 120 nested arrays took 256 MB of stack, and Go ends the process at 1 GB.
const maxChain = 100

// graph is all the subschemas that a check may reach.
type graph struct {
	all     []*js.Schema
	known   map[*js.Schema]bool
	dynamic map[string][]*js.Schema // by $dynamicAnchor
	recurse []*js.Schema            // with $recursiveAnchor
}

func explore(starts []*js.Schema) *graph {
	g := &graph{known: map[*js.Schema]bool{}, dynamic: map[string][]*js.Schema{}}
	for _, s := range starts {
		g.add(s)
	}
	for i := 0; i < len(g.all); i++ { // g.all grows
		for _, sub := range g.subschemas(g.all[i]) {
			g.add(sub)
		}
	}
	return g
}

func (g *graph) add(s *js.Schema) {
	if s == nil || g.known[s] {
		return
	}
	g.known[s] = true
	g.all = append(g.all, s)
	if s.DynamicAnchor != "" {
		g.dynamic[s.DynamicAnchor] = append(g.dynamic[s.DynamicAnchor], s)
	}
	if s.RecursiveAnchor {
		g.recurse = append(g.recurse, s)
	}
}

// same lists the subschemas that may apply to the value that s applies to; some are nil. A $dynamicRef or $recursiveRef may mean
// each anchor of its name: which one depends on the references before it.
func (g *graph) same(s *js.Schema) []*js.Schema {
	subs := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*js.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else})
	for _, sub := range s.DependentSchemas {
		subs = append(subs, sub)
	}
	for _, dep := range s.Dependencies {
		if sub, ok := dep.(*js.Schema); ok {
			subs = append(subs, sub)
		}
	}
	if d := s.DynamicRef; d != nil {
		subs = append(subs, d.Ref)
		if d.Anchor != "" && d.Ref.DynamicAnchor == d.Anchor {
			subs = append(subs, without(g.dynamic[d.Anchor], d.Ref)...)
		}
	}
	if r := s.RecursiveRef; r != nil && r.RecursiveAnchor {
		subs = append(subs, without(g.recurse, r)...)
	}
	return subs
}

// without returns schemas but for one.
func without(schemas []*js.Schema, one *js.Schema) []*js.Schema {
	return slices.DeleteFunc(slices.Clone(schemas), func(s *js.Schema) bool { return s == one })
}

// subschemas lists those of same and the ones that apply to the members, elements and names of the value; some are nil.
func (g *graph) subschemas(s *js.Schema) []*js.Schema {
	subs := slices.Concat(g.same(s), s.PrefixItems,
		[]*js.Schema{s.Items2020, s.Contains, s.PropertyNames, s.UnevaluatedItems, s.UnevaluatedProperties})
	for _, sub := range s.Properties {
		subs = append(subs, sub)
	}
	for _, sub := range s.PatternProperties {
		subs = append(subs, sub)
	}
	for _, either := range []any{s.AdditionalProperties, s.AdditionalItems, s.Items} {
		switch sub := either.(type) {
		case *js.Schema:
			subs = append(subs, sub)
		case []*js.Schema:
			subs = append(subs, sub...)
		}
	}
	return subs
}

// chains refuses schemas that apply themselves to the same value without end (2020-12 core §9.4.1), or whose chains are longer than
// maxChain.
func (g *graph) chains(facts map[*js.Schema]*fact) error {
	const walking = -1
	length := map[*js.Schema]int{}
	var walk func(s *js.Schema) error
	walk = func(s *js.Schema) error {
		switch n := length[s]; {
		case n == walking:
			return fmt.Errorf("schema: %s applies itself to the same value without end", place(s))
		case n > 0:
			return nil
		}
		length[s] = walking
		longest := 1
		for _, sub := range facts[s].same {
			if err := walk(sub); err != nil {
				return err
			}
			longest = max(longest, 1+length[sub])
		}
		if length[s] = longest; longest > maxChain {
			return fmt.Errorf("schema: more than %d subschemas apply to the same value one by the other", maxChain)
		}
		return nil
	}
	for _, s := range g.all {
		if err := walk(s); err != nil {
			return err
		}
	}
	return nil
}

// place returns where a subschema is, as a JSON pointer into the schema.
func place(s *js.Schema) string {
	_, at, _ := strings.Cut(s.Location, "#")
	if at == "" {
		return "the schema"
	}
	return shorten("#"+at, 200)
}

// soften removes the rules that are not checked, and returns a note of each pattern. A pattern that cannot be run matches everything,
// so the rules that fail because something matches (not, if, oneOf, maxContains) are removed with it.
func (g *graph) soften() []string {
	var notes []string
	loose := map[*js.Schema]bool{} // accept too much
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

// spread adds to loose all schemas that reach one of them.
func (g *graph) spread(loose map[*js.Schema]bool) {
	users := map[*js.Schema][]*js.Schema{}
	for _, s := range g.all {
		for _, sub := range g.subschemas(s) {
			users[sub] = append(users[sub], s)
		}
	}
	var mark func(s *js.Schema)
	mark = func(s *js.Schema) {
		for _, user := range users[s] {
			if !loose[user] {
				loose[user] = true
				mark(user)
			}
		}
	}
	for s := range maps.Clone(loose) {
		mark(s)
	}
}

// relax removes from s what may fail because a loose subschema accepts too much.
func relax(s *js.Schema, loose map[*js.Schema]bool) {
	if loose[s.Not] {
		s.Not = nil
	}
	if loose[s.If] {
		s.If, s.Then, s.Else = nil, nil, nil
	}
	if slices.ContainsFunc(s.OneOf, func(sub *js.Schema) bool { return loose[sub] }) {
		s.OneOf = nil
	}
	if loose[s.Contains] {
		s.MaxContains = nil
	}
	if loose[s] { // it is unknown what a loose subschema would have evaluated
		s.UnevaluatedProperties, s.UnevaluatedItems = nil, nil
	}
}
