package mutants

import (
	"strings"

	"dragoman/conformance/peer"
)

func listMutants() []mutant {
	return append(slow(mutant{name: "tells of changes unasked", caught: "legacy-lists.changes-declared", faces: legacyFaces, message: without("tools", "listChanged")}), []mutant{
		{name: "has a list without end", caught: "legacy-lists.pages", faces: legacyFaces,
			message: edited("tools/list", func(result peer.Object) { result["nextCursor"] = "again" }),
			request: func(x *exchange) {
				if x.method == "tools/list" {
					x.body = strings.Replace(x.body, `"cursor":"again"`, ``, 1)
				}
			}},
		{name: "lists a resource twice", caught: "legacy-lists.pages", faces: legacyFaces, message: edited("resources/list", twice("resources"))},
		{name: "takes every cursor", caught: "legacy-lists.bad-cursor", faces: legacyFaces, message: instead("tools/list", `"result":{"tools":[]}`, nil)},
		{name: "lists a tool twice", caught: "legacy-lists.tool-names", faces: legacyFaces, message: edited("tools/list", twice("tools"))},
		{name: "keeps changes to itself", caught: "legacy-lists.changes-told",
			message: notices("notifications/tools/list_changed", func(peer.Message) []string { return nil })},
	}...)
}

// twice has the first item of a list in it twice.
func twice(member string) func(peer.Object) {
	return func(result peer.Object) {
		items := peer.List(result, member)
		result[member] = append(items, items[0])
	}
}

func toolMutants() []mutant {
	const good = `"result":{"content":[{"type":"text","text":"done"}]}`
	return []mutant{
		{name: "has every tool", caught: "legacy-tools.unknown", faces: legacyFaces, message: instead("tools/call", good, callsTool("dragoman_no_such_tool"))},
		{name: "runs tools that it has not", caught: "legacy-tools.unknown-code", faces: legacyFaces,
			message: instead("tools/call", `"result":{"content":[],"isError":true}`, callsTool("dragoman_no_such_tool"))},
		{name: "checks no arguments", caught: "legacy-tools.bad-arguments", faces: legacyFaces, message: instead("tools/call", good, noArguments)},
		{name: "insists on arguments", caught: "legacy-tools.no-arguments", faces: legacyFaces,
			message: instead("tools/call", invalid, func(x *exchange) bool { return x.asked.Params()["arguments"] == nil })},
		{name: "fails with its tools", caught: "legacy-tools.is-error", faces: legacyFaces, message: instead("tools/call", internal, callsTool("test_error_handling"))},
		{name: "sends data URIs", caught: "legacy-tools.binary-content", faces: legacyFaces,
			message: rewritten("tools/call", `"data":"`, `"data":"data:image/png;base64,`)},
		{name: "forgets a member of its schema", caught: "legacy-tools.output-schema", faces: legacyFaces, message: edited("tools/call", func(result peer.Object) {
			if result["structuredContent"] != nil {
				result["structuredContent"] = peer.Object{}
			}
		})},
		{name: "answers another type than its schema's", caught: "legacy-tools.output-schema", message: rewritten("tools/call", `"sum":2`, `"sum":"2"`)},
		{name: "forgets its structured content", caught: "legacy-tools.output-schema",
			message: edited("tools/call", func(result peer.Object) { delete(result, "structuredContent") })},
		{name: "says it in structure alone", caught: "legacy-tools.structured-text", faces: legacyFaces,
			message: edited("tools/call", func(result peer.Object) { result["content"] = []any{} })},
	}
}

