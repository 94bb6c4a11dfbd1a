package modern

import (
	"encoding/base64"
	"slices"
	"strings"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// missingURI is a resource that no server has.
const missingURI = "test://dragoman-conformance/no-such-resource"

// failsWith fails the trial unless the message is an error response with one of the codes.
func failsWith(t *suite.Trial, m peer.Message, what string, codes ...int) {
	code, _, _ := m.Error()
	if !m.Failed() || !slices.Contains(codes, code) {
		t.Fail("an error with the code "+strings.Trim(checkutil.Excerpt(codes), "[]")+" for "+what, "%s", checkutil.Excerpt(m.Object))
	}
}

// isToolName reports whether a name follows the specification (server/tools, Tool Names).
func isToolName(name string) bool {
	return len(name) > 0 && len(name) <= 128 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("_.-", r)
	})
}

func toolsChecks() []*suite.Check {
	tools := []suite.Need{suite.NeedsTools}
	return []*suite.Check{
		{
			ID: "tools.unknown", Title: "Refuses a tool that it does not have", Level: suite.Must, Faces: faces, Page: "server/tools §Error Handling", Needs: tools,
			Statement: "An unknown tool is a protocol error, -32602.",
			Why:       "In a result the model would be told of something that only the client can correct: its list of tools is old.",
			Fix:       "Answer a call of an unknown tool with the JSON-RPC error -32602. Results with isError are for tools that exist and have failed.",
			Run: func(t *suite.Trial) {
				_, m := mustCallTool(t, t.Open(nil), peer.Object{"name": "dragoman-conformance-no-such-tool", "arguments": peer.Object{}})
				failsWith(t, m, "an unknown tool", checkutil.InvalidParams)
			},
		},
		{
			ID: "tools.malformed", Title: "Refuses a call that names no tool", Level: suite.Must, Faces: faces, Page: "server/tools §Error Handling", Needs: tools,
			Statement: "A request that does not fit the schema of tools/call is a protocol error.",
			Why:       "A mistake of the client goes unnoticed.",
			Fix:       "Check that params.name is a text before anything else, and answer -32602 otherwise.",
			Run: func(t *suite.Trial) {
				_, m := mustCallTool(t, t.Open(nil), peer.Object{"arguments": peer.Object{}})
				failsWith(t, m, "a call without a name", checkutil.InvalidParams, checkutil.InvalidRequest, checkutil.HeaderMismatch)
			},
		},
		{
			ID: "tools.schema", Title: "Gives each tool an input schema that is an object", Level: suite.Must, Faces: faces, Page: "server/tools §Tool", Needs: tools,
			Statement: "inputSchema must be a valid JSON Schema object whose root type is object, never null.",
			Why:       "Clients hand it to the model's provider, which refuses the whole list for one bad schema.",
			Fix:       "Give tools without parameters {\"type\": \"object\", \"additionalProperties\": false}. Write \"type\": \"object\" at the root of every other inputSchema.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				for _, p := range pagesOf(t, c, "tools/list") {
					for _, tool := range peer.List(p, "tools") {
						if peer.Get(tool, "inputSchema", "type") != "object" {
							t.Fail("an inputSchema of type object", "%s for %s", checkutil.Excerpt(peer.Get(tool, "inputSchema")), peer.Text(tool, "name"))
						}
					}
				}
			},
		},
		{
			ID: "tools.names", Title: "Names tools as models can call them", Level: suite.Should, Faces: faces, Page: "server/tools §Tool Names", Needs: tools,
			Statement: "Names should have 1 to 128 characters of A-Z, a-z, 0-9, _, - and ., and be unique.",
			Why:       "Providers of models refuse other names, and Mcp-Name has to encode them.",
			Fix:       "Rename tools with blanks, commas or other characters. Give what people read as title.",
			Run: func(t *suite.Trial) {
				seen := map[string]bool{}
				for _, name := range names(checkutil.Lists[0], pagesOf(t, t.Open(nil), "tools/list")) {
					if !isToolName(name) || seen[name] {
						t.Fail("a unique name of 1 to 128 characters", "%q", name)
					}
					seen[name] = true
				}
			},
		},
	}
}

func toolResultsChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "tools.arguments", Title: "Checks the arguments of a call", Level: suite.Must, Faces: faces, Page: "server/tools §Security Considerations",
			Needs:     []suite.Need{suite.NeedsTool("json_schema_2020_12_tool")},
			Statement: "Servers must validate all tool inputs, and report what is wrong in a result with isError.",
			Why:       "Models make arguments up. Unchecked they reach whatever is behind the tool.",
			Fix:       "Validate arguments against inputSchema before the handler runs. Answer with isError and a text that says which argument is wrong, so that the model can correct it.",
			Run: func(t *suite.Trial) {
				_, m := mustCallTool(t, t.Open(nil), peer.Object{"name": "json_schema_2020_12_tool", "arguments": peer.Object{"name": 12, "address": "none"}})
				if code, _, _ := m.Error(); code != checkutil.InvalidParams && m.Result()["isError"] != true {
					t.Fail("a result with isError (or the error -32602) for arguments of wrong types", "%s", checkutil.Excerpt(m.Object))
				}
			},
		},
		{
			ID: "tools.error-result", Title: "Reports in a result that a tool has failed", Level: suite.Must, Faces: faces, Page: "server/tools §Error Handling",
			Needs:     []suite.Need{suite.NeedsTool("test_error_handling")},
			Statement: "What goes wrong in a tool is reported in its result with isError.",
			Why:       "A JSON-RPC error does not reach the model, which could have tried another way.",
			Fix:       "Catch what the handler throws and return it as content with isError: true. Keep JSON-RPC errors for unknown tools and malformed requests.",
			Run: func(t *suite.Trial) {
				_, m := mustCallTool(t, t.Open(nil), peer.Object{"name": "test_error_handling", "arguments": peer.Object{}})
				if m.Result()["isError"] != true || len(peer.List(m.Result(), "content")) == 0 {
					t.Fail("a result with isError and content", "%s", checkutil.Excerpt(m.Object))
				}
			},
		},
		{
			ID: "tools.structured", Title: "Gives structured content that its schema promises", Level: suite.Must, Faces: faces, Page: "server/tools §Output Schema",
			Needs:     []suite.Need{suite.NeedsTool("add")},
			Statement: "Where a tool has an outputSchema, its results must have structured content that conforms.",
			Why:       "Programs that call the tool read structuredContent; the text is for people.",
			Fix:       "Return the value as structuredContent whenever the tool declares an outputSchema. Validate it before it is sent.",
			Run: func(t *suite.Trial) {
				if peer.Get(t.Offer.Tool("add"), "outputSchema") == nil {
					t.Skip("the tool add has no outputSchema")
				}
				_, m := mustCallTool(t, t.Open(nil), peer.Object{"name": "add", "arguments": peer.Object{"a": 2, "b": 3}})
				content, has := m.Result()["structuredContent"]
				if !has {
					t.Fatal("structuredContent", "%s", checkutil.Excerpt(m.Object))
				}
				for _, wrong := range checkutil.Violations(t.Offer.Tool("add")["outputSchema"], content, "structuredContent") {
					t.Fail("structured content that its outputSchema promises", "%s", wrong)
				}
			},
		},
		{
			ID: "tools.binary", Title: "Encodes pictures and sounds in Base64", Level: suite.Must, Faces: faces, Page: "server/resources §Security Considerations",
			Statement: "Binary data must be properly encoded: Base64, with a media type.",
			Why:       "Clients that decode it strictly show nothing.",
			Fix:       "Encode the bytes with standard Base64 and padding, without a data: prefix and without line breaks. Give mimeType beside it.",
			Run:       binary,
		},
	}
}

// binary checks the binary data in results of the everything fixture.
func binary(t *suite.Trial) {
	c, seen := t.Open(nil), 0
	look := func(v any, member string) {
		data, has := peer.Get(v, member).(string)
		if !has {
			return
		}
		seen++
		if raw, err := base64.StdEncoding.DecodeString(data); err != nil || len(raw) == 0 || peer.Text(v, "mimeType") == "" && member == "data" {
			t.Fail("Base64 with a mimeType", "%s", checkutil.Excerpt(v))
		}
	}
	for _, name := range []string{"test_image_content", "test_audio_content"} {
		if t.Offer.Tool(name) == nil {
			continue
		}
		_, m := mustCallTool(t, c, peer.Object{"name": name, "arguments": peer.Object{}})
		for _, block := range peer.List(m.Result(), "content") {
			look(block, "data")
		}
	}
	for i, r := range t.Offer.Resources {
		if kind := peer.Text(r, "mimeType"); i > 20 || strings.HasPrefix(kind, "text/") || kind == "application/json" {
			continue
		}
		_, m := mustRequest(t, c, "resources/read", peer.Object{"uri": r["uri"]})
		for _, part := range peer.List(m.Result(), "contents") {
			look(part, "blob")
		}
		break
	}
	if seen == 0 {
		t.Skip("the server has no tool test_image_content and no binary resource")
	}
}

