package mock

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// Limits of one scenario's input.
const (
	maxRequests = 2000
	maxBody     = 16 << 20
)

// lineVerb and eventVerb mark entries that are no HTTP requests: a line on the input of a mock server, and an event of one.
const (
	lineVerb  = "line"
	eventVerb = "event"
)

// received is one HTTP request of the client, or one line.
type received struct {
	verb    string
	header  http.Header
	path    string // of HTTP, with the query
	body    string
	message peer.Message // of a POST or a line; one that is no object has none
	at      time.Duration
	session string // known session; empty: none, or an unknown one. On stdio the number of the process
	stray   string // over HTTP+SSE, the wrong place where it came; empty: it came to the right one
	cut     bool   // an incomplete line
	status  int    // of the HTTP response; 0: none yet
	answer  string // all messages sent in answer, one a line
}

// run is one run of a client in a scenario.
type run struct {
	scenario *Scenario
	face     peer.Face
	revision string
	began    time.Time

	history  *history      // of earlier scenarios
	patience time.Duration // timeout for an answer of the client
	slow     time.Duration // of the slow tool
	settle   time.Duration // for a process to exit after the client
	origin   string        // of the mock, over HTTP
	foreign  string        // another origin, to which a client must not send
	ended    chan struct{} // closed when the client has ended
	work     sync.WaitGroup

	mu        sync.Mutex
	all       []*received
	sessions  int
	lost      map[string]bool // sessions that were ended by the scenario
	agreed    string          // the revision in the result of initialize
	counts    map[string]int
	happened  map[string]chan struct{}
	questions []question            // requests to the client
	streams   map[string]*sseStream // of HTTP+SSE, by session
	processes []*process            // that the client has started
	exit      string                // how the client ended
	failed    bool                  // its exit code was not 0
	shut      bool                  // requests are no longer answered
	late      bool                  // it did not end in time
}

// history holds what earlier scenarios showed of a client.
type history struct {
	initializes map[peer.Face]bool // it can open a legacy session there
	calls       map[peer.Face]bool // it calls tools there
}

// record keeps a request. It returns false when there are too many.
func (r *run) record(h *received) bool {
	h.at = time.Since(r.began)
	if h.verb != eventVerb {
		h.message, _ = peer.ReadMessage(h.body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) >= maxRequests {
		return false
	}
	r.all = append(r.all, h)
	return true
}

// recordAnswer keeps an answer to a request.
func (r *run) recordAnswer(h *received, text string) {
	const most = 64 << 10
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.answer != "" {
		h.answer += "\n"
	}
	if len(h.answer)+len(text) <= most {
		h.answer += text
	}
}

// when returns a channel that is closed once the named event has happened.
func (r *run) when(what string) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.happened == nil {
		r.happened = make(map[string]chan struct{})
	}
	if r.happened[what] == nil {
		r.happened[what] = make(chan struct{})
	}
	return r.happened[what]
}

// happens marks an event as happened, which closes its channel (when).
func (r *run) happens(what string) {
	if c := r.when(what); r.first("it happens: " + what) {
		close(c)
	}
}

// await waits for all named events, at most for patience.
func (r *run) await(patience time.Duration, what ...string) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for _, one := range what {
		select {
		case <-r.when(one):
		case <-late.C:
			return
		case <-r.ended:
			return
		}
	}
}

// first reports whether something happens for the first time in the run.
func (r *run) first(what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = make(map[string]int)
	}
	r.counts[what]++
	return r.counts[what] == 1
}

// requests returns the messages with a method that came by POST or as lines, in order. "" stands for all messages.
func (r *run) requests(method string) (out []*received) {
	for _, h := range r.all {
		if (h.verb == http.MethodPost || h.verb == lineVerb) && (method == "" || h.message.Method == method) {
			out = append(out, h)
		}
	}
	return out
}

// by returns the requests with a verb.
func (r *run) by(verb string) (out []*received) {
	for _, h := range r.all {
		if h.verb == verb {
			out = append(out, h)
		}
	}
	return out
}

// evidence returns the recorded traffic, shortened.
func (r *run) evidence() (out []suite.Line) {
	const most = 60
	for i, h := range r.all {
		if len(r.all)-i > most/2 {
			continue
		}
		out = append(out, suite.Line{Out: false, Where: h.where(), Text: cut(h.text()), MS: h.at.Milliseconds()})
		switch {
		case h.status != 0:
			out = append(out, suite.Line{Out: true, Where: "the mock", Text: cut(fmt.Sprintf("%d %s\n%s", h.status, http.StatusText(h.status), h.answer)), MS: h.at.Milliseconds()})
		case h.answer != "":
			out = append(out, suite.Line{Out: true, Where: "the mock", Text: cut(h.answer), MS: h.at.Milliseconds()})
		}
	}
	return out
}

func (h *received) where() string {
	switch h.verb {
	case lineVerb:
		return "process " + h.session
	case eventVerb:
		return "the mock's process"
	}
	return "the client"
}

// text returns the request as a report shows it.
func (h *received) text() string {
	if h.verb == lineVerb || h.verb == eventVerb {
		return h.body
	}
	text := h.verb
	if h.path != "/mcp" {
		text += " " + h.path
	}
	for _, name := range []string{"Accept", "Content-Type", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Session-Id", "Last-Event-Id"} {
		for _, v := range h.header[name] {
			text += "\n" + name + ": " + v
		}
	}
	if h.body != "" {
		text += "\n\n" + h.body
	}
	return text
}

func cut(text string) string { return peer.Cut(text, 4<<10) }

// version returns the negotiated revision.
func (r *run) version() string {
	if r.agreed != "" && r.agreed != unknownRevision {
		return r.agreed
	}
	return r.revision
}
