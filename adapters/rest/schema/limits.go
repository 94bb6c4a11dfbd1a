package schema

import (
	"errors"
	"strconv"
	"strings"

	"github.com/goccy/go-json"
)

// Bounds of a schema. The decoder enforces the first two. Compiling takes time with the square of the objects, of which each may
// be a subschema: 80 ms for 4 000, 0.5 s for 10 000.
const (
	maxValues  = 10_000
	maxObjects = 4_000
	maxRemote  = 4 * maxValues // see surveyor.remote
)

// surveyor collects facts about a schema before it is compiled.
type surveyor struct {
	doc any
	// remote is the cost of references to places where no keyword puts a subschema. The library validates such a target anew for
	// each: 60 nested targets above 3 700 objects took 2 s.
	remote  int
	refs    map[string]bool
	anchors []string // JSON pointers to subschemas with $dynamicAnchor or $recursiveAnchor
	path    []string
}

// survey clamps the counts of a schema, and returns the places of its dynamic anchors as JSON pointers.
func survey(doc any) (anchors []string, err error) {
	s := &surveyor{doc: doc, refs: map[string]bool{}}
	s.value(doc)
	if s.remote > maxRemote {
		return nil, errors.New("schema: too many references into unknown keywords; put what they refer to into $defs")
	}
	return s.anchors, nil
}

func (s *surveyor) value(v any) {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			s.below(strconv.Itoa(i), item)
		}
	case map[string]any:
		s.object(v)
		for name, item := range v {
			if counts[name] && tooLarge(item) {
				v[name] = json.Number(strconv.Itoa(maxCount))
			}
			s.below(pointerEscaper.Replace(name), item)
		}
	}
}

func (s *surveyor) below(token string, v any) {
	s.path = append(s.path, token)
	s.value(v)
	s.path = s.path[:len(s.path)-1]
}

// object notes the references and anchors of an object.
func (s *surveyor) object(obj map[string]any) {
	_, dynamic := obj["$dynamicAnchor"].(string)
	if dynamic || obj["$recursiveAnchor"] == true {
		s.anchors = append(s.anchors, strings.Join(append([]string{""}, s.path...), "/"))
	}
	for _, key := range [...]string{"$ref", "$dynamicRef", "$recursiveRef"} {
		ref, ok := obj[key].(string)
		if ok && !s.refs[ref] && strings.HasPrefix(ref, "#/") && s.remote <= maxRemote {
			s.refs[ref] = true
			s.remote += remote(s.doc, strings.Split(ref[2:], "/"))
		}
	}
}

// subschemaKeywords are the keywords that hold subschemas; true means that a name or an index precedes each.
var subschemaKeywords = map[string]bool{"$defs": true, "definitions": true, "properties": true, "patternProperties": true,
	"dependentSchemas": true, "dependencies": true, "prefixItems": true, "allOf": true, "anyOf": true, "oneOf": true,
	"items": false, "additionalItems": false, "additionalProperties": false, "not": false, "if": false, "then": false, "else": false,
	"contains": false, "propertyNames": false, "unevaluatedItems": false, "unevaluatedProperties": false, "contentSchema": false}

// remote is the cost of a reference to a place: nothing where keywords put a subschema, which is compiled anyway; else the cost of
// the library's copy, and the size of the target.
func remote(doc any, tokens []string) int {
	const copied = 200
	known, name := true, false
	for _, token := range tokens {
		doc = child(doc, token)
		if name {
			name = false
			continue
		}
		named, keyword := subschemaKeywords[token]
		_, list := doc.([]any) // items before 2020-12
		known, name = known && keyword, named || list
	}
	if known {
		return 0
	}
	return copied + size(doc)
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

// size counts the values in v. A long string counts for each 256 bytes, a number for its digits.
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

// digits returns the cost of calculating with a long number, beyond one step.
func digits(n json.Number) int {
	if len(n) > 20 || strings.ContainsAny(string(n), "eE") {
		return 20
	}
	return 0
}

// counts are the keywords whose values are counts, which the library holds in an int. Beyond maxCount all mean the same.
var counts = map[string]bool{"minLength": true, "maxLength": true, "minItems": true, "maxItems": true, "minProperties": true,
	"maxProperties": true, "minContains": true, "maxContains": true}

const maxCount = 1 << 53

func tooLarge(v any) bool {
	n, _ := v.(json.Number)
	f, _ := n.Float64()
	return f > maxCount
}
