package mock

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"dragoman/conformance/peer"
)

// Scenario is a mock server.
type Scenario struct {
	Name      string // for the client
	Title     string
	Faces     []peer.Face
	Revisions []string // nil: all of its faces

	tools    string // of tools/list, a JSON array; empty: the usual one
	streams  bool   // answers come with everything that is allowed before and around them
	sessions bool   // a legacy session has an id
	// pages returns the result of tools/list for a cursor; nil: one page.
	pages func(cursor string, first bool) string
	// result returns the result of tools/call; nil, or "": the default.
	result func(h *received) string
	// call answers tools/call over HTTP, or returns false for the default answer.
	call func(r *run, w http.ResponseWriter, h *received) bool
	// older is the revision in the result of initialize; empty: that of the run.
	older string
	// refused is the revision in the error of a modern server to every request; empty: it accepts that of the run.
	refused string
	// loses: the session, or its stream, ends after the first tools/list.
	loses bool
	// asks: the first tools/call sends all requests that a legacy server may send.
	asks bool
	// slow: tools/call takes run.slow.
	slow bool
	// probe is the code of a legacy server's error to server/discover; 0: that of an unknown method. mute: it answers nothing before
	// initialize.
	probe int
	mute  bool
	// lingers: the process does not exit at the end of its input or by SIGTERM. crashes: it exits at the first tools/call.
	lingers, crashes bool
	// slowEnd: the process takes some time to exit at the end of its input.
	slowEnd bool
	// post is the status of a POST to the stream's URL; 0: 405. endpoint is the form of the announced endpoint.
	post     int
	endpoint endpoint
}

const adding = `{"name":"add_numbers","description":"Adds two numbers","inputSchema":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}}`

// unknownRevision is a revision that no client supports.
const unknownRevision = "2199-01-01"

