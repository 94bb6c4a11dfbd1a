package provider

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"dragoman/adapters/grpc/providerpb"
)

// server/discover says who the provider is, and what it offers.
func TestDiscover(t *testing.T) {
	features := func(all ...providerpb.Feature) []providerpb.Feature { return all }
	for _, c := range []struct {
		list *providerpb.ListCapabilitiesResponse
		want string
	}{
		{&providerpb.ListCapabilitiesResponse{}, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"logging":{}},"ttlMs":0,"cacheScope":"private","resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"p","version":"0.0.0"}}}`},
		{&providerpb.ListCapabilitiesResponse{Provider: &providerpb.Implementation{Name: "n", Version: "1", Title: "t"}, Instructions: "i", Ttl: durationpb.New(1500 * time.Millisecond), Shared: true,
			Resources: []*providerpb.Resource{{}}, Prompts: []*providerpb.Prompt{{}}, Features: features(providerpb.Feature_FEATURE_COMPLETE)},
			`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{},"prompts":{},"completions":{},"logging":{}},"instructions":"i","ttlMs":1500,"cacheScope":"public","resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n","title":"t","version":"1"}}}`},
		{&providerpb.ListCapabilitiesResponse{NextPageToken: "2", Ttl: durationpb.New(-time.Second), Features: features(providerpb.Feature_FEATURE_WATCH_LISTS)},
			`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"listChanged":true},"prompts":{"listChanged":true},"logging":{}},"ttlMs":0,"cacheScope":"private","resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"p","version":"0.0.0"}}}`},
		{&providerpb.ListCapabilitiesResponse{ResourceTemplates: []*providerpb.ResourceTemplate{{}}, Features: features(providerpb.Feature_FEATURE_WATCH_RESOURCES)},
			`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{"subscribe":true},"logging":{}},"ttlMs":0,"cacheScope":"private","resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"p","version":"0.0.0"}}}`},
		{&providerpb.ListCapabilitiesResponse{Features: features(providerpb.Feature_FEATURE_EVENTS)},
			`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"logging":{}},"ttlMs":0,"cacheScope":"private","resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"p","version":"0.0.0"}}}`},
	} {
		r := newRig(t, &scripted{list: c.list}, asking)
		if got := result(r.ask("server/discover", "")); got != c.want {
			t.Errorf("%v:\n%s, want\n%s", c.list, got, c.want)
		}
	}
	r := newRig(t, &scripted{}, asking)
	if got := r.ask("server/discover", ""); got != "[method_not_found] the gRPC server is no provider of mcp.provider.v1; fix: set upstreams.NAME.grpc.methods, to make tools of its methods (the gRPC server answered UNIMPLEMENTED: method ListCapabilities not implemented)" {
		t.Error(got)
	}
	if got := r.ask("tasks/get", ""); got != "[method_not_found] method tasks/get is not offered: the server is a gRPC provider, which has nothing like it" {
		t.Error(got)
	}
}

