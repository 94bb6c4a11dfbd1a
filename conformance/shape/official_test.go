package shape

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// specFolder is where the official schemas are, if they are: in the folder that MCP_SPEC names, or beside the repository.
func specFolder(t *testing.T) string {
	folder := os.Getenv("MCP_SPEC")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "shared", "spec")
	}
	if _, err := os.Stat(filepath.Join(folder, revisions[0]+".schema.json")); err != nil {
		t.Skipf("the official schemas (%s.schema.json, ...) are not there; MCP_SPEC may name their folder", revisions[0])
	}
	return folder
}

// official judges by the official schema of a revision.
type official struct {
	t        *testing.T
	revision string
	compiler *js.Compiler
	at       string // where the definitions are
	defs     map[string]any
	cache    map[string]*js.Schema
}

func newOfficial(t *testing.T, folder, revision string) *official {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(folder, revision+".schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := js.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	o := &official{t: t, revision: revision, compiler: js.NewCompiler(), cache: map[string]*js.Schema{}}
	o.compiler.AssertFormat()
	o.compiler.RegisterFormat(&js.Format{Name: "byte", Validate: func(v any) error {
		if s, ok := v.(string); ok && !isBase64(s) { // JSON Schema has no such format; OpenAPI's is base64
			return errors.New("no base64")
		}
		return nil
	}})
	if err := o.compiler.AddResource("mcp.json", doc); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"$defs", "definitions"} {
		if defs, ok := doc.(map[string]any)[at].(map[string]any); ok {
			o.at, o.defs = at, defs
		}
	}
	return o
}

// ref points to a definition, the first of the names that exists.
func (o *official) ref(names ...string) map[string]any {
	for _, name := range names {
		if o.defs[name] != nil {
			return map[string]any{"$ref": "mcp.json#/" + o.at + "/" + name}
		}
	}
	o.t.Fatalf("%s has none of %v", o.revision, names)
	return nil
}

// methods gives the definition of each method that a union such as ClientRequest has.
func (o *official) methods(union string) map[string]string {
	out := map[string]string{}
	def, _ := o.defs[union].(map[string]any)
	if def == nil {
		return out
	}
	all, _ := def["anyOf"].([]any)
	if all == nil { // a union of one
		all = []any{map[string]any{"$ref": union}}
	}
	for _, one := range all {
		ref, _ := one.(map[string]any)["$ref"].(string)
		name := ref[strings.LastIndexByte(ref, '/')+1:]
		properties, _ := o.defs[name].(map[string]any)["properties"].(map[string]any)
		method, _ := properties["method"].(map[string]any)["const"].(string)
		out[method] = name
	}
	return out
}

// judge validates by a schema that is made of references.
func (o *official) judge(schema map[string]any, raw []byte) error {
	key := fmt.Sprint(schema) // maps are printed in the order of their keys
	compiled := o.cache[key]
	if compiled == nil {
		url := fmt.Sprintf("made%d.json", len(o.cache))
		if err := o.compiler.AddResource(url, schema); err != nil {
			o.t.Fatal(err)
		}
		compiled = o.compiler.MustCompile(url)
		o.cache[key] = compiled
	}
	v, err := js.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		o.t.Fatalf("%s: %v", raw, err)
	}
	return compiled.Validate(v)
}

// leafPaths are the places where a schema's verdict came from.
func leafPaths(err error) (out []string) {
	var failed *js.ValidationError
	if !errors.As(err, &failed) {
		return nil
	}
	if len(failed.Causes) == 0 {
		path := ""
		for _, token := range failed.InstanceLocation {
			path += "/" + strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
		}
		return []string{path}
	}
	for _, cause := range failed.Causes {
		out = append(out, leafPaths(cause)...)
	}
	return out
}

// resultsOf names the official definitions of the results by method. Where two revisions differ in more than the definition,
// the names tell.
func (o *official) resultsOf(method string) []any {
	all := map[string][]string{
		"initialize": {"InitializeResult"}, "ping": {"EmptyResult"}, "server/discover": {"DiscoverResult"},
		"logging/setLevel": {"EmptyResult"}, "subscriptions/listen": {"SubscriptionsListenResult"},
		"tools/list": {"ListToolsResult"}, "tools/call": {"CallToolResult", "CreateTaskResult", "InputRequiredResult"},
		"resources/list": {"ListResourcesResult"}, "resources/templates/list": {"ListResourceTemplatesResult"},
		"resources/read":      {"ReadResourceResult", "InputRequiredResult"},
		"resources/subscribe": {"EmptyResult"}, "resources/unsubscribe": {"EmptyResult"},
		"prompts/list": {"ListPromptsResult"}, "prompts/get": {"GetPromptResult", "InputRequiredResult"},
		"completion/complete": {"CompleteResult"}, "roots/list": {"ListRootsResult"},
		"sampling/createMessage": {"CreateMessageResult", "CreateTaskResult"}, "elicitation/create": {"ElicitResult", "CreateTaskResult"},
		"tasks/get": {"GetTaskResult"}, "tasks/cancel": {"CancelTaskResult"}, "tasks/list": {"ListTasksResult"},
		"tasks/result": {"GetTaskPayloadResult"},
	}
	var out []any
	for _, name := range all[method] {
		if o.defs[name] != nil {
			out = append(out, o.ref(name))
		}
	}
	return out
}

// TestMethodsAreTheOfficialOnes compares who may send which method.
func TestMethodsAreTheOfficialOnes(t *testing.T) {
	folder := specFolder(t)
	for _, revision := range Revisions() {
		o := newOfficial(t, folder, revision)
		book, err := open(revision)
		if err != nil {
			t.Fatal(err)
		}
		for name, ours := range map[string]map[string]*entry{
			"ClientRequest": book.requests[Client], "ServerRequest": book.requests[Server],
			"ClientNotification": book.notices[Client], "ServerNotification": book.notices[Server],
		} {
			theirs := o.methods(name)
			for method := range ours {
				if extension := revision == "2026-07-28" && strings.Contains(method, "tasks"); theirs[method] == "" && !extension {
					t.Errorf("%s: %s is no %s of the official schema", revision, method, name)
				}
			}
			for method := range theirs {
				if ours[method] == nil {
					t.Errorf("%s: %s of the official %s is not defined", revision, method, name)
				}
			}
			for method := range ours {
				if name == "ClientRequest" && !strings.Contains(method, "tasks/update") && len(o.resultsOf(method)) == 0 {
					if !(revision == "2026-07-28" && slices.Contains([]string{"tasks/get", "tasks/cancel"}, method)) {
						t.Errorf("%s: no official result of %s", revision, method)
					}
				}
			}
		}
	}
}