func resourceMutants() []mutant {
	const changed = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://watched-resource"}}`
	return append([]mutant{
		{name: "reads nothing", caught: "legacy-resources.read", faces: legacyFaces, message: instead("resources/read", `"result":{"contents":[{"uri":"a:b"}]}`, nil)},
		{name: "sends what is no base64", caught: "legacy-resources.read",
			message: instead("resources/read", `"result":{"contents":[{"uri":"a:b","blob":"!"}]}`, nil)},
		{name: "cannot read what it lists", caught: "legacy-resources.read", message: instead("resources/read", internal, nil)},
		{name: "reads what is not there", caught: "legacy-resources.not-found", faces: legacyFaces, message: instead("resources/read", `"result":{"contents":[]}`, nil)},
		{name: "forgets what was put in a template", caught: "legacy-resources.template", faces: legacyFaces, message: rewritten("resources/read", `4711`, `{id}`)},
		{name: "takes no subscriptions", caught: "legacy-subscribe.answered", faces: legacyFaces, message: instead("resources/subscribe", notFound, nil)},
		{name: "keeps updates to itself", caught: "legacy-subscribe.updated",
			message: notices("notifications/resources/updated", func(peer.Message) []string { return nil })},
		{name: "tells everybody of updates", caught: "legacy-subscribe.only-subscribed", faces: oneStream, message: besides("ping", changed, "")},
	}, slow(mutant{name: "keeps subscriptions for ever", caught: "legacy-subscribe.unsubscribed", faces: legacyPosts, request: func(x *exchange) {
		if x.method == "resources/unsubscribe" {
			x.reply(200, "application/json", `{"jsonrpc":"2.0","id":`+string(x.asked.ID)+`,"result":{}}`)
		}
	}})...)
}

func promptMutants() []mutant {
	many := `"result":{"completion":{"values":["x"` + strings.Repeat(`,"x"`, 100) + `]}}`
	unknown := func(x *exchange) bool { return strings.Contains(x.asked.Raw, "dragoman-no-such-prompt") }
	return []mutant{
		{name: "speaks as the system", caught: "legacy-prompts.get", faces: legacyFaces, message: rewritten("prompts/get", `"user"`, `"system"`)},
		{name: "cannot give what it lists", caught: "legacy-prompts.get", faces: legacyFaces, message: instead("prompts/get", internal, nil)},
		{name: "has every prompt", caught: "legacy-prompts.unknown", faces: legacyFaces, message: instead("prompts/get", `"result":{"messages":[]}`, unknown)},
		{name: "leaves holes in prompts", caught: "legacy-prompts.missing-argument", faces: legacyFaces, message: instead("prompts/get", `"result":{"messages":[]}`, noArguments)},
		{name: "completes with all that there is", caught: "legacy-completion.limit", faces: legacyFaces, message: instead("completion/complete", many, nil)},
		{name: "completes for every prompt", caught: "legacy-completion.unknown", faces: legacyFaces,
			message: instead("completion/complete", `"result":{"completion":{"values":[]}}`, unknown)},
	}
}

