package schema

import (
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-json"
)

// Rules of testdata/ruled.proto as they stand in inputSchema.
func TestValidationRules(t *testing.T) {
	const int32Bounds = `"minimum":-2147483648,"maximum":2147483647`
	want := map[string]string{
		"requiredText":     `{"type":"string","minLength":1}`,
		"requiredPresence": `{"type":"string"}`,
		"requiredList":     `{"type":"array","items":{"type":"string"},"minItems":1}`,
		"requiredMap":      `{"type":"object","additionalProperties":{"type":"string"},"minProperties":1}`,
		"requiredNumber":   `{"type":"integer",` + int32Bounds + `,"not":{"enum":[0]}}`,
		"requiredFlag":     `{"type":"boolean","const":true}`,
		"requiredSize":     `{"type":"string","enum":["SIZE_SMALL","SIZE_LARGE"]}`,
		"sized":            `{"type":"string","minLength":2,"maxLength":5}`,
		"exact":            `{"type":"string","minLength":3,"maxLength":3}`,
		"pattern":          `{"type":"string","pattern":"^[a-z]{2,3}$"}`,
		"re2Only":          `{"type":"string"}`,
		"prefix":           `{"type":"string","pattern":"^a\\.b"}`,
		"email":            `{"type":"string","format":"email"}`,
		"uuid":             `{"type":"string","format":"uuid"}`,
		"host":             `{"type":"string","format":"hostname"}`,
		"ipv4":             `{"type":"string","format":"ipv4"}`,
		"uri":              `{"type":"string","format":"uri"}`,
		"oneOf":            `{"type":"string","enum":["x","y"]}`,
		"noneOf":           `{"type":"string","not":{"enum":["x"]}}`,
		"fixed":            `{"type":"string","const":"k"}`,
		"ignored":          `{"type":"string"}`,
		"ranged":           `{"type":"integer","minimum":-3,"exclusiveMaximum":9}`,
		"zigzag":           `{"type":"integer","minimum":-2147483648,"maximum":-4}`,
		"fixedBits":        `{"type":"integer","maximum":4294967295,"exclusiveMinimum":4}`,
		"long":             `{"type":["string","integer"],"pattern":"^-?(0|[1-9][0-9]{0,18})$","minimum":1,"maximum":10}`,
		"chosen":           `{"type":["string","integer"],"pattern":"^(0|[1-9][0-9]{0,19})$","minimum":0,"maximum":18446744073709551615,"enum":["1",1,"2",2]}`,
		"real":             `{"type":"number","exclusiveMinimum":0,"maximum":1.5}`,
		"finite":           `{"type":"number"}`,
		"outside":          `{"type":"integer",` + int32Bounds + `}`,
		"positive":         `{"type":"integer","maximum":2147483647,"exclusiveMinimum":0}`,
		"excluded":         `{"type":"integer",` + int32Bounds + `,"not":{"enum":[4,5]}}`,
		"tags":             `{"type":"array","items":{"type":"string","maxLength":4},"minItems":1,"maxItems":3,"uniqueItems":true}`,
		"counts":           `{"type":"object","propertyNames":{"minLength":2},"additionalProperties":{"type":"integer","minimum":0,"maximum":2147483647},"maxProperties":2}`,
		"digest":           `{"type":"string","contentEncoding":"base64","pattern":"^[A-Za-z0-9+/]*={0,2}$","minLength":3,"maxLength":4}`,
		"size":             `{"type":"string","enum":["SIZE_UNSPECIFIED","SIZE_SMALL"]}`,
		"only":             `{"type":"string","enum":["SIZE_SMALL"]}`,
		"agreed":           `{"type":"boolean","const":true}`,
		"wrapped":          `{"type":"string","minLength":1}`,
		"oneReal":          `{"type":["number","string"],"pattern":"^(NaN|-?Infinity)$","enum":[0.5,2]}`,
		"far":              `{"type":["string","integer"],"pattern":"^-?(0|[1-9][0-9]{0,18})$","maximum":9223372036854775807,"exclusiveMinimum":-9,"not":{"enum":["3",3]}}`,
		"exactly":          `{"type":["string","integer"],"pattern":"^-?(0|[1-9][0-9]{0,18})$","minimum":-9223372036854775808,"maximum":9223372036854775807,"enum":["-7",-7]}`,
		"small":            `{"type":"array","items":{"type":"integer","minimum":-2147483648,"exclusiveMaximum":3}}`,
		"some":             `{"type":"string","contentEncoding":"base64","pattern":"^[A-Za-z0-9+/]*={0,2}$","minLength":2,"maxLength":8}`,
		"suffix":           `{"type":"string","pattern":"\\.go$"}`,
		"contains":         `{"type":"string","pattern":"/"}`,
		"none":             `{"not":{}}`,
		"freeKeys":         `{"type":"object","additionalProperties":{"type":"string"},"minProperties":1}`,
		"unbounded":        `{"type":"string","pattern":"^$"}`,
		"byName":           `{"type":"string"}`,
		"byId":             `{"type":"string"}`,
		"behaved":          `{"type":"string"}`,
		"out":              `{"type":"string","readOnly":true}`,
		"secret":           `{"type":"string","writeOnly":true}`,
	}
	// With and without the files of the options among the descriptors.
	all, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	without := set()
	for _, file := range all.File {
		if !strings.HasPrefix(file.GetName(), "google/api/") && !strings.HasPrefix(file.GetName(), "buf/") {
			without.File = append(without.File, file)
		}
	}
	for name, l := range map[string]linked{"with": link(t, all), "without": link(t, without)} {
		schema := rawObject(t, definitionOf(t, l.tool(t, "ruled.v1.Rules.Put")).InputSchema)
		properties := rawObject(t, schema["properties"])
		for field, want := range want {
			if got := string(properties[field]); got != want {
				t.Errorf("%s: %s is\n%s, want\n%s", name, field, got, want)
			}
		}
		if len(properties) != len(want) {
			t.Errorf("%s: %d fields, %d expected", name, len(properties), len(want))
		}
		var required []string
		if err := json.Unmarshal(schema["required"], &required); err != nil {
			t.Fatal(err)
		}
		needed := []string{"requiredText", "requiredPresence", "requiredList", "requiredMap", "requiredNumber", "requiredFlag", "requiredSize", "sized", "positive", "tags", "freeKeys", "behaved", "secret"}
		if !slices.Equal(required, needed) {
			t.Errorf("%s: required are %q, want %q", name, required, needed)
		}
		if got := string(schema["then"]); got != `{"oneOf":[{"required":["byName"]},{"required":["byId"]}]}` {
			t.Errorf("%s: the required oneof is %s", name, got)
		}
	}
}

