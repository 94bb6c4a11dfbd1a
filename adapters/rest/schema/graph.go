package schema

import (
	"fmt"
	"slices"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// graph is all the subschemas that a check may come to.
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
	for i := 0; i < len(g.all); i++ { // grows meanwhile
		for _, sub := range append(same(g.all[i]), below(g.all[i])...) {
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

// same lists the subschemas that apply to the value that s applies to, but for what only the way there decides (dynamics).
func same(s *js.Schema) []*js.Schema {
	subs := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*js.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else})
	if s.DynamicRef != nil {
		subs = append(subs, s.DynamicRef.Ref)
	}
	for _, sub := range s.DependentSchemas {
		subs = append(subs, sub)
	}
	for _, dep := range s.Dependencies {
		if sub, ok := dep.(*js.Schema); ok {
			subs = append(subs, sub)
		}
	}
	return present(subs)
}

// dynamics lists the other schemas that a $dynamicRef or $recursiveRef of s may mean.
func (g *graph) dynamics(s *js.Schema) []*js.Schema {
	var subs []*js.Schema
	if d := s.DynamicRef; d != nil && d.Anchor != "" && d.Ref.DynamicAnchor == d.Anchor {
		subs = append(subs, g.dynamic[d.Anchor]...)
	}
	if s.RecursiveRef != nil && s.RecursiveRef.RecursiveAnchor {
		subs = append(subs, g.recurse...)
	}
	return slices.DeleteFunc(subs, func(sub *js.Schema) bool {
		return sub == s.RecursiveRef || s.DynamicRef != nil && sub == s.DynamicRef.Ref
	})
}

// below lists the subschemas that apply to members, elements and names of the value.
func below(s *js.Schema) []*js.Schema {
	subs := slices.Concat(s.PrefixItems,
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
	return present(subs)
}

func present(subs []*js.Schema) []*js.Schema {
	return slices.DeleteFunc(subs, func(s *js.Schema) bool { return s == nil })
}

// chains refuses schemas that come back to themselves without going deeper into the value, which means nothing and never
// ends (2020-12 core §9.4.1), and those with too long a way before going deeper.
func (g *graph) chains() error {
	length := map[*js.Schema]int{} // -1: being walked
	var walk func(s *js.Schema, depth int) (int, error)
	walk = func(s *js.Schema, depth int) (int, error) {
		if n := length[s]; n != 0 {
			if n < 0 {
				return 0, fmt.Errorf("schema: %s applies itself to the same value without end", place(s))
			}
			return n, nil
		}
		if depth > maxChain {
			return 0, fmt.Errorf("schema: more than %d subschemas apply to the same value one by the other", maxChain)
		}
		length[s] = -1
		longest := 0
		for _, sub := range append(same(s), g.dynamics(s)...) {
			n, err := walk(sub, depth+1)
			if err != nil {
				return 0, err
			}
			longest = max(longest, n)
		}
		length[s] = longest + 1
		return longest + 1, nil
	}
	for _, s := range g.all {
		n, err := walk(s, 0)
		if err == nil && n > maxChain {
			err = fmt.Errorf("schema: more than %d subschemas apply to the same value one by the other", maxChain)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
