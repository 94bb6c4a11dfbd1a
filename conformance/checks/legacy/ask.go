package legacy

import (
	"slices"
	"strings"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

const (
	pageElicits = "client/elicitation"
	pageSamples = "client/sampling"
	elicit      = "elicitation/create"
	generate    = "sampling/createMessage"
)

// askChecks is about requests of servers: that the client has declared the capability, their form, and the use of the answers.
func askChecks() []*suite.Check {
	elicits, samples := []suite.Need{suite.NeedsTool(toolElicits)}, []suite.Need{suite.NeedsTool(toolSamples)}
	return slices.Concat([]*suite.Check{
		{
			ID: "ask.elicitation-undeclared", Title: "Does not ask the user of a client without elicitation", Level: suite.Must, Faces: faces, Revisions: suite.From(peer.R2506),
			Needs: elicits, Page: pageElicits + " §Capabilities; basic/lifecycle §Operation",
			Statement: "elicitation/create goes only to clients that have declared elicitation.",
			Why:       "The client refuses the request, or leaves it unanswered, and the call never ends.",
			Fix:       "Look at the capabilities of initialize before you ask; without elicitation let the call fail with a sentence that says why.",
			Run: func(t *suite.Trial) {
				undeclared(t, elicit, `{"sampling":{},"roots":{}}`, toolElicits, peer.Object{"message": "Who are you?"})
			},
		},
		{
			ID: "ask.sampling-undeclared", Title: "Does not ask the model of a client without sampling", Level: suite.Must, Faces: faces,
			Needs: samples, Page: pageSamples + " §Capabilities; basic/lifecycle §Operation",
			Statement: "sampling/createMessage goes only to clients that have declared sampling.",
			Why:       "The client refuses the request, or leaves it unanswered, and the call never ends.",
			Fix:       "Look at the capabilities of initialize before you ask; without sampling let the call fail with a sentence that says why.",
			Run: func(t *suite.Trial) {
				undeclared(t, generate, `{"roots":{}}`, toolSamples, peer.Object{"prompt": "Say hello"})
			},
		},
		{
			ID: "ask.roots-undeclared", Title: "Does not ask a client without roots for them", Level: suite.Must, Faces: faces,
			Needs: []suite.Need{suite.NeedsTool("ask_roots")}, Page: "client/roots §Capabilities; basic/lifecycle §Operation",
			Statement: "roots/list goes only to clients that have declared roots.",
			Why:       "The client refuses the request, or leaves it unanswered.",
			Fix:       "Look at the capabilities of initialize before you ask.",
			Run:       func(t *suite.Trial) { undeclared(t, "roots/list", `{"sampling":{}}`, "ask_roots", peer.Object{}) },
		},
		{
			ID: "ask.url-undeclared", Title: "Asks for a URL only where the client has declared that", Level: suite.Must, Faces: faces, Revisions: []string{peer.R2511},
			Needs: []suite.Need{suite.NeedsTool("ask_url")}, Page: pageElicits + " §Capabilities",
			Statement: "Questions of a mode that the client has not declared are not sent; elicitation as {} means forms alone.",
			Why:       "The client refuses the question with -32602, or shows the user nothing.",
			Fix:       "Look for elicitation.url in the client's capabilities.",
			Run:       func(t *suite.Trial) { undeclared(t, elicit, `{"elicitation":{}}`, "ask_url", peer.Object{}) },
		},
	}, questionsChecks(), answersChecks())
}

// questionsChecks is about the form of requests.
func questionsChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "ask.ids-unique", Title: "Uses no id twice for its questions", Level: suite.Must, Faces: faces, Needs: []suite.Need{suite.NeedsTool(toolSamples)},
			Page:      "basic §Requests",
			Statement: "The id of a request is a text or a number, not null, and was not used before by its sender in the session.",
			Why:       "The answer to one question is taken for that to another.",
			Fix:       "Count the questions of a session, over all its calls.",
			Run: func(t *suite.Trial) {
				u := &responder{says: answersOf("accept")}
				c := t.Open(u.with(`{"sampling":{}}`))
				for range 3 {
					_ = mustRequest(t, c, "tools/call", toolCall(toolSamples, peer.Object{"prompt": "Say hello"}, ""))
				}
				seen := make(map[string]bool)
				for _, m := range u.questions(generate) {
					id := string(m.ID)
					if id == "null" || seen[id] {
						t.Fail("another id for each question", "%s", m.Raw)
					}
					seen[id] = true
				}
				if len(seen) == 0 {
					t.Skip("the tool %s asks nothing", toolSamples)
				}
			},
		},
		{
			ID: "ask.flat-form", Title: "Asks for a flat object of simple values", Level: suite.Must, Faces: faces, Revisions: suite.From(peer.R2506),
			Needs: []suite.Need{suite.NeedsTool(toolElicits)}, Page: pageElicits + " §Requested Schema",
			Statement: "requestedSchema is an object whose properties are texts, numbers, booleans or choices; there is nothing inside of them.",
			Why:       "Clients cannot make a form of anything else, and refuse the question.",
			Fix:       "Ask for one level of simple values; ask twice rather than for an object in an object.",
			Run:       flatForm,
		},
	}
}

