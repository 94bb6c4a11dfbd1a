package schema

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	js "github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const draft7 = `"$schema":"http://json-schema.org/draft-07/schema#",`

// For every keyword an instance that is valid (want "") and one that is not: the path and the rule.
func TestKeywords(t *testing.T) {
	c := NewCache()
	for _, k := range []struct{ schema, instance, want string }{
		{`true`, `{}`, ""},
		{`false`, `{}`, " false"},
		{`{}`, `{"a":[1]}`, ""},
		{`{"type":"object"}`, ``, ""},
		{`{"type":"object","required":["a"]}`, ``, " required"},
		{`{"type":["array","object"]}`, `3`, " type"},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":1.0}`, ""},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":1.5}`, "/a type"},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":1e2}`, ""},
		{`{"properties":{"a":{"type":"null"}}}`, `{"a":null}`, ""},
		{`{"properties":{"a/b~c":{"type":"string"}}}`, `{"a/b~c":1}`, "/a~1b~0c type"},
		{`{"enum":["a",2,{"b":[1]}]}`, `{"b":[1.0]}`, ""},
		{`{"enum":["a",2]}`, `"b"`, " enum"},
		{`{"const":{"a":1}}`, `{"a":1.00}`, ""},
		{`{"const":{"a":1}}`, `{"a":2}`, " const"},
		{`{"multipleOf":0.01}`, `19.99`, ""},
		{`{"multipleOf":0.01}`, `19.999`, " multipleOf"},
		{`{"maximum":9007199254740993}`, `9007199254740993`, ""},
		{`{"maximum":9007199254740993}`, `9007199254740994`, " maximum"},
		{`{"exclusiveMaximum":3}`, `3`, " exclusiveMaximum"},
		{`{"minimum":3}`, `2.9999999999999999999999`, " minimum"},
		{`{"exclusiveMinimum":3}`, `3.0`, " exclusiveMinimum"},
		{`{"maxLength":2}`, `"äöü"`, " maxLength"},
		{`{"maxLength":3}`, `"äöü"`, ""},
		{`{"maxLength":18446744073709551615}`, `"a"`, ""},
		{`{"minLength":2}`, `"😀"`, " minLength"},
		{`{"pattern":"^a+$"}`, `"aab"`, " pattern"},
		{`{"pattern":"b"}`, `"abc"`, ""},
		{`{"pattern":"b"}`, `7`, ""},
		{`{"prefixItems":[{"type":"string"},{"type":"number"}],"items":false}`, `["a",1]`, ""},
		{`{"prefixItems":[{"type":"string"}],"items":false}`, `["a",1]`, "/1 false"},
		{`{"items":{"type":"string"}}`, `["a","b",3]`, "/2 type"},
		{`{"contains":{"type":"number"}}`, `["a"]`, " contains"},
		{`{"contains":{"type":"number"},"minContains":2}`, `["a",1]`, " minContains"},
		{`{"contains":{"type":"number"},"maxContains":1}`, `[2,1]`, " maxContains"},
		{`{"minItems":1}`, `[]`, " minItems"},
		{`{"maxItems":1}`, `[1,2]`, " maxItems"},
		{`{"uniqueItems":true}`, `[1,2,1.0]`, " uniqueItems"},
		{`{"uniqueItems":true}`, `[{"a":1,"b":2},{"b":2,"a":1}]`, " uniqueItems"},
		{`{"uniqueItems":true}`, `[["a"],"a",["a,"],true,1,"1",null,"null",{}]`, ""},
		{`{"minProperties":1}`, `{}`, " minProperties"},
		{`{"maxProperties":1}`, `{"a":1,"b":1}`, " maxProperties"},
		{`{"required":["a","b"]}`, `{"a":1}`, " required"},
		{`{"properties":{"a":{}},"additionalProperties":false}`, `{"a":1,"b":1}`, " additionalProperties"},
		{`{"additionalProperties":{"type":"string"}}`, `{"b":1}`, "/b type"},
		{`{"patternProperties":{"^x-":{"type":"string"}}}`, `{"x-a":1}`, "/x-a type"},
		{`{"propertyNames":{"maxLength":1}}`, `{"a":1,"bb":2}`, " propertyNames"},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, " dependentRequired"},
		{`{"dependentSchemas":{"a":{"required":["b"]}}}`, `{"a":1}`, " required"},
		{`{"dependencies":{"a":["b"]}}`, `{"a":1}`, " dependencies"},
		{`{"not":{"type":"object"}}`, `{}`, " not"},
		{`{"allOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1}`, " required"},
		{`{"anyOf":[{"type":"string"},{"type":"number"}]}`, `{}`, " anyOf"},
		{`{"anyOf":[{"type":"string"},{"type":"object","required":["a"]}]}`, `{}`, " required"},
		{`{"oneOf":[{"type":"object"},{"required":["a"]}]}`, `{"a":1}`, " oneOf"},
		{`{"oneOf":[{"properties":{"k":{"const":"a"},"n":{"type":"number"}}},{"properties":{"k":{"const":"b"},"n":{"type":"string"}}}]}`, `{"k":"b","n":1}`, "/n type"},
		{`{"if":{"required":["a"]},"then":{"required":["b"]},"else":{"required":["c"]}}`, `{"a":1}`, " required"},
		{`{"if":{"required":["a"]},"then":{"required":["b"]},"else":{"required":["c"]}}`, `{"c":1}`, ""},
		{`{"allOf":[{"properties":{"a":{}}}],"unevaluatedProperties":false}`, `{"a":1,"b":1}`, "/b false"},
		{`{"allOf":[{"properties":{"a":{}}}],"unevaluatedProperties":false}`, `{"a":1}`, ""},
		{`{"prefixItems":[true],"unevaluatedItems":{"type":"string"}}`, `[1,2]`, "/1 type"},
		{`{"format":"email"}`, `"no address"`, ""},
		{`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object"}}}`, `[]`, " type"},
		{`{"$ref":"#n","$defs":{"x":{"$anchor":"n","type":"object"}}}`, `[]`, " type"},
		{`{"$id":"https://a.example/root","properties":{"a":{"$ref":"other"}},"$defs":{"o":{"$id":"other","type":"string"}}}`, `{"a":1}`, "/a type"},
		{`{"properties":{"kids":{"type":"array","items":{"$ref":"#"}},"n":{"type":"number"}}}`, `{"kids":[{"kids":[{"n":"x"}]}]}`, "/kids/0/kids/0/n type"},
		{`{"$ref":"#/components/schemas/A","components":{"schemas":{"A":{"type":"object"}}}}`, `1`, " type"},
		{`{"$id":"https://a.example/t","$dynamicAnchor":"n","properties":{"kid":{"$dynamicRef":"#n"},"v":{"type":"number"}}}`, `{"kid":{"v":"s"}}`, "/kid/v type"},
		// 2020-12 is the default, or draft-07 for schemas that are not valid as that.
		{`{"items":[{"type":"string"}],"additionalItems":false}`, `["a",1]`, " additionalItems"},
		{`{` + draft7 + `"items":[{"type":"string"}],"additionalItems":{"type":"number"}}`, `["a","b"]`, "/1 type"},
		{`{` + draft7 + `"$ref":"#/definitions/a","maxProperties":0,"definitions":{"a":{"type":"object"}}}`, `{"a":1}`, ""},
		{`{` + draft7 + `"properties":{"a":{"format":"date-time"}}}`, `{"a":"x"}`, ""},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","maximum":3,"exclusiveMaximum":true}`, `3`, " exclusiveMaximum"},
		{`{"$schema":"http://json-schema.org/draft-06/schema#","contains":{"const":1}}`, `[2]`, " contains"},
		{`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"properties":{"a":{"$recursiveRef":"#"}},"additionalProperties":false}`, `{"a":{"b":1}}`, "/a additionalProperties"},
		{`{"$schema":"https://json-schema.org/draft/2020-12/schema","$ref":"https://json-schema.org/draft/2020-12/schema"}`, `{"type":7}`, "/type anyOf"},
	} {
		got, err := c.Check([]byte(k.schema), []byte(k.instance))
		text := ""
		if got != nil {
			text = got.Path + " " + got.Rule
		}
		if err != nil || text != k.want {
			t.Errorf("%s\n%s\ngives %q %v %+v, want %q", k.schema, k.instance, text, err, got, k.want)
		}
	}
}

