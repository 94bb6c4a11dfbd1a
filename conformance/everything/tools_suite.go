package everything

import (
	"strconv"

	"dragoman/conformance/everything/arguments"
	"dragoman/conformance/everything/calls"
	"dragoman/conformance/everything/changes"
	"dragoman/conformance/everything/content"
	"dragoman/proxy/wire"
)

// suiteTools returns the tools that the official conformance suite calls, with the names and answers that it requires.
// Those with questions are in suiteScripts.
func (s *Server) suiteTools() []tool {
	return []tool{
		{name: "test_simple_text", description: "Answers with a text", hints: readOnly, answer: func(*calls.Query) calls.Outcome {
			return calls.Says("This is a simple text response for testing.")
		}},
		{name: "test_image_content", description: "Answers with an image", hints: readOnly, answer: func(q *calls.Query) calls.Outcome {
			return calls.Shows(content.Image(s.png))
		}},
		{name: "test_audio_content", description: "Answers with a sound", hints: readOnly, answer: func(q *calls.Query) calls.Outcome {
			return calls.Shows(s.audio(q))
		}},
		{name: "test_embedded_resource", description: "Answers with an embedded resource", hints: readOnly, answer: func(*calls.Query) calls.Outcome {
			return calls.Shows(content.Embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))
		}},
		{name: "test_multiple_content_types", description: "Answers with a text, an image and an embedded resource", hints: readOnly,
			answer: func(q *calls.Query) calls.Outcome {
				return calls.Shows(content.Text("Multiple content types test:"), content.Image(s.png),
					content.Embedded("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`))
			}},
		{name: "test_error_handling", description: "Always fails", answer: func(*calls.Query) calls.Outcome {
			return calls.Fails("This tool intentionally returns an error for testing")
		}},
		{name: "test_tool_with_logging", description: "Logs three messages, 50 ms apart", hints: readOnly, run: threeLogs},
		{name: "test_logging_tool", description: "Logs one message, if the client wants log messages", hints: readOnly, run: oneLog},
		{name: "test_tool_with_progress", description: "Reports 0, 50 and 100 of 100, 50 ms apart", hints: readOnly, run: halves},
		{name: "json_schema_2020_12_tool", description: "Has an inputSchema with the vocabulary of JSON Schema 2020-12", hints: readOnly,
			input: contactSchema, answer: contact},
	}
}

func threeLogs(c *calls.Call) calls.Outcome {
	for _, line := range [...]string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		if !c.Log("info", content.Quote(line)) || !c.Pause(50) {
			return calls.Outcome{}
		}
	}
	return calls.Says("Tool with logging executed")
}

func oneLog(c *calls.Call) calls.Outcome {
	if !c.Log("info", `"test_logging_tool was called"`) {
		return calls.Outcome{}
	}
	return calls.Says("Logging tool executed")
}

func halves(c *calls.Call) calls.Outcome {
	for _, at := range [...]int{0, 50, 100} {
		if !c.Progress(at, 100, "") || !c.Pause(50) {
			return calls.Outcome{}
		}
	}
	return calls.Says("Tool with progress executed")
}

// changeTools returns the tools that change what clients may listen to, by the names that the conformance suite uses.
func (s *Server) changeTools() []tool {
	flipped := func(t changes.Topic) calls.Outcome {
		if s.flip(t) {
			return calls.Says("of the " + t.String() + ", the one that is there only sometimes is there now")
		}
		return calls.Says("of the " + t.String() + ", the one that is there only sometimes is gone now")
	}
	return []tool{
		{name: "test_trigger_tool_change", description: "Shows or hides the tool test_sometimes", answer: func(*calls.Query) calls.Outcome {
			return flipped(changes.Tools)
		}},
		{name: "test_trigger_prompt_change", description: "Shows or hides the prompt test_sometimes", answer: func(*calls.Query) calls.Outcome {
			return flipped(changes.Prompts)
		}},
		{name: "test_trigger_resource_change", description: "Shows or hides the resource test://sometimes", answer: func(*calls.Query) calls.Outcome {
			return flipped(changes.Resources)
		}},
		{name: "test_trigger_resource_update", description: "Changes test://watched-resource", answer: func(q *calls.Query) calls.Outcome {
			return calls.Says("version " + strconv.FormatInt(s.updates(&s.updated, watchedURI), 10))
		}},
	}
}

// contactSchema is the schema that the suite's scenario json-schema-2020-12 expects (SEP-1613, SEP-2106).
const contactSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
	`"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},` +
	`"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},` +
	`"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},` +
	`"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],` +
	`"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},` +
	`"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`

// contact checks its arguments against contactSchema. The anyOf of the schema follows from then and else.
func contact(q *calls.Query) calls.Outcome {
	a := &q.Args
	for key := range wire.Members(a.Raw, a.At) {
		switch name := string(key.Text(a.Raw)); name {
		case "name", "phone", "email", "contactMethod":
			a.MaybeText(name)
		case "address":
			checkAddress(a)
		default:
			a.Complain("there is no argument %q", name)
		}
	}
	method, given := a.MaybeText("contactMethod")
	if given && method != "phone" && method != "email" {
		a.Complain("argument %q must be phone or email", "contactMethod")
	}
	if method == "phone" {
		a.Text("phone")
	} else {
		a.Text("email")
	}
	return calls.Says("Valid: " + string(a.At.Of(a.Raw)))
}

func checkAddress(a *arguments.Reader) {
	v, _ := a.Find("address")
	if !v.IsObject(a.Raw) {
		a.Complain("argument %q must be an object", "address")
		return
	}
	for _, part := range [...]string{"street", "city"} {
		if p := wire.Get(a.Raw, v, part); p.Present() && !p.IsString(a.Raw) {
			a.Complain("argument %q: %s must be a string", "address", part)
		}
	}
}