// Scenarios returns all scenarios. Those that do not depend on the revision are at the newest only.
func Scenarios() []*Scenario {
	http := []peer.Face{peer.ModernHTTP, peer.LegacyHTTP}
	modern, legacy, sse := []peer.Face{peer.ModernHTTP}, []peer.Face{peer.LegacyHTTP}, []peer.Face{peer.SSE}
	stdio, shared := []peer.Face{peer.ModernStdio, peer.LegacyStdio}, []peer.Face{peer.SSE, peer.ModernStdio, peer.LegacyStdio}
	newest, oldest := []string{peer.R2511, peer.R2607}, []string{peer.R2411}
	return []*Scenario{
		{Name: "tools_call", Title: "A server that only answers; over HTTP without sessions and streams", Faces: Faces(), slowEnd: true},
		{Name: "sessions", Title: "A server with sessions that answers with JSON", Faces: legacy, sessions: true},
		{Name: "streams", Title: "A server that answers with event streams, with everything that they may contain", Faces: http, sessions: true, streams: true},
		{Name: "streams", Title: "A stream with everything that it may contain", Faces: sse, Revisions: oldest, streams: true},
		{Name: "chatter", Title: "A server that sends much before it answers, and writes more to its error output", Faces: stdio, Revisions: newest, streams: true},
		{Name: "pages", Title: "A list in four pages, one of them empty, one cursor an empty text", Faces: http, pages: pages},
		{Name: "pages", Title: "A list in four pages, one of them empty, one cursor an empty text", Faces: shared, Revisions: newest, pages: pages},
		{Name: "lost-session", Title: "A server that has forgotten the session", Faces: legacy, sessions: true, loses: true},
		{Name: "lost-stream", Title: "A stream that ends after the list of tools", Faces: sse, Revisions: oldest, loses: true},
		{Name: "older-revision", Title: "A server that answers with an older revision than was asked for", Faces: legacy, Revisions: newest, sessions: true, older: peer.R2506},
		{Name: "unknown-revision", Title: "A server of a revision that no client supports", Faces: Faces(), Revisions: newest, older: unknownRevision, refused: unknownRevision},
		{Name: "asked", Title: "A server that sends requests to its client before it answers, an unknown one included", Faces: []peer.Face{peer.LegacyHTTP, peer.SSE, peer.LegacyStdio}, Revisions: newest, asks: true},
		{Name: "slow", Title: "A tool that takes a second: a client that knows the scenario cancels the call", Faces: shared, Revisions: newest, slow: true},
		{Name: "sse-retry", Title: "A stream that ends before the response and must be resumed", Faces: legacy, Revisions: newest, sessions: true, call: retried},
		{Name: "absolute-endpoint", Title: "A stream that names its endpoint by a whole URL, and a URL that answers POST with 404", Faces: sse, Revisions: oldest, endpoint: wholeURL, post: 404},
		{Name: "relative-endpoint", Title: "A stream that names its endpoint relative to its own URL, and a URL that answers POST with 400", Faces: sse, Revisions: oldest, endpoint: fromHere, post: 400},
		{Name: "foreign-endpoint", Title: "A stream that names an endpoint of another origin", Faces: sse, Revisions: oldest, endpoint: elsewhere},
		{Name: "odd-probe", Title: "A legacy server that answers unknown methods with an error code of its own", Faces: []peer.Face{peer.LegacyStdio}, Revisions: newest, probe: -31999},
		{Name: "silent-probe", Title: "A legacy server that answers nothing before initialize", Faces: []peer.Face{peer.LegacyStdio}, Revisions: newest, mute: true},
		{Name: "lingers", Title: "A process that exits neither at the end of its input nor by SIGTERM", Faces: stdio, Revisions: newest, lingers: true},
		{Name: "crash", Title: "A process with two tools that exits during the first call", Faces: []peer.Face{peer.ModernStdio}, tools: "[" + adding + "," + onSecond + "]", crashes: true},
		{Name: "questions", Title: "A tool that asks for input before it answers", Faces: []peer.Face{peer.ModernHTTP, peer.ModernStdio}, result: asking},
		{Name: "mirrored-headers", Title: "Tools with parameters that must be mirrored in headers, and with a name that must be encoded there", Faces: modern, tools: "[" + mirrored + "," + adding + "," + accented + "]"},
		{Name: "unknown-result", Title: "A tool that answers with an unknown type of result", Faces: []peer.Face{peer.ModernHTTP, peer.ModernStdio}, result: unknown},
	}
}

// at reports whether the scenario runs at a face and revision.
func (s *Scenario) at(face peer.Face, revision string) bool {
	return slices.Contains(s.Faces, face) && (len(s.Revisions) == 0 || slices.Contains(s.Revisions, revision))
}

// mayFail reports whether the client may fail, since the scenario gives it nothing to go on with.
func (s *Scenario) mayFail() bool {
	return slices.Contains([]string{"unknown-result", "unknown-revision", "foreign-endpoint", "lost-stream", "crash"}, s.Name)
}

const (
	mirrored = `{"name":"query","inputSchema":{"type":"object","properties":{"region":{"type":"string","default":"südlich","x-mcp-header":"Region"},"limit":{"type":"integer","x-mcp-header":"Limit"}},"required":["region","limit"]}}`
	accented = `{"name":"größe","inputSchema":{"type":"object"}}`
)

const onSecond = `{"name":"second","inputSchema":{"type":"object"}}`

func pages(cursor string, first bool) string {
	switch {
	case first:
		return `"tools":[` + adding + `],"nextCursor":"second"`
	case cursor == "second":
		return `"tools":[` + onSecond + `],"nextCursor":""`
	case cursor == "":
		return `"tools":[],"nextCursor":"last"`
	}
	return `"tools":[{"name":"last","inputSchema":{"type":"object"}}]`
}

// retryMS is the wait before a client resumes a stream, in milliseconds.
const retryMS = 300

// retried closes the stream of the first call after an event with an id. GET returns the answer.
func retried(r *run, w http.ResponseWriter, h *received) bool {
	if !r.first("call") {
		return false
	}
	h.answer = "id: s-1, retry: 300, and the end of the stream"
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "id: s-1\ndata:\n\nretry: %d\n\n", retryMS)
	return true
}