// The messages that callers read.
func TestMessages(t *testing.T) {
	c := NewCache()
	for _, k := range []struct{ schema, instance, want string }{
		{`{"properties":{"a":{"type":["integer","null"]}}}`, `{"a":"x"}`, "/a: must be null or integer, is string (type)"},
		{`{"required":["b","a"],"properties":{"n":{"minimum":0.1}}}`, `{"n":0}`, "/n: must be at least 0.1 (minimum; and 1 more)"},
		{`{"required":["a"],"additionalProperties":false}`, `{"z":0,"y":0}`, `at the top: property "a" is missing (required; and 1 more)`},
		{`{"additionalProperties":false}`, `{"z":0,"y":0}`, `at the top: property "y", "z" is not known (additionalProperties)`},
		{`{"enum":[1,2,3,4,5,6,7,8,9,10]}`, `0`, `at the top: must be one of 1, 2, 3, 4, 5, 6, 7, 8, 2 more (enum)`},
		{`{"anyOf":[{"type":"string"},{"type":"number"}]}`, `{}`, `at the top: must be number or string (anyOf)`},
		{`{"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{}`, `at the top: none of the 2 alternatives holds (anyOf)`},
		{`{"propertyNames":{"pattern":"^a"}}`, `{"b":1}`, `at the top: the name "b" is not allowed: must match "^a" (propertyNames)`},
		{`{"items":{"propertyNames":{"pattern":"^a"}}}`, `[{"b":1},{"a":1},{}]`, `/0: the name "b" is not allowed: must match "^a" (propertyNames)`},
		{`{"items":{"type":"string"}}`, `["",0,0,"",0,0,0,0,0,0,0]`, `/1: must be string, is number (type; and 8 more)`},
		{`{"maximum":1e300}`, `1e301`, `at the top: must be at most 1e+300 (maximum)`},
		{`{"contains":{"type":"number"}}`, `["a"]`, `at the top: no element matches, and one must (contains)`},
		{`{"contains":{"type":"number"},"minContains":2}`, `["a",1]`, `at the top: 1 of the elements match, and at least 2 must (minContains)`},
		{`{"contains":{"type":"number"},"maxContains":1}`, `[2,1]`, `at the top: 2 of the elements match, and at most 1 may (maxContains)`},
		{`{"propertyNames":{"pattern":"^a"}}`, `{"c":1,"b":1}`, `at the top: the name "b" is not allowed: must match "^a" (propertyNames; and 1 more)`},
	} {
		for range 5 { // the order of maps must not matter
			if got, err := c.Check([]byte(k.schema), []byte(k.instance)); err != nil || got == nil || got.String() != k.want {
				t.Fatalf("%s\n%s\ngives %v %v\nwant %s", k.schema, k.instance, got, err, k.want)
			}
		}
	}
}

