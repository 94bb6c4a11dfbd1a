package shape

import (
	"fmt"
	"slices"
	"strings"
)

// follow returns a schema, or the definition that it refers to.
func (s *schema) follow(node any) object {
	of, _ := node.(object)
	for of["$ref"] != nil {
		next, _ := s.defs[target(of)].(object)
		of = next
	}
	return of
}

// property is the schema of a member, which may stand in one of the parts of an object.
func (s *schema) property(node any, name string) any {
	of := s.follow(node)
	properties, _ := of["properties"].(object)
	if one, ok := properties[name]; ok {
		return one
	}
	parts, _ := of["allOf"].([]any)
	for _, part := range parts {
		if one := s.property(part, name); one != nil {
			return one
		}
	}
	return nil
}

// describe returns what a schema asks for, such as `a string`, `one of "user", "assistant"`, `a number from 0 to 1`.
func (s *schema) describe(node any) string {
	of := s.follow(node)
	if values := s.listed(of); values != nil {
		return oneOf(values)
	}
	if name, ok := of["format"].(string); ok && formats[name].means != "" {
		return formats[name].means
	}
	if alternatives, ok := of["anyOf"].([]any); ok && of["properties"] == nil {
		var all []string
		for _, one := range alternatives {
			if text := s.describe(one); !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
		return strings.Join(all, " or ")
	}
	types, ok := of["type"].([]any)
	if !ok && of["type"] != nil {
		types = []any{of["type"]}
	}
	var all []string
	for _, one := range types {
		all = append(all, map[any]string{"array": "an array", "boolean": "true or false", "integer": "an integer", "null": "null", "number": "a number",
			"object": "an object", "string": "a string"}[one])
	}
	text := strings.Join(all, " or ")
	if text == "" {
		return "any value"
	}
	if low := of["minimum"]; low != nil {
		text += fmt.Sprint(" from ", low)
	}
	if high := of["maximum"]; high != nil {
		text += fmt.Sprint(" to ", high)
	}
	return text
}

func oneOf(values []any) string {
	var all []string
	for _, v := range values {
		if text, ok := v.(string); ok {
			v = fmt.Sprintf("%q", text)
		}
		all = append(all, fmt.Sprint(v))
	}
	if len(all) == 1 {
		return all[0]
	}
	return "one of " + strings.Join(all, ", ")
}
