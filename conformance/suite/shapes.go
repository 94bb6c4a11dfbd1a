package suite

import (
	"slices"
	"strings"

	"dragoman/conformance/peer"
	"dragoman/conformance/shape"
)

// ServerShape returns what is wrong with a message of a server, for Options.Shape.
func ServerShape(revision string, raw []byte, answers string) []ShapeProblem {
	problems := shape.Message(revision, shape.Server, raw, answers)
	if namesNoRequest(raw) {
		problems = slices.DeleteFunc(problems, func(p shape.Problem) bool {
			return p.Path == "/id" || p.Path == "" && strings.HasPrefix(p.Expected, "id is required")
		})
	}
	return shapeProblems(revision, problems)
}

// namesNoRequest reports whether a message is an error that names no request, as for one that could not be read. JSON-RPC 2.0 §5 gives it the id
// null, the schemas from 2025-11-25 on leave the id out, and those before want one, which nobody can give: all are taken.
func namesNoRequest(raw []byte) bool {
	m, err := peer.ReadMessage(string(raw))
	return err == nil && m.Failed() && (m.ID == nil || string(m.ID) == "null")
}

// ClientShape returns what is wrong with a message of a client; answers is the method that a response answers.
func ClientShape(revision string, raw []byte, answers string) []ShapeProblem {
	return shapeProblems(revision, shape.Message(revision, shape.Client, raw, answers))
}

// shapeProblems gives the section without its revision, which the place has, so that reports join what several revisions share.
func shapeProblems(revision string, problems []shape.Problem) (out []ShapeProblem) {
	for _, p := range problems {
		if p.Path == "" {
			p.Path = "the message"
		}
		out = append(out, ShapeProblem{Place: p.Path, Expected: p.Expected + " (" + strings.TrimPrefix(p.Rule, revision+" ") + ")", Got: p.Got})
	}
	return out
}
