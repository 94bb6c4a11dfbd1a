package mutants

import (
	"net/http"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/conformance/peer"
)

// restMutants violate the REST envelope.
func restMutants() []mutant {
	// The answer of a framework to a body that is not valid.
	unprocessable := func(those func(x *exchange) bool) func(x *exchange) {
		return func(x *exchange) {
			if x.URL.Path == "/call-tool" && those(x) {
				x.reply(422, "application/json", `{"detail":[{"type":"missing","loc":["body"],"msg":"Field required"}]}`)
			}
		}
	}
	failing := func(change func(body peer.Object)) func(*exchange, peer.Message) []string {
		return body("/call-tool", func(o peer.Object) {
			if o["success"] == false {
				change(o)
			}
		})
	}
	return append([]mutant{
		{name: "has an error with success", caught: "rest.success", message: body("/call-tool", func(o peer.Object) { o["error"] = "none" })},
		{name: "has a text for data", caught: "rest.success", message: body("/call-tool", func(o peer.Object) { o["data"] = "done" })},
		{name: "has data with an error", caught: "rest.failure", message: failing(func(o peer.Object) { o["data"] = peer.Object{} })},
		{name: "has a code of its own", caught: "rest.failure", message: failing(func(o peer.Object) { o["code"] = "NOT_FOUND" })},
		{name: "answers as text", caught: "rest.content-type", head: func(_ *exchange, _ *int, h http.Header) { h.Set("Content-Type", "text/plain") }},
		{name: "leaves milliseconds out", caught: "rest.timestamp", message: body("/call-tool", func(o peer.Object) { o["timestamp"] = "2025-12-09T12:34:56Z" })},
		{name: "has a month 13", caught: "rest.timestamp", message: body("/call-tool", func(o peer.Object) { o["timestamp"] = "2025-13-09T12:34:56.000Z" })},
		{name: "has half milliseconds", caught: "rest.execution-time", message: body("/call-tool", func(o peer.Object) { o["meta"] = peer.Object{"execution_time_ms": 0.5} })},
		{name: "makes UUIDs of version 1", caught: "rest.request-id",
			message: body("/call-tool", func(o peer.Object) { o["request_id"] = "6ba7b810-9dad-11d1-80b4-00c04fd430c8" })},
		{name: "has one request_id", caught: "rest.request-id", message: body("/call-tool", func(o peer.Object) { o["request_id"] = "6ba7b810-9dad-41d1-80b4-00c04fd430c8" })},
		{name: "has request_ids of its own", caught: "rest.request-id-kept",
			message: body("/call-tool", func(o peer.Object) { o["request_id"] = "6ba7b810-9dad-41d1-80b4-00c04fd430c8" })},
		{name: "repeats every request_id", caught: "rest.request-id-bad", message: func(x *exchange, m peer.Message) []string {
			return body("/call-tool", func(o peer.Object) { o["request_id"] = x.asked.Object["request_id"] })(x, m)
		}},
		{name: "mixes callers up", caught: "rest.parallel", message: body("/call-tool", func(o peer.Object) { o["request_id"] = "550e8400-e29b-41d4-a716-446655440003" })},
		{name: "has 400 for unknown tools", caught: "rest.tool-not-found", head: statusOf(404, 400)},
		{name: "has another code for unknown tools", caught: "rest.tool-not-found", message: failing(func(o peer.Object) { o["code"] = "INVALID_ARGUMENTS" })},
		{name: "has the framework's answer to arguments", caught: "rest.invalid-arguments", request: unprocessable(func(*exchange) bool { return true })},
		{name: "has the framework's answer to no tool", caught: "rest.no-tool", request: unprocessable(func(x *exchange) bool { return x.asked.Object["tool"] == nil })},
		{name: "has the framework's answer to no JSON", caught: "rest.bad-json", request: unprocessable(func(x *exchange) bool { return x.asked.Object == nil })},
		{name: "has 200 for tools that fail", caught: "rest.tool-fails", head: statusOf(500, 200)},
		{name: "takes GET for POST", caught: "rest.wrong-method", head: statusOf(405, 200)},
		{name: "knows no name", caught: "rest.name", request: unprocessable(func(x *exchange) bool { return x.asked.Object["tool"] == nil })},
	}, serviceMutants()...)
}

func serviceMutants() []mutant {
	tool := func(change func(tool peer.Object)) func(*exchange, peer.Message) []string {
		return body("/tools", func(o peer.Object) { t, _ := peer.Get(o, "tools", "0").(peer.Object); change(t) })
	}
	return []mutant{
		{name: "has half a version", caught: "rest.tools", message: body("/tools", func(o peer.Object) { o["version"] = "1.0" })},
		{name: "is nobody", caught: "rest.tools", message: body("/tools", func(o peer.Object) { delete(o, "service") })},
		{name: "describes nothing", caught: "rest.tool-schema", message: tool(func(t peer.Object) { t["description"] = "" })},
		{name: "leaves properties out", caught: "rest.tool-schema", message: tool(func(t peer.Object) { t["input_schema"] = peer.Object{"type": "object"} })},
		{name: "has a dash in a name", caught: "rest.tool-names", message: tool(func(t peer.Object) { t["name"] = "simple-text" })},
		{name: "has a name twice", caught: "rest.tool-names", message: tool(func(t peer.Object) { t["name"] = "echo" })},
		{name: "describes itself as Swagger", caught: "rest.openapi", message: body("/openapi.json", func(o peer.Object) { delete(o, "openapi"); o["swagger"] = "2.0" })},
		{name: "is ok", caught: "rest.health", message: body("/health", func(o peer.Object) { o["status"] = "ok" })},
		{name: "depends on nothing", caught: "rest.health", message: body("/health", func(o peer.Object) { delete(o, "dependencies") })},
		{name: "counts half seconds", caught: "rest.uptime", message: body("/health", func(o peer.Object) { o["uptime_seconds"] = json.Number("1.5") })},
		{name: "is degraded for nothing", caught: "rest.health-agrees", message: body("/health", func(o peer.Object) { o["status"] = "degraded" })},
		{name: "is well without what it needs", caught: "rest.health-agrees", message: body("/health", func(o peer.Object) {
			o["dependencies"] = peer.Object{"database": peer.Object{"status": "unavailable"}}
		})},
	}
}

// body changes the JSON bodies of a path.
func body(path string, change func(peer.Object)) func(*exchange, peer.Message) []string {
	return func(x *exchange, m peer.Message) []string {
		if m.Object == nil || !strings.HasSuffix(x.URL.Path, path) {
			return []string{m.Raw}
		}
		change(m.Object)
		return []string{peer.Encode(m.Object)}
	}
}
