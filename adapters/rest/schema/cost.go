package schema

import (
	"github.com/goccy/go-json"
	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// kinds is a set of JSON types.
type kinds uint8

const (
	isNull kinds = 1 << iota
	isBool
	isNumber
	isString
	isArray
	isObject
	isAny = isNull | isBool | isNumber | isString | isArray | isObject
)

func kindOf(v any) kinds {
	switch v.(type) {
	case nil:
		return isNull
	case bool:
		return isBool
	case json.Number:
		return isNumber
	case string:
		return isString
	case []any:
		return isArray
	}
	return isObject
}

// fact is what a check needs to know of a subschema beyond what the library does.
type fact struct {
	types   kinds        // that get behind `type`
	weight  int          // of one visit: 1, and what is compared with
	also    []*js.Schema // see dynamics
	names   *js.Schema   // propertyNames, and uniqueItems: judged by extensions
	unique  bool
	pattern int // instructions of pattern
}

// facts fills p.facts.
func (g *graph) facts(p *plan) {
	p.outlines = true
	for _, s := range g.all {
		f := &fact{types: isAny, weight: 1 + len(s.Required) + len(s.Dependencies) + len(s.DependentRequired), also: g.dynamics(s)}
		if s.Types != nil {
			f.types = typesOf(s.Types.ToStrings())
		}
		if s.Const != nil {
			f.weight += size(*s.Const)
		}
		if s.Enum != nil {
			f.weight += size(s.Enum.Values)
		}
		for _, needs := range s.DependentRequired {
			f.weight += len(needs)
		}
		if re, ok := s.Pattern.(*pattern); ok {
			f.pattern = re.size
		}
		p.collects = p.collects || s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil
		p.outlines = p.outlines && !readsText(s)
		p.facts[s] = f
	}
}

// readsText tells whether a rule of s itself depends on what a text says, or how long it is. `format` and the keywords of content are
// annotations here; names of properties are read in any case.
func readsText(s *js.Schema) bool {
	return s.MinLength != nil || s.MaxLength != nil || s.Pattern != nil || s.Const != nil || s.Enum != nil || s.UniqueItems ||
		s.Format != nil || s.ContentEncoding != nil || s.ContentMediaType != nil || len(s.Extensions) > 0
}

func typesOf(names []string) kinds {
	var set kinds
	for _, name := range names {
		set |= map[string]kinds{"null": isNull, "boolean": isBool, "number": isNumber, "integer": isNumber, "string": isString,
			"array": isArray, "object": isObject}[name]
	}
	return set
}

// cost counts, and no further than just above most, the steps that judging the value may take. It goes the validator's way
// without judging: to every subschema that might be applied, unless the type of the value rules it out.
func (p *plan) cost(value any, most int) int {
	m := meter{plan: p, left: most}
	m.visit(p.root, value)
	return most - m.left
}

// meter counts down.
type meter struct {
	*plan
	left int
}

func (m *meter) visit(s *js.Schema, v any) {
	f := m.facts[s]
	if f == nil { // not explored: no bound is known
		m.left = -1
		return
	}
	if m.left -= f.weight; m.left < 0 || s.Bool != nil || f.types&kindOf(v) == 0 {
		return
	}
	for _, subs := range [...][]*js.Schema{s.AllOf, s.AnyOf, s.OneOf, f.also} {
		m.each(subs, v)
	}
	for _, sub := range [...]*js.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else} {
		if sub != nil {
			m.visit(sub, v)
		}
	}
	if s.DynamicRef != nil {
		m.visit(s.DynamicRef.Ref, v)
	}
	switch v := v.(type) {
	case json.Number:
		m.left -= digits(v)
	case string:
		m.left -= len(v)/256 + cells(f.pattern, len(v))
	case map[string]any:
		m.object(s, f, v)
	case []any:
		m.array(s, f, v)
	}
}

// cells is the work of a regular expression, in steps: RE2 looks at every instruction for every byte at worst.
func cells(instructions, bytes int) int { return instructions * bytes / 128 }

func (m *meter) each(subs []*js.Schema, v any) {
	for _, sub := range subs {
		if m.left < 0 {
			return
		}
		m.visit(sub, v)
	}
}

func (m *meter) object(s *js.Schema, f *fact, obj map[string]any) {
	if m.left -= len(obj) / 8; m.collects {
		m.left -= len(obj)
	}
	for name, sub := range s.DependentSchemas {
		if _, there := obj[name]; there {
			m.visit(sub, obj)
		}
	}
	for name, dep := range s.Dependencies {
		sub, ok := dep.(*js.Schema)
		if _, there := obj[name]; ok && there {
			m.visit(sub, obj)
		}
	}
	for name, v := range obj {
		if m.left < 0 {
			return
		}
		m.member(s, name, v)
		if f.names != nil {
			m.visit(f.names, name)
		}
	}
}

func (m *meter) member(s *js.Schema, name string, v any) {
	known := false
	if sub := s.Properties[name]; sub != nil {
		known = true
		m.visit(sub, v)
	}
	for re, sub := range s.PatternProperties {
		if p, ok := re.(*pattern); ok {
			m.left -= 1 + 2*cells(p.size, len(name))
		}
		if m.left >= 0 && re.MatchString(name) {
			known = true
			m.visit(sub, v)
		}
	}
	if sub, ok := s.AdditionalProperties.(*js.Schema); ok && !known {
		m.visit(sub, v)
	}
	if s.UnevaluatedProperties != nil {
		m.visit(s.UnevaluatedProperties, v)
	}
}

func (m *meter) array(s *js.Schema, f *fact, arr []any) {
	if m.collects {
		m.left -= len(arr)
	}
	if f.unique {
		m.left -= size(arr)
	}
	tuple, rest := s.PrefixItems, s.Items2020
	switch items := s.Items.(type) { // before 2020-12
	case *js.Schema:
		rest = items
	case []*js.Schema:
		tuple = items
		rest, _ = s.AdditionalItems.(*js.Schema)
	}
	for i, v := range arr {
		if m.left < 0 {
			return
		}
		if i < len(tuple) {
			m.visit(tuple[i], v)
		} else if rest != nil {
			m.visit(rest, v)
		}
		for _, sub := range [...]*js.Schema{s.Contains, s.UnevaluatedItems} {
			if sub != nil {
				m.visit(sub, v)
			}
		}
	}
}
