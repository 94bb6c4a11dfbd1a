package mock

import (
	"fmt"
	"slices"
	"strings"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// Checks returns the checks of clients.
func Checks() (out []*suite.Check) {
	for i := range table() {
		out = append(out, &table()[i].Check)
	}
	return out
}

func table() []check {
	return slices.Concat(headChecks(), bodyChecks(), legacyChecks(), modernChecks(), scenarioChecks(), askedChecks(), revisionChecks(), stdioChecks(), sseChecks())
}

func headChecks() []check {
	const page = "basic/transports/streamable-http §Sending Messages"
	return []check{
		{Check: suite.Check{ID: "client.accept", Title: "Accepts JSON and event streams with each POST", Level: suite.Must, Faces: anyHTTP, Page: page,
			Statement: "The Accept header of a POST lists application/json and text/event-stream.",
			Why:       "The server chooses which of the two it answers with, request by request; strict servers refuse with 406.",
			Fix:       "Send `Accept: application/json, text/event-stream` with every POST."},
			judge: func(v *verdict) {
				v.each("", func(h *received) {
					if accept := strings.Join(h.header.Values("Accept"), ","); !strings.Contains(accept, "application/json") || !strings.Contains(accept, "text/event-stream") {
						v.fail("application/json and text/event-stream", "%s with Accept: %q", what(h), accept)
					}
				})
			}},
		{Check: suite.Check{ID: "client.version-header", Title: "Names the revision in the head", Level: suite.Must, Faces: anyHTTP, Revisions: suite.From(peer.R2506),
			Page:      "basic/transports/streamable-http §Protocol Version Header",
			Statement: "MCP-Protocol-Version stands in every request: of 2026-07-28 the one in _meta, of a legacy session the one that initialize has agreed on.",
			Why:       "Without it a server has to take the client for one of 2025-03-26, or refuses it.",
			Fix:       "Set MCP-Protocol-Version on every request after initialize, GET and DELETE included; in 2026-07-28 on every request."},
			judge: func(v *verdict) {
				if v.scenario.Name == "unknown-revision" {
					v.skipped = "none was agreed on"
					return
				}
				opened := v.face.Modern()
				for _, h := range v.all {
					if h.message.Method == "initialize" || h.message.Method == "server/discover" && !v.face.Modern() {
						opened = opened || h.status == 200
						continue
					}
					if got := h.header.Values("Mcp-Protocol-Version"); opened && (len(got) != 1 || got[0] != v.version()) {
						v.fail(v.version(), "%s with %q", what(h), got)
					}
				}
			}},
		{Check: suite.Check{ID: "client.one-message", Title: "Sends one message a POST", Level: suite.Must, Faces: anyHTTP, Revisions: suite.From(peer.R2506), Page: page,
			Statement: "The body of a POST is a single message; arrays were taken out in 2025-06-18.",
			Why:       "Servers refuse the array, and with it every message in it.",
			Fix:       "Send each message in a POST of its own."},
			judge: func(v *verdict) {
				v.each("", func(h *received) {
					if h.message.Kind() == peer.Neither {
						v.fail("one request, notification or response", "%s", cut(h.body))
					}
				})
			}},
	}
}

func bodyChecks() []check {
	return []check{
		{Check: suite.Check{ID: "client.ids", Title: "Gives each request an id of its own", Level: suite.Must, Faces: Faces(), Page: "basic §Requests",
			Statement: "Ids are texts or integers, never null, and none is that of another request (2026-07-28: of one that is not answered yet).",
			Why:       "Servers and intermediaries know a request by its id: a second one of the same id gets the first one's answer, or none.",
			Fix:       "Count ids up for as long as the session lives."},
			judge: func(v *verdict) {
				seen, opened := make(map[string]bool), 0
				v.each("", func(h *received) {
					if h.message.Kind() != peer.IsRequest {
						return
					}
					id := string(h.message.ID)
					if id == "null" || !strings.HasPrefix(id, `"`) && strings.ContainsAny(id, ".eE{[tf") {
						v.fail("a text or an integer", "the id %s of %s", id, h.message.Method)
					}
					if m := h.message.Method; m == "initialize" {
						opened++
					} else if m == "server/discover" && !v.face.Modern() {
						return // it belongs to no session
					}
					key := h.session + " " + id
					if h.message.Method == "initialize" || h.session == "" {
						key = fmt.Sprint(opened, " ", id) // a new session may count anew
					}
					if seen[key] && !v.face.Modern() {
						v.fail("an id that was not used before", "%s twice, now for %s", id, h.message.Method)
					}
					seen[key] = true
				})
			}},
		{Check: suite.Check{ID: "client.shape", Title: "Sends messages of the shape that the revision prescribes", Level: suite.Must, Faces: Faces(), Page: "schema",
			Statement: "Requests, notifications and answers have the members that the revision's schema requires, of the types that it gives.",
			Why:       "Servers that validate refuse the message.", Fix: "Each problem names the place in the message, what belongs there and what was there."}},
		{Check: suite.Check{ID: "client.ends", Title: "Ends without an error", Level: suite.Should, Faces: Faces(), Page: "(the command itself)",
			Statement: "The client's command ends with 0, in the time that it is given.",
			Why:       "A client that breaks off at a server which does nothing wrong breaks off for its users as well.",
			Fix:       "The evidence shows how far it came; what it has printed stands in the reason."},
			judge: func(v *verdict) {
				switch {
				case v.scenario.mayFail():
					v.skipped = "here it may end as it likes"
				case v.face == peer.SSE && !v.speaksSSE():
					v.skipped = noSSE
				case v.otherEra() != "":
					v.skipped = v.otherEra()
				case v.failed:
					v.fail("that it ends with 0", "%s", v.exit)
				}
			}},
	}
}

func legacyChecks() []check {
	const life, transport = "basic/lifecycle §Initialization", "basic/transports §Session Management"
	return []check{
		{Check: suite.Check{ID: "client.initialize-first", Title: "Begins with initialize", Level: suite.Must, Faces: anyLegacy, Page: life,
			Statement: "initialize is the first message of a session, and notifications/initialized follows its result, before other requests but ping.",
			Why:       "Servers answer everything else with an error until then.",
			Fix:       "Send initialize, wait for its result, send notifications/initialized, and only then anything else."},
			judge: func(v *verdict) {
				step := map[string]int{} // 1: initialize, 2: initialized; by session
				v.each("", func(h *received) {
					switch m := h.message.Method; {
					case h.status == 404, v.face == peer.SSE && h.session == "", h.message.Kind() == peer.IsResponse, m == "ping", m == "server/discover", m == "notifications/cancelled" && step[h.session] == 0: // to find out the era, and to give that up
					case m == "initialize":
						step[h.session] = 1
					case m == "notifications/initialized" && step[h.session] == 1:
						step[h.session] = 2
					case m == "notifications/initialized":
						v.fail("notifications/initialized after the result of initialize", "it came before")
					case step[h.session] == 0:
						v.fail("initialize before anything else", "%s", m)
					case step[h.session] == 1:
						v.fail("notifications/initialized before any other request", "%s", m)
					}
				})
			}},
		{Check: suite.Check{ID: "client.session", Title: "Sends the session's id with everything", Level: suite.Must, Faces: legacyOnly, Page: transport,
			Statement: "The Mcp-Session-Id that initialize was answered with stands in every request after that.",
			Why:       "The server cannot tell whose the request is, and answers 400.",
			Fix:       "Keep the header of initialize's response and set it on every POST, GET and DELETE of the session."},
			scenarios: []string{"sessions", "streams", "older-revision", "sse-retry"},
			judge: func(v *verdict) {
				opened := false
				for _, h := range v.all {
					if h.message.Method == "initialize" {
						opened = true
					} else if opened && h.message.Method != "server/discover" && h.session == "" {
						v.fail("the id of the session", "%s with Mcp-Session-Id: %q", what(h), h.header.Get("Mcp-Session-Id"))
					}
				}
				if !opened {
					v.skipped = "the client has not sent initialize"
				}
			}},
		{Check: suite.Check{ID: "client.new-session", Title: "Opens a new session when its own has ended", Level: suite.Must, Faces: legacyOnly, Page: transport,
			Statement: "A 404 to a request with a session's id means that the session has ended: the client sends initialize anew, without an id.",
			Why:       "After each restart of the server the user has to restart the client.",
			Fix:       "On 404 forget the session's id, send initialize, and send the request again."},
			scenarios: []string{"lost-session"},
			judge: func(v *verdict) {
				lost := slices.IndexFunc(v.all, func(h *received) bool { return h.status == 404 && h.verb == "POST" })
				if lost < 0 {
					v.skipped = "the client has sent nothing after the session was lost"
					return
				}
				next := slices.IndexFunc(v.all[lost:], func(h *received) bool { return h.message.Method == "initialize" })
				if next < 0 {
					v.fail("initialize, without an id of a session", "no initialize after the 404")
				} else if id := v.all[lost+next].header.Get("Mcp-Session-Id"); id != "" {
					v.fail("initialize, without an id of a session", "it came with %q", id)
				}
			}},
		{Check: suite.Check{ID: "client.delete", Title: "Ends the session that it needs no more", Level: suite.Should, Faces: legacyOnly, Page: transport,
			Statement: "A client that is done sends DELETE with the session's id.",
			Why:       "The server keeps what belongs to the session until a time-out.",
			Fix:       "Send DELETE to the endpoint with Mcp-Session-Id when the client closes."},
			scenarios: []string{"sessions"},
			judge: func(v *verdict) {
				if len(v.requests("initialize")) == 0 {
					v.skipped = "the client has not sent initialize"
				} else if len(v.by("DELETE")) == 0 {
					v.fail("DELETE at the end", "none")
				}
			}},
		{Check: suite.Check{ID: "client.get-accept", Title: "Accepts event streams with GET", Level: suite.Must, Faces: legacyOnly, Page: "basic/transports §Listening for Messages from the Server",
			Statement: "The Accept header of a GET lists text/event-stream.", Why: "Servers answer 406 otherwise, and nothing that they say on their own arrives.",
			Fix: "Send `Accept: text/event-stream` with the GET that opens the stream."},
			judge: func(v *verdict) {
				if len(v.by("GET")) == 0 {
					v.skipped = "the client has opened no stream"
				}
				for _, h := range v.by("GET") {
					if !strings.Contains(strings.Join(h.header.Values("Accept"), ","), "text/event-stream") {
						v.fail("text/event-stream", "Accept: %q", h.header.Values("Accept"))
					}
				}
			}},
	}
}

func modernChecks() []check {
	const page = "basic/transports/streamable-http §Standard Request Headers"
	return []check{
		{Check: suite.Check{ID: "client.method-header", Title: "Repeats method and name in the head", Level: suite.Must, Faces: modernOnly, Page: page,
			Statement: "Mcp-Method is the method; Mcp-Name is params.name of tools/call and prompts/get, params.uri of resources/read, encoded where it is not plain ASCII.",
			Why:       "Servers compare the head with the body and refuse a difference with 400 and -32020; intermediaries route by the head.",
			Fix:       "Set Mcp-Method on each request and Mcp-Name on those three; write a name that is no plain ASCII as =?base64?…?=."},
			judge: func(v *verdict) {
				v.eachModern(func(h *received) {
					if got := h.header.Get("Mcp-Method"); got != h.message.Method {
						v.fail("Mcp-Method: "+h.message.Method, "%q", got)
					}
					member := map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}[h.message.Method]
					if want := peer.Text(h.message.Params(), member); member != "" && plain(h.header.Get("Mcp-Name")) != want {
						v.fail("Mcp-Name: "+want, "%q", h.header.Get("Mcp-Name"))
					}
				})
			}},
		{Check: suite.Check{ID: "client.meta", Title: "Sends its revision and capabilities in each request", Level: suite.Must, Faces: anyModern, Page: "basic §_meta",
			Statement: "params._meta has io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities, an object, in every request.",
			Why:       "There is no session that would remember them: the server answers 400 and -32602.",
			Fix:       "Add both members to params._meta of every request; {} if there is no capability."},
			judge: func(v *verdict) {
				v.eachModern(func(h *received) {
					meta := peer.Get(h.message.Params(), "_meta")
					if _, ok := peer.Get(meta, peer.MetaCapabilities).(peer.Object); !ok || peer.Text(meta, peer.MetaVersion) == "" {
						v.fail("protocolVersion and clientCapabilities", "%s with _meta %s", h.message.Method, peer.Encode(meta))
					}
				})
			}},
		{Check: suite.Check{ID: "client.no-legacy", Title: "Uses nothing that this revision has taken out", Level: suite.Must, Faces: anyModern, Page: "changelog",
			Statement: "There is no initialize, no ping, no GET stream, no DELETE, and no answer that is posted.",
			Why:       "The server answers 404 or 405, or not at all.", Fix: "Choose what is sent by the revision that the server speaks, not by the newest SDK's habits."},
			judge: func(v *verdict) {
				for _, h := range v.all {
					found := h.verb != "POST" && h.verb != lineVerb && h.verb != eventVerb || h.message.Kind() == peer.IsResponse || slices.Contains([]string{"ping", "logging/setLevel", "resources/subscribe", "notifications/initialized"}, h.message.Method)
					if found {
						v.fail("what 2026-07-28 has", "%s", what(h))
					}
				}
			}},
	}
}
