package rest

import (
	"strings"

	"github.com/goccy/go-json"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// restFailures are about failures of calls.
func restFailures() []*suite.Check {
	return []*suite.Check{
		{
			ID: "rest.tool-not-found", Title: "Answers an unknown tool with 404 and TOOL_NOT_FOUND", Level: suite.Must, Page: pageCodes,
			Statement: "The name of a tool that is not in the list is TOOL_NOT_FOUND, with status 404.",
			Why:       "Callers cannot tell their own mistake from a fault of the service, and try again.",
			Fix:       "Look the tool up before anything else; answer 404 and TOOL_NOT_FOUND.",
			Run:       func(t *suite.Trial) { failedAs(t, unknownTool(t), "TOOL_NOT_FOUND") },
		},
		{
			ID: "rest.invalid-arguments", Title: "Answers arguments that do not fit with 400 and INVALID_ARGUMENTS", Level: suite.Must, Page: pageCodes + "; §ToolRequest",
			Statement: "Arguments are validated against the tool's input_schema; what does not fit is INVALID_ARGUMENTS, with status 400.",
			Why:       "The tool runs on arguments that it does not expect, and fails with 500 or does harm.",
			Fix:       "Validate arguments with a JSON Schema library before the tool runs, and name the place that is wrong.",
			Run: func(t *suite.Trial) {
				for _, tool := range restTools(t) {
					if len(peer.List(tool, "input_schema", "required")) > 0 {
						failedAs(t, restCall(t, peer.Encode(peer.Object{"tool": peer.Text(tool, "name"), "arguments": peer.Object{}})), "INVALID_ARGUMENTS")
						return
					}
				}
				t.Skip("no tool requires an argument")
			},
		},
		{
			ID: "rest.no-tool", Title: "Refuses a call that names no tool", Level: suite.Must, Page: pageTool,
			Statement: "tool is required: without it the answer is INVALID_ARGUMENTS, or TOOL_NOT_FOUND, with the status of the code.",
			Why:       "The caller does not learn what is missing.",
			Fix:       "Check the members of the request before you look the tool up.",
			Run: func(t *suite.Trial) {
				a := restCall(t, `{"arguments":{}}`)
				if a.body["code"] == "TOOL_NOT_FOUND" {
					failedAs(t, a, "TOOL_NOT_FOUND")
					return
				}
				failedAs(t, a, "INVALID_ARGUMENTS")
			},
		},
		{
			ID: "rest.bad-json", Title: "Answers a body that is not JSON with 400 and an envelope", Level: suite.Must, Page: pageEnvelope,
			Statement: "Every answer of every endpoint is an envelope, also to a body that cannot be read; that is INVALID_ARGUMENTS.",
			Why:       "Callers meet a page of HTML, or plain text, where they decode JSON.",
			Fix:       "Replace the error handler of your framework for bodies that it cannot read.",
			Run:       func(t *suite.Trial) { failedAs(t, restCall(t, `{"tool":`), "INVALID_ARGUMENTS") },
		},
	}
}

// restRefusals are about refused requests, and about the member name.
func restRefusals() []*suite.Check {
	return []*suite.Check{
		{
			ID: "rest.tool-fails", Title: "Answers a tool that fails with 500 and EXECUTION_ERROR", Level: suite.Should, Page: pageCodes,
			Statement: "A tool that ran but failed is EXECUTION_ERROR, with status 500.",
			Why:       "Callers that look at success alone take the failure for an answer.",
			Fix:       "Turn exceptions of a tool, and results with isError, into EXECUTION_ERROR.",
			Run: func(t *suite.Trial) {
				for _, tool := range restTools(t) {
					if peer.Text(tool, "name") == "test_error_handling" {
						failedAs(t, restCall(t, `{"tool":"test_error_handling","arguments":{}}`), "EXECUTION_ERROR")
						return
					}
				}
				t.Skip("the service has no tool test_error_handling")
			},
		},
		{
			ID: "rest.wrong-method", Title: "Refuses GET where POST belongs", Level: suite.Should, Page: pageTool + " (RFC 9110 §15.5.6)",
			Statement: "/call-tool takes POST; another method is refused with 405, or with 404.",
			Why:       "Crawlers and prefetching browsers call tools.",
			Fix:       "Route POST alone to /call-tool, and answer 405 with Allow: POST.",
			Run: func(t *suite.Trial) {
				if a := rest(t, "GET", "/call-tool", ""); a.status != 405 && a.status != 404 {
					t.Fail("status 405 or 404", "%s", a)
				}
			},
		},
		{
			ID: "rest.name", Title: "Takes name for tool", Level: suite.May, Page: pageTool,
			Statement: "A request of {\"name\":…,\"arguments\":…}, as MCP has it, is understood as well.",
			Why:       "Callers that come from MCP have to learn another word.",
			Fix:       "Read name where tool is missing.",
			Run: func(t *suite.Trial) {
				if a := restCall(t, `{"name":"dragoman_no_such_tool","arguments":{}}`); a.body["code"] != "TOOL_NOT_FOUND" {
					t.Fail("the code TOOL_NOT_FOUND, as for tool", "%s", a)
				}
			},
		},
	}
}

// restService are about the answers without an envelope: tools, health, and the OpenAPI document.
func restService() []*suite.Check {
	return append([]*suite.Check{
		{
			ID: "rest.tools", Title: "Lists its tools with the service's name and semantic version", Level: suite.Must, Page: "REST envelope §ToolsResponse",
			Statement: "GET /tools answers service, version (major.minor.patch) and tools, without an envelope around them.",
			Why:       "Generators of clients cannot read the list.",
			Fix:       "Answer {\"service\":…,\"version\":…,\"tools\":[…]}, with an empty array where there are none.",
			Run: func(t *suite.Trial) {
				a := rest(t, "GET", "/tools", "")
				if _, ok := a.body["tools"].([]any); a.status != 200 || peer.Text(a.body, "service") == "" || !isSemantic().MatchString(peer.Text(a.body, "version")) || !ok {
					t.Fail("status 200 with service, version as 1.2.3, and tools", "%s", a)
				}
			},
		},
		{
			ID: "rest.tool-schema", Title: "Describes each tool, and its arguments as an object", Level: suite.Must, Page: "REST envelope §ToolSchema",
			Statement: "A tool has name, description (not empty) and input_schema with type object and properties.",
			Why:       "Callers and generators of clients do not know what to send.",
			Fix:       "Write a description for each tool, and properties also where they are empty.",
			Run: func(t *suite.Trial) {
				for _, tool := range restTools(t) {
					_, ok := peer.Get(tool, "input_schema", "properties").(peer.Object)
					if !ok || peer.Text(tool, "input_schema", "type") != "object" || peer.Text(tool, "name") == "" || peer.Text(tool, "description") == "" {
						t.Fail("name, description, and input_schema of type object with properties", "%s", peer.Encode(tool))
					}
				}
			},
		},
		{
			ID: "rest.tool-names", Title: "Gives each tool a name of its own that is an identifier", Level: suite.Must, Page: "REST envelope §ToolSchema",
			Statement: "The name of a tool is unique, and a valid Python identifier.",
			Why:       "Clients that are generated have a function for each tool, and do not compile.",
			Fix:       "Use letters, digits and underscores, and no digit first.",
			Run: func(t *suite.Trial) {
				seen := make(map[string]bool)
				for _, tool := range restTools(t) {
					name := peer.Text(tool, "name")
					if !isName().MatchString(name) || seen[name] {
						t.Fail("a name of letters, digits and underscores, used once", "%q", name)
					}
					seen[name] = true
				}
			},
		},
		{
			ID: "rest.openapi", Title: "Describes itself as OpenAPI", Level: suite.May, Page: "REST envelope (not demanded)",
			Statement: "GET /openapi.json, where it is there, is an OpenAPI 3 document with /call-tool among its paths.",
			Why:       "Generators of clients that find it cannot use it.",
			Fix:       "Generate the document from the routes that are served.",
			Run: func(t *suite.Trial) {
				a := rest(t, "GET", "/openapi.json", "")
				if a.status == 404 || a.status == 405 {
					t.Skip("the service has no /openapi.json")
				}
				if _, ok := peer.Get(a.body, "paths", "/call-tool").(peer.Object); a.status != 200 || !ok || !strings.HasPrefix(peer.Text(a.body, "openapi"), "3.") {
					t.Fail("openapi 3.… with the path /call-tool", "status %d: openapi %q", a.status, peer.Text(a.body, "openapi"))
				}
			},
		},
	}, restHealth()...)
}

func restHealth() []*suite.Check {
	const page = "REST envelope §HealthResponse"
	return []*suite.Check{
		{
			ID: "rest.health", Title: "Reports its health", Level: suite.Must, Page: page,
			Statement: "GET /health answers status (healthy, degraded or unavailable), service, version, uptime_seconds, dependencies and timestamp, without an envelope.",
			Why:       "Monitoring takes a healthy service for dead, or a dead one for healthy.",
			Fix:       "Answer all six members; dependencies is {} where there are none.",
			Run: func(t *suite.Trial) {
				a := rest(t, "GET", "/health", "")
				_, ok := a.body["dependencies"].(peer.Object)
				if s := a.body["status"]; !ok || s != "healthy" && s != "degraded" && s != "unavailable" || peer.Text(a.body, "service") == "" || peer.Text(a.body, "version") == "" {
					t.Fail("status, service, version and dependencies", "%s", a)
				}
				if wrong := rightTime(a.body["timestamp"]); wrong != "" {
					t.Fail(wrong, "%s", a)
				}
			},
		},
		{
			ID: "rest.uptime", Title: "Counts its uptime in whole seconds", Level: suite.Must, Page: page,
			Statement: "uptime_seconds is an integer that is not negative; it does not go back.",
			Why:       "Monitoring sees restarts that did not happen.",
			Fix:       "Count from the start with a clock that does not go back, and round down.",
			Run: func(t *suite.Trial) {
				last := int64(-1)
				for range 2 {
					a := rest(t, "GET", "/health", "")
					n, _ := a.body["uptime_seconds"].(json.Number)
					now, err := n.Int64()
					if err != nil || now < 0 || now < last {
						t.Fail("a whole number of seconds that is not below the last one", "%s", a)
					}
					last = now
				}
			},
		},
		{
			ID: "rest.health-agrees", Title: "Is healthy if, and only if, all its dependencies are connected", Level: suite.Must, Page: page,
			Statement: "Each dependency is connected or unavailable; the service is healthy if all are connected, degraded or unavailable otherwise.",
			Why:       "An alarm goes off for nothing, or does not.",
			Fix:       "Compute status from the dependencies in the same answer.",
			Run: func(t *suite.Trial) {
				a := rest(t, "GET", "/health", "")
				connected := true
				dependencies, _ := a.body["dependencies"].(peer.Object)
				for name, d := range dependencies {
					s := peer.Text(d, "status")
					if s != "connected" && s != "unavailable" {
						t.Fail("the status connected or unavailable of "+name, "%s", peer.Encode(d))
					}
					connected = connected && s == "connected"
				}
				if (a.body["status"] == "healthy") != connected {
					t.Fail("healthy just when all dependencies are connected", "%s", a)
				}
			},
		},
	}
}
