package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-json"
)

// survey looks at a schema as plain JSON, before the library does: what would make compiling it expensive?
type survey struct {
	doc     any
	nodes   int
	objects int
	remote  int      // JSON values that are referred to where no subschema stands; they are validated for themselves
	anchors []string // JSON pointers to subschemas with $dynamicAnchor or $recursiveAnchor
	refs    map[string]bool
	path    []string
}

// counts are keywords whose numbers are counts. Beyond what an int holds they say the same as the largest exact double.
var counts = map[string]bool{"minLength": true, "maxLength": true, "minItems": true, "maxItems": true, "minProperties": true,
	"maxProperties": true, "minContains": true, "maxContains": true}

func (s *survey) look(v any, depth int) error {
	if s.nodes++; s.nodes > maxNodes {
		return fmt.Errorf("schema: more than %d JSON values", maxNodes)
	}
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			if err := s.below(fmt.Sprint(i), item, depth); err != nil {
				return err
			}
		}
	case map[string]any:
		if s.objects++; s.objects > maxObjects {
			return fmt.Errorf("schema: more than %d objects", maxObjects)
		}
		if err := s.keywords(v); err != nil {
			return err
		}
		for name, item := range v {
			if counts[name] {
				v[name] = clamp(item)
			}
			if err := s.below(name, item, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *survey) below(name string, v any, depth int) error {
	s.path = append(s.path, pointerEscaper.Replace(name))
	err := s.look(v, depth+1)
	s.path = s.path[:depth]
	return err
}

// keywords notes what references and anchors an object has.
func (s *survey) keywords(obj map[string]any) error {
	_, dynamic := obj["$dynamicAnchor"].(string)
	if recursive, _ := obj["$recursiveAnchor"].(bool); dynamic || recursive {
		at := ""
		if len(s.path) > 0 {
			at = "/" + strings.Join(s.path, "/")
		}
		s.anchors = append(s.anchors, at)
	}
	for _, key := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		ref, ok := obj[key].(string)
		if !ok || s.refs[ref] || !strings.HasPrefix(ref, "#/") {
			continue
		}
		if s.refs == nil {
			s.refs = map[string]bool{}
		}
		s.refs[ref] = true
		if s.remote += weigh(s.doc, ref[2:]); s.remote > 4*maxNodes {
			return errors.New("schema: too many references into unknown keywords; put what they refer to into $defs")
		}
	}
	return nil
}

// places are the keywords below which subschemas stand: directly, in an array, or by name.
var places = map[string]bool{"$defs": true, "definitions": true, "properties": true, "patternProperties": true, "dependentSchemas": true,
	"dependencies": true, "items": true, "prefixItems": true, "additionalItems": true, "additionalProperties": true, "allOf": true,
	"anyOf": true, "oneOf": true, "not": true, "if": true, "then": true, "else": true, "contains": true, "propertyNames": true,
	"unevaluatedItems": true, "unevaluatedProperties": true, "contentSchema": true}

// named are those of them below which a name stands before the subschema.
var named = map[string]bool{"$defs": true, "definitions": true, "properties": true, "patternProperties": true,
	"dependentSchemas": true, "dependencies": true}

// weigh says what it costs that a reference leads to the place: nothing, where a keyword puts a subschema there, which is
// read anyway; else the library copies its books and validates all that is there anew.
func weigh(doc any, pointer string) int {
	const books = 200
	tokens := strings.Split(pointer, "/")
	known := true
	v := doc
	for i := 0; i < len(tokens); i++ {
		known = known && places[tokens[i]]
		if v = child(v, tokens[i]); known && i+1 < len(tokens) {
			if _, list := v.([]any); list || named[tokens[i]] {
				i++
				v = child(v, tokens[i])
			}
		}
	}
	if known {
		return 0
	}
	return books + size(v)
}

func child(v any, token string) any {
	switch v := v.(type) {
	case map[string]any:
		return v[pointerUnescaper.Replace(token)]
	case []any:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(v) {
			return v[i]
		}
	}
	return nil
}

var (
	pointerEscaper   = strings.NewReplacer("~", "~0", "/", "~1", "%", "%25")
	pointerUnescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// size counts the values in v, long strings by the 256 bytes.
func size(v any) int {
	n := 1
	switch v := v.(type) {
	case string:
		n += len(v) / 256
	case json.Number:
		n += digits(v)
	case map[string]any:
		for name, item := range v {
			n += len(name)/256 + size(item)
		}
	case []any:
		for _, item := range v {
			n += size(item)
		}
	}
	return n
}

// digits is what calculating with a number costs beyond one step: much, if it is long.
func digits(n json.Number) int {
	if len(n) > 20 || strings.ContainsAny(string(n), "eE") {
		return 20
	}
	return 0
}

// clamp keeps a count within what the library holds in an int.
func clamp(v any) any {
	const most = 1 << 53
	n, ok := v.(json.Number)
	if !ok {
		return v
	}
	if f, err := n.Float64(); err == nil && f > most {
		return json.Number(strconv.Itoa(most))
	}
	return v
}
