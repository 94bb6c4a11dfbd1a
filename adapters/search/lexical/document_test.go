package lexical

import (
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	nested := `{"description":"end"}`
	for range 8 {
		nested = `{"properties":{"p":` + nested + `}}`
	}
	listed := `{"description":"end"}`
	for range 8 {
		listed = `{"properties":{"p":{"items":` + listed + `}}}`
	}
	tests := map[string]struct {
		raw  string
		want Document
	}{
		"nothing":     {``, Document{}},
		"no JSON":     {`{"title":"t"`, Document{}},
		"no object":   {`["title"]`, Document{}},
		"wrong types": {`{"title":1,"description":[],"annotations":"x","inputSchema":[],"outputSchema":{"properties":1}}`, Document{}},
		"one is right": {`{"title":{},"description":"d","annotations":{"title":"a"},"inputSchema":{"properties":{"p":true}}}`,
			Document{Title: "a", Description: "d", Parameters: []Parameter{{Name: "p"}}}},
		"all": {`{"name":"x","title":"t","description":"d","annotations":{"title":"a"},"inputSchema":{"type":"object","properties":{
			"b":{"title":"B","enum":["x",1,"",null,"y"]},"a":{"description":"A","title":"no","const":"c"},
			"o":{"type":"object","properties":{"i":{"description":"inner"}}},"l":{"items":{"properties":{"e":{}}}}}},
			"outputSchema":{"properties":{"r":{"description":"result"},"q":{"items":{"properties":{"z":{}}}}}}}`,
			Document{Title: "t", Description: "d", Parameters: []Parameter{{"a", "A", []string{"c"}}, {"b", "B", []string{"x", "y"}}, {Name: "l"}, {Name: "e"}, {Name: "o"}, {Name: "i", Description: "inner"}},
				Outputs: []string{"q", "z", "r", "result"}}},
		"deep":       {`{"inputSchema":` + nested + `}`, Document{Parameters: []Parameter{{Name: "p"}, {Name: "p"}, {Name: "p"}, {Name: "p"}, {Name: "p"}}}},
		"deep lists": {`{"inputSchema":` + listed + `}`, Document{Parameters: []Parameter{{Name: "p"}, {Name: "p"}, {Name: "p"}, {Name: "p"}, {Name: "p"}}}},
	}
	for name, test := range tests {
		test.want.Server, test.want.Name = "s", "n"
		if got := Parse("s", "n", []byte(test.raw)); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestParseIsBounded(t *testing.T) {
	long := strings.Repeat("é", maxText/2+10)
	d := Parse("s", long, []byte(`{"title":"`+long+`","description":"x`+long+`"}`))
	if len(d.Name) != maxText || len(d.Title) != maxText || len(d.Description) != maxText-1 {
		t.Errorf("%d, %d, %d bytes", len(d.Name), len(d.Title), len(d.Description))
	}
	var many, values strings.Builder
	for i := range maxProperties + 10 {
		many.WriteString(`"p` + strings.Repeat("x", i) + `":{},`)
		values.WriteString(`"v",`)
	}
	d = Parse("s", "n", []byte(`{"inputSchema":{"properties":{`+many.String()+`"z":{}}},"outputSchema":{"properties":{"o":{}}}}`))
	if len(d.Parameters) != maxProperties || len(d.Outputs) != 0 {
		t.Errorf("%d parameters, %d outputs", len(d.Parameters), len(d.Outputs))
	}
	few := ""
	for i := range 5 {
		few += `"o` + strings.Repeat("x", i) + `":{},`
	}
	d = Parse("s", "n", []byte(`{"inputSchema":{"properties":{`+strings.Join(strings.SplitAfter(many.String(), ",")[:maxProperties-3], "")+`"z":{}}},"outputSchema":{"properties":{`+few+`"z":{}}}}`))
	if len(d.Parameters) != maxProperties-2 || len(d.Outputs) != 2 {
		t.Errorf("%d parameters, %d outputs", len(d.Parameters), len(d.Outputs))
	}
	d = Parse("s", "n", []byte(`{"inputSchema":{"properties":{"p":{"enum":[`+values.String()+`"v"]}}}}`))
	if len(d.Parameters) != 1 || len(d.Parameters[0].Values) != maxValues {
		t.Errorf("%+v", d)
	}
	for size, want := range map[int]string{maxDefinition: "t", maxDefinition + 1: ""} {
		if d := Parse("s", "n", []byte(`{"title":"t"`+strings.Repeat(" ", size-len(`{"title":"t"}`))+`}`)); d.Title != want {
			t.Errorf("of %d bytes the title is %q", size, d.Title)
		}
	}
}

func TestText(t *testing.T) {
	for want, d := range map[string]Document{
		"get user info":             {Name: "getUserInfo", ServerText: "no"},
		"a. T. D. Takes user id, b": {Name: "a", Title: "T", Description: "D", Parameters: []Parameter{{Name: "userId", Description: "no"}, {Name: "b"}}},
	} {
		if got := d.Text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	d := Document{Name: "aa", Description: strings.Repeat("é", maxModelText)}
	if got := d.Text(); len(got) != maxModelText {
		t.Errorf("%d bytes", len(got))
	}
	d.Name = "aaa"
	if got := d.Text(); len(got) != maxModelText-1 || !strings.HasSuffix(got, "é") {
		t.Errorf("%d bytes, not whole letters", len(got))
	}
}