func logMutants() []mutant {
	level := func(name string) func(*exchange) bool {
		return func(x *exchange) bool { return peer.Text(x.asked.Params(), "level") == name }
	}
	return []mutant{
		{name: "knows seven levels", caught: "legacy-logging.set-level", faces: legacyFaces, message: instead("logging/setLevel", invalid, level("alert"))},
		{name: "knows every level", caught: "legacy-logging.bad-level", faces: legacyFaces, message: instead("logging/setLevel", `"result":{}`, level("loud"))},
		{name: "logs everything", caught: "legacy-logging.level-kept", faces: legacyFaces, request: func(x *exchange) {
			if x.method == "logging/setLevel" {
				x.body = strings.Replace(x.body, `"error"`, `"debug"`, 1)
			}
		}},
		{name: "logs nothing", caught: "legacy-logging.level-kept", faces: legacyFaces, message: notices("notifications/message", func(peer.Message) []string { return nil })},
		{name: "logs unasked", caught: "legacy-logging.declared", faces: oneStream, message: func(x *exchange, m peer.Message) []string {
			if x.method == "initialize" {
				return without("logging")(x, m)
			}
			return besides("tools/call", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"called"}}`, "")(x, m)
		}},
	}
}

func progressMutants() []mutant {
	const method = "notifications/progress"
	progress := func(change func(params peer.Object)) func(*exchange, peer.Message) []string {
		return notices(method, func(m peer.Message) []string { change(m.Params()); return []string{peer.Encode(m.Object)} })
	}
	of := func(token string) string {
		return `{"jsonrpc":"2.0","method":"` + method + `","params":{"progressToken":` + token + `,"progress":1000}}`
	}
	return []mutant{
		{name: "takes tokens for texts", caught: "legacy-progress.token", faces: legacyFaces,
			message: progress(func(params peer.Object) { params["progressToken"] = "4711" })},
		{name: "stands still", caught: "legacy-progress.increases", faces: legacyFaces, message: progress(func(params peer.Object) { params["progress"] = 50 })},
		{name: "makes tokens up", caught: "legacy-progress.no-token", faces: oneStream, message: besides("tools/call", of(`"made-up"`), "")},
		{name: "goes on after the answer", caught: "legacy-progress.ends", faces: legacyFaces, message: besides("tools/call", "", of(`"4711"`))},
		{name: "cannot be stopped", caught: "legacy-cancel.not-answered", faces: legacyFaces, request: func(x *exchange) {
			if x.method == "notifications/cancelled" {
				x.reply(202, "", "")
			}
		}},
		{name: "fails at cancellations", caught: "legacy-cancel.unknown", faces: legacyWeb, request: func(x *exchange) {
			if x.method == "notifications/cancelled" {
				x.reply(400, "", "")
			}
		}},
		{name: "answers cancellations", caught: "legacy-cancel.unknown", faces: []peer.Face{peer.LegacyStdio}, request: func(x *exchange) {
			if x.method == "notifications/cancelled" {
				x.reply(0, "", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"unknown request"}}`)
			}
		}},
	}
}

func askMutants() []mutant {
	const everything = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{"listChanged":true}}`
	const generate = "sampling/createMessage"
	var own kept
	lost := func(when string) func(x *exchange) {
		return func(x *exchange) {
			if x.asked.Kind() == peer.IsResponse && strings.Contains(x.body, when) {
				x.reply(202, "", "")
			}
		}
	}
	thanks := instead("tools/call", `"result":{"content":[{"type":"text","text":"Thank you."}]}`, nil)
	return []mutant{
		{name: "asks every user", caught: "ask.elicitation-undeclared", faces: legacyFaces, request: declaring(everything)},
		{name: "asks every model", caught: "ask.sampling-undeclared", faces: legacyFaces, request: declaring(everything)},
		{name: "asks everybody for roots", caught: "ask.roots-undeclared", faces: legacyFaces, request: declaring(everything)},
		{name: "sends everybody to a page", caught: "ask.url-undeclared", faces: legacyFaces, request: declaring(everything)},
		{name: "has one id for all questions", caught: "ask.ids-unique", faces: legacyFaces,
			message: notices(generate, func(m peer.Message) []string {
				own.swap(string(m.ID))
				m.Object["id"] = "question"
				return []string{peer.Encode(m.Object)}
			}),
			request: func(x *exchange) {
				if x.asked.Kind() == peer.IsResponse {
					x.body = strings.Replace(x.body, `"question"`, own.swap(""), 1)
				}
			}},
		{name: "asks for an object in an object", caught: "ask.flat-form", faces: legacyFaces, message: notices("elicitation/create", func(m peer.Message) []string {
			properties, _ := peer.Get(m.Params(), "requestedSchema", "properties").(peer.Object)
			properties["address"] = peer.Object{"type": "object", "properties": peer.Object{}}
			return []string{peer.Encode(m.Object)}
		})},
		{name: "forgets what the user said", caught: "ask.elicitation-used", faces: legacyFaces, message: thanks},
		{name: "forgets what the model said", caught: "ask.sampling-used", faces: legacyFaces, message: thanks},
		{name: "waits for a yes", caught: "ask.declined", request: lost(`"decline"`)},
		{name: "waits for a result", caught: "ask.refused", request: lost(`"error"`)},
	}
}