// asking asks clients with elicitation for a name first.
func asking(h *received) string {
	params := h.message.Params()
	if peer.Get(params, "_meta", peer.MetaCapabilities, "elicitation") == nil || params["requestState"] != nil {
		return ""
	}
	return `{"resultType":"input_required","requestState":"st\u00e4te=1","inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Who?",` +
		`"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}}}`
}

func unknown(*received) string {
	return `{"resultType":"x-nobody-knows","content":[{"type":"text","text":"no"}]}`
}

// result returns the result of a request in every scenario; "" if there is no such method.
func (r *run) result(h *received) string {
	s, modern := r.scenario, r.face.Modern()
	whole := func(members string) string {
		if !modern {
			return "{" + members + "}"
		}
		return "{" + members + `,"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"` + peer.MetaServer + `":{"name":"mock","version":"1"}}}`
	}
	switch m := h.message.Method; {
	case m == "initialize" && !modern:
		r.mu.Lock()
		defer r.mu.Unlock()
		return `{"protocolVersion":"` + r.agreed + `","capabilities":{"tools":{}},"serverInfo":{"name":"mock","version":"1"}}`
	case m == "server/discover" && modern:
		changes := ""
		if r.face.Stdio() {
			changes = `"listChanged":true`
		}
		return whole(`"supportedVersions":["` + r.revision + `"],"capabilities":{"tools":{` + changes + `}}`)
	case m == "ping" && !modern:
		return "{}"
	case m == "tools/list" && s.pages != nil:
		cursor, there := peer.Get(h.message.Params(), "cursor").(string)
		return whole(s.pages(cursor, !there))
	case m == "tools/list" && s.tools != "":
		return whole(`"tools":` + s.tools)
	case m == "tools/list":
		return whole(`"tools":[` + adding + "]")
	case m == "tools/call":
		return r.called(h)
	}
	return ""
}

func (r *run) called(h *received) string {
	if r.scenario.result != nil {
		if result := r.scenario.result(h); result != "" {
			return result
		}
	}
	text := "done"
	if name := peer.Text(h.message.Params(), "inputResponses", "who", "content", "name"); name != "" {
		text = "hello " + name
	}
	members := `"content":[{"type":"text","text":` + peer.Encode(text) + `}]`
	if r.face.Modern() {
		return "{" + members + `,"resultType":"complete"}`
	}
	return "{" + members + "}"
}

// before returns the notifications that may come before a response.
func (r *run) before(h *received) (messages []string) {
	if token := peer.Get(h.message.Params(), "_meta", "progressToken"); token != nil {
		messages = append(messages, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":0.5,"progressToken":`+peer.Encode(token)+`}}`)
	}
	if !r.face.Modern() {
		messages = append(messages, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"at work"}}`)
	}
	return messages
}

// pings reports whether a ping comes before the response to a request.
func (r *run) pings(h *received) bool {
	return r.scenario.streams && !r.face.Modern() && h.message.Method != "initialize" && h.message.Method != "server/discover"
}

// streamed returns a response as a stream with everything that a client must accept there, in two parts: between them the client can answer
// the ping.
func (r *run) streamed(h *received, response string) (first, rest string) {
	var b strings.Builder
	b.WriteString(": a comment\n\n")
	if !r.face.Modern() && r.revision >= peer.R2511 {
		b.WriteString("id: 0\ndata:\n\n")
	}
	for i, m := range r.before(h) {
		end := []string{"\r\n\r\n", "\n\n"}[i%2]
		b.WriteString("data: " + m + end)
	}
	if r.pings(h) {
		b.WriteString(`data: ` + pingText + "\n\n")
	}
	// A message in two data lines, which event streams allow.
	before, after, _ := strings.Cut(response, `,"result"`)
	return b.String(), "event: message\ndata: " + before + "\ndata: ,\"result\"" + after + "\n\n"
}
