package mock

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"dragoman/conformance/peer"
)

// Scenario is a server that is made for a client.
type Scenario struct {
	Name      string // as the client is told it
	Title     string
	Faces     []peer.Face
	Revisions []string // nil: all of its faces

	tools    string // of tools/list, a JSON array; empty: the usual one
	streams  bool   // answers come as event streams, with all that may be in one
	sessions bool   // a legacy session has an id
	// pages gives the result of tools/list for a cursor; nil: one page.
	pages func(cursor string, first bool) string
	// call answers tools/call in place of the usual answer, and tells whether it has.
	call func(r *run, w http.ResponseWriter, h *heard) bool
	// older is the revision that initialize is answered with; empty: the scenario's.
	older string
	// loses has the session end after the first tools/list.
	loses bool
}

const adding = `{"name":"add_numbers","description":"Adds two numbers","inputSchema":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}}`

// Scenarios are all there are.
func Scenarios() []*Scenario {
	http := []peer.Face{peer.ModernHTTP, peer.LegacyHTTP}
	modern, legacy := []peer.Face{peer.ModernHTTP}, []peer.Face{peer.LegacyHTTP}
	return []*Scenario{
		{Name: "tools_call", Title: "A server without sessions that answers with JSON", Faces: http},
		{Name: "sessions", Title: "A server with sessions that answers with JSON", Faces: legacy, sessions: true},
		{Name: "streams", Title: "A server that answers with event streams, with all that may be in them", Faces: http, sessions: true, streams: true},
		{Name: "pages", Title: "A list in four pages, one of them empty, one cursor an empty text", Faces: http, pages: pages},
		{Name: "lost-session", Title: "A server that has forgotten the session", Faces: legacy, sessions: true, loses: true},
		{Name: "older-revision", Title: "A server that answers with an older revision than was asked for", Faces: legacy, Revisions: []string{peer.R2511}, sessions: true, older: peer.R2506},
		{Name: "sse-retry", Title: "A stream that ends before the response, and is to be taken up again", Faces: legacy, Revisions: []string{peer.R2511}, sessions: true, call: retried},
		{Name: "questions", Title: "A tool that asks for input before it answers", Faces: modern, call: asking},
		{Name: "mirrored-headers", Title: "Tools with a parameter that has to be repeated in the head, and with names that must be encoded there", Faces: modern, tools: "[" + mirrored + "," + adding + "," + accented + "]"},
		{Name: "unknown-result", Title: "A tool that answers with a type of result that nobody knows", Faces: modern, call: unknown},
	}
}

// at tells whether the scenario is played at a face and revision.
func (s *Scenario) at(face peer.Face, revision string) bool {
	return slices.Contains(s.Faces, face) && (len(s.Revisions) == 0 || slices.Contains(s.Revisions, revision))
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

// retryMS is how long a client has to wait before it takes a stream up again, in milliseconds.
const retryMS = 300

// retried closes the stream of the first call after an event with an id; the answer is had by GET.
func retried(r *run, w http.ResponseWriter, h *heard) bool {
	if !r.first("call") {
		return false
	}
	h.answer = "id: s-1, retry: 300, and the end of the stream"
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "id: s-1\ndata:\n\nretry: %d\n\n", retryMS)
	return true
}

// asking asks for a name first, of clients that can be asked.
func asking(r *run, w http.ResponseWriter, h *heard) bool {
	params := h.message.Params()
	if peer.Get(params, "_meta", peer.MetaCapabilities, "elicitation") == nil || params["requestState"] != nil {
		return false
	}
	r.json(w, h, `{"resultType":"input_required","requestState":"st\u00e4te=1","inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Who?",`+
		`"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}}}`)
	return true
}

func unknown(r *run, w http.ResponseWriter, h *heard) bool {
	r.json(w, h, `{"resultType":"x-nobody-knows","content":[{"type":"text","text":"no"}]}`)
	return true
}

// result is what a request is answered with in every scenario; empty: there is no such method.
func (r *run) result(h *heard) string {
	s, modern := r.scenario, r.face.Modern()
	whole := func(members string) string {
		if !modern {
			return "{" + members + "}"
		}
		return "{" + members + `,"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"` + peer.MetaServer + `":{"name":"mock","version":"1"}}}`
	}
	switch h.message.Method {
	case "initialize":
		if modern {
			return ""
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return `{"protocolVersion":"` + r.agreed + `","capabilities":{"tools":{}},"serverInfo":{"name":"mock","version":"1"}}`
	case "server/discover":
		if !modern {
			return ""
		}
		return whole(`"supportedVersions":["` + r.revision + `"],"capabilities":{"tools":{}}`)
	case "ping":
		if modern {
			return ""
		}
		return "{}"
	case "tools/list":
		if s.pages != nil {
			cursor, there := peer.Get(h.message.Params(), "cursor").(string)
			return whole(s.pages(cursor, !there))
		}
		if s.tools != "" {
			return whole(`"tools":` + s.tools)
		}
		return whole(`"tools":[` + adding + "]")
	case "tools/call":
		text := "done"
		if name := peer.Text(h.message.Params(), "inputResponses", "who", "content", "name"); name != "" {
			text = "hello " + name
		}
		members := `"content":[{"type":"text","text":` + peer.Encode(text) + `}]`
		if modern {
			return "{" + members + `,"resultType":"complete"}`
		}
		return "{" + members + "}"
	}
	return ""
}

// streamed is a response as a stream: everything that a client has to take there. It comes in two parts: between them the client has
// time to answer what it was asked.
func (r *run) streamed(h *heard, response string) (first, rest string) {
	var b strings.Builder
	b.WriteString(": a comment\n\n")
	if !r.face.Modern() && r.revision >= peer.R2511 {
		b.WriteString("id: 0\ndata:\n\n")
	}
	if token := peer.Get(h.message.Params(), "_meta", "progressToken"); token != nil {
		b.WriteString(`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":0.5,"progressToken":` + peer.Encode(token) + "}}\r\n\r\n")
	}
	if !r.face.Modern() {
		b.WriteString(`data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"at work"}}` + "\n\n")
		if h.message.Method != "initialize" {
			b.WriteString(`data: {"jsonrpc":"2.0","id":"` + pingID + `","method":"ping"}` + "\n\n")
		}
	}
	first = b.String()
	// A message in two data lines, as the standard of event streams has it.
	before, after, _ := strings.Cut(response, `,"result"`)
	return first, "event: message\ndata: " + before + "\ndata: ,\"result\"" + after + "\n\n"
}
