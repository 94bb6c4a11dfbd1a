package everything

import (
	"strconv"

	"dragoman/proxy/wire"
)

// suiteTools returns the tools that the official conformance suite calls, with the names and answers that it requires.
// Those with questions are in suiteScripts.
func suiteTools() []tool {
	return []tool{
		{name: "test_simple_text", description: "Answers with a text", hints: readOnly, answer: func(*query) outcome {
			return says("This is a simple text response for testing.")
		}},
		{name: "test_image_content", description: "Answers with an image", hints: readOnly, answer: func(q *query) outcome {
			return shows(imageBlock(q.server.png))
		}},
		{name: "test_audio_content", description: "Answers with a sound", hints: readOnly, answer: func(q *query) outcome {
			return shows(q.audio())
		}},
		{name: "test_embedded_resource", description: "Answers with an embedded resource", hints: readOnly, answer: func(*query) outcome {
			return shows(embeddedBlock("test://embedded-resource", "text/plain", "This is an embedded resource content."))
		}},
		{name: "test_multiple_content_types", description: "Answers with a text, an image and an embedded resource", hints: readOnly,
			answer: func(q *query) outcome {
				return shows(textBlock("Multiple content types test:"), imageBlock(q.server.png),
					embeddedBlock("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`))
			}},
		{name: "test_error_handling", description: "Always fails", answer: func(*query) outcome {
			return fails("This tool intentionally returns an error for testing")
		}},
		{name: "test_tool_with_logging", description: "Logs three messages, 50 ms apart", hints: readOnly, run: threeLogs},
		{name: "test_logging_tool", description: "Logs one message, if the client wants log messages", hints: readOnly, run: oneLog},
		{name: "test_tool_with_progress", description: "Reports 0, 50 and 100 of 100, 50 ms apart", hints: readOnly, run: halves},
		{name: "json_schema_2020_12_tool", description: "Has an inputSchema with the vocabulary of JSON Schema 2020-12", hints: readOnly,
			input: contactSchema, answer: contact},
	}
}

func threeLogs(c *call) outcome {
	for _, line := range [...]string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		if !c.log("info", quote(line)) || !c.pause(50) {
			return isStopped()
		}
	}
	return says("Tool with logging executed")
}

func oneLog(c *call) outcome {
	if !c.log("info", `"test_logging_tool was called"`) {
		return isStopped()
	}
	return says("Logging tool executed")
}

func halves(c *call) outcome {
	for _, at := range [...]int{0, 50, 100} {
		if !c.progress(at, 100, "") || !c.pause(50) {
			return isStopped()
		}
	}
	return says("Tool with progress executed")
}

// changeTools returns the tools that change what clients may listen to, by the names that the conformance suite uses.
func changeTools() []tool {
	flipped := func(q *query, t topic) outcome {
		if q.server.flip(t) {
			return says("of the " + t.String() + ", the one that is there only sometimes is there now")
		}
		return says("of the " + t.String() + ", the one that is there only sometimes is gone now")
	}
	return []tool{
		{name: "test_trigger_tool_change", description: "Shows or hides the tool test_sometimes", answer: func(q *query) outcome {
			return flipped(q, tools)
		}},
		{name: "test_trigger_prompt_change", description: "Shows or hides the prompt test_sometimes", answer: func(q *query) outcome {
			return flipped(q, prompts)
		}},
		{name: "test_trigger_resource_change", description: "Shows or hides the resource test://sometimes", answer: func(q *query) outcome {
			return flipped(q, resources)
		}},
		{name: "test_trigger_resource_update", description: "Changes test://watched-resource", answer: func(q *query) outcome {
			return says("version " + strconv.FormatInt(q.server.updates(&q.server.updated, watchedURI), 10))
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
func contact(q *query) outcome {
	a := &q.args
	for key := range wire.Members(a.raw, a.at) {
		switch name := string(key.Text(a.raw)); name {
		case "name", "phone", "email", "contactMethod":
			a.maybeText(name)
		case "address":
			checkAddress(a)
		default:
			a.complain("there is no argument %q", name)
		}
	}
	method, given := a.maybeText("contactMethod")
	if given && method != "phone" && method != "email" {
		a.complain("argument %q must be phone or email", "contactMethod")
	}
	if method == "phone" {
		a.text("phone")
	} else {
		a.text("email")
	}
	if a.wrong != "" {
		return invalid(a)
	}
	return says("Valid: " + string(a.at.Of(a.raw)))
}

func checkAddress(a *arguments) {
	v, _ := a.find("address")
	if !v.IsObject(a.raw) {
		a.complain("argument %q must be an object", "address")
		return
	}
	for _, part := range [...]string{"street", "city"} {
		if p := wire.Get(a.raw, v, part); p.Present() && !p.IsString(a.raw) {
			a.complain("argument %q: %s must be a string", "address", part)
		}
	}
}
