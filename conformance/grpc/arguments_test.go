package services

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compile returns a schema as JSON Schema 2020-12, the dialect of MCP.
func compile(t *testing.T, schema any) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(encoded(t, schema)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("schema:tool", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("schema:tool")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// arguments makes arguments that the schema of a tool allows: the least, and with as many members as it allows together, each of the least.
func arguments(t *testing.T, schema any) (least, most string) {
	t.Helper()
	root, ok := schema.(map[string]any)
	if !ok {
		t.Fatalf("a schema that is no object: %v", schema)
	}
	m, compiled := maker{root}, compile(t, schema)
	object, ok := m.value(root, 0).(map[string]any)
	if !ok {
		t.Fatalf("arguments of no object: %v", schema)
	}
	least = encoded(t, object)
	if err := compiled.Validate(decoded(t, least)); err != nil {
		t.Fatalf("%s: %v", least, err)
	}
	properties, _ := root["properties"].(map[string]any)
	for _, name := range names(properties) {
		if _, ok := object[name]; ok {
			continue
		}
		object[name] = m.value(properties[name], 1)
		if compiled.Validate(decoded(t, encoded(t, object))) != nil {
			delete(object, name) // of a oneof that has another member
		}
	}
	return least, encoded(t, object)
}

// maker makes values of a schema.
type maker struct{ root map[string]any }

func (m maker) value(schema any, depth int) any {
	s, ok := schema.(map[string]any)
	if !ok || depth > 20 {
		return map[string]any{}
	}
	if ref, ok := s["$ref"].(string); ok {
		return m.value(m.target(ref), depth+1)
	}
	if fixed, ok := s["const"]; ok {
		return fixed
	}
	if all, ok := s["enum"].([]any); ok {
		return all[0]
	}
	for _, keyword := range []string{"oneOf", "anyOf"} {
		if all, ok := s[keyword].([]any); ok && s["type"] == nil {
			return m.value(all[0], depth+1)
		}
	}
	kind, _ := s["type"].(string)
	if all, ok := s["type"].([]any); ok {
		kind, _ = all[0].(string)
	}
	switch kind {
	case "string":
		return text(s)
	case "integer", "number":
		if least, ok := s["minimum"]; ok && s["maximum"] == nil {
			return least
		}
		return json.Number("1")
	case "boolean":
		return true
	case "array":
		items := []any{}
		if s["items"] != nil && depth < 4 {
			items = append(items, m.value(s["items"], depth+1))
		}
		return items
	}
	object := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, name := range required {
		object[name.(string)] = m.value(properties[name.(string)], depth+1)
	}
	return object
}

// target returns the part of the schema to which #/… points.
func (m maker) target(ref string) any {
	var at any = m.root
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#"), "/") {
		if object, ok := at.(map[string]any); ok && part != "" {
			at = object[part]
		}
	}
	return at
}

// text returns the least text for a notation of protobuf's JSON.
func text(schema map[string]any) string {
	pattern, _ := schema["pattern"].(string)
	switch {
	case schema["format"] == "date-time":
		return "2026-01-02T03:04:05Z"
	case schema["contentEncoding"] == "base64":
		return "YQ=="
	case strings.HasSuffix(pattern, "s$"):
		return "1s" // a duration
	case strings.Contains(pattern, "0-9"):
		return "1"
	}
	return "a"
}

func TestArguments(t *testing.T) {
	schema := decoded(t, `{"type":"object","required":["a"],"additionalProperties":false,"properties":{"a":{"$ref":"#/$defs/A"},"b":{"type":"integer"},
		"c":{"type":"array","items":{"enum":["X","Y"]}},"d":{"type":["string","integer"],"pattern":"^[0-9]+$"},"e":{"type":"boolean"},"f":{"$ref":"#/$defs/A"}},
		"$defs":{"A":{"type":"object","properties":{"deep":{"type":"string"}}}},"not":{"required":["b","e"]}}`)
	least, most := arguments(t, schema)
	if least != `{"a":{}}` || most != `{"a":{},"b":1,"c":["X"],"d":"1","f":{}}` {
		t.Error(least, most)
	}
}