// answersChecks is about the use of answers.
func answersChecks() []*suite.Check {
	elicits, samples := []suite.Need{suite.NeedsTool(toolElicits)}, []suite.Need{suite.NeedsTool(toolSamples)}
	return []*suite.Check{
		{
			ID: "ask.elicitation-used", Title: "Uses what the user has answered", Level: suite.Should, Faces: faces, Revisions: suite.From(peer.R2506), Needs: elicits,
			Page:      pageElicits + " §Response Actions",
			Statement: "What the user accepts with comes back into the call that asked.",
			Why:       "The user fills in a form for nothing.",
			Fix:       "Wait for the response with the id of your question, and go on with its content.",
			Run: func(t *suite.Trial) {
				u := &responder{says: answersOf("accept")}
				m := askedCall(t, u, toolElicits, peer.Object{"message": "Who are you?"}, elicit)
				if !strings.Contains(m.Raw, "dragoman-user") {
					t.Fail("a result in which the user's name dragoman-user stands", "%s", m.Raw)
				}
			},
		},
		{
			ID: "ask.sampling-used", Title: "Uses what the model has answered", Level: suite.Should, Faces: faces, Needs: samples,
			Page:      pageSamples + " §Creating Messages",
			Statement: "What the client's model says comes back into the call that asked.",
			Why:       "The user pays for an answer that is not used.",
			Fix:       "Wait for the response with the id of your question, and go on with its content.",
			Run: func(t *suite.Trial) {
				u := &responder{says: answersOf("accept")}
				m := askedCall(t, u, toolSamples, peer.Object{"prompt": "Say hello"}, generate)
				if !strings.Contains(m.Raw, "dragoman-poem") {
					t.Fail("a result in which the model's word dragoman-poem stands", "%s", m.Raw)
				}
			},
		},
		{
			ID: "ask.declined", Title: "Ends the call when the user declines or cancels", Level: suite.Should, Faces: faces, Revisions: suite.From(peer.R2506), Needs: elicits,
			Page:      pageElicits + " §Response Actions",
			Statement: "Servers handle decline and cancel as well as accept.",
			Why:       "The call never ends, although the user has declined.",
			Fix:       "Answer the call for each of the three actions.",
			Run: func(t *suite.Trial) {
				for _, action := range []string{"decline", "cancel"} {
					_ = askedCall(t, &responder{says: answersOf(action)}, toolElicits, peer.Object{"message": "Who are you?"}, elicit)
				}
			},
		},
		{
			ID: "ask.refused", Title: "Ends the call when the client answers with an error", Level: suite.Should, Faces: faces, Needs: samples,
			Page:      pageSamples + " §Error Handling",
			Statement: "Clients return errors for common failures, as a user who rejects the request; the call that asked ends all the same.",
			Why:       "The call never ends.",
			Fix:       "Take an error response for an answer too: let the tool fail with its message.",
			Run: func(t *suite.Trial) {
				u := &responder{says: map[string]string{generate: `"error":{"code":-1,"message":"User rejected sampling request"}`}}
				_ = askedCall(t, u, toolSamples, peer.Object{"prompt": "Say hello"}, generate)
			},
		},
	}
}

