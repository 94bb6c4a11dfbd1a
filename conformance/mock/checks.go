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

// check is a requirement of clients: what is told of it, and how it is judged.
type check struct {
	suite.Check
	scenarios []string // where it is judged; nil: in all
	judge     func(v *verdict)
}

// verdict is one check in one run.
type verdict struct {
	*run
	problems []suite.Problem
	skipped  string
}

func (v *verdict) fail(expected, format string, args ...any) {
	if len(v.problems) < 20 {
		v.problems = append(v.problems, suite.Problem{Expected: expected, Got: fmt.Sprintf(format, args...)})
	}
}

// each calls for each request with a method, or skips the check where there is none.
func (v *verdict) each(method string, f func(h *heard)) {
	all := v.requests(method)
	if len(all) == 0 {
		v.skipped = "the client has sent no message"
		if method != "" {
			v.skipped = "the client has not sent " + method
		}
		return
	}
	for _, h := range all {
		f(h)
	}
}

// eachModern calls for each request of 2026-07-28, or skips the check where there is none.
func (v *verdict) eachModern(f func(h *heard)) {
	v.skipped = "the client has sent no request of 2026-07-28"
	for _, h := range v.requests("") {
		if h.message.Kind() == peer.IsRequest && h.message.Method != "initialize" {
			v.skipped = ""
			f(h)
		}
	}
}

// stranger tells why a client is not at home at a face, as it seems; empty: it is, or has said nothing.
func (v *verdict) stranger() string {
	all := v.requests("")
	only := func(method string) bool {
		return len(all) > 0 && !slices.ContainsFunc(all, func(h *heard) bool {
			return h.message.Method != method && h.message.Method != "notifications/cancelled"
		})
	}
	switch {
	case v.face.Modern() && only("initialize"):
		return "the client speaks legacy revisions only, it seems"
	case !v.face.Modern() && !v.past.initializes[v.face] && only("server/discover"):
		return "the client speaks modern revisions only, it seems"
	}
	return ""
}

var (
	anyHTTP    = []peer.Face{peer.ModernHTTP, peer.LegacyHTTP}
	modernOnly = []peer.Face{peer.ModernHTTP}
	legacyOnly = []peer.Face{peer.LegacyHTTP}
	sseOnly    = []peer.Face{peer.SSE}
	anyStdio   = []peer.Face{peer.ModernStdio, peer.LegacyStdio}
	anyModern  = []peer.Face{peer.ModernHTTP, peer.ModernStdio}
	anyLegacy  = []peer.Face{peer.LegacyHTTP, peer.SSE, peer.LegacyStdio}
	anyStream  = []peer.Face{peer.ModernHTTP, peer.LegacyHTTP, peer.SSE}
)