// Arguments that no schema can allow.
func TestArguments(t *testing.T) {
	c := NewCache()
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for instance, want := range map[string]string{
		`{"a":{"b":1,"b":2}}`:    `/a: property "b" is there twice (duplicate)`,
		`{"b":1,"\u0062":2}`:     `at the top: property "b" is there twice (duplicate)`,
		`{"a":[0,1e999999]}`:     `/a/1: a number of more than 400 digits (number)`,
		`1e99999999999999999999`: `at the top: a number of more than 400 digits (number)`,
		`-1E-401`:                `at the top: a number of more than 400 digits (number)`,
		strings.Repeat("9", 401): `at the top: a number of more than 400 digits (number)`,
		deep(129):                strings.Repeat("/0", 128) + `: more than 128 objects and arrays in one another (depth)`,
		`{} {}`:                  `no JSON`,
		`1,2`:                    `text after the end of the value`,
		`{"a":1}],"x":[1`:        `text after the end of the value`,
		` `:                      `JSON`,
		`{"a":"` + "\xff" + `"}`: `no JSON`,
		`{'a':1}`:                `no JSON`,
		`[1,]`:                   `no JSON`,
	} {
		got, err := c.Check([]byte(`{"minimum":1}`), []byte(instance))
		if err != nil || got == nil || !strings.Contains(got.String(), want) {
			t.Errorf("%.60s: %v %v, want %s", instance, got, err, want)
		}
	}
	for _, instance := range []string{deep(128), strings.Repeat("9", 400), "1e399", "\t{\n}\r ", `{"a":1,"A":2}`, `{"\"":"\\"}`} {
		if got, err := c.Check([]byte(`{"minimum":1}`), []byte(instance)); got != nil || err != nil {
			t.Errorf("%.60s: %v %v", instance, got, err)
		}
	}
}

