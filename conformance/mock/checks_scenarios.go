package mock

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

func scenarioChecks() []check {
	return []check{
		{Check: suite.Check{ID: "client.reads-streams", Title: "Reads an answer from an event stream", Level: suite.Must, Faces: anyStream, Page: "basic/transports/streamable-http §Receiving Messages",
			Statement: "The response may be an event stream, with comments, events without data, notifications before it, data in several lines, and lines that end with CR LF.",
			Why:       "The server chooses; the client hangs or fails with half of them.",
			Fix:       "Read the stream as the HTML standard has it (§9.2), skip what is not the response, and go on until it comes."},
			scenarios: []string{"streams"},
			judge: func(v *verdict) {
				v.each("tools/list", func(*received) {})
				if v.skipped == "" && len(v.requests("tools/call")) == 0 {
					v.fail("a call of the tool that was listed on the stream", "no tools/call")
				}
			}},
		{Check: suite.Check{ID: "client.ping", Title: "Answers a ping", Level: suite.Must, Faces: anyLegacy, Page: "basic/utilities/ping",
			Statement: "The receiver of a ping answers promptly with an empty result.", Why: "Servers take the connection for dead.",
			Fix: "Answer each request of the server's, ping with {}; over HTTP in a POST of its own."},
			scenarios: []string{"streams", "chatter"},
			judge: func(v *verdict) {
				pinged := slices.ContainsFunc(v.all, func(h *received) bool {
					return strings.Contains(h.answer, "result") && h.message.Method == "tools/call"
				})
				if !pinged {
					v.skipped = "the client has not called a tool"
				} else if !slices.ContainsFunc(v.requests(""), func(h *received) bool {
					return h.message.Kind() == peer.IsResponse && string(h.message.ID) == `"`+pingID+`"` && !h.message.Failed()
				}) {
					v.fail(`{"id":"mock-ping","result":{}}`, "no such answer")
				}
			}},
		{Check: suite.Check{ID: "client.cursors", Title: "Follows cursors to the end, whatever they are", Level: suite.Must, Faces: Faces(), Page: "server/utilities/pagination §Implementation Guidelines",
			Statement: "A cursor is sent back as it is, an empty text too; a list ends where nextCursor is missing, not with an empty page.",
			Why:       "What stands on later pages does not exist for the user.",
			Fix:       "Ask for the next page as long as nextCursor is there; test for its presence, not for its truth."},
			scenarios: []string{"pages"},
			judge: func(v *verdict) {
				var cursors []string
				v.each("tools/list", func(h *received) {
					if c, there := peer.Get(h.message.Params(), "cursor").(string); there {
						cursors = append(cursors, c)
					}
				})
				switch {
				case v.skipped != "":
				case len(cursors) == 0:
					v.skipped = "the client has asked for one page only"
				case !strings.HasPrefix(strings.Join(cursors, "|")+"|", "second||last|"):
					v.fail(`pages with the cursors "second", "" and "last"`, "%q", cursors)
				}
			}},
		{Check: suite.Check{ID: "client.older-revision", Title: "Speaks the revision that was agreed on, or leaves", Level: suite.Must, Faces: legacyOnly, Revisions: []string{peer.R2511}, Page: "basic/lifecycle §Version Negotiation",
			Statement: "A server that does not speak the revision asked for answers with another; the client goes on with that one, or disconnects.",
			Why:       "Both sides read the same messages by different rules.", Fix: "Take protocolVersion from the result of initialize, and use it in MCP-Protocol-Version and for what is sent."},
			scenarios: []string{"older-revision"},
			judge: func(v *verdict) {
				for _, h := range v.all {
					if got := h.header.Get("Mcp-Protocol-Version"); h.message.Method != "initialize" && h.session != "" && got != "" && got != peer.R2506 {
						v.fail(peer.R2506, "%s with %q", what(h), got)
					}
				}
				if len(v.requests("initialize")) == 0 {
					v.skipped = "the client has not sent initialize"
				}
			}},
		{Check: suite.Check{ID: "client.resumes", Title: "Resumes a stream that has ended early, after the retry time", Level: suite.Must, Faces: legacyOnly, Revisions: []string{peer.R2511}, Page: "basic/transports §Sending Messages to the Server",
			Statement: "A server may close the stream after an event with an id; the client should come back by GET with Last-Event-ID, and must wait as long as retry says.",
			Why:       "Long calls are lost when a connection ends, or the server is flooded.",
			Fix:       "Remember the last event's id and retry; after the end of a stream without a response, wait, and send GET with Last-Event-ID."},
			scenarios: []string{"sse-retry"},
			judge: func(v *verdict) {
				calls := v.requests("tools/call")
				if len(calls) == 0 {
					v.skipped = "the client has not called a tool"
					return
				}
				back := slices.IndexFunc(v.by("GET"), func(h *received) bool { return h.header.Get("Last-Event-Id") == "s-1" })
				if back < 0 {
					v.fail("GET with Last-Event-ID: s-1", "none")
				} else if waited := v.by("GET")[back].at - calls[0].at; waited < retryMS*time.Millisecond {
					v.fail(fmt.Sprintf("at least %d ms", retryMS), "%d ms", waited.Milliseconds())
				}
			}},
		{Check: suite.Check{ID: "client.retry-of-questions", Title: "Sends the request again with the answers", Level: suite.Must, Faces: anyModern, Page: "basic/patterns/mrtr §Client Requirements",
			Statement: "After input_required the same request is sent again, with another id, with inputResponses by their keys, and with requestState as it came; neither stands in any other request.",
			Why:       "The server asks again, or takes the request for a new one and does the work twice.",
			Fix:       "Keep requestState as the text that it is, answer each key, and send the request anew with a new id."},
			scenarios: []string{"questions"}, judge: retriesOfQuestions},
		{Check: suite.Check{ID: "client.mirrored-headers", Title: "Repeats marked parameters in the head", Level: suite.Must, Faces: modernOnly, Page: "basic/transports/streamable-http §Schema Extension",
			Statement: "A parameter that the tool's schema marks with x-mcp-header stands in Mcp-Param-NAME as well: integers in decimals, texts as they are or encoded.",
			Why:       "The server refuses the call with 400 and -32020.", Fix: "Read x-mcp-header from the tool's inputSchema and set a header for each marked parameter that has a value."},
			scenarios: []string{"mirrored-headers"},
			judge: func(v *verdict) {
				calls := 0
				v.each("tools/call", func(h *received) {
					if peer.Text(h.message.Params(), "name") != "query" {
						return
					}
					calls++
					for member, name := range map[string]string{"region": "Mcp-Param-Region", "limit": "Mcp-Param-Limit"} {
						value := peer.Get(h.message.Params(), "arguments", member)
						if value != nil && plain(h.header.Get(name)) != fmt.Sprint(value) {
							v.fail(fmt.Sprintf("%s: %v", name, value), "%q", h.header.Get(name))
						}
					}
				})
				if v.skipped == "" && calls == 0 {
					v.skipped = "the client has not called the tool query"
				}
			}},
	}
}