func TestPortablePatterns(t *testing.T) {
	for pattern, want := range map[string]bool{
		`^[a-z0-9]+(?:-[a-z]{1,3})*$`: true, `\d+\.\d{2}`: true, `[\w\-]`: true, `^$`: true, `a|b`: true, `[^\]]`: true, `é`: true,
		`(?i)a`: false, `\Aa`: false, `a\z`: false, `\pL`: false, `[[:alpha:]]`: false, `a{`: false, `a}`: false, `]`: false, `[]a]`: false, `[^]a]`: false, `\-`: false, `\@`: false,
		`(?P<n>a)`: false, `\Q.\E`: false, `(`: false, `\x{41}`: false, strings.Repeat("a", maxPattern+1): false,
	} {
		if got := portable(pattern); got != want {
			t.Errorf("%s: %v", clip([]byte(pattern)), got)
		}
	}
}

func TestAnnotations(t *testing.T) {
	l := testdata(t)
	for method, want := range map[string]string{
		"Get": `{"readOnlyHint":true}`, "Put": `{"idempotentHint":true}`, "Delete": `{"destructiveHint":true,"idempotentHint":true}`, "Post": ``,
		"Safe": `{"readOnlyHint":true}`, "Again": `{"idempotentHint":true}`,
	} {
		if got := string(definitionOf(t, l.tool(t, "ruled.v1.Rules."+method)).Annotations); got != want {
			t.Errorf("%s: %s, want %s", method, got, want)
		}
	}
}

