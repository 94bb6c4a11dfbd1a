package schema

import (
	"github.com/goccy/go-json"
	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// fact holds the properties of a subschema that the meter needs.
type fact struct {
	weight  int          // steps of one visit: 1, and what the value is compared with
	same    []*js.Schema // subschemas that apply to the same value
	names   *js.Schema   // propertyNames, which an extension checks
	pattern int          // instructions of pattern
}

// weight returns the cost of a visit of s, without its subschemas.
func weight(s *js.Schema) int {
	n := 1 + len(s.Required) + len(s.Dependencies) + len(s.DependentRequired)
	if s.Const != nil {
		n += size(*s.Const)
	}
	if s.Enum != nil {
		n += size(s.Enum.Values)
	}
	for _, needs := range s.DependentRequired {
		n += len(needs)
	}
	return n
}

// cost counts the steps that checking a value may take, and stops soon above most. It visits every subschema that the validator
// might apply, without checking anything. Limits of size and depth would not do: 41 definitions that apply the next one twice are
// 1.2 KiB and 2^40 visits, and 5 000 constants against 5 000 elements are 10 KiB and 25 million comparisons.
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

// visit counts the steps of s for v. A nil s has none.
func (m *meter) visit(s *js.Schema, v any) {
	if s == nil {
		return
	}
	f := m.facts[s]
	if f == nil { // not explored: no bound is known
		m.left = -1
		return
	}
	if m.left -= f.weight; s.Bool != nil {
		return
	}
	for _, sub := range f.same {
		if m.left < 0 {
			return
		}
		m.visit(sub, v)
	}
	switch v := v.(type) {
	case json.Number:
		m.left -= digits(v)
	case string:
		m.left -= len(v)/256 + cells(f.pattern, len(v))
	case map[string]any:
		m.object(s, f, v)
	case []any:
		m.array(s, v)
	}
}

// cells is the work of a regular expression, in steps: RE2 looks at every instruction for every byte at worst.
func cells(instructions, bytes int) int { return instructions * bytes / 128 }

func (m *meter) object(s *js.Schema, f *fact, obj map[string]any) {
	if m.left -= len(obj) / 8; m.collects {
		m.left -= len(obj)
	}
	for name, v := range obj {
		if m.left < 0 {
			return
		}
		m.member(s, name, v)
		m.visit(f.names, name)
	}
}

func (m *meter) member(s *js.Schema, name string, v any) {
	sub, known := s.Properties[name]
	m.visit(sub, v)
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
	m.visit(s.UnevaluatedProperties, v)
}

func (m *meter) array(s *js.Schema, arr []any) {
	if m.collects {
		m.left -= len(arr)
	}
	if s.UniqueItems { // the library compares all pairs of up to 20 elements, and else those of the same hash, which may be all, too
		rounds := len(arr)
		if rounds > 20 {
			rounds = 1 + rounds/128
		}
		m.left -= rounds * size(arr)
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
		} else {
			m.visit(rest, v)
		}
		m.visit(s.Contains, v)
		m.visit(s.UnevaluatedItems, v)
	}
}
