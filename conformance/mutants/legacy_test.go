package mutants

import (
	"net/http"
	"strings"

	"dragoman/conformance/peer"
)

func lifecycleMutants() []mutant {
	var ready kept
	return []mutant{
		{name: "settles on the oldest revision", caught: "lifecycle.version-echoed", faces: legacyFaces,
			message: edited("initialize", func(result peer.Object) { result["protocolVersion"] = peer.R2411 })},
		{name: "speaks every revision", caught: "lifecycle.version-unknown", faces: legacyFaces, message: func(x *exchange, m peer.Message) []string {
			return edited("initialize", func(result peer.Object) { result["protocolVersion"] = x.asked.Params()["protocolVersion"] })(x, m)
		}},
		{name: "has no version", caught: "lifecycle.server-info", faces: legacyFaces,
			message: edited("initialize", func(result peer.Object) { result["serverInfo"] = peer.Object{"name": "mutant"} })},
		{name: "has no capabilities", caught: "lifecycle.server-info", faces: legacyFaces,
			message: edited("initialize", func(result peer.Object) { delete(result, "capabilities") })},
		{name: "answers pings with pong", caught: "lifecycle.ping", faces: legacyFaces, message: instead("ping", `"result":{"pong":true}`, nil)},
		{name: "knows no ping", caught: "lifecycle.ping", faces: legacyFaces, message: instead("ping", notFound, nil)},
		{name: "refuses pings before it is initialized", caught: "lifecycle.ping-early", faces: legacyFaces,
			request: func(x *exchange) {
				if x.method == "notifications/initialized" {
					ready.swap("yes")
				}
			},
			message: func(x *exchange, m peer.Message) []string {
				return instead("ping", internal, func(*exchange) bool {
					now := ready.swap("")
					ready.swap(now)
					return now == ""
				})(x, m)
			}},
		{name: "asks for roots at once", caught: "lifecycle.quiet-until-initialized", faces: oneStream,
			message: besides("initialize", "", `{"jsonrpc":"2.0","id":"early","method":"roots/list"}`)},
		{name: "refuses capabilities that it does not know", caught: "lifecycle.unknown-capabilities", faces: legacyFaces,
			message: instead("initialize", invalid, func(x *exchange) bool { return strings.Contains(x.asked.Raw, "notYetInvented") })},
		{name: "declares prompts and has none", caught: "lifecycle.declared-answered", faces: legacyFaces, message: instead("prompts/list", notFound, nil)},
		{name: "has prompts and does not declare them", caught: "lifecycle.undeclared-refused", faces: legacyFaces, message: without("prompts")},
		{name: "has a code of its own for unknown methods", caught: "lifecycle.unknown-method", faces: legacyFaces,
			message: instead("dragoman/no-such-method", internal, nil)},
		{name: "answers unknown methods with text", caught: "lifecycle.unknown-method", request: func(x *exchange) {
			if x.method == "dragoman/no-such-method" {
				x.reply(400, "text/plain", "unknown method")
			}
		}},
	}
}

