package legacy

import (
	"encoding/base64"
	"slices"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

const pageTools = "server/tools §Error Handling"

// toolsChecks is about tools and their results.
func toolsChecks() []*suite.Check {
	return append([]*suite.Check{
		{
			ID: "legacy-tools.unknown", Title: "Does not report success for an unknown tool", Level: suite.Must, Faces: faces,
			Needs: []suite.Need{suite.NeedsTools}, Page: pageTools,
			Statement: "The call of a tool that does not exist fails: with an error response, or with a result whose isError is true.",
			Why:       "A model that invents a tool believes that it has done something.",
			Fix:       "Answer -32602 to a name that is not in your list.",
			Run: func(t *suite.Trial) {
				m := mustRequest(t, t.Open(nil), "tools/call", toolCall("dragoman_no_such_tool", peer.Object{}, ""))
				if !m.Failed() && m.Result()["isError"] != true {
					t.Fail("an error, or isError", "%s", m.Raw)
				}
			},
		},
		{
			ID: "legacy-tools.unknown-code", Title: "Answers the call of an unknown tool with the error -32602", Level: suite.Should, Faces: faces,
			Needs: []suite.Need{suite.NeedsTools}, Page: pageTools,
			Statement: "Unknown tools are an error of the protocol; the page shows -32602.",
			Why:       "With isError the model gets an error that the program around it should have handled.",
			Fix:       "Answer an error response of code -32602; isError is for tools that were run.",
			Run: func(t *suite.Trial) {
				m := mustRequest(t, t.Open(nil), "tools/call", toolCall("dragoman_no_such_tool", peer.Object{}, ""))
				checkutil.FailedWith(t, m, "the error -32602", -32602)
			},
		},
		{
			ID: "legacy-tools.bad-arguments", Title: "Does not run a tool whose arguments lack what is required", Level: suite.Must, Faces: faces,
			Needs: []suite.Need{suite.NeedsATool}, Page: "server/tools §Security Considerations",
			Statement: "Servers validate all inputs of tools: the call fails, with -32602 or with isError.",
			Why:       "The tool runs with missing arguments, and the model does not learn which.",
			Fix:       "Check arguments against inputSchema before the tool runs, and name the place that is wrong.",
			Run:       badArguments,
		},
		{
			ID: "legacy-tools.no-arguments", Title: "Takes a call without arguments where none are required", Level: suite.Must, Faces: faces,
			Needs: []suite.Need{suite.NeedsTool("test_simple_text")}, Page: "schema CallToolRequest",
			Statement: "arguments is optional in tools/call.",
			Why:       "Clients that leave it out cannot use the tool.",
			Fix:       "Take a missing arguments for {}.",
			Run: func(t *suite.Trial) {
				result := mustResult(t, t.Open(nil), "tools/call", toolCall("test_simple_text", nil, ""), "a result")
				if result["isError"] == true {
					t.Fail("a result that is no error", "%s", peer.Encode(result))
				}
			},
		},
		{
			ID: "legacy-tools.is-error", Title: "Reports the failure of a tool in its result", Level: suite.Should, Faces: faces,
			Needs: []suite.Need{suite.NeedsTool("test_error_handling")}, Page: pageTools,
			Statement: "Errors of a tool are in the result, with isError true, not a JSON-RPC error.",
			Why:       "The model does not see what went wrong, and cannot try otherwise.",
			Fix:       "Catch what a tool throws, and answer a result with isError true and the message as text.",
			Run: func(t *suite.Trial) {
				result := mustResult(t, t.Open(nil), "tools/call", toolCall("test_error_handling", peer.Object{}, ""), "a result with isError true")
				if result["isError"] != true {
					t.Fail("isError true", "%s", peer.Encode(result))
				}
			},
		},
	}, contentChecks()...)
}

func contentChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "legacy-tools.binary-content", Title: "Sends pictures and sounds as base64", Level: suite.Must, Faces: faces,
			Needs: []suite.Need{suite.NeedsTool("test_image_content")}, Page: "server/tools §Tool Result",
			Statement: "The data of image and audio content is base64, with a mimeType.",
			Why:       "Clients cannot decode it, and some fail on the whole answer.",
			Fix:       "Encode with standard base64 with padding, without a data: prefix and without line breaks.",
			Run:       binaryContent,
		},
		{
			ID: "legacy-tools.output-schema", Title: "Keeps the outputSchema that it shows", Level: suite.Must, Faces: faces, Revisions: suite.From(peer.R2506),
			Needs: []suite.Need{suite.NeedsATool}, Page: "server/tools §Output Schema",
			Statement: "A tool with an outputSchema answers structuredContent, a JSON object, that conforms to it.",
			Why:       "Clients validate, and turn the good answer into an error.",
			Fix:       "Make outputSchema from the same type as the answer, and send structuredContent whenever the tool did not fail.",
			Run: func(t *suite.Trial) {
				structuredCall(t, func(tool, result peer.Object) {
					got, ok := result["structuredContent"].(peer.Object)
					if !ok {
						t.Fail("structuredContent, an object, of "+peer.Text(tool, "name"), "%s", peer.Encode(result))
						return
					}
					for _, wrong := range checkutil.Violations(tool["outputSchema"], got, "structuredContent") {
						t.Fail(wrong, "%s", peer.Encode(got))
					}
				})
			},
		},
		{
			ID: "legacy-tools.structured-text", Title: "Repeats structured content as text", Level: suite.Should, Faces: faces, Revisions: suite.From(peer.R2506),
			Needs: []suite.Need{suite.NeedsATool}, Page: "server/tools §Structured Content",
			Statement: "A tool that answers structuredContent answers the same JSON in a text block too.",
			Why:       "Clients of earlier revisions see an empty answer.",
			Fix:       "Add a text block with the serialised JSON to content.",
			Run: func(t *suite.Trial) {
				structuredCall(t, func(tool, result peer.Object) {
					if want := result["structuredContent"]; want != nil && !checkutil.HasText(result, want) {
						t.Fail("a text block with the JSON of structuredContent from "+peer.Text(tool, "name"), "%s", peer.Encode(result["content"]))
					}
				})
			},
		},
	}
}