// answersOf returns answers to all requests; action is that of elicitation.
func answersOf(action string) map[string]string {
	filled := `{"action":"` + action + `"}`
	if action == "accept" {
		filled = `{"action":"accept","content":{"username":"dragoman-user","email":"user@example.com","name":"dragoman-user","response":"dragoman-user"}}`
	}
	return map[string]string{elicit: `"result":` + filled, "roots/list": `"result":{"roots":[]}`,
		generate: `"result":{"role":"assistant","content":{"type":"text","text":"dragoman-poem"},"model":"test","stopReason":"endTurn"}`}
}

// undeclared calls a tool that asks for what the client has not declared.
func undeclared(t *suite.Trial, method, capabilities, tool string, arguments peer.Object) {
	u := &responder{says: answersOf("accept")}
	c := t.Open(u.with(capabilities))
	call := mustStart(t, c, "tools/call", toolCall(tool, arguments, ""))
	// The outcome of the call does not matter.
	_, _ = call.WaitFor(func(m peer.Message) bool { return m.Kind() == peer.IsResponse || m.Method == method })
	// The request may have arrived before the responder has it.
	if asked := append(checkutil.OfMethod(call.Got(), method), u.questions(method)...); len(asked) > 0 {
		t.Fail("no "+method+" to a client with the capabilities "+capabilities, "%s", asked[0].Raw)
	}
}

// askedCall calls a tool that asks, and fails the trial unless the call is answered.
func askedCall(t *suite.Trial, u *responder, tool string, arguments peer.Object, method string) peer.Message {
	c := t.Open(u.with(`{"sampling":{},"elicitation":{},"roots":{}}`))
	m, err := c.Request("tools/call", toolCall(tool, arguments, ""))
	if len(u.questions(method)) == 0 {
		t.Skip("the tool %s asks nothing in this session", tool)
	}
	if err != nil {
		t.Fatal("an answer to the call", "%v", err)
	}
	return m
}

// flatForm checks all forms of the fixture's tools.
func flatForm(t *suite.Trial) {
	u := &responder{says: answersOf("decline")}
	c := t.Open(u.with(`{"elicitation":{}}`))
	for _, tool := range []string{toolElicits, "test_elicitation_sep1034_defaults", "test_elicitation_sep1330_enums"} {
		if t.Offer.Tool(tool) != nil {
			_ = mustRequest(t, c, "tools/call", toolCall(tool, peer.Object{"message": "Who are you?"}, ""))
		}
	}
	asked := u.questions(elicit)
	if len(asked) == 0 {
		t.Skip("the tools of the fixture ask nothing in this session")
	}
	for _, m := range asked {
		schema := peer.Get(m.Params(), "requestedSchema")
		properties, ok := peer.Get(schema, "properties").(peer.Object)
		if peer.Text(schema, "type") != "object" || !ok {
			t.Fail("requestedSchema of type object with properties", "%s", m.Raw)
		}
		for name, property := range properties {
			kind := peer.Text(property, "type")
			// Choices of several values came with 2025-11-25.
			list := kind == "array" && t.Revision >= peer.R2511
			if !list && !slices.Contains([]string{"string", "number", "integer", "boolean"}, kind) || peer.Get(property, "properties") != nil {
				t.Fail("a simple value for "+name, "%s", peer.Encode(property))
			}
		}
	}
}