func resourcesChecks() []*suite.Check {
	needs := []suite.Need{suite.NeedsResources}
	return []*suite.Check{
		{
			ID: "resources.not-found", Title: "Refuses a resource that it does not have", Level: suite.Must, Faces: faces, Page: "server/resources §Error Handling", Needs: needs,
			Statement: "A resource that does not exist must be answered with the error -32602, never with empty contents.",
			Why:       "Empty contents could as well be an empty file; -32002 was of earlier revisions.",
			Fix:       "Answer -32602 for a URI that you do not have. Do not use -32002 any more, and do not return an empty contents.",
			Run: func(t *suite.Trial) {
				_, m := mustRequest(t, t.Open(nil), "resources/read", peer.Object{"uri": missingURI})
				failsWith(t, m, "a resource that is not there", checkutil.InvalidParams)
			},
		},
		{
			ID: "resources.not-found-uri", Title: "Says which resource is missing", Level: suite.Should, Faces: faces, Page: "server/resources §Error Handling", Needs: needs,
			Statement: "The error for a missing resource has data.uri.",
			Why:       "-32602 has many causes; by the URI a client can tell this one.",
			Fix:       "Set error.data to {\"uri\": the URI of the request}.",
			Run: func(t *suite.Trial) {
				_, m := mustRequest(t, t.Open(nil), "resources/read", peer.Object{"uri": missingURI})
				if _, _, data := m.Error(); peer.Text(data, "uri") != missingURI {
					t.Fail("data.uri is "+missingURI, "%s", checkutil.Excerpt(m.Object))
				}
			},
		},
	}
}

func promptsChecks() []*suite.Check {
	prompts := []suite.Need{suite.NeedsPrompts}
	completions := []suite.Need{suite.NeedsCompletions}
	return []*suite.Check{
		{
			ID: "prompts.unknown", Title: "Refuses a prompt that it does not have", Level: suite.Should, Faces: faces, Page: "server/prompts §Error Handling", Needs: prompts,
			Statement: "An unknown prompt should be answered with -32602.",
			Why:       "Clients tell by the code that their list is old.",
			Fix:       "Answer prompts/get for an unknown name with -32602. A result without messages looks like an empty prompt.",
			Run: func(t *suite.Trial) {
				_, m := mustRequest(t, t.Open(nil), "prompts/get", peer.Object{"name": "dragoman-conformance-no-such-prompt"})
				failsWith(t, m, "an unknown prompt", checkutil.InvalidParams)
			},
		},
		{
			ID: "prompts.missing-argument", Title: "Refuses a prompt without a required argument", Level: suite.Should, Faces: faces, Page: "server/prompts §Error Handling", Needs: prompts,
			Statement: "Missing required arguments should be answered with -32602.",
			Why:       "The model would be given a text with a hole in it.",
			Fix:       "Check the arguments of prompts/get against the prompt's list. Answer -32602 and name the one that is missing.",
			Run: func(t *suite.Trial) {
				i := slices.IndexFunc(t.Offer.Prompts, func(p peer.Object) bool { return len(checkutil.RequiredArguments(p)) > 0 })
				if i < 0 {
					t.Skip("the server has no prompt with a required argument")
				}
				_, m := mustRequest(t, t.Open(nil), "prompts/get", peer.Object{"name": t.Offer.Prompts[i]["name"], "arguments": peer.Object{}})
				failsWith(t, m, "a missing argument of "+peer.Text(t.Offer.Prompts[i], "name"), checkutil.InvalidParams)
			},
		},
		{
			ID: "completion.limit", Title: "Completes with at most 100 values", Level: suite.Must, Faces: faces, Page: "server/utilities/completion §Completion Results", Needs: completions,
			Statement: "A completion has at most 100 values.",
			Why:       "Clients show them all in a menu, or refuse the result.",
			Fix:       "Cut completion.values to 100 and set hasMore and total where there are more.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				for _, p := range t.Offer.Prompts[:min(10, len(t.Offer.Prompts))] {
					for _, a := range peer.List(p, "arguments") {
						_, m := mustRequest(t, c, "completion/complete", peer.Object{"ref": peer.Object{"type": "ref/prompt", "name": p["name"]},
							"argument": peer.Object{"name": peer.Get(a, "name"), "value": ""}})
						if n := len(peer.List(m.Result(), "completion", "values")); n > 100 {
							t.Fail("at most 100 values", "%d for %s of %s", n, peer.Text(a, "name"), peer.Text(p, "name"))
						}
					}
				}
			},
		},
		{
			ID: "completion.unknown-ref", Title: "Refuses to complete for a prompt that it does not have", Level: suite.Should, Faces: faces, Page: "server/utilities/completion §Error Handling", Needs: completions,
			Statement: "An invalid prompt name should be answered with -32602.",
			Why:       "An empty list looks as if there were nothing to choose from.",
			Fix:       "Look the prompt or template up first, and answer -32602 if there is none.",
			Run: func(t *suite.Trial) {
				_, m := mustRequest(t, t.Open(nil), "completion/complete", peer.Object{"ref": peer.Object{"type": "ref/prompt", "name": "dragoman-conformance-no-such-prompt"},
					"argument": peer.Object{"name": "a", "value": ""}})
				failsWith(t, m, "an unknown prompt", checkutil.InvalidParams)
			},
		},
	}
}