func badArguments(t *suite.Trial) {
	name, m := callWithoutArguments(t, func(peer.Object) bool { return true })
	if !m.Failed() && m.Result()["isError"] != true {
		t.Fail("the call of "+name+" without its arguments fails", "%s", m.Raw)
	}
}

// callWithoutArguments calls the first suitable tool that requires arguments, without any. The trial is skipped if there is none.
func callWithoutArguments(t *suite.Trial, suitable func(tool peer.Object) bool) (name string, m peer.Message) {
	i := slices.IndexFunc(t.Offer.Tools, func(tool peer.Object) bool {
		return len(peer.List(tool, "inputSchema", "required")) > 0 && checkutil.OnlyReads(t, tool) && suitable(tool)
	})
	if i < 0 {
		t.Skip("no tool that requires arguments says that it only reads (readOnlyHint)")
	}
	name = peer.Text(t.Offer.Tools[i], "name")
	return name, mustRequest(t, t.Open(nil), "tools/call", toolCall(name, peer.Object{}, ""))
}

func binaryContent(t *suite.Trial) {
	c := t.Open(nil)
	kinds := []string{"image"}
	if t.Offer.Tool("test_audio_content") != nil && t.Revision != peer.R2411 {
		kinds = append(kinds, "audio")
	}
	for _, kind := range kinds {
		expected := "a block of type " + kind + " with base64 data and a mimeType"
		result := mustResult(t, c, "tools/call", toolCall("test_"+kind+"_content", peer.Object{}, ""), expected)
		good := slices.ContainsFunc(peer.List(result, "content"), func(block any) bool {
			data, err := base64.StdEncoding.DecodeString(peer.Text(block, "data"))
			return peer.Text(block, "type") == kind && peer.Text(block, "mimeType") != "" && err == nil && len(data) > 0
		})
		if !good {
			t.Fail(expected, "%s", peer.Encode(result))
		}
	}
}

// structuredCall calls the tools with an outputSchema that are safe to call, and judges their results.
func structuredCall(t *suite.Trial, judge func(tool, result peer.Object)) {
	c, called := t.Open(nil), 0
	for _, tool := range t.Offer.Tools {
		if tool["outputSchema"] == nil || !checkutil.OnlyReads(t, tool) {
			continue
		}
		m := mustRequest(t, c, "tools/call", toolCall(peer.Text(tool, "name"), checkutil.Sample(tool["inputSchema"]), ""))
		if m.Failed() || m.Result()["isError"] == true {
			continue
		}
		called++
		judge(tool, m.Result())
		if called == 5 {
			break
		}
	}
	if called == 0 {
		t.Skip("no tool with an outputSchema says that it only reads (readOnlyHint) and answered a call that was made up")
	}
}
