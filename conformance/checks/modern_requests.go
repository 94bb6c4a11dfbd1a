package checks

import (
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// modernRequests are what a server of 2026-07-28 demands of a request's head and _meta.
func modernRequests() []*suite.Check {
	return []*suite.Check{
		{
			ID: "request.version-mismatch", Title: "Refuses a request whose header and body name different revisions", Level: suite.Must, Faces: modernHTTP,
			Page:      "basic/transports/streamable-http §Protocol Version Header",
			Statement: "MCP-Protocol-Version must equal the version in _meta; otherwise the answer is 400 with the error -32020.",
			Why:       "An intermediary that routes by the header and a server that believes the body act on two different requests.",
			Fix:       "Compare the header with _meta[\"io.modelcontextprotocol/protocolVersion\"] before anything else, and answer 400 and -32020 (HeaderMismatch) where they differ.",
			Run: func(t *suite.Trial) {
				res := t.Send(peer.Request{Header: modernHead("server/discover", peer.Field{Name: "MCP-Protocol-Version", Value: peer.R2511}),
					Body: modernBody("1", "server/discover", nil, nil)})
				refused(t, res, []int{400}, []int{-32020}, "400 with the error -32020")
			},
		},
	}
}
