package mutants

import (
	"strings"
	"sync"

	"dragoman/conformance/peer"
)

func modernFlowMutants() []mutant {
	logs := func(name, caught string, request func(x *exchange, meta peer.Object)) mutant {
		return mutant{name: name, caught: caught, faces: modernStdio, request: func(x *exchange) {
			if asksFor(x, "test_tool_with_logging") {
				edit(x, func(_, _, meta peer.Object) { request(x, meta) })
			}
		}}
	}
	progress := func(name, caught string, change func(m peer.Message) []string) mutant {
		return mutant{name: name, caught: caught, faces: modern, message: notices("notifications/progress", change)}
	}
	return []mutant{
		{name: "makes up progress tokens", caught: "progress.unasked", faces: modern, request: func(x *exchange) {
			if x.method == "tools/call" {
				edit(x, func(_, _, meta peer.Object) { meta["progressToken"] = "made-up" })
			}
		}},
		progress("makes texts of progress tokens", "progress.token", func(m peer.Message) []string {
			token := peer.Encode(m.Params()["progressToken"])
			m.Params()["progressToken"] = strings.Trim(token, `"`)
			return []string{peer.Encode(m.Object)}
		}),
		progress("makes numbers of progress tokens", "progress.token", func(m peer.Message) []string {
			if m.Params()["progressToken"] == "42" {
				m.Params()["progressToken"] = 42
			}
			return []string{peer.Encode(m.Object)}
		}),
		progress("makes no progress", "progress.increases", func(m peer.Message) []string {
			m.Params()["progress"] = 50
			return []string{peer.Encode(m.Object)}
		}),
		{name: "reports progress after the response", caught: "progress.stops", faces: modern, message: func(x *exchange, m peer.Message) []string {
			if m.Kind() == peer.IsResponse && asksFor(x, "test_tool_with_progress") {
				return []string{m.Raw, strings.Replace(aNotice, `"once"`, `"end"`, 1)}
			}
			return []string{m.Raw}
		}},
		{name: "reports progress to everybody", caught: "progress.own-stream", message: notices("notifications/progress", func(m peer.Message) []string {
			return []string{m.Raw, strings.Replace(m.Raw, `"one"`, `"other"`, 1)}
		})},
		logs("logs for everybody", "logging.unasked", func(_ *exchange, meta peer.Object) { meta[peer.MetaLogLevel] = "debug" }),
		logs("does not look at the level", "logging.level", func(_ *exchange, meta peer.Object) { meta[peer.MetaLogLevel] = "debug" }),
		logs("never logs", "logging.delivered", func(_ *exchange, meta peer.Object) { delete(meta, peer.MetaLogLevel) }),
		logs("remembers the level", "logging.per-request", func(x *exchange, meta peer.Object) {
			if x.state.count("calls") > 1 {
				meta[peer.MetaLogLevel] = "debug"
			}
		}),
		logs("takes any level", "logging.bad-level", func(_ *exchange, meta peer.Object) { meta[peer.MetaLogLevel] = "debug" }),
		{name: "does not declare that it logs", caught: "logging.declared", faces: modernStdio, message: results("server/discover", func(_ *exchange, r peer.Object) {
			capabilities, _ := r["capabilities"].(peer.Object)
			delete(capabilities, "logging")
		})},
		{name: "does not notice that the client has gone", caught: "cancel.stops", message: results("tools/call", func(x *exchange, r peer.Object) {
			if asksFor(x, "stats") {
				r["structuredContent"] = peer.Object{"cancelled": 0, "calls": 1}
			}
		})},
		{name: "runs on when it is cancelled", caught: "cancel.notification-stops", request: uncancelled},
		{name: "answers what was cancelled", caught: "cancel.silent", request: uncancelled},
		{name: "answers the cancellation of what is not there", caught: "cancel.unknown", request: func(x *exchange) {
			if x.method == "notifications/cancelled" {
				x.reply(0, "", `{"jsonrpc":"2.0","error":{"code":-32602,"message":"no such request"}}`)
			}
		}},
	}
}

func uncancelled(x *exchange) { x.drop = x.method == "notifications/cancelled" }

