package openapi

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-json"

	"dragoman/proxy"
)

var update = flag.Bool("update", false, "write the golden document anew")

// few is a small set of tools: a plain one, one with a result, one of draft-07, and odd names.
var few = []Tool{
	{Name: "query_callers", Description: "Find all functions that call a specified function", InputSchema: json.RawMessage(`{"type":"object","properties":{
		"function_name":{"type":"string","description":"Qualified name of the function to query"},
		"max_depth":{"type":"integer","description":"Maximum call depth to traverse","default":3,"minimum":1,"maximum":10}},"required":["function_name"]}`)},
	{Name: "tree/of nodes", Title: "Tree", Annotations: json.RawMessage(`{"readOnlyHint":true}`),
		InputSchema:  json.RawMessage(`{"title":"Args","properties":{"root":{"$ref":"#/$defs/node"}},"$defs":{"node":{"title":"Node","type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/node"}}}}}}`),
		OutputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)},
	{Name: "tree-of-nodes", InputSchema: json.RawMessage(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"pair":{"items":[{"type":"string"},true],"additionalItems":false}},
		"definitions":{"x":{"$ref":"https://a.example/x"}},"dependencies":{"a":["b"],"c":{"$ref":"#/definitions/x"}}}`)},
	{Name: "查询", Description: "</script><img src=x onerror=alert(1)>"},
	{Name: ".."},
}

func build(t *testing.T, tools ...Tool) map[string]any {
	t.Helper()
	raw, _, err := Build(Info{Title: "code-graph-rag", Version: "0.0.24"}, tools)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	return doc
}

// at walks a decoded document.
func at(v any, keys ...string) any {
	for _, key := range keys {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

func TestGolden(t *testing.T) {
	got, _, err := Build(Info{Title: "code-graph-rag", Version: "0.0.24", Description: "Tools for graphs of code", ServerURL: "/servers/graph"}, few)
	if err != nil {
		t.Fatal(err)
	}
	again, _, _ := Build(Info{Title: "code-graph-rag", Version: "0.0.24", Description: "Tools for graphs of code", ServerURL: "/servers/graph"}, few)
	if !bytes.Equal(got, again) {
		t.Error("twice is not the same")
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, got, "", " "); err != nil {
		t.Fatal(err)
	}
	pretty.WriteByte('\n')
	golden := filepath.Join("testdata", "document.json")
	if *update {
		if err := os.WriteFile(golden, pretty.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(pretty.Bytes(), want) {
		t.Errorf("%s differs (%v); look at it after: go test ./adapters/rest/openapi -update", golden, err)
	}
}

// Every $ref names an existing component, and generators can name every component.
func TestReferencesResolve(t *testing.T) {
	doc := build(t, few...)
	name := regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				tokens := strings.Split(strings.TrimPrefix(ref, "#/"), "/")
				if at(doc, tokens...) == nil || len(tokens) != 3 {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, sub := range v {
				walk(sub)
			}
		case []any:
			for _, sub := range v {
				walk(sub)
			}
		}
	}
	walk(doc)
	for key := range at(doc, "components", "schemas").(map[string]any) {
		if !name.MatchString(key) {
			t.Errorf("component %q", key)
		}
	}
	if n := len(at(doc, "components", "schemas").(map[string]any)); n < 30 {
		t.Errorf("only %d schemas", n)
	}
}

// Each tool has an operation of its own name, with all statuses that can occur.
func TestOperations(t *testing.T) {
	doc := build(t, few...)
	paths, _ := doc["paths"].(map[string]any)
	for _, path := range []string{"/tools", "/call-tool", "/health", "/resources", "/read-resource", "/prompts", "/get-prompt", "/complete",
		"/openapi.json", "/docs", "/mcp/{method}", "/mcp/sse", "/tools/query_callers", "/tools/tree%2Fof%20nodes", "/tools/tree-of-nodes", "/tools/%E6%9F%A5%E8%AF%A2"} {
		if paths[path] == nil {
			t.Errorf("%s is missing", path)
		}
	}
	if len(paths) != 16 {
		t.Errorf("%d paths", len(paths))
	}
	seen := map[string]bool{}
	for path, ops := range paths {
		for method, op := range ops.(map[string]any) {
			if path == "/mcp/sse" {
				continue // which is logged, and is no operation
			}
			id, _ := at(op, "operationId").(string)
			if !regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(id) || seen[id] {
				t.Errorf("%s: operationId %q", path, id)
			}
			seen[id] = true
			want := []string{"200", "400", "401", "403", "404", "405", "408", "413", "429", "431", "500", "503"}
			if method == "get" && at(ops, "head") == nil {
				t.Errorf("%s: no head", path)
			}
			if method == "post" {
				want = append(want, "415")
				answer := at(op, "responses", "200")
				if at(answer, "$ref") == "#/components/responses/ToolCalled" {
					answer = at(doc, "components", "responses", "ToolCalled")
				}
				if at(answer, "content", "text/event-stream") == nil {
					t.Errorf("%s: no stream", path)
				}
			}
			for _, status := range want {
				if at(op, "responses", status) == nil {
					t.Errorf("%s: no %s", path, status)
				}
			}
		}
	}
	for _, id := range []string{"call_query_callers", "call_tree_of_nodes", "call_tree_of_nodes_2", "call_tool_2"} {
		if !seen[id] {
			t.Errorf("no operation %s among %v", id, seen)
		}
	}
}

// Every status that the error table has for REST callers is documented.
func TestStatuses(t *testing.T) {
	responses, _ := at(build(t), "paths", "/call-tool", "post", "responses").(map[string]any)
	for _, code := range proxy.EnvelopeCodes() {
		if responses[fmt.Sprint(code.Status())] == nil {
			t.Errorf("%s: %d is not documented", code, code.Status())
		}
	}
	var codes []string
	for _, code := range proxy.EnvelopeCodes() {
		codes = append(codes, string(code))
	}
	var listed []string
	for _, code := range at(build(t), "components", "schemas", "ErrorCode", "enum").([]any) {
		listed = append(listed, code.(string))
	}
	if !slices.Equal(codes, listed) {
		t.Errorf("%v, want %v", listed, codes)
	}
}

// The schema of a tool becomes the component TArguments.
func TestSchemas(t *testing.T) {
	for _, k := range []struct{ in, want string }{
		{``, `{"type":"object"}`},
		{`{`, `{"type":"object"}`},
		{`[]`, `{"type":"object"}`},
		{`{}`, `{"type":"object"}`},
		{`{"type":"object","title":"T","description":"d"}`, `{"type":"object","description":"d"}`},
		{`{"properties":{"a":true,"b":false,"c":{"title":"C"}}}`, `{"type":"object","properties":{"a":{},"b":{"not":{}},"c":{"title":"C"}}}`},
		{`{"additionalProperties":false,"$schema":"x","$id":"y","x-y":{"$ref":"z"},"nullable":true}`, `{"type":"object","additionalProperties":false}`},
		{`{"type":"thing","properties":[],"required":["a","a"],"minLength":-1,"multipleOf":0,"enum":[],"anyOf":[],"pattern":3,"maximum":"1"}`, `{"type":"object"}`},
		{`{"type":"object","type":"object","properties":{"a":{"type":"string"},"a":{"type":"null"}}}`, `{"type":"object","properties":{"a":{"type":"null"}}}`},
		{`{"properties":{"a":{"type":"string","default":null},"b":{"type":["integer","null"],"default":null},"c":{"type":"integer","default":12345678901234567890}}}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":["integer","null"],"default":null},"c":{"type":"integer","default":12345678901234567890}}}`},
		{`{"properties":{"a":{"items":[{"type":"string"}],"additionalItems":{"type":"number"}},"b":{"items":{},"additionalItems":false}}}`,
			`{"type":"object","properties":{"a":{"prefixItems":[{"type":"string"}],"items":{"type":"number"}},"b":{"items":{}}}}`},
		{`{"properties":{"a":{"maximum":3,"exclusiveMaximum":true,"minimum":1,"exclusiveMinimum":false}}}`, `{"type":"object","properties":{"a":{"exclusiveMaximum":3,"minimum":1}}}`},
		{`{"dependencies":{"a":["b"],"c":{"type":"null"}}}`, `{"type":"object","dependentRequired":{"a":["b"]},"dependentSchemas":{"c":{"type":"null"}}}`},
		{`{"properties":{"a":{"$ref":"#"}}}`, `{"type":"object","properties":{"a":{"$ref":"#/components/schemas/TArguments"}}}`},
		{`{"properties":{"a":{"$ref":"http://a.example/"},"b":{"$ref":"#/nowhere"},"c":{"$ref":"#x"},"d":{"$ref":"#%zz"}}}`, `{"type":"object","properties":{"a":{},"b":{},"c":{},"d":{}}}`},
		{`{"$ref":"#"}`, `{"type":"object"}`},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, `{"type":"object"}`},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"type":"object"}}}`, `{"$ref":"#/components/schemas/TArgumentsB"} TArgumentsB={"type":"object"}`},
		{`{"properties":{"a":{"$ref":"#/definitions/a~1%20b"}},"definitions":{"a/ b":{"items":{"$ref":"#/definitions/a~1%20b"}}}}`,
			`{"type":"object","properties":{"a":{"$ref":"#/components/schemas/TArgumentsA1B"}}} TArgumentsA1B={"items":{"$ref":"#/components/schemas/TArgumentsA1B"}}`},
		{`{"properties":{"a":{"$ref":"#n"},"b":{"$ref":"urn:b"},"c":{"$ref":"#/allOf/0"}},"$defs":{"x":{"$anchor":"n"},"y":{"$id":"urn:b","type":"null"}},"allOf":[{"type":"object"}]}`,
			`{"type":"object","properties":{"a":{"$ref":"#/components/schemas/TArgumentsX"},"b":{"$ref":"#/components/schemas/TArgumentsY"},"c":{"$ref":"#/components/schemas/TArgumentsTool0"}},"allOf":[{"type":"object"}]} TArgumentsTool0={"type":"object"} TArgumentsX={} TArgumentsY={"type":"null"}`},
		{`{"const":{"$ref":"x"},"default":{"b":[1]},"examples":[{"type":1}]}`, `{"type":"object","const":{"$ref":"x"},"default":{"b":[1]},"examples":[{"type":1}]}`},
		{strings.Repeat(`{"not":`, 200) + `{}` + strings.Repeat(`}`, 200), `{"type":"object","description":"The schema is too large to be shown; GET /tools has it."}`},
		{`{"description":"` + strings.Repeat("x", maxSchema) + `"}`, `{"type":"object","description":"The schema is too large to be shown; GET /tools has it."}`},
	} {
		raw, _, err := Build(Info{}, []Tool{{Name: "t", InputSchema: json.RawMessage(k.in)}})
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Components struct{ Schemas map[string]json.RawMessage }
		}
		if err := json.Unmarshal(raw, &doc); err != nil {
			t.Fatalf("%.80s: %v", k.in, err)
		}
		got := string(doc.Components.Schemas["TArguments"])
		var more []string
		for name, s := range doc.Components.Schemas {
			if strings.HasPrefix(name, "TArguments") && name != "TArguments" {
				more = append(more, " "+name+"="+string(s))
			}
		}
		slices.Sort(more)
		if got += strings.Join(more, ""); got != k.want {
			t.Errorf("%.200s\ngives %s\nwant  %s", k.in, got, k.want)
		}
	}
}

// Everything that is not shown of a tool is noted once.
func TestNotes(t *testing.T) {
	var got []string
	_, _, err := Build(Info{Note: func(tool, what string) { got = append(got, tool+": "+what) }}, []Tool{
		{Name: "fine", InputSchema: json.RawMessage(`{"$schema":"x","type":"object","x-mine":1,"properties":{"a":{"type":"integer"}},"$defs":{}}`)},
		{Name: "a", InputSchema: json.RawMessage(`{"type":"thing","properties":{"b":{"$ref":"https://a.example/x"},"c":{"minLength":-1}}}`), OutputSchema: json.RawMessage(`{"pattern":3}`)},
		{Name: "b", InputSchema: json.RawMessage(`[]`)}, {Name: "c"}, {Name: ".."},
		{Name: "d", InputSchema: json.RawMessage(`{"type":"thing","description":"` + strings.Repeat("x", maxSchema) + `"}`)},
	})
	want := []string{
		`a: of its arguments type, which cannot be "thing"`,
		`a: of its arguments $ref "https://a.example/x", which is not in the schema`,
		`a: of its arguments minLength, which cannot be -1`,
		`a: of its results pattern, which cannot be 3`,
		`b: of its arguments the schema is no JSON object`,
		`..: it has no operation: its name cannot stand in a path`,
		`d: of its arguments the schema is too large`,
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A schema that refers to overlapping parts of itself is not copied without end.
func TestGrowth(t *testing.T) {
	var in strings.Builder
	in.WriteString(`{"allOf":[`)
	for i := range 100 {
		in.WriteString(`{"$ref":"#` + strings.Repeat("/items", i) + `"},`)
	}
	in.WriteString(`{}],` + strings.Repeat(`"items":{`, 110)[:110*9])
	in.WriteString(`"description":"` + strings.Repeat("x", 5000) + `"` + strings.Repeat("}", 111))
	raw, _, err := Build(Info{}, []Tool{{Name: "t", InputSchema: json.RawMessage(in.String())}})
	if err != nil || !strings.Contains(string(raw), "too large to be shown") || len(raw) > 100_000 {
		t.Errorf("%v, %d bytes", err, len(raw))
	}
}

// For every schema the document is JSON, and its references stay inside it.
func FuzzBuild(f *testing.F) {
	for i := range few {
		f.Add(few[i].Name, []byte(few[i].InputSchema))
	}
	f.Add("a", []byte(`{"$defs":{"a":{"$anchor":"x","$ref":"#x"}},"items":[{"$dynamicRef":"#x"}],"dependencies":{"a":[],"b":{}}}`))
	f.Fuzz(func(t *testing.T, name string, schema []byte) {
		raw, _, err := Build(Info{}, []Tool{{Name: name, Description: name, InputSchema: schema, OutputSchema: schema}, {Name: name}})
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := json.Unmarshal(raw, &doc); err != nil {
			t.Fatalf("%v\n%s", err, raw)
		}
	})
}

// A document ends after MaxTools, or after the tool with which it exceeds its size, and says where the next tools are.
func TestDocumentIsBounded(t *testing.T) {
	wide := json.RawMessage(`{"type":"object","description":"` + strings.Repeat("x", 100<<10) + `"}`)
	many := func(n int, schema json.RawMessage) []Tool {
		tools := make([]Tool, n)
		for i := range tools {
			tools[i] = Tool{Name: fmt.Sprint("t", i), InputSchema: schema}
		}
		return tools
	}
	next := func(offset int) string { return fmt.Sprint("next?", offset) }
	for _, k := range []struct {
		what             string
		tools            []Tool
		part             Part
		shown            int
		next, says, told string // the description, and x-tools
	}{
		{"all", many(MaxTools, nil), Part{Next: next}, MaxTools, "", "About.", ""},
		{"one too many", many(MaxTools+1, nil), Part{Next: next}, MaxTools, "next?1000",
			"About.\n\nThis document describes tools 1 to 1000 of the 1001 tools of the server. The next are in next?1000.", `{"offset":0,"count":1000,"total":1001,"next":"next?1000"}`},
		{"with more behind", many(3, nil), Part{Offset: 7, Total: 20, Next: next}, 3, "next?10",
			"About.\n\nThis document describes tools 8 to 10 of the 20 tools of the server. The next are in next?10.", `{"offset":7,"count":3,"total":20,"next":"next?10"}`},
		{"the last", many(3, nil), Part{Offset: 17, Total: 20, Next: next}, 3, "",
			"About.\n\nThis document describes tools 18 to 20 of the 20 tools of the server.", `{"offset":17,"count":3,"total":20}`},
		{"matching", many(2, nil), Part{Total: 2, Match: true, Next: next}, 2, "",
			"About.\n\nThis document describes tools 1 to 2 of the 2 tools that match.", `{"offset":0,"count":2,"total":2}`},
		{"none", nil, Part{Offset: 30, Total: 20, Next: next}, 0, "",
			"About.\n\nThis document describes none of the 20 tools of the server.", `{"offset":30,"count":0,"total":20}`},
		{"without a next", many(3, nil), Part{Total: 4}, 3, "", "About.\n\nThis document describes tools 1 to 3 of the 4 tools of the server.", `{"offset":0,"count":3,"total":4}`},
		{"large", many(60, wide), Part{Next: next}, 41, "next?41",
			"About.\n\nThis document describes tools 1 to 41 of the 60 tools of the server. The next are in next?41.", `{"offset":0,"count":41,"total":60,"next":"next?41"}`},
	} {
		raw, got, err := Build(Info{Description: "About.", Part: k.part}, k.tools)
		var doc struct {
			Info struct {
				Description string
				Place       json.RawMessage `json:"x-tools"`
			}
			Paths map[string]json.RawMessage
		}
		if err := json.Unmarshal(raw, &doc); err != nil {
			t.Fatal(err)
		}
		shown := 0
		for path := range doc.Paths {
			if strings.HasPrefix(path, "/tools/") {
				shown++
			}
		}
		if err != nil || shown != k.shown || got != k.next || doc.Info.Description != k.says || string(doc.Info.Place) != k.told || len(raw) > maxDocument+(256<<10) {
			t.Errorf("%s: %v, %d tools in %d bytes, next %q\n%q\n%s", k.what, err, shown, len(raw), got, doc.Info.Description, doc.Info.Place)
		}
	}
}

// What is the same for all tools stands once in a document: a tool of few words takes little of it.
func TestToolsAreShort(t *testing.T) {
	size := func(n int) int {
		tools := make([]Tool, n)
		for i := range tools {
			tools[i] = Tool{Name: fmt.Sprintf("t%03d", i)}
		}
		raw, _, err := Build(Info{}, tools)
		if err != nil {
			t.Fatal(err)
		}
		return len(raw)
	}
	if each := (size(200) - size(100)) / 100; each > 1300 {
		t.Errorf("%d bytes each", each)
	}
}
