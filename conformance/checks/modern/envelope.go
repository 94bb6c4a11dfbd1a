package modern

import (
	"slices"
	"strings"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

func metaChecks() []*suite.Check {
	const (
		statement = "A request that lacks a required field of _meta must be rejected with -32602, over HTTP with status 400."
		why       = "There is no handshake: a server that guesses serves the client by the rules of another revision, or asks it questions that it cannot answer."
	)
	check := func(id, title, fix string, body func(id string) string) *suite.Check {
		return &suite.Check{ID: id, Title: title, Level: suite.Must, Faces: faces, Page: pageMeta, Statement: statement, Why: why, Fix: fix,
			Run: func(t *suite.Trial) {
				k := newRawClient(t)
				r := k.send(body(`"m1"`), checkutil.ModernHead("server/discover"))
				if r.message != nil && t.Face.Stdio() && id != "request.capabilities-missing" {
					if code, _, _ := r.message.Error(); code != checkutil.InvalidParams && isDual(t) {
						k.refuse(r, 0) // a legacy request before initialize
						return
					}
				}
				k.refuse(r, 400, checkutil.InvalidParams)
			}}
	}
	without := func(names ...string) func(id string) string {
		return func(id string) string {
			return checkutil.ModernBody(id, "server/discover", nil, func(meta peer.Object) {
				for _, name := range names {
					delete(meta, name)
				}
			})
		}
	}
	const discover = `,"method":"server/discover"`
	return []*suite.Check{
		check("request.params-missing", "Refuses a request without params",
			"Every request has params with _meta, lists and server/discover too. Answer -32602 (status 400) if they are missing.",
			func(id string) string { return `{"jsonrpc":"2.0","id":` + id + discover + `}` }),
		check("request.meta-missing", "Refuses a request without _meta",
			"Read params._meta before anything else and answer -32602 (status 400) if it is missing. Name the missing field in the message.",
			func(id string) string { return `{"jsonrpc":"2.0","id":` + id + discover + `,"params":{}}` }),
		check("request.meta-version-missing", "Refuses a request whose _meta names no revision",
			"Demand _meta[\"io.modelcontextprotocol/protocolVersion\"], also where the header names the revision. Answer -32602 (status 400) if it is missing.",
			without(peer.MetaVersion)),
		check("request.capabilities-missing", "Refuses a request whose _meta has no clientCapabilities",
			"Demand _meta[\"io.modelcontextprotocol/clientCapabilities\"] on every request; it may be an empty object. Answer -32602 (status 400) if it is missing.",
			without(peer.MetaCapabilities)),
		{
			ID: "request.capabilities-malformed", Title: "Refuses clientCapabilities that are no object", Level: suite.Should, Faces: faces, Page: pageMeta,
			Statement: "clientCapabilities is an object; anything else is invalid params.",
			Why:       "What is read from something of another type is nothing, or a crash.",
			Fix:       "Check that clientCapabilities is a JSON object, and answer -32602 (status 400) otherwise. Arrays and null are not objects.",
			Run: func(t *suite.Trial) {
				k := newRawClient(t)
				k.refuse(k.request("1", "server/discover", nil, func(meta peer.Object) { meta[peer.MetaCapabilities] = []any{"sampling"} }), 0, checkutil.InvalidParams)
			},
		},
		{
			ID: "request.client-info-optional", Title: "Serves clients without clientInfo", Level: suite.Must, Faces: faces, Page: pageMeta,
			Statement: "clientInfo is not required.",
			Why:       "Clients may be configured not to identify themselves.",
			Fix:       "Treat _meta[\"io.modelcontextprotocol/clientInfo\"] as optional. Use a placeholder such as \"unknown\" in logs where it is missing.",
			Run: func(t *suite.Trial) {
				k := newRawClient(t)
				k.accept(k.send(without(peer.MetaClient)("1"), checkutil.ModernHead("server/discover")), "a result")
			},
		},
		{
			ID: "request.foreign-meta", Title: "Serves requests with keys in _meta that it does not know", Level: suite.Must, Faces: faces, Page: pageMeta,
			Statement: "_meta is open: vendors and extensions add keys, traceparent among them, and no schema forbids further members.",
			Why:       "A client with tracing or an extension would be refused by a server that has neither.",
			Fix:       "Ignore keys of _meta and members of params that you do not know. Do not validate requests with schemas that forbid additional properties.",
			Run: func(t *suite.Trial) {
				k := newRawClient(t)
				k.accept(k.request("1", "server/discover", peer.Object{"example.com_unknown": 1}, func(meta peer.Object) {
					meta["com.example/anything"] = peer.Object{"a": []any{1, nil}}
					meta["traceparent"] = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
					meta[peer.MetaCapabilities] = peer.Object{"extensions": peer.Object{"com.example/ext": peer.Object{}}, "roots": peer.Object{"listChanged": true}}
				}), "a result")
			},
		},
	}
}

func versionsChecks() []*suite.Check {
	const unknown = "2099-12-31"
	ask := func(t *suite.Trial) (*rawClient, reply) {
		k := newRawClient(t)
		return k, k.request(`"v1"`, "server/discover", nil, func(meta peer.Object) { meta[peer.MetaVersion] = unknown },
			peer.Field{Name: "MCP-Protocol-Version", Value: unknown})
	}
	return []*suite.Check{
		{
			ID: "request.version-unsupported", Title: "Refuses a revision that it does not speak", Level: suite.Must, Faces: faces,
			Page:      "basic/versioning §Protocol Version Negotiation",
			Statement: "A request of a revision that the server does not implement must be answered with -32022, over HTTP with status 400.",
			Why:       "The client would take the answer for one of the revision that it has asked for.",
			Fix:       "Compare the version of each request with those that you implement, by equality. Answer -32022 (UnsupportedProtocolVersion), over HTTP with status 400, for any other.",
			Run: func(t *suite.Trial) {
				k, r := ask(t)
				k.refuse(r, 400, checkutil.Unsupported)
			},
		},
		{
			ID: "request.version-unsupported-data", Title: "Says which revisions it speaks", Level: suite.Must, Faces: faces,
			Page:      "basic/versioning §Protocol Version Negotiation",
			Statement: "The error lists the supported versions and the requested one: data.supported and data.requested.",
			Why:       "Without the list a client cannot choose another revision, and gives up.",
			Fix:       "Set error.data to {\"supported\": [your versions], \"requested\": the version of the request}. The list is that of server/discover.",
			Run: func(t *suite.Trial) {
				k, r := ask(t)
				if r.message == nil || !r.message.Failed() {
					t.Fatal("the error -32022 with data", "no error")
				}
				_, _, data := r.message.Error()
				supported := peer.List(data, "supported")
				if !slices.Contains(supported, any(peer.R2607)) {
					t.Fail("data.supported with "+peer.R2607, "data %s", checkutil.Excerpt(data))
				}
				for _, v := range supported {
					if _, ok := v.(string); !ok || v == unknown {
						t.Fail("data.supported is a list of versions", "%s in it", checkutil.Excerpt(v))
					}
				}
				if got := peer.Text(data, "requested"); got != unknown {
					t.Fail("data.requested is "+unknown, "data %s", checkutil.Excerpt(data))
				}
				if d := k.request(`"v2"`, "server/discover", nil, nil); d.message != nil {
					for _, v := range supported {
						if !slices.Contains(peer.List(d.message.Result(), "supportedVersions"), v) {
							t.Fail("data.supported holds only versions of server/discover", "%s", checkutil.Excerpt(v))
						}
					}
				}
			},
		},
	}
}

func methodsChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "request.unknown-method", Title: "Refuses a method that it does not know", Level: suite.Must, Faces: faces,
			Page:      pageHTTP + "Protocol Version Header",
			Statement: "An unknown method is answered with -32601, over HTTP with status 404.",
			Why:       "Clients tell by it what a server can do; with another status they take the endpoint for something else.",
			Fix:       "Answer every method that you do not implement with -32601 (method not found), over HTTP with status 404. The body is the JSON-RPC error with the request's id.",
			Run: func(t *suite.Trial) {
				k := newRawClient(t)
				k.refuse(k.request("1", "dragoman/no-such-method", nil, nil), 404, checkutil.MethodNotFound)
			},
		},
		{
			ID: "request.removed-methods", Title: "Does not serve methods that the revision has removed", Level: suite.Must, Faces: faces,
			Page:      "changelog",
			Statement: "initialize, ping, logging/setLevel, resources/subscribe, resources/unsubscribe, tasks/result and tasks/list were removed; they are unknown methods.",
			Why:       "A client that finds one of them relies on a session which does not exist.",
			Fix:       "Dispatch requests with a modern _meta by a table of their own that lacks these methods. Answer -32601, over HTTP with status 404.",
			Run: func(t *suite.Trial) {
				k := newRawClient(t)
				for i, m := range removedMethods() {
					if m.name == "initialize" && t.Face.Stdio() {
						continue // there it may set the era of the process
					}
					k.refuse(k.request(`"r`+string(rune('a'+i))+`"`, m.name, m.params, nil), 404, checkutil.MethodNotFound)
				}
			},
		},
	}
}