func modernMRTRMutants() []mutant {
	capable := func(x *exchange) {
		edit(x, func(_, _, meta peer.Object) {
			meta[peer.MetaCapabilities] = peer.Object{"elicitation": peer.Object{"form": peer.Object{}, "url": peer.Object{}}, "sampling": peer.Object{}, "roots": peer.Object{}}
		})
	}
	deaf := func(x *exchange) {
		edit(x, func(_, params, _ peer.Object) { delete(params, "inputResponses") })
	}
	asks := func(name, caught string, change func(r peer.Object)) mutant {
		return mutant{name: name, caught: caught, faces: modern, message: results("tools/call", func(_ *exchange, r peer.Object) {
			if r["resultType"] == "input_required" {
				change(r)
			}
		})}
	}
	answers := func(x *exchange) peer.Object {
		o, _ := peer.Get(x.asked.Object, "params", "inputResponses").(peer.Object)
		return o
	}
	return append(modernStateMutants(),
		mutant{name: "asks before it lists", caught: "mrtr.supported-requests", faces: modern, message: results("tools/list", func(_ *exchange, r peer.Object) { r["resultType"] = "input_required" })},
		asks("asks nothing", "mrtr.something-asked", func(r peer.Object) { delete(r, "inputRequests"); delete(r, "requestState") }),
		asks("asks with ping", "mrtr.requests", func(r peer.Object) { r["inputRequests"] = peer.Object{"p": peer.Object{"method": "ping"}} }),
		asks("says how long a question holds", "mrtr.no-hints", func(r peer.Object) { r["ttlMs"], r["cacheScope"] = 0, "public" }),
		mutant{name: "asks whatever the client declares", caught: "mrtr.undeclared", faces: modern, request: capable},
		mutant{name: "asks in any mode", caught: "mrtr.mode", faces: modern, request: capable},
		mutant{name: "asks for a capability in place of refusing", caught: "mrtr.capability-error", faces: modern, request: capable},
		mutant{name: "has another code for missing capabilities", caught: "mrtr.capability-error", faces: modern, message: failures("tools/call", func(_, e peer.Object) { e["code"] = -32602 })},
		mutant{name: "lists missing capabilities in an array", caught: "mrtr.capability-data", faces: modern,
			message: failures("tools/call", func(_, e peer.Object) { e["data"] = peer.Object{"requiredCapabilities": []string{"sampling"}} })},
		mutant{name: "remembers capabilities", caught: "mrtr.stateless", faces: modern, request: capable},
		mutant{name: "does not hear answers", caught: "mrtr.completes", faces: modern, request: deaf},
		mutant{name: "does not hear several answers", caught: "mrtr.completes-many", faces: modern, request: deaf},
		mutant{name: "forgets the first round", caught: "mrtr.rounds", faces: modern, request: func(x *exchange) {
			edit(x, func(_, params, _ peer.Object) { delete(params, "requestState") })
		}},
		mutant{name: "does not hear answers about prompts", caught: "mrtr.prompt", faces: modern, request: deaf},
		mutant{name: "refuses if answers are missing", caught: "mrtr.missing-answers", faces: modern, request: func(x *exchange) {
			if len(answers(x)) == 1 && asksFor(x, "test_input_required_result_multiple_inputs") {
				fails(x, 400, "-32602")
			}
		}},
		mutant{name: "refuses answers that it has not asked for", caught: "mrtr.extra-answers", faces: modern, request: func(x *exchange) {
			if answers(x)["dragoman_unasked"] != nil {
				fails(x, 400, "-32602")
			}
		}},
		mutant{name: "takes anything for an answer", caught: "mrtr.malformed", faces: modern, request: func(x *exchange) {
			if peer.Get(x.asked.Object, "params", "inputResponses") != nil {
				gives(x, `{"resultType":"complete","content":[{"type":"text","text":"Hello, undefined!"}]}`)
			}
		}},
	)
}

// modernStateMutants are careless with requestState.
func modernStateMutants() []mutant {
	// trusting accepts any state as the last one of the tool.
	trusting := func(name, caught string) mutant {
		var states sync.Map
		return mutant{name: name, caught: caught, faces: modernOnly,
			request: func(x *exchange) {
				if peer.Get(x.asked.Object, "params", "requestState") == nil {
					return
				}
				if state, ok := states.Load(peer.Text(x.asked.Object, "params", "name")); ok {
					edit(x, func(_, params, _ peer.Object) { params["requestState"] = state })
				}
			},
			message: results("tools/call", func(x *exchange, r peer.Object) {
				if state := peer.Text(r, "requestState"); state != "" {
					states.Store(peer.Text(x.asked.Object, "params", "name"), state)
				}
			})}
	}
	return []mutant{
		trusting("does not check states", "mrtr.state-tampered"),
		trusting("takes the state of any request", "mrtr.state-bound"),
		{name: "refuses its own states", caught: "mrtr.state-whole", faces: modern, request: func(x *exchange) {
			edit(x, func(_, params, _ peer.Object) {
				if state, ok := params["requestState"].(string); ok {
					params["requestState"] = state + "x"
				}
			})
		}},
	}
}
