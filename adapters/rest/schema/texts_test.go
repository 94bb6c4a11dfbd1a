package schema

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// readInFull is Check with every text of the arguments decoded, whether or not a rule depends on it.
func readInFull(c *Cache, schema, instance []byte) string {
	if p, err := c.plan(schema); err == nil {
		p.skipTexts = false
	}
	return fmt.Sprint(c.Check(schema, instance))
}

// Texts are skipped only if no rule depends on their content, wherever the rule is.
func TestSkippedTexts(t *testing.T) {
	for _, k := range []struct{ schema, instance, rule string }{
		{`{"properties":{"a":{"type":"string"}}}`, `{"a":"\"x\\"}`, ""},
		{`{"properties":{"a":{"type":"number"}}}`, `{"a":"x"}`, "type"},
		{`{"additionalProperties":{"maxLength":1}}`, `{"a":"xx"}`, "maxLength"},
		{`{"items":{"items":{"minLength":1}}}`, `[[""]]`, "minLength"},
		{`{"anyOf":[{"const":"x"},{"type":"array"}]}`, `"y"`, "anyOf"},
		{`{"properties":{"a":{"$ref":"#/$defs/e"}},"$defs":{"e":{"enum":["x"]}}}`, `{"a":"y"}`, "enum"},
		{`{"$ref":"#n","$defs":{"x":{"$anchor":"n","items":{"pattern":"^x"}}}}`, `["y"]`, "pattern"},
		{`{"$dynamicAnchor":"n","items":{"$dynamicRef":"#n"},"maxLength":1}`, `["yy"]`, "maxLength"},
		{`{"uniqueItems":true}`, `["x","y"]`, ""},
		{`{"items":{"const":{"a":["x"]}}}`, `[{"a":["y"]}]`, "const"},
		{`{"patternProperties":{"^x":{"type":"number"}}}`, `{"xy":"1"}`, "type"},
		{`{"propertyNames":{"const":"x"}}`, `{"y":"x"}`, "propertyNames"},
	} {
		v, err := NewCache().Check([]byte(k.schema), []byte(k.instance))
		rule := ""
		if v != nil {
			rule = v.Rule
		}
		if err != nil || rule != k.rule {
			t.Errorf("%s on %s: %v %v, want %q", k.schema, k.instance, v, err, k.rule)
		}
		if full := readInFull(NewCache(), []byte(k.schema), []byte(k.instance)); full != fmt.Sprint(v, err) {
			t.Errorf("%s on %s: %v %v, but with all texts read %s", k.schema, k.instance, v, err, full)
		}
	}
}

// A large text on which no rule depends is not copied, even if it has escapes.
func TestSkippedTextsAreNotCopied(t *testing.T) {
	c := NewCache()
	schema := []byte(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`)
	instance := []byte(`{"text":"` + strings.Repeat(`x\n`, 300_000) + `"}`)
	check := func() {
		if v, err := c.Check(schema, instance); v != nil || err != nil {
			t.Fatal(v, err)
		}
	}
	check()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	check()
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 32<<10 {
		t.Errorf("%d bytes are allocated for a text of %d", got, len(instance))
	}
}
