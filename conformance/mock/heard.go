package mock

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// limits of what one scenario takes in.
const (
	maxRequests = 2000
	maxBody     = 16 << 20
)

// heard is one HTTP request of the client's.
type heard struct {
	verb    string
	header  http.Header
	body    string
	message peer.Message // of a POST; one that is no object has none
	at      time.Duration
	session string // that the scenario knows; empty: none, or one that it does not know
	status  int    // what it was answered with; 0: not yet
	answer  string
}

// run is one run of a client in a scenario.
type run struct {
	scenario *Scenario
	face     peer.Face
	revision string
	began    time.Time

	mu       sync.Mutex
	all      []*heard
	sessions int
	lost     map[string]bool // sessions that were ended by the scenario
	agreed   string          // the revision that initialize was answered with
	counts   map[string]int
	exit     string // how the client ended
	failed   bool   // it ended otherwise than with 0
	ended    chan struct{}
	pong     chan struct{} // closed when the mock's ping was answered
}

// first tells whether something happens for the first time in the run.
func (r *run) first(what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = make(map[string]int)
	}
	r.counts[what]++
	return r.counts[what] == 1
}

// requests are the messages with a method that came by POST, in order; empty: all messages.
func (r *run) requests(method string) (out []*heard) {
	for _, h := range r.all {
		if h.verb == http.MethodPost && (method == "" || h.message.Method == method) {
			out = append(out, h)
		}
	}
	return out
}

// by are the requests of a verb.
func (r *run) by(verb string) (out []*heard) {
	for _, h := range r.all {
		if h.verb == verb {
			out = append(out, h)
		}
	}
	return out
}

// evidence is what went over the wire, as far as it is kept.
func (r *run) evidence() (out []suite.Line) {
	const most = 60
	for i, h := range r.all {
		if len(r.all)-i > most/2 {
			continue
		}
		text := h.verb
		for _, name := range []string{"Accept", "Content-Type", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Session-Id", "Last-Event-Id"} {
			for _, v := range h.header[name] {
				text += "\n" + name + ": " + v
			}
		}
		if h.body != "" {
			text += "\n\n" + h.body
		}
		out = append(out, suite.Line{Out: false, Where: "the client", Text: cut(text), MS: h.at.Milliseconds()})
		if h.status != 0 {
			out = append(out, suite.Line{Out: true, Where: "the mock", Text: cut(fmt.Sprintf("%d %s\n%s", h.status, http.StatusText(h.status), h.answer)), MS: h.at.Milliseconds()})
		}
	}
	return out
}

func cut(text string) string {
	const most = 4 << 10
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
