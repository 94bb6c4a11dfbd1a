package mutants

import (
	"net/http"
	"strings"
	"sync"

	"dragoman/conformance/peer"
)

func modernTransportMutants() []mutant {
	return []mutant{
		{name: "answers with text/plain", caught: "transport.content-type", head: func(_ *exchange, _ *int, h http.Header) { h.Set("Content-Type", "text/plain") }},
		{name: "says nothing of buffering", caught: "transport.buffering", head: func(_ *exchange, _ *int, h http.Header) { h.Del("X-Accel-Buffering") }},
		{name: "leaves its streams open", caught: "transport.stream-ends", end: func(x *exchange) []string {
			if x.method == "tools/call" {
				<-x.Context().Done()
			}
			return nil
		}},
		{name: "puts arrays into events", caught: "transport.events", event: func(_ *exchange, e *peer.Event) { e.Data = "[" + e.Data + "]" }},
		{name: "has events of its own", caught: "transport.events", event: func(_ *exchange, e *peer.Event) { e.Name = "ping" }},
		mixer(),
		{name: "serves every web page", caught: "security.foreign-origin", request: func(x *exchange) { x.Header.Del("Origin") }},
		{name: "opens a stream for GET", caught: "transport.get", request: func(x *exchange) { x.reply(200, "text/event-stream", ":\n\n") }},
		{name: "takes DELETE", caught: "transport.delete", request: func(x *exchange) { x.reply(200, "", "") }},
		{name: "looks for a session", caught: "transport.session-id", request: func(x *exchange) { x.reply(404, "", "") }},
		{name: "looks for an event to go on from", caught: "transport.last-event-id", request: func(x *exchange) { x.reply(400, "", "") }},
		{name: "gives out session ids", caught: "transport.no-session", head: func(_ *exchange, _ *int, h http.Header) { h.Set("Mcp-Session-Id", "1") }},
	}
}

// mixer keeps answers by the id of their request.
func mixer() mutant {
	var answers sync.Map
	return mutant{name: "keeps answers by id alone", caught: "transport.clients-apart", message: func(_ *exchange, m peer.Message) []string {
		first, _ := answers.LoadOrStore(string(m.ID), m.Raw)
		text, _ := first.(string)
		return []string{text}
	}}
}

const aNotice = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"once","progress":1000}}`

func modernResponseMutants() []mutant {
	return []mutant{
		{name: "makes numbers of ids", caught: "response.id", faces: modern, message: messages(func(m peer.Object) {
			if m["id"] == "7" {
				m["id"] = 7
			}
		})},
		{name: "writes large ids as floating point numbers", caught: "response.id", message: messages(func(m peer.Object) {
			if peer.Encode(m["id"]) == "9007199254740991" {
				m["id"] = 9.007199254740992e15
			}
		})},
		{name: "leaves ids out of errors", caught: "response.error-id", faces: modern, message: failures("", func(m, _ peer.Object) { delete(m, "id") })},
		{name: "answers twice", caught: "response.once", faces: modern, message: func(x *exchange, m peer.Message) []string {
			if m.Kind() == peer.IsResponse && asksFor(x, "test_tool_with_progress") {
				return []string{m.Raw, m.Raw}
			}
			return []string{m.Raw}
		}},
		{name: "goes on after the response", caught: "response.once", end: func(x *exchange) []string {
			if x.method == "tools/call" {
				return []string{aNotice}
			}
			return nil
		}},
		{name: "leaves resultType out", caught: "response.result-type", faces: modern, message: results("prompts/list", func(_ *exchange, r peer.Object) { delete(r, "resultType") })},
		{name: "does not say who it is", caught: "response.server-info", faces: modern, message: results("tools/list", func(_ *exchange, r peer.Object) { delete(r, "_meta") })},
		{name: "pings its clients", caught: "response.no-requests", faces: modern, message: func(_ *exchange, m peer.Message) []string {
			if m.Method == "notifications/progress" {
				return []string{`{"jsonrpc":"2.0","id":"p1","method":"ping"}`, m.Raw}
			}
			return []string{m.Raw}
		}},
		{name: "knows ASCII alone", caught: "response.utf-8", faces: modern, message: func(_ *exchange, m peer.Message) []string {
			return []string{strings.Map(func(r rune) rune {
				if r > '~' {
					return '?'
				}
				return r
			}, m.Raw)}
		}},
		{name: "reads names without case", caught: "request.member-case", faces: modern, request: func(x *exchange) {
			edit(x, func(o, _, _ peer.Object) {
				if o["Method"] != nil {
					o["method"] = o["Method"]
					delete(o, "Method")
					delete(o, "METHOD")
				}
			})
		}},
		{name: "still has the code -32002", caught: "errors.reserved-codes", faces: modern, message: failures("resources/read", func(_, e peer.Object) { e["code"] = -32002 })},
		{name: "has codes of its own where they are reserved", caught: "errors.reserved-codes", faces: modern, message: failures("tools/call", func(_, e peer.Object) { e["code"] = -32050 })},
	}
}
