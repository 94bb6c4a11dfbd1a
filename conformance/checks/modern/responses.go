package modern

import (
	"slices"
	"strings"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// responsesChecks are about all responses of 2026-07-28.
func responsesChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "response.id", Title: "Gives a result the id of its request", Level: suite.Must, Faces: faces, Page: "basic/index §Responses",
			Statement: "Responses must include the same id as their request, of the same type.",
			Why:       "Clients find the waiting call by the id; \"7\" and 7 are two ids.",
			Fix:       "Keep the id as the JSON value that came, text or number, and write that back. Do not convert it, and do not pass it through a floating point number.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				for _, id := range []string{`7`, `"7"`, `0`, `-3`, `"a b/ü\"\\"`, `9007199254740991`, `"00000000-0000-4000-8000-000000000000"`} {
					echoes(t, c, id, "server/discover")
				}
			},
		},
		{
			ID: "response.error-id", Title: "Gives an error the id of its request", Level: suite.Must, Faces: faces, Page: "basic/index §Error Responses",
			Statement: "Error responses must include the same id as their request, unless it could not be read.",
			Why:       "The call that has failed would wait for its answer until it times out.",
			Fix:       "Read the id before you validate the rest, and put it into every error. Leave it out only if the message could not be parsed.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				for _, id := range []string{`8`, `"eight"`} {
					echoes(t, c, id, "dragoman/no-such-method")
				}
				if x := t.Offer; x.Capability("tools") {
					call, err := c.StartAs(`"tool"`, "tools/call", `{"name":"dragoman-conformance-no-such-tool"}`)
					hasID(t, call, err)
				}
			},
		},
		{
			ID: "response.once", Title: "Answers a request once, and sends nothing for it afterwards", Level: suite.Must, Faces: faces, Page: "basic/index §Responses",
			Statement: "A request has one response. It is the last message for the request.",
			Why:       "The second answer reaches a call that has ended, or the next one with that id.",
			Fix:       "Send exactly one response for a request, and nothing that belongs to the request after it. Look for handlers that answer and fail afterwards.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				calls := []*peer.Call{mustStart(t, c, "server/discover", nil), mustStart(t, c, "dragoman/no-such-method", nil), underWay(t, c, `"once"`)}
				for _, call := range calls {
					if call == nil {
						continue
					}
					if _, err := call.Wait(); err != nil {
						t.Fail("one response", "%v", err)
						continue
					}
					fence(t, c)
					if !t.Face.Stdio() {
						call.WaitEnd()
					}
					nothingAfter(t, call)
				}
			},
		},
		{
			ID: "response.result-type", Title: "Gives each result its type", Level: suite.Must, Faces: faces, Page: "basic/index §ResultType",
			Statement: "Every result must include resultType; \"complete\" for one that is the final answer.",
			Why:       "Strict clients refuse the result, others take a question for an answer.",
			Fix:       "Set resultType to \"complete\" on every result of every method, empty ones too. Do it where results are written, not in each handler.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				for _, x := range plainRequests(t) {
					_, m := mustRequest(t, c, x.method, x.params)
					if kind := m.Result()["resultType"]; !m.Failed() && kind != "complete" {
						t.Fail("resultType \"complete\"", "%s in the result of %s", checkutil.Excerpt(kind), x.method)
					}
				}
			},
		},
		{
			ID: "response.server-info", Title: "Names itself in each result", Level: suite.Should, Faces: faces, Page: pageMeta,
			Statement: "Results should carry serverInfo in _meta.",
			Why:       "Without a handshake users and logs cannot tell otherwise which server has answered.",
			Fix:       "Put {\"name\", \"version\"} into result._meta[\"io.modelcontextprotocol/serverInfo\"]. Do it where results are written, so that none is forgotten.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				for _, x := range plainRequests(t) {
					_, m := mustRequest(t, c, x.method, x.params)
					info := peer.Get(m.Result(), "_meta", peer.MetaServer)
					if _, version := peer.Get(info, "version").(string); !m.Failed() && (peer.Text(info, "name") == "" || !version) {
						t.Fail("_meta with the server's name and version", "%s in the result of %s", checkutil.Excerpt(info), x.method)
					}
				}
			},
		},
		{
			ID: "response.no-requests", Title: "Asks the client nothing but in results", Level: suite.Must, Faces: faces, Page: "basic/patterns/index",
			Statement: "Servers must not send requests; they ask in an input_required result.",
			Why:       "Clients of this revision have no handler for it: the call waits for ever.",
			Fix:       "Return input_required with inputRequests in place of sending sampling/createMessage, elicitation/create, roots/list or ping. Check that no keep-alive pings are left.",
			Run: func(t *suite.Trial) {
				c := t.Open(capable(everything))
				calls := []*peer.Call{mustStart(t, c, "server/discover", nil), underWay(t, c, `"asks"`)}
				for tool, arguments := range map[string]peer.Object{"test_sampling": {"prompt": "x"}, "test_elicitation": {"message": "x"}, "test_input_required_result_list_roots": {}} {
					if t.Offer.Tool(tool) != nil {
						calls = append(calls, mustStart(t, c, "tools/call", peer.Object{"name": tool, "arguments": arguments}))
					}
				}
				messages := []peer.Message(nil)
				for _, call := range calls {
					if call != nil {
						_, _ = call.Wait()
						messages = append(messages, call.Got()...)
					}
				}
				for _, m := range append(messages, c.Others()...) {
					if m.Kind() == peer.IsRequest {
						t.Fail("no request of the server's", "%s", m.Raw)
					}
				}
			},
		},
		reservedCodes(), everyCharacter(),
	}
}

func reservedCodes() *suite.Check {
	return &suite.Check{
		ID: "errors.reserved-codes", Title: "Uses no error codes that are reserved", Level: suite.Must, Faces: faces, Page: "basic/index §Error Codes",
		Statement: "Of -32020 to -32099 only the defined codes may be used; -32002 and -32042 must not be sent any more.",
		Why:       "Clients act on these codes: they choose another revision, or take the server for one of another era.",
		Fix:       "Answer a missing resource with -32602. For errors of your own use codes outside of -32768 to -32000.",
		Run: func(t *suite.Trial) {
			c := t.Open(nil)
			requests := []request{{"dragoman/no-such-method", nil}}
			if t.Offer.Capability("tools") {
				requests = append(requests, request{"tools/call", peer.Object{"name": "dragoman-conformance-no-such-tool"}}, request{"tools/list", peer.Object{"cursor": "dragoman-none"}})
			}
			if t.Offer.Capability("prompts") {
				requests = append(requests, request{"prompts/get", peer.Object{"name": "dragoman-conformance-no-such-prompt"}})
			}
			if t.Offer.Capability("resources") {
				requests = append(requests, request{"resources/read", peer.Object{"uri": missingURI}})
			}
			for _, x := range requests {
				_, m := mustRequest(t, c, x.method, x.params)
				code, message, _ := m.Error()
				defined := code == checkutil.HeaderMismatch || code == checkutil.MissingCapability || code == checkutil.Unsupported
				if code == -32002 || code == -32042 || code >= -32099 && code <= -32020 && !defined {
					t.Fail("no reserved code", "the error %d for %s: %s", code, x.method, message)
				}
			}
		},
	}
}

func everyCharacter() *suite.Check {
	return &suite.Check{
		ID: "response.utf-8", Title: "Keeps every character", Level: suite.Must, Faces: faces, Page: "basic/transports/index", Needs: []suite.Need{suite.NeedsTool("echo")},
		Statement: "JSON-RPC messages must be UTF-8.",
		Why:       "Texts in other scripts arrive as question marks, or tear a line of stdio in two.",
		Fix:       "Read and write UTF-8 on every stream, whatever the locale says. Write line ends inside of texts as \\n, U+2028 may stand as it is.",
		Run: func(t *suite.Trial) {
			const text = "Zürich 漢字 🎉 \"\\\n\t\u2028 é <&>"
			_, m := mustCallTool(t, t.Open(nil), peer.Object{"name": "echo", "arguments": peer.Object{"message": text}})
			if m.Result()["isError"] == true {
				t.Skip("the tool echo refuses a message: %s", checkutil.Excerpt(m.Object))
			}
			if got := peer.Text(m.Result(), "content", "0", "text"); !strings.Contains(got, text) {
				t.Fail("the text "+checkutil.Excerpt(text), "%s", checkutil.Excerpt(m.Object))
			}
		},
	}
}

// request is a method with params.
type request struct {
	method string
	params peer.Object
}

// plainRequests returns requests that the server can answer with a result, at most one of a method.
func plainRequests(t *suite.Trial) []request {
	all := []request{{"server/discover", nil}}
	for _, list := range []string{"tools", "prompts", "resources"} {
		if t.Offer.Capability(list) {
			all = append(all, request{list + "/list", nil})
		}
	}
	if t.Offer.Capability("resources") {
		all = append(all, request{"resources/templates/list", nil})
	}
	for _, r := range t.Offer.Resources[:min(1, len(t.Offer.Resources))] {
		all = append(all, request{"resources/read", peer.Object{"uri": r["uri"]}})
	}
	if i := slices.IndexFunc(t.Offer.Prompts, func(p peer.Object) bool {
		return len(checkutil.RequiredArguments(p)) == 0 && !strings.Contains(peer.Text(p, "name"), "input_required")
	}); i >= 0 {
		all = append(all, request{"prompts/get", peer.Object{"name": t.Offer.Prompts[i]["name"]}})
	}
	if t.Offer.Tool("test_simple_text") != nil {
		all = append(all, request{"tools/call", peer.Object{"name": "test_simple_text", "arguments": peer.Object{}}})
	}
	return all
}

// echoes fails the trial unless the response to a request has its id.
func echoes(t *suite.Trial, c *peer.Conn, id, method string) {
	call, err := c.StartAs(id, method, "")
	hasID(t, call, err)
}

func hasID(t *suite.Trial, call *peer.Call, err error) {
	if err != nil {
		t.Break("%v", err)
	}
	m, err := call.Wait()
	if err != nil {
		t.Fatal("a response with the id "+call.ID, "%v", err)
	}
	sent, _ := peer.Decode(call.ID)
	if m.ID == nil || !checkutil.Equal(m.Object["id"], sent) {
		t.Fail("a response with the id "+call.ID, "%s", m.Raw)
	}
}

// nothingAfter fails the trial if messages of a call came after its response.
func nothingAfter(t *suite.Trial, call *peer.Call) {
	answered := false
	for _, m := range call.Got() {
		if answered {
			t.Fail("nothing after the response to "+call.Method, "%s", m.Raw)
		}
		answered = answered || m.Kind() == peer.IsResponse
	}
}
