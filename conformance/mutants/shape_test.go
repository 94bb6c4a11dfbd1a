package mutants

import (
	"strings"

	"dragoman/conformance/peer"
)

// shapeMutants violate the schemas of messages on connections, in answers to raw requests, and where a check reads only the head.
func shapeMutants() []mutant {
	speechless := func(x *exchange, m peer.Message) []string {
		if e, ok := m.Object["error"].(peer.Object); ok {
			delete(e, "message")
			return []string{peer.Encode(m.Object)}
		}
		return []string{m.Raw}
	}
	nameless := edited("initialize", func(result peer.Object) { result["serverInfo"] = peer.Object{"name": "mutant"} })
	all := []mutant{
		{name: "lists tools without a schema", seen: []string{"legacy-lists.pages"}, faces: []peer.Face{peer.LegacyHTTP}, message: edited("tools/list", func(result peer.Object) {
			for _, x := range peer.List(result, "tools") {
				tool, _ := x.(peer.Object)
				delete(tool, "inputSchema")
			}
		})},
		{name: "says nothing with errors about heads", seen: []string{"request.version-mismatch"}, faces: modernOnly, message: speechless},
		{name: "says nothing with errors about envelopes", seen: []string{"request.capabilities-malformed"}, faces: modern, message: speechless},
		{name: "says nothing with errors about JSON", seen: []string{"legacy-http.bad-json"}, faces: []peer.Face{peer.LegacyHTTP}, message: speechless},
		{name: "says nothing with errors that nobody reads", seen: []string{"session.missing-400"}, faces: []peer.Face{peer.LegacyHTTP}, message: speechless},
		{name: "has no version in raw sessions", seen: []string{"session.unguessable"}, faces: []peer.Face{peer.LegacyHTTP},
			message: nameless},
		{name: "has no version on its stream", seen: []string{"sse.answer-on-stream"}, faces: []peer.Face{peer.SSE}, message: nameless},
		{name: "answers arrays with lists", seen: []string{"batch.served"}, faces: []peer.Face{peer.LegacyHTTP}, at: peer.R2503, message: func(_ *exchange, m peer.Message) []string {
			return []string{strings.ReplaceAll(m.Raw, `"result":{}`, `"result":[]`)}
		}},
	}
	for i := range all {
		all[i].caught = "messages.shape"
	}
	return all
}