func messageMutants() []mutant {
	var held kept
	return []mutant{
		{name: "takes ids for texts", caught: "legacy.id-echoed", faces: legacyPosts, message: rewritten("ping", `"id":7`, `"id":"7"`)},
		{name: "takes 0 for no id", caught: "legacy.id-echoed", message: rewritten("ping", `"id":0,`, `"id":null,`)},
		{name: "rounds ids", caught: "legacy.id-large", message: rewritten("ping", `9223372036854775807`, `9223372036854776000`)},
		{name: "answers twice", caught: "legacy.one-answer", faces: legacyFaces, message: func(x *exchange, m peer.Message) []string {
			if x.method == "tools/call" && m.Kind() == peer.IsResponse {
				return []string{m.Raw, m.Raw}
			}
			return []string{m.Raw}
		}},
		{name: "mixes its answers up", caught: "legacy.parallel", faces: legacyFaces, message: func(x *exchange, m peer.Message) []string {
			if string(m.ID) == "6" { // one of many
				return instead("ping", notFound, nil)(x, m)
			}
			return []string{m.Raw}
		}},
		{name: "mixes ids up", caught: "legacy.parallel", message: func(x *exchange, m peer.Message) []string {
			return rewritten("ping", `"id":4,`, `"id":6,`)(x, m)
		}},
		{name: "speaks ASCII", caught: "legacy.unicode", faces: legacyFaces, message: func(_ *exchange, m peer.Message) []string {
			return []string{strings.Map(func(r rune) rune {
				if r > 0x7e {
					return '?'
				}
				return r
			}, m.Raw)}
		}},
		{name: "answers notifications", caught: "legacy.unanswered-notification", faces: legacyPosts, request: func(x *exchange) {
			if x.method == "notifications/dragoman-unknown" {
				x.reply(200, "application/json", `{"jsonrpc":"2.0","id":null,"result":{}}`)
			}
		}},
		{name: "does one thing after the other", caught: "legacy.slow-does-not-block", faces: oneStream, message: func(x *exchange, m peer.Message) []string {
			ping := x.method == "ping"
			if !ping && (x.method != "tools/call" || m.Kind() != peer.IsResponse) {
				return []string{m.Raw}
			}
			other := held.swap(m.Raw) // whichever comes first waits, and the call goes before the ping
			if other == "" {
				return nil
			}
			held.swap("")
			if ping {
				return []string{other, m.Raw}
			}
			return []string{m.Raw, other}
		}},
	}
}

