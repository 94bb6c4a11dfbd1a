package everything

// always is a round with the same questions for every call.
func always(asked ...question) func(*query) []question {
	return func(*query) []question { return asked }
}

const (
	aText    = `{"type":"string"}`
	aBoolean = `{"type":"boolean"}`
)

// inputOf returns the inputSchema of a tool with one required string.
func inputOf(name string) string {
	return object("type", `"object"`, "properties", object(name, aText), "required", "["+quote(name)+"]")
}

// demoScripts returns the tools with questions for people and for the project's own tests.
func demoScripts() []tool {
	return []tool{
		{name: "ask_user", description: "Asks the user", input: inputOf("question"), script: &script{
			rounds: []func(*query) []question{func(q *query) []question {
				return []question{form("user", q.args.text("question"), "name", aText)}
			}},
			done: func(_ *query, got answers) outcome {
				if got.action("user") != "accept" {
					return says(got.action("user") + " -")
				}
				return says("accept " + got.field("user", "name"))
			}}},
		{name: "ask_model", description: "Asks the client's model", input: inputOf("prompt"), script: &script{
			rounds: []func(*query) []question{func(q *query) []question {
				return []question{generate("model", q.args.text("prompt"), "100")}
			}},
			done: func(_ *query, got answers) outcome { return says(got.spoken("model")) }}},
		{name: "ask_roots", description: "Asks for the roots", script: &script{
			rounds: []func(*query) []question{always(whereabouts("where"))},
			done:   func(_ *query, got answers) outcome { return says(got.uris("where")) }}},
		{name: "ask_url", description: "Asks the user to open a URL", script: &script{
			rounds: []func(*query) []question{always(visit("page", "Please agree on this page", "https://example.com/agree"))},
			done:   func(_ *query, got answers) outcome { return says(got.action("page")) }}},
		{name: "ask_rounds", description: "Asks the user, then the model", script: &script{
			sealed: true,
			rounds: []func(*query) []question{always(askName("user")), always(generate("model", "a poem", "100"))},
			done: func(_ *query, got answers) outcome {
				return says(got.field("user", "name") + ": " + got.spoken("model"))
			}}},
		{name: "ask_at_once", description: "Asks user and model in one round", script: &script{
			rounds: []func(*query) []question{always(askName("user"), generate("model", "a riddle", "100"))},
			done: func(_ *query, got answers) outcome {
				return says(got.field("user", "name") + ": " + got.spoken("model"))
			}}},
	}
}

func askName(key string) question { return form(key, "What is your name?", "name", aText) }

// suiteScripts returns the tools with questions that the official conformance suite calls, with the keys, questions and
// texts that it requires.
func suiteScripts() []tool {
	all := append(pushedScripts(), sealedScripts()...)
	return append(all, tool{
		name: "test_input_required_result_elicitation", description: "One question to the user", script: &script{
			rounds: []func(*query) []question{always(askName("user_name"))},
			done:   func(_ *query, got answers) outcome { return says("Hello, " + got.field("user_name", "name") + "!") }}},
		tool{name: "test_input_required_result_sampling", description: "One question to the model", script: &script{
			rounds: []func(*query) []question{always(generate("capital_question", "What is the capital of France?", "100"))},
			done:   func(_ *query, got answers) outcome { return says(got.spoken("capital_question")) }}},
		tool{name: "test_input_required_result_list_roots", description: "Asks for the roots", script: &script{
			rounds: []func(*query) []question{always(whereabouts("client_roots"))},
			done:   func(_ *query, got answers) outcome { return says("Roots: " + got.uris("client_roots")) }}},
		tool{name: "test_input_required_result_capabilities", description: "Asks only what the client says that it can answer", script: &script{
			rounds: []func(*query) []question{askWhatCanBe},
			done: func(_ *query, got answers) outcome {
				text := "answered:"
				for _, key := range [...]string{"user", "model", "roots"} {
					if got[key] != nil {
						text += " " + key
					}
				}
				return says(text)
			}}})
}

