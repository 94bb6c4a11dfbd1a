package schema

import (
	"fmt"
	"slices"
	"strings"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// maxChain bounds the subschemas that apply to the same value, one by the other. The library recurses over them: 1 300 of them,
// for each of 120 nested arrays, took 256 MB of stack, and Go ends the process at 1 GB.
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
		for _, sub := range append(g.same(g.all[i]), below(g.all[i])...) {
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

// same lists the subschemas that may apply to the value that s applies to. A $dynamicRef or $recursiveRef may mean each anchor
// of its name: only the way to it decides.
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
	return without(subs, nil)
}

// below lists the subschemas that apply to the members, elements and names of the value.
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
	return without(subs, nil)
}

// without returns schemas but for one.
func without(schemas []*js.Schema, one *js.Schema) []*js.Schema {
	return slices.DeleteFunc(slices.Clone(schemas), func(s *js.Schema) bool { return s == one })
}

// chains refuses schemas that apply themselves to the same value without end (2020-12 core §9.4.1), and those whose chains are
// longer than maxChain.
func (g *graph) chains(facts map[*js.Schema]*fact) error {
	tooLong := fmt.Errorf("schema: more than %d subschemas apply to the same value one by the other", maxChain)
	const walking = -1
	length := map[*js.Schema]int{}
	var walk func(s *js.Schema, depth int) (int, error)
	walk = func(s *js.Schema, depth int) (int, error) {
		switch n := length[s]; {
		case n == walking:
			return 0, fmt.Errorf("schema: %s applies itself to the same value without end", place(s))
		case n > 0:
			return n, nil
		case depth > maxChain:
			return 0, tooLong
		}
		length[s] = walking
		longest := 0
		for _, sub := range facts[s].same {
			n, err := walk(sub, depth+1)
			if err != nil {
				return 0, err
			}
			longest = max(longest, n)
		}
		if longest++; longest > maxChain {
			return 0, tooLong
		}
		length[s] = longest
		return longest, nil
	}
	for _, s := range g.all {
		if _, err := walk(s, 0); err != nil {
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
