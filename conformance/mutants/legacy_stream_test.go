package mutants

import (
	"net/http"
	"strings"
	"sync"

	"dragoman/conformance/peer"
)

func streamMutants() []mutant {
	return append(slow(streamBroadcaster()), []mutant{
		{name: "answers on the GET stream", caught: "stream.answer-on-own", request: func(x *exchange) {
			if x.Request.Method == http.MethodGet {
				x.reply(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}\n\n")
			}
		}},
		{name: "leaves streams open", caught: "stream.ends", end: func(x *exchange) []string {
			if x.method == "tools/call" {
				<-x.Context().Done()
			}
			return nil
		}},
		{name: "begins with a message", caught: "stream.priming", event: func(_ *exchange, e *peer.Event) {
			if e.Data == "" {
				e.HasID = false
			}
		}},
		{name: "gives no event ids", caught: "stream.priming", event: func(_ *exchange, e *peer.Event) { e.HasID = false }},
		{name: "has one event id", caught: "stream.event-ids-unique", event: func(_ *exchange, e *peer.Event) {
			if e.HasID {
				e.ID = "same"
			}
		}},
		{name: "replays what is another's", caught: "stream.resume-own", message: func(x *exchange, m peer.Message) []string {
			if resumes(x) {
				return []string{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"dragoman-other","progress":1}}`, m.Raw}
			}
			return []string{m.Raw}
		}},
		{name: "forgets the answer", caught: "stream.resume-answer", event: func(x *exchange, e *peer.Event) {
			if resumes(x) && strings.Contains(e.Data, `"result"`) {
				e.Data = ""
			}
		}},
	}...)
}

// streamBroadcaster copies the events of the first GET stream of a session to the second.
func streamBroadcaster() mutant {
	var all sync.Map // by session
	copies := func(x *exchange) chan string {
		c, _ := all.LoadOrStore(x.Header.Get("Mcp-Session-Id"), make(chan string, 64))
		return c.(chan string)
	}
	return mutant{name: "broadcasts", caught: "stream.no-broadcast",
		request: func(x *exchange) {
			if x.Request.Method == http.MethodGet && x.state.count("GET "+x.Header.Get("Mcp-Session-Id")) == 2 {
				x.feed = copies(x)
			}
		},
		event: func(x *exchange, e *peer.Event) {
			if x.Request.Method == http.MethodGet && e.Data != "" {
				select {
				case copies(x) <- e.Data:
				default:
				}
			}
		}}
}

func resumes(x *exchange) bool {
	return x.Request.Method == http.MethodGet && x.Header.Get("Last-Event-Id") != ""
}
