package skills

import (
	"fmt"
	"strings"
	"testing"

	"dragoman/adapters/rest/schema"
)

// The value of a member at the bounds of what its schema allows; each is valid.
func TestExampleValues(t *testing.T) {
	cache := schema.NewCache()
	for part, want := range map[string]string{
		// Of texts, the lengths; what is given counts if it fits.
		`{"type":"string","minLength":3,"maxLength":3}`: `"<p>"`, `{"type":"string","maxLength":2}`: `"p"`, `{"type":"string","minLength":4}`: `"<p>x"`, `{"type":"string","maxLength":0}`: `""`,
		`{"type":"string","minLength":2,"maxLength":4,"default":"a"}`: `"<p>"`, `{"type":"string","minLength":2,"maxLength":4,"default":"ab"}`: `"ab"`,
		`{"type":"string","minLength":2,"maxLength":4,"default":"éééé"}`: `"éééé"`, `{"type":"string","maxLength":4,"default":"abcde"}`: `"<p>"`, `{"type":"string","default":""}`: `""`,
		`{"type":"string","pattern":"^b","default":"a"}`: `"b"`, `{"type":"string","pattern":"^b","default":"bc"}`: `"bc"`, `{"type":"string","enum":["a","b"],"default":"b"}`: `"b"`, `{"type":"string","enum":["a","b"],"default":"c"}`: `"a"`,
		`{"type":"string","enum":[1,"b"]}`: `"b"`, `{"type":"string","format":"date","pattern":"^1999-"}`: `"1999-12-31"`, `{"type":"string","format":"date","pattern":"^[a-c]{2}$"}`: `"aa"`,
		// Of patterns, the shortest text that fits, with letters before digits before signs.
		`{"pattern":"^x*y+z?$"}`: `"xyz"`, `{"pattern":"^x*$","maxLength":0}`: `""`, `{"pattern":"^x*$","minLength":5}`: `"xxxxx"`, `{"pattern":"^x+$","minLength":3,"maxLength":3}`: `"xxx"`, `{"pattern":"^(ab){2,3}$"}`: `"abab"`, `{"pattern":"^a{0,2}$","minLength":2}`: `"aa"`,
		`{"pattern":"^a{2,}$"}`: `"aa"`, `{"pattern":"^[^a-z]$"}`: `"A"`, `{"pattern":"^[^a-zA-Z]$"}`: `"1"`, `{"pattern":"^[0!]$"}`: `"0"`, `{"pattern":"^[!-/]$"}`: `"!"`, `{"pattern":"^[A-Zx-z]$"}`: `"x"`, `{"pattern":"^[é]$"}`: `"é"`, `{"pattern":"^(c|d)$"}`: `"c"`,
		// Of numbers, the least that is allowed above zero.
		`{"type":"integer"}`: `1`, `{"type":"integer","minimum":1}`: `1`, `{"type":"integer","minimum":2}`: `2`, `{"type":"integer","maximum":1}`: `1`, `{"type":"integer","maximum":0}`: `0`, `{"type":"integer","minimum":2.5}`: `3`,
		`{"type":"integer","exclusiveMinimum":1}`: `2`, `{"type":"integer","exclusiveMinimum":1.5}`: `2`, `{"type":"integer","exclusiveMaximum":1}`: `0`, `{"type":"integer","exclusiveMaximum":0.5}`: `0`, `{"type":"integer","multipleOf":3}`: `3`, `{"type":"integer","multipleOf":3,"minimum":3}`: `3`,
		`{"type":"integer","multipleOf":3,"minimum":4}`: `6`, `{"type":"integer","multipleOf":3,"maximum":2}`: `0`, `{"type":"integer","multipleOf":3,"maximum":-1}`: `-3`, `{"type":"integer","default":3,"minimum":3,"maximum":3}`: `3`, `{"type":"integer","default":2,"minimum":3}`: `3`, `{"type":"integer","default":4,"maximum":3}`: `1`,
		`{"type":"number","default":3}`: `3`, `{"type":"number","default":1.5}`: `1.5`, `{"type":"integer","default":1.5}`: `1`, `{"type":"integer","default":2.0}`: `2.0`, `{"type":"number","minimum":0.25,"maximum":0.75}`: `0.5`, `{"type":"number","exclusiveMaximum":1}`: `0`, `{"type":"number","minimum":-0.5,"maximum":-0.25}`: `-0.375`,
		`{"type":"number","minimum":1e15}`: `1e+15`, `{"type":"number","minimum":999999999999999}`: `999999999999999`, `{"type":"number","multipleOf":0.0000001,"maximum":0.0000001}`: `1e-07`, `{"type":"number","multipleOf":0.000001,"maximum":0.000001}`: `0.000001`,
		`{"type":"number","default":1.5,"minimum":1.5}`: `1.5`, `{"type":"number","default":1.5,"maximum":1.5}`: `1.5`, `{"type":"number","default":1.5,"exclusiveMinimum":1.5}`: `2`, `{"type":"number","default":1.5,"exclusiveMaximum":1.5}`: `1`,
		`{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":0.0000001}`: `5e-08`, `{"type":"number","exclusiveMinimum":-1,"exclusiveMaximum":0}`: `-0.5`, `{"type":"number","exclusiveMinimum":1,"multipleOf":0.5}`: `1.5`, `{"type":"number","minimum":0.75,"exclusiveMaximum":1}`: `0.875`,
		// Of several values, each another; of lists and objects, as many as there must be.
		`{"type":"array","items":{"type":"integer"},"minItems":3}`: `[1,2,3]`, `{"type":"array","items":{"type":"string"},"minItems":2}`: `["<p>","<p2>"]`, `{"type":"array","items":{"enum":["a","b","c"]},"minItems":2}`: `["a","b"]`, `{"type":"array","items":{"type":"integer"},"maxItems":0}`: `[]`, `{"type":"array"}`: `["<p>"]`,
		`{"type":"array","items":{"type":"integer","minimum":4},"minItems":2}`: `[4,5]`, `{"type":"array","items":{"type":"integer","minimum":2},"minItems":3,"uniqueItems":true}`: `[2,3,4]`,
		`{"type":"array","items":{"type":"integer","minimum":-1,"maximum":2},"minItems":4,"uniqueItems":true}`: `[1,2,0,-1]`, `{"type":"array","items":{"type":"integer","maximum":-2},"minItems":3,"uniqueItems":true}`: `[-2,-3,-4]`, `{"type":"array","items":{"type":"integer","minimum":0,"maximum":1},"minItems":3}`: `[1,0,1]`,
		`{"type":"array","items":{"type":"integer","multipleOf":3,"minimum":4,"maximum":9},"minItems":2,"uniqueItems":true}`: `[6,9]`, `{"type":"array","items":{"type":"boolean","examples":[false,true]},"minItems":2}`: `[false,true]`, `{"type":"array","default":[]}`: `[]`, `{"type":"array","default":[],"minItems":1}`: `["<p>"]`, `{"type":"array","default":[7]}`: `[7]`,
		`{"type":"object","minProperties":2}`: `{"key1":"<key1>","key2":"<key2>"}`, `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"}},"required":["c"],"minProperties":2}`: `{"a":1,"c":1}`,
		`{"type":"object","default":{}}`: `{}`, `{"type":"object","default":{},"required":["a"]}`: `{"a":"<a>"}`, `{"type":"object","minProperties":1,"additionalProperties":{"type":"boolean"}}`: `{"key1":true}`,
		// Without a type the keywords tell it.
		`{"minimum":3}`: `3`, `{"exclusiveMaximum":0}`: `-1`, `{"multipleOf":2}`: `2`, `{"minItems":1}`: `["<p>"]`, `{"required":["q"]}`: `{"q":"<q>"}`, `{"type":["null"]}`: `null`, `{"type":["null","boolean"]}`: `true`,
	} {
		whole := []byte(`{"type":"object","properties":{"p":` + part + `},"required":["p"]}`)
		example := Example(whole)
		if got := strings.TrimSuffix(strings.TrimPrefix(string(example), `{"p":`), "}"); got != want {
			t.Errorf("%s: %s, want %s", part, got, want)
		}
		if v, err := cache.Check(whole, example); v != nil || err != nil {
			t.Errorf("%s: %s: %v %v", part, example, v, err)
		}
	}
}

