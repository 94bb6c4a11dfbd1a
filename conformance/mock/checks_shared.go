package mock

import (
	"fmt"
	"slices"
	"time"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// sooner is the time between a response and a cancellation in which the client may not have read the response.
const sooner = time.Second

// askedChecks are about requests of a legacy server, and cancellations.
func askedChecks() []check {
	return []check{
		{Check: suite.Check{ID: "client.answers", Title: "Answers each question of the server's, with its id", Level: suite.Must, Faces: anyLegacy, Page: "basic §Responses",
			Statement: "A request of the server's is answered once, with a result or an error, and with the id that it had: 1 is another id than \"1\".",
			Why:       "The server waits in vain, and the call that its question belongs to hangs.",
			Fix:       "Answer every request that comes, whatever its method; keep the id as the JSON that it was."},
			scenarios: []string{"asked"},
			judge: func(v *verdict) {
				v.eachQuestion(func(q question, answers []*received) {
					if len(answers) != 1 {
						v.fail("one answer to "+q.method+" with the id "+q.id, "%d", len(answers))
					}
				})
			}},
		{Check: suite.Check{ID: "client.refuses-unknown", Title: "Refuses unknown requests", Level: suite.Must, Faces: anyLegacy, Page: "basic §Responses",
			Statement: "A request with a method that the client has not is answered with the error -32601 (JSON-RPC 2.0 §5.1).",
			Why:       "A server that tries out what a client has cannot tell.",
			Fix:       "Answer with the error code -32601 what no handler is for; do not break off."},
			scenarios: []string{"asked"},
			judge: func(v *verdict) {
				v.eachQuestion(func(q question, answers []*received) {
					if q.method != "x-nobody-knows/this" || len(answers) == 0 {
						return
					}
					if code, _, _ := answers[0].message.Error(); code != -32601 {
						v.fail("the error -32601", "%s", cut(answers[0].body))
					}
				})
			}},
		{Check: suite.Check{ID: "client.capabilities", Title: "Serves what it declares, and refuses the rest", Level: suite.Should, Faces: anyLegacy, Page: "basic/lifecycle §Capability Negotiation",
			Statement: "roots/list, sampling/createMessage and elicitation/create are served if initialize has declared them, and refused with an error otherwise.",
			Why:       "A server relies on what is declared. What is not declared the user has not been asked for.",
			Fix:       "Derive the capabilities from the registered handlers; refuse everything else with -32601."},
			scenarios: []string{"asked"},
			judge: func(v *verdict) {
				v.eachQuestion(func(q question, answers []*received) {
					if q.capability == "" || len(answers) == 0 {
						return
					}
					code, _, _ := answers[0].message.Error()
					opened := v.requests("initialize") // the last: another may have been tried elsewhere
					declared := peer.Get(opened[len(opened)-1].message.Params(), "capabilities", q.capability) != nil
					switch {
					case declared && code == -32601:
						v.fail("that "+q.method+" is served, as "+q.capability+" is declared", "%s", cut(answers[0].body))
					case !declared && !answers[0].message.Failed():
						v.fail("an error, as "+q.capability+" is not declared", "%s", cut(answers[0].body))
					}
				})
			}},
		{Check: suite.Check{ID: "client.cancels", Title: "Cancels what is in progress, and nothing else", Level: suite.Must, Faces: slices.Concat(anyLegacy, []peer.Face{peer.ModernStdio}), Page: "basic/patterns/cancellation §Behavior Requirements",
			Statement: "notifications/cancelled names a request that the client has sent and that is not answered yet, by its id as it was; never initialize.",
			Why:       "The cancelled call continues, or the server stops another.",
			Fix:       "Send params.requestId as it stood in the request (a number stays a number), and only while its answer has not come."}, judge: cancels},
	}
}

// eachQuestion calls f for each request to the client with its answers, or skips the check if there was none.
func (v *verdict) eachQuestion(f func(q question, answers []*received)) {
	if len(v.questions) == 0 || len(v.requests("initialize")) == 0 {
		v.skipped = "the client has not called a tool"
	}
	for _, q := range v.questions {
		var answers []*received
		for _, h := range v.requests("") {
			if h.message.Kind() == peer.IsResponse && string(h.message.ID) == q.id {
				answers = append(answers, h)
			}
		}
		f(q, answers)
	}
}

func cancels(v *verdict) {
	sent := make(map[string]*received)
	v.skipped = "the client has cancelled nothing"
	for _, h := range v.requests("") {
		if h.message.Kind() == peer.IsRequest {
			sent[h.session+" "+string(h.message.ID)] = h
		}
		if h.message.Method != "notifications/cancelled" {
			continue
		}
		v.skipped = ""
		id := peer.Encode(peer.Get(h.message.Params(), "requestId"))
		switch asked := sent[h.session+" "+id]; {
		case asked == nil:
			v.fail("the id of a request that was sent", "%s", id)
		case asked.message.Method == "initialize":
			v.fail("no cancelling of initialize", "%s, the id of it", id)
		case v.face != peer.LegacyHTTP && v.scenario.Name != "slow" && asked.answer != "" && asked.message.Method != "subscriptions/listen" && h.at-asked.at > sooner+v.patience:
			v.fail("a request that is not answered yet", "%s, %s, which was answered long before", id, asked.message.Method)
		}
	}
}

// revisionChecks are about negotiating a revision.
func revisionChecks() []check {
	return []check{
		{Check: suite.Check{ID: "client.unsupported-revision", Title: "Leaves a server whose revision it does not speak", Level: suite.Should, Faces: Faces(), Page: "2025-11-25 basic/lifecycle §Version Negotiation",
			Statement: "If initialize is answered with a revision that the client does not speak, it disconnects; if a modern server supports none of its revisions, it goes no further.",
			Why:       "What follows is read by rules that one of them does not know.",
			Fix:       "Compare protocolVersion of initialize's result, and data.supported of the error -32022, with the list of what you speak; end with an error that names both."},
			scenarios: []string{"unknown-revision"},
			judge: func(v *verdict) {
				told := false
				v.each("", func(h *received) {
					switch m := h.message; {
					case told && m.Kind() == peer.IsRequest && m.Method != "initialize" && m.Method != "server/discover", told && m.Method == "notifications/initialized":
						v.fail("nothing more", "%s", m.Method)
					case h.answer != "" && (m.Method == "initialize" || v.face.Modern()) && (v.face != peer.SSE || h.session != ""):
						told = true
					}
				})
				if v.skipped == "" && !told {
					v.skipped = "the client has not come so far"
				}
			}},
		{Check: suite.Check{ID: "client.no-fallback", Title: "Takes a modern error for a modern server's", Level: suite.Should, Faces: anyModern, Page: "basic/transports/stdio §Backward Compatibility",
			Statement: "A server that answers the probe with -32022 is modern: the client does not fall back to initialize, but chooses from what is supported, or gives up.",
			Why:       "initialize fails as well there, and its error hides the one that says what the server speaks.",
			Fix:       "Fall back on any error but the modern ones (-32020, -32021, -32022)."},
			scenarios: []string{"unknown-revision"},
			judge: func(v *verdict) {
				told := ""
				for _, h := range v.requests("") {
					if h.message.Method == "initialize" && told != "" {
						v.fail("no initialize after "+told+" was answered with -32022", "initialize")
					}
					if h.message.Method != "initialize" && told == "" && h.answer != "" {
						told = h.message.Method
					}
				}
				if told == "" {
					v.skipped = "the client has sent no modern request"
				}
			}},
		{Check: suite.Check{ID: "client.falls-back", Title: "Falls back to initialize, whatever the probe is answered with", Level: suite.Must, Faces: []peer.Face{peer.LegacyHTTP, peer.LegacyStdio}, Page: "2026-07-28 basic/transports/stdio §Backward Compatibility",
			Statement: "A client of both eras that has sent server/discover goes on with initialize after any error that is not a modern one, and over stdio after a time without an answer; this hangs on no single error code.",
			Why:       "Older servers answer unknown requests in many ways, or not at all before initialize.",
			Fix:       "Fall back on every other error, and after a few seconds of silence; ignore the answer if it comes later."},
			judge: func(v *verdict) {
				probed := len(v.requests("server/discover")) > 0
				switch opened := len(v.requests("initialize")) > 0; {
				case !probed:
					v.skipped = "the client has not sent server/discover"
				case !opened && v.otherEra() != "":
					v.skipped = v.otherEra()
				case !opened:
					v.fail("initialize", "%s", fmt.Sprintf("none; the client: %s", v.exit))
				}
			}},
	}
}