func TestDescriptions(t *testing.T) {
	l := testdata(t)
	for method, want := range map[string]string{
		"Echo":  "Echoes what it gets.",
		"Watch": "Deprecated. Calls the gRPC method every.v1.Every.Watch.\nThe server sends a stream of messages; the result lists them as \"messages\".",
	} {
		if got := definitionOf(t, l.tool(t, "every.v1.Every."+method)).Description; got != want {
			t.Errorf("%s: %q, want %q", method, got, want)
		}
	}
	for name, want := range map[string]string{"GetFeature": "Get Feature", "GetHTTPRoute": "Get HTTP Route", "get_x": "get x", "A": "A", "ListV2": "List V2"} {
		if got := words(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := cut(strings.Repeat("é", 10), 10); got != "ééé…" {
		t.Errorf("cut to %q", got)
	}
}

// Parts of the schema of every.v1.All.
func TestSchemaOfEveryKind(t *testing.T) {
	d := definitionOf(t, testdata(t).tool(t, "every.v1.Every.Echo"))
	for _, c := range []struct {
		schema json.RawMessage
		path   []string
		want   string
	}{
		{d.InputSchema, []string{"properties", "odd name/~"}, `{"type":"string","deprecated":true}`},
		{d.InputSchema, []string{"properties", "explicitNumber", "default"}, `7`},
		{d.InputSchema, []string{"properties", "children"}, `{"type":"array","items":{"$ref":"#"}}`},
		{d.InputSchema, []string{"properties", "colours"}, `{"type":"array","items":{"$ref":"#/$defs/every.v1.Colour"}}`},
		{d.InputSchema, []string{"properties", "once", "description"}, `"Used in one place."`},
		{d.InputSchema, []string{"properties", "once", "properties", "deep", "description"}, `"How deep."`},
		{d.InputSchema, []string{"properties", "byFlag", "propertyNames"}, `{"enum":["true","false"]}`},
		{d.InputSchema, []string{"properties", "delimited", "additionalProperties"}, `false`},
		{d.InputSchema, []string{"$defs", "every.v1.Colour"}, `{"type":"string","enum":["RED","GREEN","BLUE","VIOLET"],"description":"RED: As blood."}`},
		{d.InputSchema, []string{"$defs", "old.Old", "required"}, `["id"]`},
		{d.InputSchema, []string{"$defs", "old.Old", "properties", "[old.note]"}, `{"type":"string"}`},
		{d.InputSchema, []string{"$defs", "old.Old", "properties", "n", "default"}, `"-5"`},
		{d.InputSchema, []string{"$defs", "old.Old", "properties", "b", "default"}, `"AXg="`},
		{d.InputSchema, []string{"$defs", "every.v1.Once.Deep.Deeper.Deepest.Bottom", "type"}, `"object"`},
		{d.OutputSchema, []string{"$defs", "old.Old", "required"}, `["id","part"]`},
		{d.OutputSchema, []string{"properties", "i64"}, `{"type":"string","pattern":"^-?(0|[1-9][0-9]{0,18})$"}`},
		{d.OutputSchema, []string{"properties", "empty"}, `{"type":"object"}`},
	} {
		raw := c.schema
		for _, name := range c.path {
			raw = rawObject(t, raw)[name]
		}
		if string(raw) != c.want {
			t.Errorf("%s: %s, want %s", strings.Join(c.path, "/"), raw, c.want)
		}
	}
}
