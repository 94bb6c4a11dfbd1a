package mock

import (
	"fmt"
	"slices"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// check is a requirement of clients.
type check struct {
	suite.Check
	scenarios []string // in which it is judged; nil: all
	judge     func(v *verdict)
}

// verdict is the outcome of one check in one run.
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

// each calls f for each request with a method, or skips the check if there is none.
func (v *verdict) each(method string, f func(h *received)) {
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

// eachModern calls f for each request of 2026-07-28, or skips the check if there is none.
func (v *verdict) eachModern(f func(h *received)) {
	v.skipped = "the client has sent no request of 2026-07-28"
	for _, h := range v.requests("") {
		if h.message.Kind() == peer.IsRequest && h.message.Method != "initialize" {
			v.skipped = ""
			f(h)
		}
	}
}

// otherEra returns why a client seems to belong to another era than the face; "" if it does not, or has sent nothing.
func (v *verdict) otherEra() string {
	all := v.requests("")
	only := func(method string) bool {
		return len(all) > 0 && !slices.ContainsFunc(all, func(h *received) bool {
			return h.message.Method != method && h.message.Method != "notifications/cancelled"
		})
	}
	switch {
	case v.face.Modern() && only("initialize"):
		return "the client speaks legacy revisions only, it seems"
	case !v.face.Modern() && !v.history.initializes[v.face] && only("server/discover"):
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

func what(h *received) string {
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