type removed struct {
	name   string
	params peer.Object
}

func removedMethods() []removed {
	return []removed{
		{"initialize", peer.Object{"protocolVersion": peer.R2607, "capabilities": peer.Object{}, "clientInfo": peer.Object{"name": "x", "version": "1"}}},
		{"ping", nil},
		{"logging/setLevel", peer.Object{"level": "debug"}},
		{"resources/subscribe", peer.Object{"uri": "test://none"}},
		{"resources/unsubscribe", peer.Object{"uri": "test://none"}},
		{"tasks/result", peer.Object{"taskId": "none"}},
		{"tasks/list", nil},
	}
}

// messagesChecks are about messages that are not requests of JSON-RPC.
func messagesChecks() []*suite.Check {
	check := func(id, title, statement, why, fix string, level suite.Level, codes []int, body func() string) *suite.Check {
		return &suite.Check{ID: id, Title: title, Level: level, Faces: httpFace, Page: pageHTTP + "Sending Messages", Statement: statement, Why: why, Fix: fix,
			Run: func(t *suite.Trial) {
				k := newRawClient(t)
				r := k.send(body(), checkutil.ModernHead("server/discover"))
				switch {
				case r.status < 400 || r.status >= 500:
					k.Fail("a status of 400 to 499", "status %d", r.status)
				case r.message != nil:
					k.refuse(r, 0, codes...)
				}
			}}
	}
	right := func(id string) string { return checkutil.ModernBody(id, "server/discover", nil, nil) }
	return []*suite.Check{
		check("request.not-json", "Refuses a body that is no JSON", "The body must be a JSON-RPC message; a text that cannot be parsed is -32700.",
			"The client would wait for an answer to a message that has never been read.",
			"Answer 400 if the body cannot be parsed, with the error -32700 and no id. Never answer 200, 202 or 500.",
			suite.Must, []int{checkutil.ParseError, checkutil.InvalidRequest}, func() string { return right("1")[:40] }),
		check("request.batch", "Refuses an array of messages", "The body must be a single request or notification.",
			"Batches were of 2025-03-26 alone; what is served of them escapes every check of the head.",
			"If the body is an array, answer 400 with -32600. Do not take its first element.",
			suite.Must, []int{checkutil.InvalidRequest, checkutil.InvalidParams, checkutil.ParseError, checkutil.HeaderMismatch}, func() string { return "[" + right("1") + "]" }),
		check("request.response-as-body", "Refuses a response as a body", "Clients must not send responses; the body must be a request or a notification.",
			"Answers to input requests come in a retry; a client that posts one waits for something that never happens.",
			"If the body has a result or an error but no method, answer 400 with -32600.",
			suite.Should, nil, func() string { return `{"jsonrpc":"2.0","id":1,"result":{}}` }),
		check("request.no-jsonrpc", "Refuses a message that is not JSON-RPC 2.0", "All messages must follow JSON-RPC 2.0, whose requests say \"jsonrpc\":\"2.0\".",
			"A message that passes here is refused by the next server, for no visible reason.",
			"Check that jsonrpc is the text 2.0. Answer 400 with -32600 otherwise.",
			suite.Should, []int{checkutil.InvalidRequest, checkutil.InvalidParams, checkutil.ParseError}, func() string { return `{"id":1` + right("1")[len(`{"jsonrpc":"2.0","id":1`):] }),
		check("request.id-null", "Refuses a request whose id is null", "A request's id is a string or an integer and must not be null.",
			"An answer with the id null cannot be told from an error without one.",
			"Check that the id is a string or an integer. Answer 400 with -32600 otherwise.",
			suite.Should, []int{checkutil.InvalidRequest, checkutil.InvalidParams, checkutil.ParseError}, func() string { return right("null") }),
		{
			ID: "request.member-case", Title: "Does not take Method for method", Level: suite.Should, Faces: faces, Page: "basic/index §Messages",
			Statement: "Names of members have case (JSON-RPC 2.0): Method is not method.",
			Why:       "A gateway that checks method and a server that reads Method act on two different requests.",
			Fix:       "Use a decoder that compares names exactly; Go's encoding/json does not. Ignore names that differ in case, or refuse the message.",
			Run: func(t *suite.Trial) {
				memberCase(newRawClient(t), strings.TrimSuffix(right("1"), "}")+`,"Method":"dragoman/no-such-method","METHOD":"dragoman/no-such-method"}`)
			},
		},
		{
			ID: "request.notification", Title: "Takes notifications with 202 and no body", Level: suite.Must, Faces: httpFace, Page: pageHTTP + "Sending Messages",
			Statement: "A notification that the server accepts must be answered with 202 and no body, any other with an HTTP error.",
			Why:       "A client waits for the end of a body that is not meant for it, or takes it for a response.",
			Fix:       "Answer every notification with 202 and an empty body, also those that you do not know. Use a status of 400 or more only if it cannot be accepted.",
			Run: func(t *suite.Trial) {
				res := t.Send(peer.Request{Header: checkutil.ModernHead("notifications/cancelled"),
					Body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody"}}`})
				text, _ := res.Text()
				if res.Status >= 400 {
					return
				}
				if res.Status != 202 || text != "" {
					t.Fail("status 202 without a body, or an HTTP error", "status %d, body %q", res.Status, text)
				}
			},
		},
	}
}

// memberCase sends text, a server/discover with further members, and fails the trial if the server acts on another method. It waits for the
// answer, since later requests may be answered first; a server may also ignore the message.
func memberCase(k *rawClient, text string) {
	m := k.send(text, checkutil.ModernHead("server/discover")).message
	if m == nil || !m.Failed() {
		return
	}
	if code, message, _ := m.Error(); !slices.Contains([]int{checkutil.InvalidRequest, checkutil.InvalidParams, checkutil.ParseError}, code) {
		k.Fail("the result of server/discover, or a refusal (-32600)", "the error %d: %s", code, message)
	}
}
