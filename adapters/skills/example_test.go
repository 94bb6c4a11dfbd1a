package skills

import (
	"testing"
	"time"

	"github.com/goccy/go-json"

	"dragoman/adapters/rest/schema"
	"dragoman/internal/testkit"
)

func TestExample(t *testing.T) {
	for in, want := range map[string]string{
		`{"type":"object"}`: `{}`,
		`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a"]}`:                                                                                                `{"a":"<a>"}`,
		`{"type":"object","properties":{"a":{"const":7},"b":{"default":"x","type":"string"},"c":{"enum":[3,4]},"d":{"examples":["e"]}},"required":["a","b","c","d"]}`:                                  `{"a":7,"b":"x","c":3,"d":"e"}`,
		`{"type":"object","properties":{"a":{"type":"integer","minimum":5},"b":{"type":"number","maximum":-1.5},"c":{"type":"integer","exclusiveMinimum":9,"multipleOf":4}},"required":["a","b","c"]}`: `{"a":5,"b":-2,"c":12}`,
		`{"type":"object","properties":{"a":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1}},"required":["a"]}`:                                                                            `{"a":0.5}`,
		`{"type":"object","properties":{"a":{"type":"string","format":"date"},"b":{"type":"string","pattern":"^[A-Z]{2}-\\d+$"},"c":{"type":"string","minLength":8}},"required":["a","b","c"]}`:        `{"a":"1999-12-31","b":"AA-1","c":"<c>xxxxx"}`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"required":["a"],"$defs":{"x":{"type":"array","items":{"type":"boolean"},"minItems":2}}}`:                                            `{"a":[true,false]}`,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"null"},{"type":"integer"}]},"b":{"type":["null","string"]},"c":{"type":"null"}},"required":["a","b","c"]}`:                              `{"a":1,"b":"<b>","c":null}`,
		`{"allOf":[{"properties":{"a":{"type":"integer"}}},{"required":["a"]}],"type":"object"}`:                                                                                                       `{"a":1}`,
		`{"type":"object","properties":{"n":{"$ref":"#"}}}`:                                                                                           `{}`,
		`{"type":"object","properties":{"n":{"type":"array","items":{"$ref":"#"}}},"required":["n"]}`:                                                 `{"n":[{"n":[{"n":[{"n":[{"n":[{"n":[]}]}]}]}]}]}`,
		`{"type":"object","properties":{"n":{"$ref":"#"}},"required":["n"]}`:                                                                          `{}`,
		`{"type":"object","minProperties":2,"properties":{"a":{"type":"integer"}}}`:                                                                   `{"a":1,"key2":"<key2>"}`,
		`{"type":"object","properties":{"a":{"type":"string","default":null},"b":{"type":"integer","default":99,"maximum":10}},"required":["a","b"]}`: `{"a":"<a>","b":1}`,
		`{"type":"object","properties":{"a/b":{"type":"string","maxLength":2}},"required":["a/b"]}`:                                                   `{"a/b":"ab"}`,
		`{"type":"object","required":["undescribed"]}`:                                                                                                `{"undescribed":"<undescribed>"}`,
		`true`: `{}`, ``: `{}`, `{"type":"string"}`: `{}`, `[`: `{}`,
	} {
		if got := string(Example([]byte(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// The examples for the tools of nineteen real servers are valid, by the validator that checks the arguments of REST callers.
func TestExamplesOfRealServers(t *testing.T) {
	cache, tools := schema.NewCache(), 0
	for _, s := range realServers(t) {
		for _, tool := range s.Tools {
			tools++
			example := Example(tool.InputSchema)
			if v, err := cache.Check(tool.InputSchema, example); v != nil || err != nil {
				t.Errorf("%s %s: %s: %v %v", s.ID, tool.Name, example, v, err)
			}
		}
	}
	if tools != 113 {
		t.Errorf("%d tools, want 113", tools)
	}
}

// The examples in schemas of every keyword that is read are valid.
func TestExamplesAreValid(t *testing.T) {
	cache := schema.NewCache()
	for _, part := range []string{
		`{"type":"string","format":"email","maxLength":40}`, `{"type":"string","format":"uuid"}`, `{"type":"string","pattern":"^https?://"}`, `{"type":"string","pattern":"^(a|b)+c?$","minLength":4}`,
		`{"type":"string","pattern":"^\\p{Lu}.{3,5}$"}`, `{"type":"string","minLength":3,"maxLength":3}`, `{"type":"integer","minimum":-3,"maximum":-2}`, `{"type":"number","multipleOf":0.25,"minimum":0.3}`,
		`{"type":"array","items":{"enum":["a","b"]},"minItems":2,"uniqueItems":true}`,
		`{"type":"array","items":{"type":"string"},"minItems":3,"uniqueItems":true}`, `{"type":"array","items":{"type":"integer","minimum":4},"minItems":3,"uniqueItems":true}`,
		`{"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false,"minItems":2}`, `{"type":"array","maxItems":0}`, `{"oneOf":[{"type":"integer"},{"type":"string"}]}`,
		`{"type":"object","additionalProperties":{"type":"integer"},"minProperties":1}`, `{"minimum":4}`, `{"items":{"type":"integer"}}`, `{"type":"object","properties":{"x":{"type":"object","required":["y"],"properties":{"y":{"type":"string","default":""}}}},"required":["x"]}`,
	} {
		whole := []byte(`{"type":"object","properties":{"p":` + part + `},"required":["p"]}`)
		example := Example(whole)
		if string(example) == "{}" {
			t.Errorf("%s: no example", part)
		}
		if v, err := cache.Check(whole, example); v != nil || err != nil {
			t.Errorf("%s: %s: %v %v", part, example, v, err)
		}
	}
}

// Draft-04 says of a bound that it is excluded.
func TestDraft4(t *testing.T) {
	whole := []byte(`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","required":["p"],"properties":{"p":{"type":"integer","minimum":3,"exclusiveMinimum":true}}}`)
	example := Example(whole)
	if v, err := schema.NewCache().Check(whole, example); v != nil || err != nil || string(example) != `{"p":4}` {
		t.Errorf("%s: %v %v", example, v, err)
	}
}

// Schemas of others take no time to speak of, and give JSON objects of a bounded size.
func FuzzExample(f *testing.F) {
	for _, s := range realServers(f)[:4] {
		for _, tool := range s.Tools {
			f.Add(tool.InputSchema)
		}
	}
	f.Add([]byte(`{"type":"object","required":["a"],"properties":{"a":{"pattern":"((()*)*)*(x{1000}){1000}","minLength":4096,"allOf":[{"$ref":"#"},{"$ref":"#/properties/a"}]}}}`))
	f.Add([]byte(`{"type":"object","required":["a"],"properties":{"a":{"type":"number","minimum":1e308,"multipleOf":1e-300}}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out []byte
		took := testkit.Took(t, func() {
			out = Example(in)
			argumentsOf(in, nil)
		})
		if took > 5*time.Second {
			t.Errorf("%s took %v", in, took)
		}
		if len(out) > maxExample || out[0] != '{' || !json.Valid(out) {
			t.Errorf("%s gives %s", in, out)
		}
		if seen := seenJSON(out); !json.Valid(seen) {
			t.Errorf("%s is seen as %s", out, seen)
		}
	})
}