func retriesOfQuestions(v *verdict) {
	asked := ""
	retries := 0
	v.each("tools/call", func(h *received) {
		p := h.message.Params()
		switch {
		case strings.Contains(h.answer, `"input_required"`):
			asked = string(h.message.ID)
		case p["requestState"] != nil:
			retries++
			if p["requestState"] != "st\u00e4te=1" {
				v.fail("requestState as it came", "%v", p["requestState"])
			}
			if string(h.message.ID) == asked {
				v.fail("another id", "%s again", asked)
			}
			if peer.Get(p, "inputResponses", "who", "action") == nil {
				v.fail(`inputResponses with "who"`, "%s", peer.Encode(p["inputResponses"]))
			}
		}
	})
	if v.skipped == "" && asked == "" {
		v.skipped = "the client does not declare elicitation"
	} else if v.skipped == "" && retries == 0 {
		v.fail("the request again, with the answers", "it was not sent again")
	}
}

// plain decodes the value of a header.
func plain(value string) string {
	inner, ok := strings.CutPrefix(value, "=?base64?")
	if inner, ok2 := strings.CutSuffix(inner, "?="); ok && ok2 {
		if raw, err := base64.StdEncoding.DecodeString(inner); err == nil {
			return string(raw)
		}
	}
	return value
}
