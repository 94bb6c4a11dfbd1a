package checkutil

import (
	"math"
	"reflect"

	"github.com/goccy/go-json"

	"dragoman/conformance/peer"
)

// Sample returns arguments for the required properties of a schema.
func Sample(schema any) peer.Object {
	out := peer.Object{}
	for _, x := range peer.List(schema, "required") {
		name, _ := x.(string)
		property := peer.Get(schema, "properties", name)
		if options := peer.List(property, "enum"); len(options) > 0 {
			out[name] = options[0]
			continue
		}
		switch peer.Text(property, "type") {
		case "number", "integer":
			out[name] = 1
		case "boolean":
			out[name] = true
		case "array":
			out[name] = []any{}
		case "object":
			out[name] = Sample(property)
		default:
			out[name] = "a"
		}
	}
	return out
}

// RequiredArguments returns the names of the arguments that a prompt requires.
func RequiredArguments(prompt peer.Object) (names []string) {
	for _, x := range peer.List(prompt, "arguments") {
		if peer.Get(x, "required") == true {
			names = append(names, peer.Text(x, "name"))
		}
	}
	return names
}

// Violations lists the deviations of a value from a schema: types, required members and enumerations, at all depths. It ignores other
// keywords, so that it reports only certain deviations. A JSON Schema library would also judge patterns and bounds, whose meaning depends
// on the dialect, which no revision before 2025-11-25 fixes, and references, which it may be unable to resolve.
func Violations(schema, value any, place string) (wrong []string) {
	if kind := peer.Text(schema, "type"); kind != "" && !isOf(kind, value) {
		return []string{place + " is of type " + kind}
	}
	if options := peer.List(schema, "enum"); len(options) > 0 && !among(options, value) {
		wrong = append(wrong, place+" is one of "+peer.Encode(options))
	}
	switch v := value.(type) {
	case peer.Object:
		for _, x := range peer.List(schema, "required") {
			if name, _ := x.(string); !hasMember(v, name) {
				wrong = append(wrong, place+" has the member "+name)
			}
		}
		for name, inner := range v {
			wrong = append(wrong, Violations(peer.Get(schema, "properties", name), inner, place+"."+name)...)
		}
	case []any:
		for _, inner := range v {
			wrong = append(wrong, Violations(peer.Get(schema, "items"), inner, place+"[]")...)
		}
	}
	return wrong
}

func hasMember(o peer.Object, name string) bool { _, ok := o[name]; return ok }

func among(options []any, value any) bool {
	for _, x := range options {
		if reflect.DeepEqual(x, value) {
			return true
		}
	}
	return false
}

func isOf(kind string, value any) bool {
	switch v := value.(type) {
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case nil:
		return kind == "null"
	case []any:
		return kind == "array"
	case peer.Object:
		return kind == "object"
	case json.Number:
		n, err := v.Float64()
		return kind == "number" || kind == "integer" && (err != nil || n == math.Trunc(n)) // 1.0 and 1e3 are integers
	}
	return true
}
