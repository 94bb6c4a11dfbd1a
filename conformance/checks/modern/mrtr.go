package modern

import (
	"maps"
	"strings"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// Tools of the everything fixture that ask, with the names of the official conformance suite.
const (
	asksUser   = "test_input_required_result_elicitation"
	asksModel  = "test_input_required_result_sampling"
	asksRoots  = "test_input_required_result_list_roots"
	asksState  = "test_input_required_result_request_state"
	asksSealed = "test_input_required_result_tampered_state"
	asksMany   = "test_input_required_result_multiple_inputs"
	asksTwice  = "test_input_required_result_multi_round"
	asksPrompt = "test_input_required_result_prompt"
)

// interactiveCall is a request to which the server answers with questions.
type interactiveCall struct {
	t      *suite.Trial
	c      *peer.Conn
	method string
	name   string
	last   peer.Message // the last answer
}

func startInteractive(t *suite.Trial, c *peer.Conn, tool string) *interactiveCall {
	d := &interactiveCall{t: t, c: c, method: "tools/call", name: tool}
	d.send(nil)
	return d
}

// send makes the request with members beside its name.
func (d *interactiveCall) send(more peer.Object) {
	params := peer.Object{"name": d.name}
	if d.method == "tools/call" {
		params["arguments"] = peer.Object{}
	}
	maps.Copy(params, more)
	_, d.last = mustRequest(d.t, d.c, d.method, params)
}

// asks reports whether the server asks, and returns its questions.
func (d *interactiveCall) asks() (peer.Object, bool) {
	r := d.last.Result()
	questions, _ := r["inputRequests"].(peer.Object)
	return questions, r["resultType"] == "input_required"
}

// questions returns the server's questions; the trial ends if there are none.
func (d *interactiveCall) questions() peer.Object {
	questions, asks := d.asks()
	if !asks || len(questions) == 0 {
		d.t.Fatal("a result input_required with inputRequests from "+d.name, "%s", checkutil.Excerpt(d.last.Object))
	}
	return questions
}

// retry repeats the request with answers and the state of the last answer.
func (d *interactiveCall) retry(answers peer.Object) {
	more := peer.Object{}
	if answers != nil {
		more["inputResponses"] = answers
	}
	if state, has := d.last.Result()["requestState"]; has {
		more["requestState"] = state
	}
	d.send(more)
}

// finished fails the trial unless the last answer is the final result.
func (d *interactiveCall) finished() {
	if r := d.last.Result(); r == nil || r["resultType"] == "input_required" || r["isError"] == true {
		d.t.Fail("the final result of "+d.name+" after the answers", "%s", checkutil.Excerpt(d.last.Object))
	}
}

// answersTo returns valid answers to questions.
func answersTo(questions peer.Object) peer.Object {
	out := peer.Object{}
	for key, q := range questions {
		switch peer.Text(q, "method") {
		case "elicitation/create":
			content := peer.Object{}
			properties, _ := peer.Get(q, "params", "requestedSchema", "properties").(peer.Object)
			for name, p := range properties {
				schema, _ := p.(peer.Object)
				content[name] = value(schema)
			}
			out[key] = peer.Object{"action": "accept", "content": content}
		case "sampling/createMessage":
			out[key] = peer.Object{"role": "assistant", "content": peer.Object{"type": "text", "text": "Paris"}, "model": "tester", "stopReason": "endTurn"}
		case "roots/list":
			out[key] = peer.Object{"roots": []any{peer.Object{"uri": "file:///work", "name": "work"}}}
		}
	}
	return out
}

// askers returns the fixture's tools that ask and that the server has.
func askers(t *suite.Trial) (out []string) {
	for _, tool := range []string{asksUser, asksModel, asksRoots, asksState, asksMany} {
		if t.Offer.Tool(tool) != nil {
			out = append(out, tool)
		}
	}
	if len(out) == 0 {
		t.Skip("the server has no tool " + asksUser)
	}
	return out
}

func questionsChecks() []*suite.Check {
	// each calls look with the first result of each tool that asks.
	each := func(look func(t *suite.Trial, d *interactiveCall)) func(*suite.Trial) {
		return func(t *suite.Trial) {
			c := t.Open(capable(everything))
			for _, tool := range askers(t) {
				d := startInteractive(t, c, tool)
				if _, asks := d.asks(); asks {
					look(t, d)
				}
			}
		}
	}
	return []*suite.Check{
		{
			ID: "mrtr.supported-requests", Title: "Asks back only where that is allowed", Level: suite.Must, Faces: faces, Page: "basic/patterns/mrtr §Supported Requests",
			Statement: "input_required may only answer tools/call, prompts/get and resources/read.",
			Why:       "Clients retry only these three; at any other the result is invalid.",
			Fix:       "Do not ask while you answer lists, server/discover or completion/complete. Ask when the thing is used.",
			Run: func(t *suite.Trial) {
				c := t.Open(capable(everything))
				for _, x := range plainRequests(t) {
					if x.method == "tools/call" || x.method == "prompts/get" || x.method == "resources/read" {
						continue
					}
					if _, m := mustRequest(t, c, x.method, x.params); m.Result()["resultType"] == "input_required" {
						t.Fail("no input_required for "+x.method, "%s", checkutil.Excerpt(m.Object))
					}
				}
			},
		},
		{
			ID: "mrtr.something-asked", Title: "Asks something, or gives a state", Level: suite.Must, Faces: faces, Page: pageMRTR,
			Statement: "An input_required result must have inputRequests or requestState, or both.",
			Why:       "A client could only send the same request again, for ever.",
			Fix:       "Put the questions into inputRequests and what you need to remember into requestState. If there is neither, the result is complete.",
			Run: each(func(t *suite.Trial, d *interactiveCall) {
				questions, _ := d.asks()
				if state, _ := d.last.Result()["requestState"].(string); len(questions) == 0 && state == "" {
					t.Fail("inputRequests or requestState", "%s", checkutil.Excerpt(d.last.Object))
				}
			}),
		},
		{
			ID: "mrtr.requests", Title: "Asks only with requests that clients know", Level: suite.Must, Faces: faces, Page: pageMRTR,
			Statement: "Each of inputRequests must be elicitation/create, sampling/createMessage or roots/list, as an object with method and params.",
			Why:       "Clients have no handler for anything else and give the call up.",
			Fix:       "Write {\"method\": …, \"params\": {…}} under a key of your own. Leave jsonrpc and id out.",
			Run: each(func(t *suite.Trial, d *interactiveCall) {
				questions, _ := d.asks()
				for key, q := range questions {
					switch peer.Text(q, "method") {
					case "elicitation/create", "sampling/createMessage", "roots/list":
					default:
						t.Fail("one of the three requests under the key "+key, "%s", checkutil.Excerpt(q))
					}
				}
			}),
		},
		{
			ID: "mrtr.no-hints", Title: "Gives questions no caching hints", Level: suite.Should, Faces: faces, Page: "server/utilities/caching §Cacheable Results",
			Statement: "input_required results carry no ttlMs and no cacheScope.",
			Why:       "A cache would ask the next user the first one's question.",
			Fix:       "Add ttlMs and cacheScope to complete results only.",
			Run: each(func(t *suite.Trial, d *interactiveCall) {
				if r := d.last.Result(); r["ttlMs"] != nil || r["cacheScope"] != nil {
					t.Fail("neither ttlMs nor cacheScope", "%s", checkutil.Excerpt(d.last.Object))
				}
			}),
		},
	}
}

// capabilityFor returns the client capability that a question needs.
func capabilityFor(method string) string {
	return map[string]string{"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}[method]
}

func undeclaredChecks() []*suite.Check {
	const why = "The client cannot answer, so that the call never ends; or a user sees a form to which the client has not agreed."
	missing := []suite.Need{suite.NeedsTool("test_missing_capability")}
	lacking := func(t *suite.Trial) (*peer.Call, peer.Message) {
		return mustCallTool(t, t.Open(nil), peer.Object{"name": "test_missing_capability", "arguments": peer.Object{}})
	}
	return []*suite.Check{
		{
			ID: "mrtr.undeclared", Title: "Asks nothing that the client cannot answer", Level: suite.Must, Faces: faces, Page: pageMRTR,
			Statement: "inputRequests must not hold requests for capabilities that the client has not declared.",
			Why:       why,
			Fix:       "Look at _meta[\"io.modelcontextprotocol/clientCapabilities\"] of this request before you ask. Answer -32021 where you cannot go on without.",
			Run: func(t *suite.Trial) {
				for _, declared := range []string{`{}`, `{"sampling":{}}`, `{"roots":{}}`} {
					c := t.Open(capable(declared))
					for _, tool := range askers(t) {
						questions, _ := startInteractive(t, c, tool).asks()
						for key, q := range questions {
							if kind := capabilityFor(peer.Text(q, "method")); kind != "" && !strings.Contains(declared, kind) {
								t.Fail("nothing that needs "+kind+" from a client that declares "+declared, "%s asks %s under %s", tool, checkutil.Excerpt(q), key)
							}
						}
					}
				}
			},
		},
		{
			ID: "mrtr.mode", Title: "Asks only in modes that the client declares", Level: suite.Must, Faces: faces, Page: "client/elicitation §Capabilities",
			Needs:     []suite.Need{suite.NeedsTool(asksUser)},
			Statement: "Elicitation in a mode that the client does not declare must not be sent; {} means form alone.",
			Why:       why,
			Fix:       "Treat elicitation: {} as form. A client that declares {\"url\": {}} alone has no forms.",
			Run: func(t *suite.Trial) {
				questions, _ := startInteractive(t, t.Open(capable(`{"elicitation":{"url":{}}}`)), asksUser).asks()
				for _, q := range questions {
					if peer.Text(q, "method") == "elicitation/create" && peer.Text(q, "params", "mode") != "url" {
						t.Fail("no form for a client that declares url alone", "%s", checkutil.Excerpt(q))
					}
				}
			},
		},
		{
			ID: "mrtr.capability-error", Title: "Refuses what needs a capability that the client lacks", Level: suite.Must, Faces: faces, Page: pageMeta, Needs: missing,
			Statement: "If a request needs an undeclared capability the answer must be -32021, over HTTP with status 400.",
			Why:       "Clients recognise by the code that they could declare more.",
			Fix:       "Answer -32021 (MissingRequiredClientCapability) before any event is written, so that the status can still be 400. A result with isError hides it from the client.",
			Run: func(t *suite.Trial) {
				call, m := lacking(t)
				failsWith(t, m, "a client without sampling", checkutil.MissingCapability)
				if !t.Face.Stdio() && m.Status != 400 {
					t.Fail("status 400", "status %d for %s", m.Status, call)
				}
			},
		},
		{
			ID: "mrtr.capability-data", Title: "Says which capability is missing", Level: suite.Must, Faces: faces, Page: pageMeta, Needs: missing,
			Statement: "The error's data.requiredCapabilities lists the missing capabilities, as an object of client capabilities.",
			Why:       "Without it the client does not know which capability to declare.",
			Fix:       "Set error.data to {\"requiredCapabilities\": {\"sampling\": {}}}, with the capabilities that are missing. It is an object, not a list of names.",
			Run: func(t *suite.Trial) {
				_, m := lacking(t)
				_, _, data := m.Error()
				if _, ok := peer.Get(data, "requiredCapabilities", "sampling").(peer.Object); !ok {
					t.Fail(`data.requiredCapabilities is {"sampling": {}}`, "%s", checkutil.Excerpt(m.Object))
				}
			},
		},
		{
			ID: "mrtr.stateless", Title: "Remembers no capabilities", Level: suite.Must, Faces: faces, Page: "basic/index §Statelessness", Needs: missing,
			Statement: "Capabilities are those of each request; earlier requests of the connection must not count.",
			Why:       "Several clients may share a connection: one would be asked what only the other can answer.",
			Fix:       "Read the capabilities from the _meta of the request that is served, and keep them nowhere else.",
			Run: func(t *suite.Trial) {
				c := t.Open(capable(everything))
				mustRequest(t, c, "server/discover", nil)
				_, m := mustCallTool(t, c, peer.Object{"name": "test_missing_capability", "arguments": peer.Object{},
					"_meta": peer.Object{peer.MetaVersion: peer.R2607, peer.MetaCapabilities: peer.Object{}}})
				if m.Result()["resultType"] == "input_required" {
					t.Fail("no question to a request that declares nothing", "%s", checkutil.Excerpt(m.Object))
				}
			},
		},
	}
}