func askWhatCanBe(q *query) (asked []question) {
	for _, a := range [...]question{askName("user"), generate("model", "Say hello", "100"), whereabouts("roots")} {
		if q.can(a.need) {
			asked = append(asked, a)
		}
	}
	return asked
}

// pushedScripts returns the tools that the suite's legacy scenarios call.
func pushedScripts() []tool {
	decided := func(before, key string) func(*query, answers) outcome {
		return func(_ *query, got answers) outcome { return says(before + got.decided(key)) }
	}
	response := func(_ *query, got answers) outcome { return says("LLM response: " + got.spoken("model")) }
	choices := formOf("chosen", "Choose", choicesSchema)
	choices.since = hasModes // SEP-1330, since 2025-11-25
	return []tool{
		{name: "test_sampling", description: "Hands a prompt to the client's model", input: inputOf("prompt"), script: &script{
			rounds: []func(*query) []question{func(q *query) []question {
				return []question{generate("model", q.args.text("prompt"), "100")}
			}}, done: response}},
		{name: "test_missing_capability", description: "Cannot work without sampling", script: &script{
			rounds: []func(*query) []question{always(generate("model", "Anything will do", "100"))}, done: response}},
		{name: "test_elicitation", description: "Asks for a name and an address", input: inputOf("message"), script: &script{
			rounds: []func(*query) []question{func(q *query) []question {
				return []question{form("person", q.args.text("message"), "username", `{"type":"string","description":"User's response"}`,
					"email", `{"type":"string","description":"User's email address"}`)}
			}}, done: decided("User response: ", "person")}},
		{name: "test_streaming_elicitation", description: "Asks for one word", script: &script{
			rounds: []func(*query) []question{always(form("word", "Which word?", "word", aText))},
			done:   decided("User response: ", "word")}},
		{name: "test_elicitation_sep1034_defaults", description: "A form whose every field has a default (SEP-1034)", script: &script{
			rounds: []func(*query) []question{always(formOf("filled", "Is this right?", defaultsSchema))},
			done:   decided("Elicitation completed: ", "filled")}},
		{name: "test_elicitation_sep1330_enums", description: "A form with each kind of choice (SEP-1330)", script: &script{
			rounds: []func(*query) []question{always(choices)},
			done:   decided("Elicitation completed: ", "chosen")}},
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
	confirm := always(form("confirm", "Please confirm", "ok", aBoolean))
	confirmed := func(text string) func(*query, answers) outcome {
		return func(_ *query, got answers) outcome { return says(text + ", " + got.decided("confirm")) }
	}
	return []tool{
		{name: "test_input_required_result_request_state", description: "One question, with a state to carry", script: &script{
			sealed: true, rounds: []func(*query) []question{confirm}, done: confirmed("state-ok")}},
		{name: "test_input_required_result_tampered_state", description: "One question; refuses a state that was changed", script: &script{
			sealed: true, rounds: []func(*query) []question{confirm}, done: confirmed("state-ok and whole")}},
		{name: "test_input_required_result_multiple_inputs", description: "User, model and roots in one round", script: &script{
			sealed: true,
			rounds: []func(*query) []question{always(askName("user_name"), generate("greeting", "Generate a greeting", "50"), whereabouts("client_roots"))},
			done: func(_ *query, got answers) outcome {
				return says(got.spoken("greeting") + " (" + got.field("user_name", "name") + ", roots: " + got.uris("client_roots") + ")")
			}}},
		{name: "test_input_required_result_multi_round", description: "Two rounds of one question each", script: &script{
			sealed: true,
			rounds: []func(*query) []question{
				always(form("step1", "Step 1: What is your name?", "name", aText)),
				always(form("step2", "Step 2: What is your favorite color?", "color", aText)),
			},
			done: func(_ *query, got answers) outcome {
				return says(got.field("step1", "name") + " likes " + got.field("step2", "color"))
			}}},
	}
}

// askContext is a prompt that asks for its context.
func askContext() *script {
	return &script{
		rounds: []func(*query) []question{always(form("user_context", "What context should the prompt use?", "context", aText))},
		done: func(_ *query, got answers) outcome {
			return prompted("Asks the user for its context", textBlock("Context: "+got.field("user_context", "context")))
		}}
}
