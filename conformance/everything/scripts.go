package everything

import (
	"dragoman/adapters/rules"
	"dragoman/conformance/everything/calls"
	"dragoman/conformance/everything/content"
)

// always is a round with the same questions for every call.
func always(asked ...calls.Question) calls.Round {
	return func(*calls.Query) []calls.Question { return asked }
}

const (
	aText    = `{"type":"string"}`
	aBoolean = `{"type":"boolean"}`
)

// inputOf returns the inputSchema of a tool with one required string.
func inputOf(name string) string {
	return content.Object("type", `"object"`, "properties", content.Object(name, aText), "required", "["+content.Quote(name)+"]")
}

// demoScripts returns the tools with questions for people and for the project's own tests.
func demoScripts() []tool {
	return []tool{
		{name: "ask_user", description: "Asks the user", input: inputOf("question"), script: &calls.Script{
			Rounds: []calls.Round{func(q *calls.Query) []calls.Question {
				return []calls.Question{calls.AskForm("user", q.Args.Text("question"), "name", aText)}
			}},
			Done: func(_ *calls.Query, got calls.Answers) calls.Outcome {
				if got.Action("user") != "accept" {
					return calls.Says(got.Action("user") + " -")
				}
				return calls.Says("accept " + got.Field("user", "name"))
			}}},
		{name: "ask_model", description: "Asks the client's model", input: inputOf("prompt"), script: &calls.Script{
			Rounds: []calls.Round{func(q *calls.Query) []calls.Question {
				return []calls.Question{calls.AskModel("model", q.Args.Text("prompt"), "100")}
			}},
			Done: func(_ *calls.Query, got calls.Answers) calls.Outcome { return calls.Says(got.Spoken("model")) }}},
		{name: "ask_roots", description: "Asks for the roots", script: &calls.Script{
			Rounds: []calls.Round{always(calls.AskRoots("where"))},
			Done:   func(_ *calls.Query, got calls.Answers) calls.Outcome { return calls.Says(got.URIs("where")) }}},
		{name: "ask_url", description: "Asks the user to open a URL", script: &calls.Script{
			Rounds: []calls.Round{always(calls.AskURL("page", "Please agree on this page", "https://example.com/agree"))},
			Done:   func(_ *calls.Query, got calls.Answers) calls.Outcome { return calls.Says(got.Action("page")) }}},
		{name: "ask_rounds", description: "Asks the user, then the model", script: &calls.Script{
			Sealed: true,
			Rounds: []calls.Round{always(askName("user")), always(calls.AskModel("model", "a poem", "100"))},
			Done: func(_ *calls.Query, got calls.Answers) calls.Outcome {
				return calls.Says(got.Field("user", "name") + ": " + got.Spoken("model"))
			}}},
		{name: "ask_at_once", description: "Asks user and model in one round", script: &calls.Script{
			Rounds: []calls.Round{always(askName("user"), calls.AskModel("model", "a riddle", "100"))},
			Done: func(_ *calls.Query, got calls.Answers) calls.Outcome {
				return calls.Says(got.Field("user", "name") + ": " + got.Spoken("model"))
			}}},
	}
}

func askName(key string) calls.Question {
	return calls.AskForm(key, "What is your name?", "name", aText)
}

// suiteScripts returns the tools with questions that the official conformance suite calls, with the keys, questions and
// texts that it requires.
func suiteScripts() []tool {
	all := append(pushedScripts(), sealedScripts()...)
	return append(all, tool{
		name: "test_input_required_result_elicitation", description: "One question to the user", script: &calls.Script{
			Rounds: []calls.Round{always(askName("user_name"))},
			Done: func(_ *calls.Query, got calls.Answers) calls.Outcome {
				return calls.Says("Hello, " + got.Field("user_name", "name") + "!")
			}}},
		tool{name: "test_input_required_result_sampling", description: "One question to the model", script: &calls.Script{
			Rounds: []calls.Round{always(calls.AskModel("capital_question", "What is the capital of France?", "100"))},
			Done: func(_ *calls.Query, got calls.Answers) calls.Outcome {
				return calls.Says(got.Spoken("capital_question"))
			}}},
		tool{name: "test_input_required_result_list_roots", description: "Asks for the roots", script: &calls.Script{
			Rounds: []calls.Round{always(calls.AskRoots("client_roots"))},
			Done: func(_ *calls.Query, got calls.Answers) calls.Outcome {
				return calls.Says("Roots: " + got.URIs("client_roots"))
			}}},
		tool{name: "test_input_required_result_capabilities", description: "Asks only what the client says that it can answer", script: &calls.Script{
			Rounds: []calls.Round{askWhatCanBe},
			Done: func(_ *calls.Query, got calls.Answers) calls.Outcome {
				text := "answered:"
				for _, key := range [...]string{"user", "model", "roots"} {
					if got[key] != nil {
						text += " " + key
					}
				}
				return calls.Says(text)
			}}})
}

func askWhatCanBe(q *calls.Query) (asked []calls.Question) {
	for _, a := range [...]calls.Question{askName("user"), calls.AskModel("model", "Say hello", "100"), calls.AskRoots("roots")} {
		if q.CanAsk(a) {
			asked = append(asked, a)
		}
	}
	return asked
}

