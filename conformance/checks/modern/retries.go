package modern

import (
	"maps"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// retriesChecks are about requests with answers.
func retriesChecks() []*suite.Check {
	const (
		page      = "basic/patterns/mrtr §Basic Workflow"
		errorPage = "basic/patterns/mrtr §Error Handling"
	)
	complete := func(id, title, fix string, tools ...string) *suite.Check {
		return &suite.Check{ID: id, Title: title, Level: suite.Must, Faces: faces, Page: page, Needs: []suite.Need{suite.NeedsTool(tools[0])},
			Statement: "A retry with the answers to all questions, and the state, is served like any request.",
			Why:       "Users are asked the same again and again, or the answers are lost.",
			Fix:       fix,
			Run: func(t *suite.Trial) {
				c := t.Open(capable(everything))
				for _, tool := range tools {
					if t.Offer.Tool(tool) == nil {
						continue
					}
					d := startInteractive(t, c, tool)
					d.retry(answersTo(d.questions()))
					d.finished()
				}
			}}
	}
	return []*suite.Check{
		complete("mrtr.completes", "Goes on with the answers of a retry",
			"Look for params.inputResponses by the keys that you have given out, and go on with what stands there. The answers are bare results, without resultType.",
			asksUser, asksModel, asksRoots),
		complete("mrtr.completes-many", "Goes on with several answers at once",
			"Take all answers of a round from one retry: inputResponses holds one for each key of inputRequests.", asksMany),
		{
			ID: "mrtr.rounds", Title: "Goes on over several rounds", Level: suite.Must, Faces: faces, Page: page, Needs: []suite.Need{suite.NeedsTool(asksTwice)},
			Statement: "A retry may be answered with further questions, and the retry after that with the result.",
			Why:       "Dialogues of more than one step never end.",
			Fix:       "Put the answers of earlier rounds into requestState: a retry brings only those of the last. Open and check the state at the beginning of each.",
			Run: func(t *suite.Trial) {
				d := startInteractive(t, t.Open(capable(everything)), asksTwice)
				first := d.questions()
				d.retry(answersTo(first))
				second := d.questions()
				if checkutil.Equal(first, second) {
					t.Fail("other questions in the second round", "%s again", checkutil.Excerpt(second))
				}
				d.retry(answersTo(second))
				d.finished()
			},
		},
		{
			ID: "mrtr.prompt", Title: "Asks for prompts as for tools", Level: suite.Must, Faces: faces, Page: page, Needs: []suite.Need{"prompt:" + asksPrompt},
			Statement: "prompts/get may be answered with input_required; its retry is served like that of a tool.",
			Why:       "Prompts that need something from the user cannot be used.",
			Fix:       "Read inputResponses and requestState of prompts/get and resources/read too.",
			Run: func(t *suite.Trial) {
				d := &interactiveCall{t: t, c: t.Open(capable(everything)), method: "prompts/get", name: asksPrompt}
				d.send(nil)
				d.retry(answersTo(d.questions()))
				d.finished()
			},
		},
		{
			ID: "mrtr.missing-answers", Title: "Asks again for answers that are missing", Level: suite.Should, Faces: faces, Page: errorPage, Needs: []suite.Need{suite.NeedsTool(asksMany)},
			Statement: "If answers are missing the server should ask for them again rather than fail.",
			Why:       "Users answer one thing after the other; all they have said would be lost.",
			Fix:       "Compare the keys of inputResponses with what you need, and return input_required with the rest.",
			Run: func(t *suite.Trial) {
				d := startInteractive(t, t.Open(capable(everything)), asksMany)
				all := answersTo(d.questions())
				for key := range all {
					d.retry(peer.Object{key: all[key]})
					break
				}
				if _, asks := d.asks(); !asks {
					t.Fail("input_required again", "%s", checkutil.Excerpt(d.last.Object))
				}
			},
		},
		{
			ID: "mrtr.extra-answers", Title: "Ignores answers that it has not asked for", Level: suite.Should, Faces: faces, Page: errorPage, Needs: []suite.Need{suite.NeedsTool(asksUser)},
			Statement: "Unexpected entries of inputResponses should be ignored.",
			Why:       "Clients may send the answers of earlier rounds along.",
			Fix:       "Take what you have asked for from inputResponses and leave the rest alone.",
			Run: func(t *suite.Trial) {
				d := startInteractive(t, t.Open(capable(everything)), asksUser)
				answers := answersTo(d.questions())
				maps.Copy(answers, peer.Object{"dragoman_unasked": peer.Object{"action": "decline"}})
				d.retry(answers)
				d.finished()
			},
		},
		{
			ID: "mrtr.malformed", Title: "Does not accept malformed answers", Level: suite.Should, Faces: faces, Page: errorPage, Needs: []suite.Need{suite.NeedsTool(asksUser)},
			Statement: "Servers should check that inputResponses is an object whose entries can be read, and refuse it with an error or ask again.",
			Why:       "The tool goes on with nothing where it expects the user's answer.",
			Fix:       "Answer -32602 if inputResponses is no object. Ask again, or answer -32602, if an entry is not of the shape that its request demands.",
			Run: func(t *suite.Trial) {
				c := t.Open(capable(everything))
				for key := range startInteractive(t, c, asksUser).questions() {
					for _, wrong := range []any{peer.Object{key: "yes"}, peer.Object{key: peer.Object{"roots": []any{}}}, []any{1}} {
						d := &interactiveCall{t: t, c: c, method: "tools/call", name: asksUser}
						d.send(peer.Object{"inputResponses": wrong})
						if r := d.last.Result(); r != nil && r["resultType"] == "complete" && r["isError"] != true {
							t.Fail("an error or input_required for inputResponses "+checkutil.Excerpt(wrong), "%s", checkutil.Excerpt(d.last.Object))
						}
					}
				}
			},
		},
	}
}

// statesChecks are about requestState, which the client returns.
func statesChecks() []*suite.Check {
	refused := func(t *suite.Trial, d *interactiveCall, what string) {
		if r := d.last.Result(); r != nil && r["resultType"] == "complete" && r["isError"] != true {
			t.Fail(what+" is refused, or the question asked again", "%s", checkutil.Excerpt(d.last.Object))
		}
	}
	return []*suite.Check{
		{
			ID: "mrtr.state-tampered", Title: "Refuses a state that was changed", Level: suite.Must, Faces: faces, Page: pageMRTR, Needs: []suite.Need{suite.NeedsTool(asksSealed)},
			Statement: "Servers must protect requestState where it matters, and must reject one that fails verification.",
			Why:       "It passes through the client: a client that changes it acts with rights that the server recorded for another.",
			Fix:       "Sign or encrypt requestState (HMAC, AEAD) and verify it before you read it. Answer -32602 if that fails.",
			Run: func(t *suite.Trial) {
				c := t.Open(capable(everything))
				first := startInteractive(t, c, asksSealed)
				questions := first.questions()
				state, _ := first.last.Result()["requestState"].(string)
				if state == "" {
					t.Fatal("a requestState of "+asksSealed, "%s", checkutil.Excerpt(first.last.Object))
				}
				for _, wrong := range []string{flipped(state), state + "x", "e30"} {
					d := &interactiveCall{t: t, c: c, method: "tools/call", name: asksSealed}
					d.send(peer.Object{"inputResponses": answersTo(questions), "requestState": wrong})
					refused(t, d, "a changed requestState")
				}
			},
		},
		{
			ID: "mrtr.state-whole", Title: "Accepts the state that it has given", Level: suite.Must, Faces: faces, Page: pageMRTR, Needs: []suite.Need{suite.NeedsTool(asksState)},
			Statement: "requestState is the server's own; the client echoes it unchanged.",
			Why:       "Every dialogue that has a state would break.",
			Fix:       "Use the same key on every instance, and for as long as a state may come back. Do not depend on the order of members when you check the request's digest.",
			Run: func(t *suite.Trial) {
				d := startInteractive(t, t.Open(capable(everything)), asksState)
				questions := d.questions()
				if _, has := d.last.Result()["requestState"].(string); !has {
					t.Fail("a requestState of "+asksState, "%s", checkutil.Excerpt(d.last.Object))
				}
				d.retry(answersTo(questions))
				d.finished()
			},
		},
		{
			ID: "mrtr.state-bound", Title: "Refuses the state of another request", Level: suite.Should, Faces: faces, Page: pageMRTR,
			Needs:     []suite.Need{suite.NeedsTool(asksState), suite.NeedsTool(asksSealed)},
			Statement: "requestState should name the request it belongs to, and be rejected on another.",
			Why:       "A consent that was given for one call would be spent on another.",
			Fix:       "Put the method, the name and a digest of the arguments under the signature. Compare them with the request that brings the state.",
			Run: func(t *suite.Trial) {
				c := t.Open(capable(everything))
				one := startInteractive(t, c, asksState)
				state := one.last.Result()["requestState"]
				if state == nil {
					t.Skip("%s gives no requestState", asksState)
				}
				other := startInteractive(t, c, asksSealed)
				other.send(peer.Object{"inputResponses": answersTo(other.questions()), "requestState": state})
				refused(t, other, "the requestState of another tool")
			},
		},
	}
}

// flipped returns a text with another character in the middle.
func flipped(text string) string {
	i := len(text) / 2
	c := byte('A')
	if text[i] == c {
		c = 'B'
	}
	return text[:i] + string(c) + text[i+1:]
}