// Unusable schemas are errors that say why.
func TestUnusable(t *testing.T) {
	c := newCache(maxKept, 100_000, maxSteps)
	many := func(n int, item string) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	var remote strings.Builder
	for i := range 250 {
		fmt.Fprintf(&remote, `{"$ref":"#/x/%d"},`, i)
	}
	for schema, want := range map[string]string{
		``:                                  "JSON",
		`3`:                                 "metaschema",
		`{"type":"text"}`:                   `not valid against its metaschema: /type`,
		`{"properties":[]}`:                 `/properties: must be object, is array`,
		`{"$ref":"https://a.example/b"}`:    `"https://a.example/b" is not in the schema itself, and nothing is loaded`,
		`{"$ref":"file:///etc/passwd"}`:     `"file:///etc/passwd" is not in the schema itself`,
		`{"$ref":"other.json"}`:             `"other.json" is not in the schema itself`,
		`{"$schema":"https://a.example/b"}`: `"https://a.example/b" is not in the schema itself`,
		`{"$ref":"#/$defs/a"}`:              `not found`,
		`{"$ref":"#a"}`:                     `not found`,
		`{"$ref":"#"}`:                      `the schema applies itself to the same value without end`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"type":"string"},{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`: `applies itself to the same value`,
		strings.Repeat(`{"not":`, 101) + `{}` + strings.Repeat(`}`, 101):                                                         `more than 100 subschemas apply`,
		strings.Repeat(`{"items":`, 128) + `{}` + strings.Repeat(`}`, 128):                                                       `more than 128 objects`,
		`{"allOf":[` + many(4_000, "{}") + `]}`:                                                                                  `more than 4000 objects`,
		`{"enum":[` + many(10_001, "1") + `]}`:                                                                                   `more than 10000 JSON values`,
		`{"minimum":1e9999}`:                                                                                                     `a number of more than 400 digits`,
		`{"allOf":[` + remote.String() + `true],"x":[` + many(250, "{}") + `]}`:                                                  `too many references into unknown keywords`,
		`{"a":"` + strings.Repeat("x", 100_000) + `"}`:                                                                           `at most 100000 are read`,
		`{"$id":"a b%zz://"}`:                                                                                                    `schema:`,
	} {
		for range 2 { // failures are kept too
			got, err := c.Check([]byte(schema), []byte(`{}`))
			if got != nil || err == nil || !strings.HasPrefix(err.Error(), "schema: ") || !strings.Contains(err.Error(), want) || len(err.Error()) > 500 {
				t.Errorf("%.80s: %v %v, want %s", schema, got, err, want)
			}
		}
	}
}

// Checks that would take very long are refused, and counting their steps is bounded, too. The count is the proof: the validator takes
// no step that was not counted before.
func TestExplosion(t *testing.T) {
	// Each level applies the next one twice: 2^40 visits.
	var doubling strings.Builder
	doubling.WriteString(`{"$ref":"#/$defs/0","$defs":{`)
	for i := range 40 {
		fmt.Fprintf(&doubling, `"%d":{"anyOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%d"}]},`, i, i+1, i+1)
	}
	doubling.WriteString(`"40":{"type":"string"}}}`)
	// A tree whose branches differ in a constant only: each level of the value doubles the visits.
	tree := `{"$ref":"#/$defs/n","$defs":{"n":{"oneOf":[{"properties":{"k":{"const":"a"},"l":{"$ref":"#/$defs/n"}},"required":["k"]},
		{"properties":{"k":{"const":"b"},"l":{"$ref":"#/$defs/n"}},"required":["k"]}]}}}`
	nest := func(n int) string { return strings.Repeat(`{"k":"a","l":`, n) + `{"k":"b"}` + strings.Repeat("}", n) }
	pattern := `{"items":{"pattern":"^(a?){50}a{50}$"}}`
	var members strings.Builder
	for i := range 2_000 {
		fmt.Fprintf(&members, `"%d":0,`, i)
	}
	same := strings.Repeat(`{"minItems":1,"minProperties":1},`, 300)
	c := NewCache()
	for name, k := range map[string]struct{ schema, instance string }{
		"members left":  {`{"allOf":[` + same + `true],"unevaluatedProperties":true}`, "{" + members.String() + `"a":0}`},
		"elements left": {`{"allOf":[` + same + `true],"unevaluatedItems":true}`, "[" + strings.Repeat("0,", 2_000) + "0]"},
		"doubling":      {doubling.String(), `7`},
		"tree":          {tree, nest(40)},
		"many values":   {`{"items":{"type":"string"}}`, "[" + strings.Repeat("0,", 300_000) + "0]"},
		"enum":          {`{"items":{"enum":[` + strings.Repeat("1,", 5000) + `2]}}`, "[" + strings.Repeat("3,", 5000) + "0]"},
		"numbers":       {`{"items":{"multipleOf":0.1}}`, "[" + strings.Repeat("1e399,", 20_000) + "0]"},
		"unique":        {`{"items":{"uniqueItems":true,"items":{"uniqueItems":true}}}`, "[[[" + strings.Repeat("0,", 130_000) + "0]]]"},
		"unique pairs":  {`{"items":{"uniqueItems":true}}`, "[" + strings.Repeat("["+strings.Repeat("0,", 19)+"0],", 1000) + "[]]"},
		"unique hashes": {`{"uniqueItems":true}`, "[" + strings.Repeat("0,", 10_000) + "0]"},
		"pattern":       {pattern, `["` + strings.Repeat("a", 300_000) + `"]`},
		"names":         {`{"propertyNames":{"pattern":"^(a?){50}a{50}$"}}`, `{"` + strings.Repeat("a", 300_000) + `":1}`},
		"more patterns": {`{"patternProperties":{"^(a?){50}a{50}$":true,"(a?){60}":true}}`, `{"` + strings.Repeat("a", 300_000) + `":1}`},
	} {
		p, err := c.plan([]byte(k.schema))
		if err != nil {
			t.Fatal(name, err)
		}
		value, bad := decode([]byte(k.instance), arguments)
		if bad != nil {
			t.Fatal(name, bad)
		}
		// Every visit costs at least one step and stops the count at the bound, so the count is no more than a visit too far.
		if n := p.cost(value, c.steps); n <= c.steps {
			t.Errorf("%s: counted only %d steps", name, n)
		}
		if got, err := c.Check([]byte(k.schema), []byte(k.instance)); got != nil || !errors.Is(err, ErrTooCostly) {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	// Values within the bound are checked exactly.
	var different strings.Builder
	for i := range 3_500 {
		fmt.Fprintf(&different, "%d,", i)
	}
	for last, want := range map[string]string{"3500": "<nil>", "7": "at the top: elements 7 and 3500 are equal (uniqueItems)"} {
		if got, err := c.Check([]byte(`{"uniqueItems":true}`), []byte("["+different.String()+last+"]")); fmt.Sprint(got) != want || err != nil {
			t.Error(got, err)
		}
	}
	if got, err := c.Check([]byte(tree), []byte(nest(10))); got != nil || err != nil {
		t.Error(got, err)
	}
	if got, err := c.Check([]byte(tree), []byte(strings.Replace(nest(10), `"b"`, `"c"`, 1))); got == nil || err != nil {
		t.Error(got, err)
	}
}

// visitCounter counts the visits of the validator.
type visitCounter struct{ visits *int }

// Validate implements the library's SchemaExt.
func (c visitCounter) Validate(*js.ValidatorContext, any) { *c.visits++ }

// The cost is never less than the visits of the validator.
func TestCostBoundsVisits(t *testing.T) {
	c := NewCache()
	for _, k := range [][2]string{
		{`{"$ref":"#/$defs/n","$defs":{"n":{"oneOf":[{"properties":{"l":{"$ref":"#/$defs/n"}},"required":["l"]},{"properties":{"l":{"$ref":"#/$defs/n"}}}]}}}`,
			`{"l":{"l":{"l":{"l":{}}}}}`},
		{`{"items":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#"}},{"contains":{"minimum":3}}]},"uniqueItems":true}`, `[1,"a",[2,[3]],[[1,5]]]`},
		{`{"$schema":"https://json-schema.org/draft/2020-12/schema","$ref":"https://json-schema.org/draft/2020-12/schema"}`,
			`{"properties":{"a":{"items":{"type":["string"]}},"b":{"not":{}}},"allOf":[{"if":{},"then":{}}]}`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"http://json-schema.org/draft-07/schema#"}`,
			`{"properties":{"a":{"items":[{"type":["string"]}]},"b":{"not":{}}},"allOf":[{"if":{},"then":{}}]}`},
		{`{"patternProperties":{"a":{"type":"object","unevaluatedProperties":{"minimum":2}},"b":{"if":{"type":"number"},"then":{"minimum":3},"else":false}},
			"dependentSchemas":{"ab":{"propertyNames":{"maxLength":2}}}}`, `{"ab":{"c":1,"d":3},"b":4,"ccc":[]}`},
		{`{` + draft7 + `"items":[{"type":"string"}],"additionalItems":{"allOf":[{"minimum":0},{"maximum":9}]}}`, `["a",1,2,3]`},
		{`{"prefixItems":[{"minimum":0}],"unevaluatedItems":{"allOf":[{"minimum":0},{"maximum":9},{"multipleOf":1}]}}`, `[1,2,3,4]`},
		{`{"items":{"$dynamicRef":"#n"},"$defs":{"a":{"$dynamicAnchor":"n","allOf":[{"minimum":0},{"maximum":9}]}}}`, `[1,2,3,4]`},
	} {
		p, err := c.plan([]byte(k[0]))
		if err != nil {
			t.Fatal(err)
		}
		visits := 0
		for s := range p.facts {
			if s.Bool == nil {
				s.Extensions = append(s.Extensions, visitCounter{&visits})
			}
		}
		value, _ := decode([]byte(k[1]), arguments)
		if _, err := p.validate(value); err != nil {
			t.Fatal(err)
		}
		if n := p.cost(value, 1<<30); n < visits || visits < 3 {
			t.Errorf("%s: %d steps counted, %d visits", k[0], n, visits)
		}
	}
}

// Patterns of ECMA-262, and those that cannot be run.
func TestPatterns(t *testing.T) {
	c := NewCache()
	for _, k := range []struct{ pattern, text, want string }{
		{`^\\u00e4\\u{F6}$`, "äö", ""}, {`^\\u00e4$`, "a", "pattern"}, {`^\\cJ$`, `\n`, ""}, {`^\\s$`, "\u00a0", ""}, {`^[\\s]$`, `\u2028`, ""}, {`^\\S$`, "\u00a0", "pattern"},
		{`^[^]$`, `\n`, ""}, {`[]`, "a", "pattern"}, {`^[[]$`, "[", ""}, {`^\\/\\-\\d$`, "/-1", ""}, {`(?<y>\\d{4})`, "2026", ""}, {`^\\p{L}+$`, "äß", ""},
		{`a$`, `a\n`, "pattern"}, {`^(?!x)`, "x", ""}, {`(a)\\1`, "b", ""}, {`(((a{100}){100}){100})`, "b", ""}, {`(`, "b", ""}, {`\\u12`, "b", ""}, {`^\\u{110000}$`, "b", ""},
		{`^\\`, "b", ""},
	} {
		got, err := c.Check([]byte(`{"pattern":"`+k.pattern+`"}`), []byte(`"`+k.text+`"`))
		rule := ""
		if got != nil {
			rule = got.Rule
		}
		if err != nil || rule != k.want {
			t.Errorf("%s on %q: %v %v", k.pattern, k.text, got, err)
		}
	}
	// A skipped pattern never makes a call fail, wherever it is; the rest is still checked.
	const odd = `"^(?=a)"`
	for _, k := range []struct{ schema, instance, want string }{
		{`{"not":{"pattern":` + odd + `}}`, `"b"`, ""},
		{`{"items":{"not":{"anyOf":[{"$ref":"#/$defs/p"},{"type":"number"}]}},"$defs":{"p":{"pattern":` + odd + `}}}`, `["b"]`, ""},
		{`{"if":{"pattern":` + odd + `},"then":false}`, `"b"`, ""},
		{`{"oneOf":[{"pattern":` + odd + `},{"type":"string"}]}`, `"b"`, ""},
		{`{"contains":{"pattern":` + odd + `},"maxContains":1}`, `["b","c"]`, ""},
		{`{"patternProperties":{` + odd + `:{"type":"number"}},"additionalProperties":false}`, `{"b":"c"}`, ""},
		{`{"patternProperties":{` + odd + `:{}},"unevaluatedProperties":false}`, `{"b":"c"}`, ""},
		{`{"allOf":[{"patternProperties":{` + odd + `:{}}}],"unevaluatedProperties":false}`, `{"b":"c"}`, ""},
		{`{"pattern":` + odd + `,"maxLength":1}`, `"bb"`, "maxLength"},
		{`{"patternProperties":{` + odd + `:{},"^n":{"type":"number"}},"required":["n"]}`, `{"n":"c"}`, "type"},
		// Nothing but the $dynamicRef of another resource leads to o.
		{`{"$id":"https://a.example/r","$ref":"in","$defs":{"n":{"not":{}},"o":{"$dynamicAnchor":"n","pattern":` + odd + `},
			"in":{"$id":"in","items":{"$dynamicRef":"#n"},"$defs":{"d":{"$dynamicAnchor":"n"}}}}}`, `["b"]`, ""},
	} {
		got, err := c.Check([]byte(k.schema), []byte(k.instance))
		rule := ""
		if got != nil {
			rule = got.Rule
		}
		if err != nil || rule != k.want {
			t.Errorf("%s on %s: %v %v", k.schema, k.instance, got, err)
		}
		if notes, err := c.Notes([]byte(k.schema)); err != nil || len(notes) != 1 || !strings.Contains(notes[0], `the pattern "^(?=a)"`) {
			t.Error(notes, err)
		}
	}
	if notes, err := c.Notes([]byte(`{"pattern":"a"}`)); notes != nil || err != nil {
		t.Error(notes, err)
	}
	several := []byte(`{"properties":{"a":{"pattern":` + odd + `},"b":{"pattern":` + odd + `},"c":{"pattern":` + odd + `},"d":{"pattern":` + odd + `}}}`)
	if notes, err := c.Notes(several); err != nil || len(notes) != 4 || !slices.IsSorted(notes) {
		t.Error(notes, err)
	}
}

// The cache compiles each schema once, also concurrently, and keeps no more than its size.
func TestCacheCompilesOnce(t *testing.T) {
	c := newCache(2, maxBytes, maxSteps)
	schema := []byte(`{"properties":{"a":{"type":"integer"}},"required":["a"]}`)
	plans := make([]*plan, 64)
	var wg sync.WaitGroup
	for i := range plans {
		wg.Add(1)
		go func() {
			defer wg.Done()
			plans[i], _ = c.plan(schema)
			for n := range 50 {
				v, err := c.Check(schema, fmt.Appendf(nil, `{"a":"%d"}`, n))
				if err != nil || v == nil || v.Path != "/a" {
					t.Error(v, err)
				}
				_, _ = c.Check(fmt.Appendf(nil, `{"minimum":%d}`, rand.IntN(4)), []byte(`3`))
			}
		}()
	}
	wg.Wait()
	for range 2 {
		_, _ = c.Check([]byte(`{"x":1}`), nil)
		_, _ = c.Check([]byte(`{"x":2}`), nil)
	}
	if c.kept.Len() != 2 {
		t.Error(c.kept.Len())
	}
	one := NewCache()
	for i := range plans {
		wg.Add(1)
		go func() {
			defer wg.Done()
			plans[i], _ = one.plan(schema)
		}()
	}
	wg.Wait()
	for _, p := range plans {
		if p == nil || p != plans[0] {
			t.Fatal("compiled more than once")
		}
	}
}

// Check always returns, and with the same result again.
func FuzzCheck(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"]}`, `{"a":1e1000001}`},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"b":{"$ref":"#"}}}}}`, `{"b":{"b":[]}}`},
		{`{"anyOf":[{"$ref":"#"},{"not":{"$ref":"#"}}]}`, `1`},
		{`{"$dynamicAnchor":"a","items":{"$dynamicRef":"#a"},"unevaluatedItems":false}`, `[[[1]]]`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"multipleOf":0.1}],"dependencies":{"a":{"minProperties":2}}}`, `[0.30000000000000004]`},
		{`{"patternProperties":{"^(?=a)":{"pattern":"\\u0041[^]"}},"propertyNames":{"maxLength":3},"uniqueItems":true}`, `{"a":"A"}`},
		{`{"oneOf":[{"const":1},{"enum":[1,null]}],"if":{"contains":{}},"then":false}`, `1`},
		{`{"$id":"http://json-schema.org/draft-07/schema","$anchor":"x","$ref":"#x"}`, `{}`},
		{`{"$defs":{"a":{"$id":"a","$schema":"http://json-schema.org/draft-04/schema#","id":"b"}},"$ref":"a"}`, `{}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	c := newCache(64, 4096, 20_000)
	f.Fuzz(func(t *testing.T, schema, instance []byte) {
		v, err := c.Check(schema, instance)
		if v != nil && err != nil {
			t.Fatal("both", v, err)
		}
		again, err2 := newCache(maxKept, 4096, 20_000).Check(schema, instance)
		if fmt.Sprint(v) != fmt.Sprint(again) || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("%v %v, and then %v %v", v, err, again, err2)
		}
		if err != nil && strings.Contains(err.Error(), "the validator failed") {
			t.Fatal(err)
		}
		if got := readInFull(newCache(maxKept, 4096, 20_000), schema, instance); got != fmt.Sprint(v, err) {
			t.Fatalf("%v %v, but with all texts read %s", v, err, got)
		}
	})
}
