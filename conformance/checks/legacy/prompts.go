package legacy

import (
	"strings"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// promptsChecks is about prompts and completion.
func promptsChecks() []*suite.Check {
	const page = "server/prompts §Error Handling"
	return append([]*suite.Check{
		{
			ID: "legacy-prompts.get", Title: "Gives a prompt that it lists", Level: suite.Must, Faces: faces, Needs: []suite.Need{suite.NeedsPrompts},
			Page:      "server/prompts §Getting a Prompt",
			Statement: "prompts/get answers messages, each with a role, user or assistant, and content.",
			Why:       "What users choose from the list does nothing.",
			Fix:       "Answer messages for every name that prompts/list shows, given its required arguments.",
			Run:       givesPrompt,
		},
		{
			ID: "legacy-prompts.unknown", Title: "Answers an unknown prompt with the error -32602", Level: suite.Should, Faces: faces, Needs: []suite.Need{suite.NeedsPrompts}, Page: page,
			Statement: "An invalid name of a prompt is the error -32602.",
			Why:       "The client shows an empty prompt, or takes the server for broken.",
			Fix:       "Answer -32602 to a name that is not in your list.",
			Run: func(t *suite.Trial) {
				m := mustRequest(t, t.Open(nil), "prompts/get", `{"name":"dragoman-no-such-prompt"}`)
				checkutil.FailedWith(t, m, "the error -32602", -32602)
			},
		},
		{
			ID: "legacy-prompts.missing-argument", Title: "Answers a prompt without its required arguments with the error -32602", Level: suite.Should, Faces: faces,
			Needs: []suite.Need{suite.NeedsPrompts}, Page: page,
			Statement: "Missing required arguments are the error -32602.",
			Why:       "The model gets a prompt with holes in it.",
			Fix:       "Check required arguments before the prompt is made, and name the one that is missing.",
			Run: func(t *suite.Trial) {
				for _, p := range t.Offer.Prompts {
					if len(checkutil.RequiredArguments(p)) > 0 {
						m := mustRequest(t, t.Open(nil), "prompts/get", peer.Encode(peer.Object{"name": peer.Text(p, "name"), "arguments": peer.Object{}}))
						checkutil.FailedWith(t, m, "the error -32602", -32602)
						return
					}
				}
				t.Skip("no prompt requires an argument")
			},
		},
	}, completionChecks()...)
}

func completionChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "legacy-completion.limit", Title: "Completes with at most 100 values", Level: suite.Must, Faces: faces, Revisions: suite.From(peer.R2503),
			Needs: []suite.Need{suite.NeedsCompletions}, Page: "server/utilities/completion §Completion Results; schema CompleteResult",
			Statement: "completion/complete answers completion.values, texts, no more than 100.",
			Why:       "Clients validate the answer, or freeze on a list of thousands.",
			Fix:       "Cut the values to 100, and set total and hasMore.",
			Run:       fewCompletions,
		},
		{
			ID: "legacy-completion.unknown", Title: "Answers completion for an unknown prompt with the error -32602", Level: suite.Should, Faces: faces, Revisions: suite.From(peer.R2503),
			Needs: []suite.Need{suite.NeedsCompletions}, Page: "server/utilities/completion §Error Handling",
			Statement: "An invalid name of a prompt is the error -32602.",
			Why:       "The client believes that nothing fits.",
			Fix:       "Look the prompt up before you complete, and answer -32602 if it is not there.",
			Run: func(t *suite.Trial) {
				params := `{"ref":{"type":"ref/prompt","name":"dragoman-no-such-prompt"},"argument":{"name":"x","value":""}}`
				checkutil.FailedWith(t, mustRequest(t, t.Open(nil), "completion/complete", params), "the error -32602", -32602)
			},
		},
	}
}

// givesPrompt checks the first prompt that accepts made-up arguments.
func givesPrompt(t *suite.Trial) {
	const expected = "messages with role and content"
	c := t.Open(nil)
	var failed peer.Message
	for i, p := range t.Offer.Prompts {
		if i == 5 {
			break
		}
		arguments := peer.Object{}
		for _, name := range checkutil.RequiredArguments(p) {
			arguments[name] = "test"
		}
		m := mustRequest(t, c, "prompts/get", peer.Encode(peer.Object{"name": peer.Text(p, "name"), "arguments": arguments}))
		if m.Failed() {
			failed = m
			continue
		}
		if peer.List(m.Result(), "messages") == nil {
			t.Fail(expected, "%s", m.Raw)
		}
		for _, x := range peer.List(m.Result(), "messages") {
			role := peer.Text(x, "role")
			if _, ok := peer.Get(x, "content").(peer.Object); !ok || role != "user" && role != "assistant" {
				t.Fail(expected, "%s", peer.Encode(x))
			}
		}
		return
	}
	if failed.Object == nil {
		t.Skip("the server lists no prompt")
	}
	t.Fail(expected, "%s", checkutil.Failure(failed))
}

// fewCompletions completes the arguments of all prompts and a variable of all templates.
func fewCompletions(t *suite.Trial) {
	c, asked := t.Open(nil), 0
	complete := func(ref peer.Object, argument string) {
		params := peer.Encode(peer.Object{"ref": ref, "argument": peer.Object{"name": argument, "value": ""}})
		m := mustRequest(t, c, "completion/complete", params)
		if m.Failed() {
			return
		}
		asked++
		values, ok := peer.Get(m.Result(), "completion", "values").([]any)
		if !ok || len(values) > 100 {
			t.Fail("completion.values, at most 100", "%d in %s", len(values), m.Raw)
		}
	}
	for _, p := range t.Offer.Prompts {
		for _, x := range peer.List(p, "arguments") {
			complete(peer.Object{"type": "ref/prompt", "name": peer.Text(p, "name")}, peer.Text(x, "name"))
		}
	}
	if m, err := c.Request("resources/templates/list", ""); err == nil && !m.Failed() {
		for _, x := range peer.List(m.Result(), "resourceTemplates") {
			uri := peer.Text(x, "uriTemplate")
			_, rest, _ := strings.Cut(uri, "{")
			if name, _, ok := strings.Cut(rest, "}"); ok {
				complete(peer.Object{"type": "ref/resource", "uri": uri}, strings.Trim(name, "+#./;?&*"))
			}
		}
	}
	if asked == 0 {
		t.Skip("no argument of a prompt or template could be completed")
	}
}
