package mock

import (
	"net/http"
	"slices"

	"dragoman/conformance/suite"
)

// noSSE is the reason for skipping the checks of HTTP+SSE.
const noSSE = "the client does not speak HTTP+SSE"

func sseChecks() []check {
	const page = "2024-11-05 basic/transports §HTTP with SSE"
	return []check{
		{Check: suite.Check{ID: "client.sse-endpoint", Title: "Posts to where the stream says", Level: suite.Must, Faces: sseOnly, Page: page,
			Statement: "All messages go by POST to the URI of the endpoint event, which may be a URL, a path, or relative to the stream's URL, with its query.",
			Why:       "The server answers 404 or 405: it knows the session by that URI alone.",
			Fix:       "Resolve the event's data against the stream's URL (RFC 3986 §5) and post everything there, unchanged; to the endpoint of the newest stream if there were several."},
			judge: func(v *verdict) {
				if !v.speaksSSE() {
					v.skipped = noSSE
					return
				}
				if v.scenario.endpoint == elsewhere {
					v.skipped = "here it must not"
					return
				}
				for _, h := range v.by(http.MethodPost) {
					if h.stray != "" {
						v.fail("the endpoint that was named", "%s to %s: %s", what(h), h.path, h.stray)
					}
				}
				if len(v.problems) == 0 && !slices.ContainsFunc(v.by(http.MethodPost), func(h *received) bool { return h.session != "" }) {
					v.fail("a message to the endpoint", "none")
				}
			}},
		{Check: suite.Check{ID: "client.sse-origin", Title: "Stays at the origin of the stream", Level: suite.Should, Faces: sseOnly, Page: page,
			Statement: "An endpoint of another origin than the stream's is not used. (The specification does not say so.)",
			Why:       "An attacker who can write one event gets the client's credentials and messages.",
			Fix:       "Compare scheme, host and port of the resolved endpoint with the stream's; end with an error if they differ."},
			scenarios: []string{"foreign-endpoint"},
			judge: func(v *verdict) {
				if !v.speaksSSE() {
					v.skipped = noSSE
				}
				for _, h := range v.all {
					if h.stray == strayOrigin {
						v.fail("nothing at another origin", "%s %s", h.verb, h.path)
					}
				}
			}},
		{Check: suite.Check{ID: "client.sse-fallback", Title: "Finds a server that speaks HTTP+SSE only", Level: suite.May, Faces: sseOnly, Page: "basic/transports §Backwards Compatibility",
			Statement: "A client that wants to reach older servers posts first; answered with 400, 404 or 405 it opens a stream by GET at the same URL, and goes on by HTTP+SSE if that begins with an endpoint event.",
			Why:       "The user has to know which transport each server speaks.",
			Fix:       "After POST was answered with 400, 404 or 405 and no modern error, send GET with Accept: text/event-stream to the same URL."},
			scenarios: []string{"tools_call", "absolute-endpoint", "relative-endpoint"},
			judge: func(v *verdict) {
				posts := v.by(http.MethodPost)
				switch first := slices.IndexFunc(v.all, func(h *received) bool { return h.verb == http.MethodGet && h.session != "" }); {
				case len(posts) == 0 && first < 0:
					v.skipped = "the client has sent nothing"
				case first == 0:
					v.skipped = "the client knew that this is HTTP+SSE"
				case first < 0:
					v.fail("a stream that is opened by GET", "none after POST was answered with %d", posts[0].status)
				}
			}},
	}
}
