package shape

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"
)

// text writes a type so that tests can compare it: objects as {a:string, b?:integer}, lists as [x], maps as map(x), unions as (a|b), enums as <1,2>, types that
// were written before as @label.
func text(t *Type, seen map[*Type]bool) string {
	if t.Label != "" && seen[t] {
		return "@" + t.Label
	}
	seen[t] = true
	label := ""
	if t.Label != "" && t.Kind != Object {
		label = t.Label + "="
	}
	var parts []string
	switch t.Kind {
	case Array:
		return label + "[" + text(t.Items, seen) + "]"
	case Map:
		return label + "map(" + text(t.Items, seen) + ")"
	case Enum:
		for _, v := range t.Values {
			parts = append(parts, string(v))
		}
		return label + "<" + strings.Join(parts, ",") + ">"
	case Union:
		for _, o := range t.Options {
			parts = append(parts, text(o, seen))
		}
		return label + "(" + strings.Join(parts, "|") + ")"
	case Object:
		for _, f := range t.Fields {
			mark := "?"
			if f.Required {
				mark = ""
			}
			parts = append(parts, f.Name+mark+":"+text(f.Type, seen))
		}
		if t.Extra != nil {
			parts = append(parts, "*:"+text(t.Extra, seen))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case String:
		if t.Format != "" {
			return label + "string/" + t.Format
		}
	}
	return label + [...]string{"any", "null", "boolean", "integer", "number", "string"}[t.Kind]
}

func TestRead(t *testing.T) {
	for _, test := range [][2]string{
		{`true`, "any"}, {`false`, "any"}, {`{}`, "any"}, {`7`, "any"}, {`{"type":"nonsense"}`, "any"}, {`{"type":7}`, "any"},
		{`{"type":"string","format":"uri"}`, "string/uri"}, {`{"type":"integer"}`, "integer"}, {`{"type":"null"}`, "null"}, {`{"type":"boolean"}`, "boolean"}, {`{"type":"number"}`, "number"},
		{`{"type":["string","null"]}`, "(string|null)"}, {`{"type":["string"]}`, "string"}, {`{"type":["string","string"]}`, "string"}, {`{"type":[]}`, "any"},
		{`{"enum":["a","b","a",1.50,null,true]}`, `<"a","b",1.50,null,true>`}, {`{"const":"a","type":"integer"}`, `<"a">`}, {`{"enum":[]}`, "any"}, {`{"enum":[{}]}`, "any"}, {`{"enum":["` + strings.Repeat("x", 2000) + `"]}`, "any"},
		{`{"type":"array"}`, "[any]"}, {`{"type":"array","items":{"type":"string"}}`, "[string]"}, {`{"items":{"type":"string"}}`, "[string]"}, {`{"type":"array","items":false}`, "[any]"},
		{`{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}`, "[(string|integer)]"}, {`{"type":"array","items":[{"type":"string"}],"additionalItems":{"type":"null"}}`, "[(string|null)]"},
		{`{"type":"object"}`, "map(any)"}, {`{"type":"object","additionalProperties":{"type":"integer"}}`, "map(integer)"}, {`{"type":"object","additionalProperties":false}`, "map(any)"},
		{`{"patternProperties":{"^a":{"type":"integer"}},"additionalProperties":{"type":"string"}}`, "map((integer|string))"},
		{`{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"},"no":false},"required":["a","zz",7]}`, "{b?:string, a:integer}"},
		{`{"properties":{"a":{}},"additionalProperties":true}`, "{a?:any, *:any}"},
		{`{"properties":{"a":{"type":"string"}},"allOf":[{"properties":{"b":{"type":"integer"}},"required":["b"]},{"required":["a"]}]}`, "{a?:string, b:integer}"},
		{`{"properties":{"a":{}},"required":["a"],"allOf":[{"properties":{"a":{"type":"integer"}}}]}`, "{a:integer}"},
		{`{"allOf":[{"type":"string"},{"type":"integer"}]}`, "string"}, {`{"allOf":[{},{"type":"integer"}]}`, "integer"}, {`{"allOf":[{"type":"object"},{"properties":{"a":{}}}]}`, "{a?:any}"},
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, "(string|null)"}, {`{"oneOf":[{"type":"string"},{"anyOf":[{"type":"integer"},{"type":"null"}]}]}`, "(string|integer|null)"},
		{`{"anyOf":[{"type":"string"},{}]}`, "any"}, {`{"anyOf":[{"type":"string"},false]}`, "string"}, {`{"anyOf":[false]}`, "any"}, {`{"anyOf":[{"const":"a"},{"const":"b"},{"enum":["b","c"]}]}`, `<"a","b","c">`},
		{`{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`, "{a?:string}"},
		{`{"type":"object","properties":{"a":{"type":"string"}},"oneOf":[{"properties":{"b":{"type":"string"}},"required":["b"]},{"properties":{"c":{"type":"string"}}}]}`, "({a?:string, b:string}|{a?:string, c?:string})"},
		{`{"type":"string","anyOf":[{"type":"integer"}]}`, "string"}, {`{"type":"object","properties":{"a":{}},"oneOf":[{"type":"string"}]}`, "{a?:any}"},
		{`{"properties":{"a":{"$ref":"#/$defs/x"},"b":{"$ref":"#/$defs/x"}},"$defs":{"x":{"properties":{"y":{"type":"string"}}}}}`, "{a?:{y?:string}, b?:@x}"},
		{`{"properties":{"a":{"$ref":"#/definitions/a~1b%20c"}},"definitions":{"a/b c":{"type":"string"}}}`, "{a?:string}"},
		{`{"properties":{"a":{"$ref":"#/$defs/x/anyOf/1"}},"$defs":{"x":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, "{a?:null}"},
		{`{"properties":{"a":{"$ref":"#x"}},"$defs":{"y":{"$anchor":"x","type":"string"}}}`, "{a?:string}"},
		{`{"properties":{"a":{"$ref":"http://example.com/x"},"b":{"$ref":"#/none"},"c":{"$ref":"#%zz"},"d":{"$ref":7}}}`, "{a?:any, b?:any, c?:any, d?:any}"},
		{`{"properties":{"a":{"$ref":"#/$defs/x","properties":{"z":{"type":"null"}}}},"$defs":{"x":{"properties":{"y":{"type":"string"}}}}}`, "{a?:{y?:string, z?:null}}"},
		{`{"properties":{"next":{"$ref":"#"},"n":{"type":"integer"}}}`, "{next?:{next?:@arguments, n?:integer}, n?:integer}"},
		{`{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#/$defs/node"}}}}}}`, "{children?:[@node]}"},
		{`{"properties":{"v":{"$ref":"#/$defs/json"}},"$defs":{"json":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/$defs/json"}}]}}}`, "{v?:json=(string|[@json])}"},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "any"}, {`{"$ref":"#"}`, "any"},
		{`{"properties":{"a":{"type":"string"},"a":{"type":"integer"}}}`, "{a?:string}"},
	} {
		got, err := Read([]byte(test[0]))
		if err != nil {
			t.Errorf("%s: %v", test[0], err)
			continue
		}
		if text := text(got, map[*Type]bool{}); text != test[1] && text != strings.ReplaceAll(test[1], "json=", "") {
			t.Errorf("%.200s: %s, want %s", test[0], text, test[1])
		}
	}
	for _, bad := range []string{"", "{", `{"a":}`, "nope"} {
		if got, err := Read([]byte(bad)); err == nil {
			t.Errorf("%s: %+v", bad, got)
		}
	}
}

func TestFields(t *testing.T) {
	got, err := Read([]byte(`{"title":"T","description":"D","properties":{"a":{"type":"integer","minimum":1,"maximum":10,"description":"An a","default":3},"b":{"title":"A b","type":"string","pattern":"^x$","minLength":1},
		"c":{"$ref":"#/$defs/c"},"d":{"default": [ 1, 2 ],"uniqueItems":true},"e":{"pattern":"` + strings.Repeat("x", 300) + `","default":"` + strings.Repeat("x", 2000) + `"}},"$defs":{"c":{"description":"A c","enum":["x"]}}}`))
	if err != nil || got.Title != "T" || got.Description != "D" || got.Label != "arguments" {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, want := range []Field{{Name: "a", Description: "An a", Default: json.RawMessage("3"), Bounds: "minimum 1, maximum 10"}, {Name: "b", Description: "A b", Bounds: "minLength 1, pattern ^x$"},
		{Name: "c", Description: "A c"}, {Name: "d", Default: json.RawMessage("[1,2]"), Bounds: "uniqueItems true"}, {Name: "e"}} {
		f := got.Fields[i]
		if f.Name != want.Name || f.Description != want.Description || string(f.Default) != string(want.Default) || f.Bounds != want.Bounds {
			t.Errorf("%+v, want %+v", f, want)
		}
	}
}

func TestNullable(t *testing.T) {
	for schema, want := range map[string]string{`{"type":["string","null"]}`: "string true", `{"type":"string"}`: "string false", `{"type":["string","integer","null"]}`: "(string|integer) true", `{"type":"null"}`: "null true", `{"type":["string","integer"]}`: "(string|integer) false"} {
		all, err := Read([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		rest, null := all.Nullable()
		if got := text(rest, map[*Type]bool{}) + " " + fmt.Sprint(null); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
}

func TestTexts(t *testing.T) {
	for schema, want := range map[string]string{`{"enum":["a","b"]}`: "a b", `{"enum":["a",1]}`: "", `{"enum":["a",null]}`: "", `{"type":"string"}`: ""} {
		all, err := Read([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		texts, is := all.Texts()
		if strings.Join(texts, " ") != want && is || is != (want != "") {
			t.Errorf("%s: %q, %v", schema, texts, is)
		}
	}
}

// Named has each type once, those first that others use.
func TestNamed(t *testing.T) {
	all, err := Read([]byte(`{"properties":{"a":{"properties":{"x":{"properties":{"y":{}}}}},"b":{"$ref":"#/$defs/n"},"c":{"$ref":"#/$defs/n"},"d":{"anyOf":[{"properties":{"z":{}}},{"type":"null"}]}},"$defs":{"n":{"properties":{"next":{"$ref":"#/$defs/n"}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, one := range all.Named() {
		labels = append(labels, one.Label)
	}
	if want := []string{"a x", "a", "n", "d option 1", "arguments"}; !slices.Equal(labels, want) {
		t.Errorf("%q, want %q", labels, want)
	}
}

// A schema that explodes when it is written out ends in bounded time and size.
func TestHostileSchemas(t *testing.T) {
	var defs strings.Builder
	for i := range 60 {
		fmt.Fprintf(&defs, `%s"d%d":{"properties":{"a":{"$ref":"#/$defs/d%d","properties":{"x":{}}},"b":{"$ref":"#/$defs/d%d","properties":{"y":{}}}}}`, map[bool]string{true: ","}[i > 0], i, i+1, i+1)
	}
	wide := make([]string, 5000)
	for i := range wide {
		wide[i] = fmt.Sprintf(`{"$ref":"#/$defs/w","properties":{"p%d":{}}}`, i)
	}
	for name, schema := range map[string]string{
		"doubling": `{"$ref":"#/$defs/d0","$defs":{` + defs.String() + `}}`,
		"deep":     strings.Repeat(`{"properties":{"a":`, 500) + "{}" + strings.Repeat("}}", 500),
		"wide":     `{"allOf":[` + strings.Join(wide, ",") + `],"$defs":{"w":{"properties":{` + strings.Repeat(`"q":{},`, 5000) + `"r":{}}}}}`,
		"options":  `{"anyOf":[` + strings.Repeat(`{"type":"string"},`, 5000) + `{"type":"null"}]}`,
		"values":   `{"enum":[` + strings.Repeat(`"x",`, 5000) + `"y"]}`,
	} {
		done := make(chan int, 1)
		go func() {
			got, err := Read([]byte(schema))
			if err != nil {
				t.Error(err)
			}
			done <- len(got.Named())
		}()
		select {
		case n := <-done:
			if n > maxWork {
				t.Errorf("%s: %d types", name, n)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s does not end", name)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"anyOf":[{"$ref":"#/$defs/x"},{"allOf":[{"$ref":"#"}]}]}}}`))
	f.Add([]byte(`{"type":["object","null"],"oneOf":[{"properties":{"a":{"const":1}}},{"properties":{"a":{"enum":[1,2]}}}],"additionalProperties":{"$ref":"#/oneOf/0"}}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		all, err := Read(schema)
		if err != nil {
			return
		}
		for _, one := range append(all.Named(), all) {
			switch one.Kind {
			case Array, Map:
				if one.Items == nil {
					t.Error("no items")
				}
			case Object:
				if len(one.Fields) == 0 || one.Label == "" {
					t.Errorf("%+v", one)
				}
			case Enum:
				if len(one.Values) == 0 {
					t.Error("no values")
				}
			case Union:
				for _, o := range one.Options {
					if o.Kind == Any || o.Kind == Union && o.Label == "" {
						t.Errorf("%s in a union", text(o, map[*Type]bool{}))
					}
				}
			}
		}
		again, err := Read(schema)
		if err != nil || text(all, map[*Type]bool{}) != text(again, map[*Type]bool{}) {
			t.Error("another type at the second time")
		}
	})
}

// What is larger than a bound says less, and never nothing: each bound itself is still read.
func TestLimits(t *testing.T) {
	some := func(n int, one string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = strings.ReplaceAll(one, "#", fmt.Sprint(i))
		}
		return strings.Join(all, ",")
	}
	read := func(schema string) *Type {
		t.Helper()
		all, err := Read([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	for name, test := range map[string]struct {
		schema string
		most   int // of #
		count  func(of *Type) int
		beyond int // what is counted for one more
	}{
		"allOf":             {`{"allOf":[%s]}`, maxOptions, func(of *Type) int { return len(of.Fields) }, maxOptions},
		"anyOf":             {`{"anyOf":[%s]}`, maxOptions, func(of *Type) int { return len(of.Options) }, 0},
		"prefixItems":       {`{"prefixItems":[%s],"items":false}`, maxOptions, func(of *Type) int { return len(of.Items.Options) }, maxOptions},
		"patternProperties": {`{"patternProperties":{%s}}`, maxOptions, func(of *Type) int { return len(of.Items.Options) }, maxOptions},
		"enum":              {`{"enum":[%s]}`, maxValues, func(of *Type) int { return len(of.Values) }, 0},
	} {
		one := map[string]string{"enum": `#`, "patternProperties": `"p#":{"properties":{"a#":{}}}`}[name]
		if one == "" {
			one = `{"properties":{"a#":{}}}`
		}
		for n, want := range map[int]int{test.most - 1: test.most - 1, test.most: test.most, test.most + 1: test.beyond} {
			if got := test.count(read(fmt.Sprintf(test.schema, some(n, one)))); got != want {
				t.Errorf("%s with %d: %d, want %d", name, n, got, want)
			}
		}
	}
	kinds := `"string",` + strings.Repeat(`"integer",`, maxOptions-2) + `"null"`
	if got := text(read(`{"type":[`+kinds+`,"boolean"]}`), map[*Type]bool{}); got != "(string|integer|null)" {
		t.Errorf("%s", got)
	}
	for n, want := range map[int]Kind{maxValue - 2: Enum, maxValue - 1: Any} {
		if got := read(fmt.Sprintf(`{"const":"%s"}`, strings.Repeat("x", n))); got.Kind != want {
			t.Errorf("a value of %d bytes: %v", n+2, got.Kind)
		}
	}
	for n, want := range map[int]int{maxValue - 2: maxValue, maxValue - 1: 0} {
		if got := read(fmt.Sprintf(`{"properties":{"a":{"default":"%s"}}}`, strings.Repeat("x", n))).Fields[0].Default; len(got) != want {
			t.Errorf("a default of %d bytes: %d", n+2, len(got))
		}
	}
	for bounds, want := range map[string]string{`"pattern":"` + strings.Repeat("x", 198) + `"`: "pattern " + strings.Repeat("x", 198), `"pattern":"` + strings.Repeat("x", 199) + `"`: "",
		`"minimum":` + strings.Repeat("1", 40): "minimum " + strings.Repeat("1", 40), `"minimum":` + strings.Repeat("1", 41): "", `"minimum":[1],"maximum":{}`: ""} {
		if got := read(`{"properties":{"a":{` + bounds + `}}}`).Fields[0].Bounds; got != want {
			t.Errorf("%s: %q, want %q", bounds, got, want)
		}
	}
	for _, step := range []string{`{"items":%s}`, `{"prefixItems":[%s],"items":false}`, `{"properties":{"a":%s}}`, `{"patternProperties":{"a":%s}}`, `{"additionalProperties":%s}`, `{"allOf":[%s]}`, `{"anyOf":[%s]}`} {
		deep := func(n int) *Type {
			schema := `{"type":"null"}`
			for range n {
				schema = fmt.Sprintf(step, schema)
			}
			at := read(schema)
			for {
				switch {
				case at.Kind == Object:
					at = at.Fields[0].Type
				case at.Items != nil:
					at = at.Items
				default:
					return at
				}
			}
		}
		if deep(maxDepth).Kind != Null || deep(maxDepth+1).Kind != Any {
			t.Errorf("%s: the greatest depth", step)
		}
	}
	chain := func(n int) *Type { // of references, each of which is a level
		defs := make([]string, n)
		for i := range defs {
			defs[i] = fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d%d"}`, i, i+1)
		}
		return read(fmt.Sprintf(`{"$ref":"#/$defs/d0","$defs":{%s,"d%d":{"type":"null"}}}`, strings.Join(defs, ","), n))
	}
	if chain(maxDepth-1).Kind != Null || chain(maxDepth).Kind != Any {
		t.Error("the greatest depth of references")
	}
	for n, want := range map[int]Kind{maxValue - len("#/$defs/"): Null, maxValue - len("#/$defs/") + 1: Any} {
		name := strings.Repeat("d", n)
		if got := read(fmt.Sprintf(`{"$ref":"#/$defs/%s","$defs":{"%s":{"type":"null"}}}`, name, name)); got.Kind != want {
			t.Errorf("a reference of %d bytes: %v", n+len("#/$defs/"), got.Kind)
		}
	}
}

// Types have labels that say where they stand, and no two parts of a schema that differ have the same.
func TestLabels(t *testing.T) {
	for schema, want := range map[string]string{
		`{"properties":{"a":{"properties":{"x":{}}}}}`:                                                                               "a, arguments",
		`{"properties":{"a":{"properties":{"b":{"properties":{"x":{}}}}}}}`:                                                          "a b, a, arguments",
		`{"properties":{"a":{"items":{"properties":{"x":{}}}}}}`:                                                                     "a item, arguments",
		`{"properties":{"a":{"prefixItems":[{"properties":{"x":{}}},{"properties":{"x":{}}}],"items":false}}}`:                       "a item 1, a item 2, arguments",
		`{"properties":{"a":{"additionalProperties":{"properties":{"x":{}}}}}}`:                                                      "a value, arguments",
		`{"properties":{"a":{"patternProperties":{"p":{"properties":{"x":{}}}}}}}`:                                                   "a value, arguments",
		`{"properties":{"a":{"anyOf":[{"properties":{"x":{}}},{"properties":{"y":{}}}]}}}`:                                           "a option 1, a option 2, arguments",
		`{"anyOf":[{"properties":{"x":{}}},{"properties":{"y":{}}}]}`:                                                                "option 1, option 2",
		`{"properties":{"z":{}},"oneOf":[{"properties":{"x":{}}},{"properties":{"y":{}}}]}`:                                          "option 1, option 2",
		`{"allOf":[{"properties":{"x":{}}},{"properties":{"y":{}}}]}`:                                                                "arguments",
		`{"properties":{"a":{"allOf":[{"properties":{"x":{}}},{"properties":{"y":{}}}]}}}`:                                           "a, arguments",
		`{"properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"properties":{"b":{"properties":{"x":{}}}}}}}`:                       "n b, n, arguments",
		`{"properties":{"a":{"$ref":"#/$defs/n","properties":{"y":{}}}},"$defs":{"n":{"properties":{"next":{"$ref":"#/$defs/n"}}}}}`: "n, a, arguments",
	} {
		all, err := Read([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		var labels []string
		for _, one := range all.Named() {
			labels = append(labels, one.Label)
		}
		if got := strings.Join(labels, ", "); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
}

// Of a field that several schemas describe, the first that says something counts.
func TestMerged(t *testing.T) {
	read := func(schema string) *Type {
		t.Helper()
		all, err := Read([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	full := `{"type":"integer","description":"%s","default":%d,"minimum":%[2]d}`
	a, b := fmt.Sprintf(full, "A", 1), fmt.Sprintf(full, "B", 2)
	for _, c := range []struct{ first, second, want string }{
		{a, b, "A 1 minimum 1"}, {"{}", b, "B 2 minimum 2"}, {a, "{}", "A 1 minimum 1"}, {`{"description":"A"}`, b, "A 2 minimum 2"}, {`{"default":1}`, b, "B 1 minimum 2"}, {`{"minimum":1}`, b, "B 2 minimum 1"},
	} {
		f := read(fmt.Sprintf(`{"properties":{"f":%s},"allOf":[{"properties":{"f":%s}}]}`, c.first, c.second)).Fields[0]
		if got := fmt.Sprint(f.Description, " ", string(f.Default), " ", f.Bounds); got != c.want || f.Type.Kind != Integer {
			t.Errorf("%s, %s: %s %v, want %s", c.first, c.second, got, f.Type.Kind, c.want)
		}
	}
	for schema, want := range map[string]string{
		`{"properties":{"a":{}},"allOf":[{"properties":{"b":{}},"additionalProperties":{"type":"null"}}]}`:                                          "{a?:any, b?:any, *:null}",
		`{"properties":{"a":{}},"additionalProperties":{"type":"string"},"allOf":[{"additionalProperties":{"type":"null"},"properties":{"b":{}}}]}`: "{a?:any, b?:any, *:string}",
		`{"type":"object","additionalProperties":{"type":"null"},"allOf":[{"properties":{"b":{}}}]}`:                                                "{b?:any, *:null}",
		`{"properties":{"a":{}},"anyOf":[{"type":"object"},{"properties":{"b":{}}}]}`:                                                               "({a?:any}|{a?:any, b?:any})",
		`{"type":"object","anyOf":[{"type":"object"},{"type":"string"}]}`:                                                                           "map(any)",
		`{"type":"object","anyOf":[false]}`: "map(any)",
	} {
		if got := text(read(schema), map[*Type]bool{}); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
}