func sessionMutants() []mutant {
	const name = "Mcp-Session-Id"
	named := func(id string) func(*exchange, *int, http.Header) {
		return func(_ *exchange, _ *int, h http.Header) {
			if h.Get(name) != "" {
				h.Set(name, id)
			}
		}
	}
	return []mutant{
		{name: "has a space in session ids", caught: "session.visible-ascii", head: named("a session")},
		{name: "has an umlaut in session ids", caught: "session.visible-ascii", head: named("sitzungsschlüssel")},
		{name: "has one session id", caught: "session.unguessable", head: named("0123456789abcdef0123456789abcdef")},
		{name: "serves requests without a session", caught: "session.missing-400", request: func(x *exchange) {
			if x.method == "ping" && x.Header.Get(name) == "" {
				x.reply(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{}}`)
			}
		}},
		{name: "refuses unknown sessions with 400", caught: "session.unknown-404", head: statusOf(404, 400)},
		{name: "refuses sessions that are over with 400", caught: "session.terminated-404", head: statusOf(404, 400)},
		{name: "keeps sessions that are over", caught: "session.terminated-404", request: func(x *exchange) {
			if x.Request.Method == http.MethodDelete {
				x.reply(200, "", "")
			}
		}},
		{name: "fails at DELETE", caught: "session.delete", request: func(x *exchange) {
			if x.Request.Method == http.MethodDelete {
				x.reply(500, "", "")
			}
		}},
		{name: "mixes sessions up", caught: "session.apart", faces: legacyWeb, message: instead("dragoman/no-such-method", `"result":{}`, nil)},
	}
}

// statusOf changes a status.
func statusOf(from, to int) func(*exchange, *int, http.Header) {
	return func(_ *exchange, status *int, _ http.Header) {
		if *status == from {
			*status = to
		}
	}
}

func webMutants() []mutant {
	const version = "Mcp-Protocol-Version"
	return []mutant{
		{name: "answers notifications with 200", caught: "legacy-http.notification-202", head: statusOf(202, 200)},
		{name: "answers notifications with a body", caught: "legacy-http.notification-202", request: func(x *exchange) {
			if x.method == "notifications/initialized" {
				x.reply(202, "application/json", `{"ok":true}`)
			}
		}},
		{name: "answers responses", caught: "legacy-http.response-202", request: func(x *exchange) {
			if x.asked.Kind() == peer.IsResponse {
				x.reply(200, "application/json", `{}`)
			}
		}},
		{name: "calls JSON text", caught: "legacy-http.content-type", head: func(x *exchange, _ *int, h http.Header) {
			if x.method == "ping" {
				h.Set("Content-Type", "text/plain")
			}
		}},
		{name: "answers GET with a list", caught: "legacy-http.get", request: func(x *exchange) {
			if x.Request.Method == http.MethodGet {
				x.reply(200, "application/json", "[]")
			}
		}},
		{name: "takes what it cannot read", caught: "legacy-http.bad-json", request: func(x *exchange) {
			if x.Request.Method == http.MethodPost && x.asked.Object == nil {
				x.reply(202, "", "")
			}
		}},
		{name: "ignores the revision in the head", caught: "legacy-http.version-unsupported", request: func(x *exchange) { x.Header.Del(version) }},
		{name: "insists on the revision in the head", caught: "legacy-http.version-absent", request: func(x *exchange) {
			if x.method == "ping" && x.Header.Get(version) == "" {
				x.reply(400, "text/plain", "no version")
			}
		}},
		{name: "ignores where a page is from", caught: "legacy-http.origin", faces: legacyWeb, request: func(x *exchange) { x.Header.Del("Origin") }},
		{name: "refuses pages with 401", caught: "legacy-http.origin", head: statusOf(403, 401)},
	}
}

func batchMutants() []mutant {
	isBatch := func(x *exchange) bool { return strings.HasPrefix(x.body, "[") }
	return []mutant{
		{name: "answers the first of an array", caught: "batch.served", faces: legacyPosts, at: peer.R2503, request: func(x *exchange) {
			if isBatch(x) {
				x.body = strings.Replace(x.body, `"id":"b2",`, "", 1)
			}
		}},
		{name: "answers an array of notifications", caught: "batch.notifications", at: peer.R2503, request: func(x *exchange) {
			if isBatch(x) {
				x.reply(200, "application/json", "[]")
			}
		}},
		{name: "serves arrays for ever", caught: "batch.refused", faces: legacyPosts, request: func(x *exchange) {
			if isBatch(x) {
				x.reply(200, "application/json", `[{"jsonrpc":"2.0","id":"b1","result":{}}]`)
			}
		}},
	}
}

func stdioMutants() []mutant {
	var dead kept
	return []mutant{
		{name: "logs to stdout", caught: "legacy-stdio.only-messages", message: besides("ping", "[info] ping", "")},
		{name: "ignores the end of its input", caught: "legacy-stdio.eof", deaf: true},
		{name: "dies of a bad line", caught: "legacy-stdio.bad-line", request: func(x *exchange) {
			was := dead.swap("")
			if x.asked.Object == nil {
				was = "dead"
			}
			dead.swap(was)
			x.drop = was != ""
		}},
		{name: "reads lines of 64 KiB", caught: "legacy-stdio.long-line", request: func(x *exchange) { x.drop = len(x.body) > 64<<10 }},
	}
}

func sseMutants() []mutant {
	return []mutant{
		{name: "names its endpoint otherwise", caught: "sse.endpoint-first", event: func(_ *exchange, e *peer.Event) {
			if e.Name == "endpoint" {
				e.Name = "message"
			}
		}},
		{name: "has its endpoint elsewhere", caught: "sse.same-origin", event: func(_ *exchange, e *peer.Event) {
			if e.Name == "endpoint" {
				e.Data = "http://elsewhere.example" + e.Data
			}
		}},
		{name: "does not like what it takes", caught: "sse.post-accepted", head: statusOf(202, 303)},
		{name: "names messages otherwise", caught: "sse.answer-on-stream", event: func(_ *exchange, e *peer.Event) {
			if e.Name == "message" {
				e.Name = "answer"
			}
		}},
		{name: "takes what is for nobody", caught: "sse.unknown-session", head: func(_ *exchange, status *int, _ http.Header) {
			if *status/100 == 4 {
				*status = 202
			}
		}},
	}
}