// Each definition breaks one rule of the seed at most (seed 002, Validation Rules); what breaks one is left out, and the log says which.
func TestDefinitions(t *testing.T) {
	tool := func(change func(*providerpb.Tool)) *providerpb.ListCapabilitiesResponse {
		x := echo()
		change(x)
		return page(x)
	}
	resource := func(change func(*providerpb.Resource)) *providerpb.ListCapabilitiesResponse {
		x := &providerpb.Resource{Uri: "hello://greeting", Name: "n", Description: "d"}
		change(x)
		return &providerpb.ListCapabilitiesResponse{Resources: []*providerpb.Resource{x}}
	}
	template := func(change func(*providerpb.ResourceTemplate)) *providerpb.ListCapabilitiesResponse {
		x := &providerpb.ResourceTemplate{UriTemplate: "hello://{a}", Name: "n", Description: "d"}
		change(x)
		return &providerpb.ListCapabilitiesResponse{ResourceTemplates: []*providerpb.ResourceTemplate{x}}
	}
	prompt := func(change func(*providerpb.Prompt)) *providerpb.ListCapabilitiesResponse {
		x := &providerpb.Prompt{Name: "n", Description: "d", ArgsSchema: `{"type":"object","properties":{"a":{"type":"string","title":"A","description":"of a"},"b":{"type":"string"}},"required":["b"]}`}
		change(x)
		return &providerpb.ListCapabilitiesResponse{Prompts: []*providerpb.Prompt{x}}
	}
	const name = `its name has no version at its end, or other characters than letters, digits, _, - and . (at most 128); fix: a name such as echo.v1`
	for i, c := range []struct {
		method string
		list   *providerpb.ListCapabilitiesResponse
		want   string // the list, or why it is empty
	}{
		{"tools/list", tool(func(*providerpb.Tool) {}), `[{"name":"echo.v1","description":"d","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}]`},
		{"tools/list", tool(func(x *providerpb.Tool) { // everything
			x.Title, x.OutputSchema, x.Meta, x.Name = "t", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"array"}`, `{"a":1}`, "a.b-c_D.v1.20.3"
			x.Annotations = &providerpb.ToolAnnotations{ReadOnly: proto.Bool(true), Destructive: proto.Bool(false), Idempotent: proto.Bool(true), OpenWorld: proto.Bool(false)}
			x.Icons = []*providerpb.Icon{{Src: "s"}}
		}), `[{"name":"a.b-c_D.v1.20.3","title":"t","description":"d","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}},"outputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"array"},` +
			`"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false},"icons":[{"src":"s"}],"_meta":{"a":1}}]`},
		{"tools/list", tool(func(x *providerpb.Tool) { x.Annotations = &providerpb.ToolAnnotations{} }), `[{"name":"echo.v1","description":"d","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}]`},
		{"tools/list", tool(func(x *providerpb.Tool) { x.Name = "echo" }), "tool echo: " + name},
		{"tools/list", tool(func(x *providerpb.Tool) { x.Name = "echo.v" }), "tool echo.v: " + name},
		{"tools/list", tool(func(x *providerpb.Tool) { x.Name = "echo.v1.2.3.4" }), "tool echo.v1.2.3.4: " + name},
		{"tools/list", tool(func(x *providerpb.Tool) { x.Name = ".v1" }), "tool .v1: " + name},
		{"tools/list", tool(func(x *providerpb.Tool) { x.Name = "e o.v1" }), "tool e o.v1: " + name},
		{"tools/list", tool(func(x *providerpb.Tool) { x.Name = strings.Repeat("e", 126) + ".v1" }), "tool " + strings.Repeat("e", 126) + ".v1: " + name},
		{"tools/list", tool(func(x *providerpb.Tool) { x.Description = " " }), "tool echo.v1: it has no description"},
		{"tools/list", tool(func(x *providerpb.Tool) { x.InputSchema = "" }), `tool echo.v1: it has no input_schema; fix: {"type":"object"} for no arguments`},
		{"tools/list", tool(func(x *providerpb.Tool) { x.InputSchema = `{"type":"object"},"a":1` }), "tool echo.v1: its input_schema is no JSON"},
		{"tools/list", tool(func(x *providerpb.Tool) { x.InputSchema = `{}` }), `tool echo.v1: its input_schema is not of type "object"`},
		{"tools/list", tool(func(x *providerpb.Tool) { x.OutputSchema = `true` }), `tool echo.v1: its output_schema is not of type "object"`},
		{"tools/list", tool(func(x *providerpb.Tool) {
			x.InputSchema = `{"type":"object","$schema":"http://json-schema.org/draft-07/schema#"}`
		}), "tool echo.v1: its input_schema is not in the dialect https://json-schema.org/draft/2020-12/schema"},
		{"tools/list", tool(func(x *providerpb.Tool) { x.OutputSchema = `{"type":7}` }), "tool echo.v1: its output_schema cannot be used: "},
		{"tools/list", tool(func(x *providerpb.Tool) { x.Meta = "7" }), "tool echo.v1: upstream_bad_answer: the provider's meta is no JSON object"},
		{"tools/list", page(echo(), echo()), "tool echo.v1: the provider lists another one of this name"},
		{"resources/list", resource(func(x *providerpb.Resource) { x.Size, x.Meta = proto.Int64(0), "{}" }), `[{"uri":"hello://greeting","name":"n","description":"d","size":0,"_meta":{}}]`},
		{"resources/list", resource(func(x *providerpb.Resource) { x.Uri = "greeting" }), "resource greeting: its URI has no scheme; fix: a URI such as hello://greeting"},
		{"resources/list", resource(func(x *providerpb.Resource) { x.Uri = "h_i://greeting" }), "resource h_i://greeting: its URI has no scheme; fix: a URI such as hello://greeting"},
		{"resources/list", resource(func(x *providerpb.Resource) { x.Uri = "a://b%zz" }), "resource a://b%zz: its URI is no URI"},
		{"resources/list", resource(func(x *providerpb.Resource) { x.Name = "" }), "resource hello://greeting: it has no name"},
		{"resources/list", resource(func(x *providerpb.Resource) { x.Description = "" }), "resource hello://greeting: it has no description"},
		{"resources/templates/list", template(func(x *providerpb.ResourceTemplate) {
			x.Title, x.MimeType, x.Annotations = "t", "m", &providerpb.Annotations{Audience: []string{"user", "assistant"}}
		}), `[{"uriTemplate":"hello://{a}","name":"n","title":"t","description":"d","mimeType":"m","annotations":{"audience":["user","assistant"]}}]`},
		{"resources/templates/list", template(func(x *providerpb.ResourceTemplate) { x.UriTemplate = "{a}" }), "resource template {a}: its template begins with no scheme; fix: a template such as hello://greeting/{name}"},
		{"resources/templates/list", template(func(x *providerpb.ResourceTemplate) { x.Name = "" }), "resource template hello://{a}: it has no name"},
		{"prompts/list", prompt(func(x *providerpb.Prompt) { x.Title, x.Template = "t", "{a} and {b}, { c } {}" }), `[{"name":"n","title":"t","description":"d","arguments":[{"name":"a","title":"A","description":"of a","required":false},{"name":"b","required":true}]}]`},
		{"prompts/list", prompt(func(x *providerpb.Prompt) { x.Name = "" }), "prompt : it has no name"},
		{"prompts/list", prompt(func(x *providerpb.Prompt) { x.ArgsSchema = "" }), `prompt n: it has no args_schema; fix: {"type":"object"} for no arguments`},
		{"prompts/list", prompt(func(x *providerpb.Prompt) { x.Template = "{c}" }), "prompt n: its template has a placeholder {c}, which is no property of its args_schema"},
	} {
		r := newRig(t, &scripted{list: c.list}, asking)
		got, log := r.ask(c.method, ""), "warn: a definition of the provider is left out: "
		_, list, _ := strings.Cut(got, ":[")
		list, _, _ = strings.Cut("["+list, `,"ttlMs"`)
		switch {
		case c.want[0] == '[' && (list != c.want || r.noted() != ""):
			t.Errorf("%d: %s\nwant %s; %s", i, list, c.want, r.noted())
		case c.want[0] != '[' && !strings.HasPrefix(r.noted(), log+c.want):
			t.Errorf("%d: %s\nwant %s", i, r.noted(), log+c.want)
		case c.want[0] != '[' && len(c.list.GetTools()) < 2 && list != "[]":
			t.Errorf("%d: %s is not left out", i, list)
		}
		if before := r.noted(); r.ask(c.method, "") == "" || r.noted() != before {
			t.Errorf("%d: the log repeats itself: %s", i, r.noted())
		}
	}
}

// Lists have pages; a call of a tool of the last page finds it.
func TestPages(t *testing.T) {
	asked := 0
	r := newRig(t, &scripted{pages: func(q *providerpb.ListCapabilitiesRequest) *providerpb.ListCapabilitiesResponse {
		asked++
		n := 0
		_, _ = fmt.Sscan(q.GetPageToken(), &n)
		x := echo()
		x.Name = fmt.Sprintf("t.v%d", n)
		list := page(x)
		if n < 3 {
			list.NextPageToken = fmt.Sprint(n + 1)
		}
		return list
	}, call: func(q *providerpb.CallToolRequest, to grpc.ServerStreamingServer[providerpb.CallToolResponse]) error {
		return to.Send(done(&providerpb.CallToolResult{Content: []*providerpb.Content{textOf(q.GetName())}}))
	}}, asking)
	if got := r.ask("tools/list", `"cursor":"2",`); !strings.Contains(got, `"tools":[{"name":"t.v2"`) || !strings.Contains(got, `"nextCursor":"3"`) {
		t.Error(got)
	}
	if got := r.ask("tools/list", `"cursor":"3",`); strings.Contains(got, "nextCursor") {
		t.Error(got)
	}
	asked = 0
	for range 2 {
		if got := r.ask("tools/call", `"name":"t.v1",`); !strings.Contains(got, `"text":"t.v1"`) {
			t.Error(got)
		}
	}
	if asked != 4 {
		t.Errorf("%d pages were read for two calls", asked)
	}
	if got := r.ask("tools/call", `"name":"t.v9",`); got != `[tool_not_found] the provider has no tool "t.v9"` {
		t.Error(got)
	}
	if got := r.ask("prompts/get", `"name":"t.v9",`); got != `[invalid_params] the provider has no prompt "t.v9"` {
		t.Error(got)
	}
}

// A call reads a bounded number of pages, also of a provider whose pages have no end, or follow themselves.
func TestEndlessPages(t *testing.T) {
	for _, c := range []struct {
		next func(asked int) string
		want int
	}{{func(n int) string { return fmt.Sprint(n) }, maxPages}, {func(int) string { return "same" }, 2}} {
		asked := 0
		r := newRig(t, &scripted{pages: func(*providerpb.ListCapabilitiesRequest) *providerpb.ListCapabilitiesResponse {
			asked++
			list := page(echo())
			list.NextPageToken = c.next(asked)
			return list
		}}, asking)
		if got := r.ask("tools/call", `"name":"other.v1",`); !strings.HasPrefix(got, "[tool_not_found]") || asked != c.want {
			t.Errorf("%s after %d pages, want %d", got, asked, c.want)
		}
	}
}

// Once all resources are known, one that no list has is read without asking for them again, until they change.
func TestUnlistedResource(t *testing.T) {
	asked := 0
	r := newRig(t, &scripted{pages: func(*providerpb.ListCapabilitiesRequest) *providerpb.ListCapabilitiesResponse {
		asked++
		return page()
	}, read: func(_ context.Context, q *providerpb.ReadResourceRequest) (*providerpb.ReadResourceResponse, error) {
		return &providerpb.ReadResourceResponse{Contents: []*providerpb.ResourceContents{{Uri: q.GetUri()}}}, nil
	}}, asking)
	read := func(want int) {
		t.Helper()
		if got := r.ask("resources/read", `"uri":"a:b",`); !strings.Contains(got, `"uri":"a:b"`) || asked != want {
			t.Errorf("%s, %d lists", got, asked)
		}
	}
	read(1)
	read(1)
	r.ask("tools/call", `"name":"other.v1",`) // a list of tools says nothing of resources
	r.u.known.forget(providerpb.Kind_KIND_RESOURCE)
	read(3)
	r.u.known.forget(providerpb.Kind_KIND_RESOURCE)
	r.ask("tools/call", `"name":"other.v1",`)
	read(5)
}

// A resource is read, also one that no list has.
func TestRead(t *testing.T) {
	r := newRig(t, &scripted{list: &providerpb.ListCapabilitiesResponse{}, read: func(ctx context.Context, q *providerpb.ReadResourceRequest) (*providerpb.ReadResourceResponse, error) {
		of, err := read(ctx, q)
		of.Contents = append(of.Contents, &providerpb.ResourceContents{Uri: "2", Contents: &providerpb.ResourceContents_Blob{Blob: []byte{1}}})
		of.Ttl, of.Shared, of.Meta = durationpb.New(time.Second), true, `{"a":1}`
		return of, err
	}}, asking)
	if got := result(r.ask("resources/read", `"uri":"x:y",`)); got != `{"contents":[{"uri":"x:y","text":"x"},{"uri":"2","blob":"AQ=="}],"ttlMs":1000,"cacheScope":"public","resultType":"complete",`+
		`"_meta":{"a":1,"io.modelcontextprotocol/serverInfo":{"name":"p","version":"0.0.0"}}}` {
		t.Error(got)
	}
}

// A prompt comes from the provider, or from its template.
func TestPrompts(t *testing.T) {
	schema := `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a"]}`
	var given map[string]string
	r := newRig(t, &scripted{list: &providerpb.ListCapabilitiesResponse{Prompts: []*providerpb.Prompt{
		{Name: "called", Description: "d", ArgsSchema: schema}, {Name: "filled", Description: "of it", ArgsSchema: schema, Template: "{a}-{b}-{a} {}"}}},
		prompt: func(_ context.Context, q *providerpb.GetPromptRequest) (*providerpb.GetPromptResponse, error) {
			given = q.GetArguments()
			return &providerpb.GetPromptResponse{Description: "d", Messages: []*providerpb.PromptMessage{{Role: providerpb.Role_ROLE_USER, Content: textOf("u")}, {Role: providerpb.Role_ROLE_ASSISTANT, Content: textOf("a")}}}, nil
		}}, asking)
	const who = `"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"p","version":"0.0.0"}}}`
	for _, c := range []struct{ params, want string }{
		{`"name":"called","arguments":{"a":"1"},`, `{"description":"d","messages":[{"role":"user","content":{"type":"text","text":"u"}},{"role":"assistant","content":{"type":"text","text":"a"}}],` + who},
		{`"name":"filled","arguments":{"a":"{b}\"","b":"2"},`, `{"description":"of it","messages":[{"role":"user","content":{"type":"text","text":"{b}\"-2-{b}\" {}"}}],` + who},
		{`"name":"filled","arguments":{"a":"1"},`, `{"description":"of it","messages":[{"role":"user","content":{"type":"text","text":"1--1 {}"}}],` + who},
		{`"name":"filled",`, "[invalid_params] the arguments do not match those of the prompt: at the top: "},
	} {
		if got := r.ask("prompts/get", c.params); c.want[0] == '[' && !strings.HasPrefix(got, c.want) || c.want[0] == '{' && result(got) != c.want {
			t.Errorf("%s: %s\nwant %s", c.params, got, c.want)
		}
	}
	if fmt.Sprint(given) != "map[a:1]" {
		t.Error(given)
	}
}

// Completions are those of the provider, at most 100.
func TestComplete(t *testing.T) {
	var asked *providerpb.CompleteRequest
	answer := &providerpb.CompleteResponse{Values: []string{"x"}, Total: proto.Int32(7)}
	r := newRig(t, &scripted{complete: func(_ context.Context, q *providerpb.CompleteRequest) (*providerpb.CompleteResponse, error) {
		asked = q
		return answer, nil
	}}, asking)
	if got := r.ask("completion/complete", `"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"n","value":"v"},"context":{"arguments":{"c":"d"}},`); result(got) != `{"completion":{"values":["x"],"total":7},"resultType":"complete"}` ||
		asked.GetPrompt() != "p" || asked.GetArgument() != "n" || asked.GetValue() != "v" || asked.GetContext()["c"] != "d" {
		t.Errorf("%s %v", got, asked)
	}
	answer = &providerpb.CompleteResponse{Values: make([]string, 101)}
	if got := r.ask("completion/complete", `"ref":{"type":"ref/resource","uri":"u"},"argument":{"name":"n","value":""},`); strings.Count(got, `""`) != 100 || !strings.Contains(got, `"hasMore":true`) || asked.GetResource() != "u" {
		t.Errorf("%s %v", got, asked)
	}
	if got := r.ask("completion/complete", `"ref":{"type":"x"},`); got != "[invalid_params] params.ref.type must be ref/prompt or ref/resource" {
		t.Error(got)
	}
}