// pushedScripts returns the tools that the suite's legacy scenarios call.
func pushedScripts() []tool {
	decided := func(before, key string) func(*calls.Query, calls.Answers) calls.Outcome {
		return func(_ *calls.Query, got calls.Answers) calls.Outcome { return calls.Says(before + got.Decided(key)) }
	}
	response := func(_ *calls.Query, got calls.Answers) calls.Outcome {
		return calls.Says("LLM response: " + got.Spoken("model"))
	}
	choices := calls.AskFormOf("chosen", "Choose", choicesSchema)
	choices.Since = rules.Version20251125 // SEP-1330, since 2025-11-25
	return []tool{
		{name: "test_sampling", description: "Hands a prompt to the client's model", input: inputOf("prompt"), script: &calls.Script{
			Rounds: []calls.Round{func(q *calls.Query) []calls.Question {
				return []calls.Question{calls.AskModel("model", q.Args.Text("prompt"), "100")}
			}}, Done: response}},
		{name: "test_missing_capability", description: "Cannot work without sampling", script: &calls.Script{
			Rounds: []calls.Round{always(calls.AskModel("model", "Anything will do", "100"))}, Done: response}},
		{name: "test_elicitation", description: "Asks for a name and an address", input: inputOf("message"), script: &calls.Script{
			Rounds: []calls.Round{func(q *calls.Query) []calls.Question {
				return []calls.Question{calls.AskForm("person", q.Args.Text("message"), "username", `{"type":"string","description":"User's response"}`,
					"email", `{"type":"string","description":"User's email address"}`)}
			}}, Done: decided("User response: ", "person")}},
		{name: "test_streaming_elicitation", description: "Asks for one word", script: &calls.Script{
			Rounds: []calls.Round{always(calls.AskForm("word", "Which word?", "word", aText))},
			Done:   decided("User response: ", "word")}},
		{name: "test_elicitation_sep1034_defaults", description: "A form whose every field has a default (SEP-1034)", script: &calls.Script{
			Rounds: []calls.Round{always(calls.AskFormOf("filled", "Is this right?", defaultsSchema))},
			Done:   decided("Elicitation completed: ", "filled")}},
		{name: "test_elicitation_sep1330_enums", description: "A form with each kind of choice (SEP-1330)", script: &calls.Script{
			Rounds: []calls.Round{always(choices)},
			Done:   decided("Elicitation completed: ", "chosen")}},
	}
}

const defaultsSchema = `{"type":"object","properties":{"name":{"type":"string","default":"John Doe"},` +
	`"age":{"type":"integer","default":30},"score":{"type":"number","default":95.5},` +
	`"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}}}`

const choicesSchema = `{"type":"object","properties":{"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},` +
	`"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},` +
	`{"const":"value3","title":"Third Option"}]},` +
	`"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},` +
	`"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},` +
	`"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},` +
	`{"const":"value3","title":"Third Choice"}]}}}}`

// sealedScripts returns the tools with which the suite tests requestState.
func sealedScripts() []tool {
	confirm := always(calls.AskForm("confirm", "Please confirm", "ok", aBoolean))
	confirmed := func(text string) func(*calls.Query, calls.Answers) calls.Outcome {
		return func(_ *calls.Query, got calls.Answers) calls.Outcome {
			return calls.Says(text + ", " + got.Decided("confirm"))
		}
	}
	return []tool{
		{name: "test_input_required_result_request_state", description: "One question, with a state to carry", script: &calls.Script{
			Sealed: true, Rounds: []calls.Round{confirm}, Done: confirmed("state-ok")}},
		{name: "test_input_required_result_tampered_state", description: "One question; refuses a state that was changed", script: &calls.Script{
			Sealed: true, Rounds: []calls.Round{confirm}, Done: confirmed("state-ok and whole")}},
		{name: "test_input_required_result_multiple_inputs", description: "User, model and roots in one round", script: &calls.Script{
			Sealed: true,
			Rounds: []calls.Round{always(askName("user_name"), calls.AskModel("greeting", "Generate a greeting", "50"), calls.AskRoots("client_roots"))},
			Done: func(_ *calls.Query, got calls.Answers) calls.Outcome {
				return calls.Says(got.Spoken("greeting") + " (" + got.Field("user_name", "name") + ", roots: " + got.URIs("client_roots") + ")")
			}}},
		{name: "test_input_required_result_multi_round", description: "Two rounds of one question each", script: &calls.Script{
			Sealed: true,
			Rounds: []calls.Round{
				always(calls.AskForm("step1", "Step 1: What is your name?", "name", aText)),
				always(calls.AskForm("step2", "Step 2: What is your favorite color?", "color", aText)),
			},
			Done: func(_ *calls.Query, got calls.Answers) calls.Outcome {
				return calls.Says(got.Field("step1", "name") + " likes " + got.Field("step2", "color"))
			}}},
	}
}

// askContext is a prompt that asks for its context.
func askContext() *calls.Script {
	return &calls.Script{
		Rounds: []calls.Round{always(calls.AskForm("user_context", "What context should the prompt use?", "context", aText))},
		Done: func(_ *calls.Query, got calls.Answers) calls.Outcome {
			return prompted("Asks the user for its context", content.Text("Context: "+got.Field("user_context", "context")))
		}}
}
