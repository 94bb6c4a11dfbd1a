package generate

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"dragoman/internal/generate/names"
	"dragoman/internal/generate/shape"
)

// wrote writes an object as name:type, with ? after a name that may be absent, and … for members without a name.
func wrote(t *shape.Type) string {
	var all []string
	for _, f := range t.Fields {
		mark := ""
		if !f.Required {
			mark = "?"
		}
		kind := fmt.Sprint(f.Type.Kind)
		if f.Type.Kind == shape.Union {
			kind = ""
			for _, o := range f.Type.Options {
				kind += fmt.Sprint(o.Kind)
			}
		}
		all = append(all, f.Name+mark+":"+kind)
	}
	if t.Kind == shape.Map || t.Extra != nil {
		all = append(all, "…")
	}
	return strings.Join(all, " ")
}

func TestArguments(t *testing.T) {
	text, integer := fmt.Sprint(shape.String), fmt.Sprint(shape.Integer)
	for schema, want := range map[string]string{
		`{"properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["b"]}`: "a?:" + text + " b:" + integer,
		// What all alternatives need is required, and a member of several types has all of them.
		`{"anyOf":[{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a","b"]},{"properties":{"a":{"type":"integer"},"c":{"type":"string"}},"required":["a"]}]}`: "a:" + text + integer + " b?:" + text + " c?:" + text,
		`{"anyOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"type":"string"}},"additionalProperties":{"type":"string"}}]}`:                                           "a?:" + text + " b?:" + text + " …",
		`{"anyOf":[{"properties":{"a":{"type":"string"}}},{"type":"object"}]}`:                                                                                                         "a?:" + text + " …",
		// Whatever is no object takes anything.
		`{"anyOf":[{"properties":{"a":{}}},{"type":"string"}]}`: "…", `{"type":"string"}`: "…", `{`: "…", ``: "…", `{"type":"object"}`: "…",
		`{"anyOf":[{"type":"object","additionalProperties":{"type":"string"}},{"type":"object","additionalProperties":{"type":"integer"}}]}`: "…",
	} {
		if got := wrote(arguments([]byte(schema))); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
}

func TestPrepare(t *testing.T) {
	s := Service{Name: "zA-z09_é", URL: "http://localhost//", Tools: []*Tool{{Name: "one", Output: []byte(`{"type":"string"}`)}, {Name: "two", Output: []byte(`{`)}, {Name: "three"}}}
	s.Prepare()
	if s.TokenVariable != "MCP_TOKEN_ZA_Z09__" || s.URLVariable != "MCP_URL_ZA_Z09__" || s.URL != "http://localhost" {
		t.Errorf("%+v", s)
	}
	if r := s.Tools[0].Result; r == nil || r.Kind != shape.String || s.Tools[1].Result != nil || s.Tools[2].Result != nil || s.Tools[2].Arguments.Kind != shape.Map {
		t.Errorf("%+v %+v %+v", s.Tools[0], s.Tools[1], s.Tools[2])
	}
	if got := s.Files(names.Style{Join: "-"}); !reflect.DeepEqual(got, []string{"one", "two", "three"}) {
		t.Errorf("%q", got)
	}
	s.TokenVariable = "MINE"
	if s.Prepare(); s.TokenVariable != "MINE" {
		t.Errorf("%s replaced the variable that was chosen", s.TokenVariable)
	}
}

func TestSummary(t *testing.T) {
	for want, tool := range map[string]Tool{"first": {Name: "n", Title: "t", Description: " \n\t first \nsecond"}, "t": {Name: "n", Title: "t", Description: " \n"}, "n": {Name: "n"}} {
		if got := tool.Summary(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Texts of servers are seen as they are, and no longer than their bound; a character that is cut in two goes.
func TestTexts(t *testing.T) {
	for text, want := range map[string]string{
		"\n \n a\tb \r\nc\u202e\x1b[0m\n\n": " a    b\nc\\u202e\\u001b[0m", "": "", " ": "",
		strings.Repeat("x", maxText): strings.Repeat("x", maxText), strings.Repeat("x", maxText+1): strings.Repeat("x", maxText) + "…", strings.Repeat("x", maxText-1) + "é": strings.Repeat("x", maxText-1) + "…",
	} {
		if got := Plain(text); got != want {
			t.Errorf("%.100q: %.100q, want %.100q", text, got, want)
		}
	}
	for text, want := range map[string]string{" one\n two  ": "one two", "abcdefgh": "abcdefgh", "abcdefghi": "abcdefgh…", "abcdefgé": "abcdefg…"} {
		if got := Line(text, 8); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := FirstOf("", " \n", " b", "c"); got != " b" {
		t.Errorf("%q", got)
	}
	if got := FirstOf("", " "); got != "" {
		t.Errorf("%q", got)
	}
}

// Each option has a name of its own, says how its text becomes JSON, and what it takes.
func TestOptions(t *testing.T) {
	numbers := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprint(i)
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	tool := Tool{Arguments: arguments([]byte(`{"required":["a b"],"properties":{
		"a b":{"type":"string","description":"A text.","minLength":2},"A_b":{"type":["integer","null"]},"help":{"type":"number","default":1.5},"":{"type":"boolean"},
		"of":{"enum":["x","y"],"description":"Which."},"n":{"enum":[1,2]},"l":{"type":"array","items":{"type":"integer"}},"e":{"type":"array","items":{"enum":["p","q"]}},
		"b":{"type":"array","items":{"type":"boolean"}},"o":{"type":"object"},"nil":{"type":"null"},"d":{"type":"string","default":"` + strings.Repeat("x", 198) + `"},"dd":{"type":"string","default":"` + strings.Repeat("x", 199) + `"},
		"forty":{"enum":` + numbers(40) + `},"more":{"enum":` + numbers(41) + `}}}`))}
	var got []string
	for _, o := range Options(&tool) {
		mark := ""
		if o.Required {
			mark = "!"
		}
		about := o.About()
		if len(about) > 100 {
			about = fmt.Sprint(len(about), " bytes")
		}
		got = append(got, strings.Join([]string{o.Name + mark, o.Member, o.Kind, o.Value, about}, " | "))
	}
	want := []string{
		"a-b-522207! | a b | string | TEXT | A text.\n(required; minLength 2)", "a-b-7a1c20 | A_b | integer | N | (may be null)", "help_ | help | number | N | (default 1.5)", "value |  | boolean |  | ",
		"of | of | string | TEXT | Which.\n(one of \"x\", \"y\")", "n | n | json | JSON | (one of 1, 2)", "l | l | list:integer | N | (may be repeated)", "e | e | list:string | TEXT | (may be repeated; one of \"p\", \"q\")",
		"b | b | json | JSON | ", "o | o | json | JSON | ", "nil | nil | json | JSON | ", "d | d | string | TEXT | 210 bytes", "dd | dd | string | TEXT | ",
		"forty | forty | json | JSON | 157 bytes", "more | more | json | JSON | ",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	values := map[string][]string{"of": {"x", "y"}, "e": {"p", "q"}}
	for _, o := range Options(&tool) {
		if got := o.Values(); !reflect.DeepEqual(got, values[o.Member]) {
			t.Errorf("%s: %q", o.Member, got)
		}
	}
}
