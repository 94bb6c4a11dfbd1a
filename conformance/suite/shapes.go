package suite

import (
	"slices"
	"strings"

	"dragoman/conformance/peer"
	"dragoman/conformance/shape"
)

// ServerShape returns the deviations of a server's message, for Options.Shape.
func ServerShape(revision string, raw []byte, answers string) []ShapeProblem {
	problems := shape.Message(revision, shape.Server, raw, answers)
	if namesNoRequest(raw) {
		problems = slices.DeleteFunc(problems, func(p shape.Problem) bool {
			return p.Path == "/id" || p.Path == "" && strings.HasPrefix(p.Expected, "id is required")
		})
	}
	return shapeProblems(revision, problems)
}

// namesNoRequest reports whether a message is an error without the id of a request, as for one that could not be read. All forms are
// accepted: JSON-RPC 2.0 §5 has the id null, the schemas from 2025-11-25 on allow none, and earlier ones require an id, which is unknown.
func namesNoRequest(raw []byte) bool {
	m, err := peer.ReadMessage(string(raw))
	return err == nil && m.Failed() && (m.ID == nil || string(m.ID) == "null")
}

// ClientShape returns the deviations of a client's message; answers is the method that a response answers.
func ClientShape(revision string, raw []byte, answers string) []ShapeProblem {
	return shapeProblems(revision, shape.Message(revision, shape.Client, raw, answers))
}

// shapeProblems removes the revision from the section, so that reports can group equal problems of several revisions.
func shapeProblems(revision string, problems []shape.Problem) (out []ShapeProblem) {
	for _, p := range problems {
		if p.Path == "" {
			p.Path = "the message"
		}
		out = append(out, ShapeProblem{Place: p.Path, Expected: p.Expected + " (" + strings.TrimPrefix(p.Rule, revision+" ") + ")", Got: p.Got})
	}
	return out
}