// Checks are the requirements that are judged, without how.
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
				v.each("", func(h *heard) {
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
				v.each("", func(h *heard) {
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
				v.each("", func(h *heard) {
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
		{Check: suite.Check{ID: "client.ends", Title: "Ends well", Level: suite.Should, Faces: Faces(), Page: "(the command itself)",
			Statement: "The client's command ends with 0, in the time that it is given.",
			Why:       "A client that breaks off at a server which does nothing wrong breaks off for its users as well.",
			Fix:       "The evidence shows how far it came; what it has printed stands in the reason."},
			judge: func(v *verdict) {
				switch {
				case v.scenario.freely():
					v.skipped = "here it may end as it likes"
				case v.face == peer.SSE && !v.speaksSSE():
					v.skipped = noSSE
				case v.stranger() != "":
					v.skipped = v.stranger()
				case v.failed:
					v.fail("that it ends with 0", "%s", v.exit)
				}
			}},
	}
}

// version is the revision that was agreed on.
func (r *run) version() string {
	if r.agreed != "" && r.agreed != nobodys {
		return r.agreed
	}
	return r.revision
}

func what(h *heard) string {
	if h.message.Method != "" {
		return h.message.Method
	}
	switch {
	case h.message.Kind() == peer.IsResponse:
		return "an answer"
	case h.verb == lineVerb:
		return "a line"
	}
	return h.verb
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
				v.each("", func(h *heard) {
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
		{Check: suite.Check{ID: "client.new-session", Title: "Opens a new session when its own is gone", Level: suite.Must, Faces: legacyOnly, Page: transport,
			Statement: "A 404 to a request with a session's id means that the session has ended: the client sends initialize anew, without an id.",
			Why:       "After each restart of the server the user has to restart the client.",
			Fix:       "On 404 forget the session's id, send initialize, and send the request again."},
			scenarios: []string{"lost-session"},
			judge: func(v *verdict) {
				lost := slices.IndexFunc(v.all, func(h *heard) bool { return h.status == 404 && h.verb == "POST" })
				if lost < 0 {
					v.skipped = "the client has sent nothing after the session was lost"
					return
				}
				next := slices.IndexFunc(v.all[lost:], func(h *heard) bool { return h.message.Method == "initialize" })
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
				v.eachModern(func(h *heard) {
					if got := h.header.Get("Mcp-Method"); got != h.message.Method {
						v.fail("Mcp-Method: "+h.message.Method, "%q", got)
					}
					member := map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}[h.message.Method]
					if want := peer.Text(h.message.Params(), member); member != "" && plain(h.header.Get("Mcp-Name")) != want {
						v.fail("Mcp-Name: "+want, "%q", h.header.Get("Mcp-Name"))
					}
				})
			}},
		{Check: suite.Check{ID: "client.meta", Title: "Says in each request what it speaks and what it can", Level: suite.Must, Faces: anyModern, Page: "basic §_meta",
			Statement: "params._meta has io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities, an object, in every request.",
			Why:       "There is no session that would remember them: the server answers 400 and -32602.",
			Fix:       "Add both members to params._meta of every request; {} if there is no capability."},
			judge: func(v *verdict) {
				v.eachModern(func(h *heard) {
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

func scenarioChecks() []check {
	return []check{
		{Check: suite.Check{ID: "client.reads-streams", Title: "Reads an answer from an event stream", Level: suite.Must, Faces: anyStream, Page: "basic/transports/streamable-http §Receiving Messages",
			Statement: "The response may be an event stream, with comments, events without data, notifications before it, data in several lines, and lines that end with CR LF.",
			Why:       "Whoever writes the server chooses; the client hangs or fails at half of them.",
			Fix:       "Read the stream as the HTML standard has it (§9.2), skip what is not the response, and go on until it comes."},
			scenarios: []string{"streams"},
			judge: func(v *verdict) {
				v.each("tools/list", func(*heard) {})
				if v.skipped == "" && len(v.requests("tools/call")) == 0 {
					v.fail("a call of the tool that was listed on the stream", "no tools/call")
				}
			}},
		{Check: suite.Check{ID: "client.ping", Title: "Answers a ping", Level: suite.Must, Faces: anyLegacy, Page: "basic/utilities/ping",
			Statement: "The receiver of a ping answers promptly with an empty result.", Why: "Servers take the connection for dead.",
			Fix: "Answer each request of the server's, ping with {}; over HTTP in a POST of its own."},
			scenarios: []string{"streams", "chatter"},
			judge: func(v *verdict) {
				pinged := slices.ContainsFunc(v.all, func(h *heard) bool { return strings.Contains(h.answer, "result") && h.message.Method == "tools/call" })
				if !pinged {
					v.skipped = "the client has not called a tool"
				} else if !slices.ContainsFunc(v.requests(""), func(h *heard) bool {
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
				v.each("tools/list", func(h *heard) {
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
		{Check: suite.Check{ID: "client.resumes", Title: "Takes up a stream that has ended early, after the time that it is told", Level: suite.Must, Faces: legacyOnly, Revisions: []string{peer.R2511}, Page: "basic/transports §Sending Messages to the Server",
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
				back := slices.IndexFunc(v.by("GET"), func(h *heard) bool { return h.header.Get("Last-Event-Id") == "s-1" })
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
				v.each("tools/call", func(h *heard) {
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
	v.each("tools/call", func(h *heard) {
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

// plain is a value of a head without its encoding.
func plain(value string) string {
	inner, ok := strings.CutPrefix(value, "=?base64?")
	if inner, ok2 := strings.CutSuffix(inner, "?="); ok && ok2 {
		if raw, err := base64.StdEncoding.DecodeString(inner); err == nil {
			return string(raw)
		}
	}
	return value
}