// Beyond a bound there is no example, or what is beyond it is not looked at; at the bound there is.
func TestExampleLimits(t *testing.T) {
	nested := func(n int) string {
		return strings.Repeat(`{"type":"object","required":["a"],"properties":{"a":`, n) + `{"const":1}` + strings.Repeat("}}", n)
	}
	others := func(n int) string {
		return strings.Repeat(`{"type":"object","minProperties":1,"additionalProperties":`, n) + `{"const":1}` + strings.Repeat("}", n)
	}
	text := func(n int) string { return strings.Repeat("y", n) }
	enum := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprint(i)
		}
		return `"enum":[` + strings.Join(all, ",") + `]`
	}
	member := func(part string) string { return `{"type":"object","properties":{"p":` + part + `},"required":["p"]}` }
	for _, c := range []struct {
		schema string
		want   bool
	}{
		{nested(maxLevels), true}, {nested(maxLevels + 1), false}, {others(maxLevels), true}, {others(maxLevels + 1), false},
		{member(fmt.Sprintf(`{"const":%q}`, text(maxExample-len(`{"p":""}`)))), true}, {member(fmt.Sprintf(`{"const":%q}`, text(maxExample-len(`{"p":""}`)+1))), false},
		{member(fmt.Sprintf(`{"type":"string","minLength":%d}`, maxText)), true}, {member(fmt.Sprintf(`{"type":"string","minLength":%d}`, maxText+1)), false}, {member(`{"type":"string","minLength":2,"maxLength":1}`), false},
	} {
		if got := string(Example([]byte(c.schema))); (got != "{}") != c.want {
			t.Errorf("%.200s: %.200s", c.schema, got)
		}
	}
	for _, c := range []struct {
		part   string
		within bool // the value that is given is the one
		given  string
	}{
		{fmt.Sprintf(`{"default":%q}`, text(maxText-2)), true, `"` + text(maxText-2) + `"`}, {fmt.Sprintf(`{"default":%q}`, text(maxText-1)), false, `"` + text(maxText-1) + `"`},
		{fmt.Sprintf(`{%s,"default":%d}`, enum(maxApplied+2), maxApplied), true, fmt.Sprint(maxApplied)}, {fmt.Sprintf(`{%s,"default":%d}`, enum(maxApplied+2), maxApplied+1), false, fmt.Sprint(maxApplied + 1)},
		{fmt.Sprintf(`{"pattern":"^%s$"}`, text(maxPattern-2)), true, `"` + text(maxPattern-2) + `"`}, {fmt.Sprintf(`{"pattern":"^%s$"}`, text(maxPattern-1)), false, `"` + text(maxPattern-1) + `"`},
	} {
		if got := string(Example([]byte(member(c.part)))); (got == `{"p":`+c.given+`}`) != c.within {
			t.Errorf("%.200s: %.200s", c.part, got)
		}
	}
}
