package suite

import (
	"slices"
	"strings"

	"dragoman/conformance/peer"
)

// Level is the level of a requirement (RFC 2119).
type Level string

// The levels.
const (
	Must   Level = "MUST"
	Should Level = "SHOULD"
	May    Level = "MAY"
)

// Check is a requirement that can be observed at a server.
type Check struct {
	ID        string // "area.name", in small letters with dashes; it never changes its meaning
	Title     string // what a server that passes does, in a few words
	Level     Level
	Faces     []peer.Face // at which it runs
	Revisions []string    // that require it; nil: all of its faces
	Page      string      // and section of the specification, such as "basic/transports/streamable-http §Session Management"
	Statement string      // the requirement
	Why       string      // the consequence of a failure
	Fix       string      // the change that a failing server needs
	Needs     []Need      // conditions; without them it is skipped
	Run       func(t *Trial)
}

// Need is something that a server must offer for a check to run.
type Need string

// Needs. Others are capabilities by their path, tools of the everything fixture ("tool:NAME"), prompts ("prompt:NAME"), resources
// ("resource:URI") and extensions ("extension:NAME").
const (
	NeedsTools       Need = "tools"               // the capability
	NeedsATool       Need = "a tool"              // at least one in the list
	NeedsPrompts     Need = "prompts"             // the capability
	NeedsResources   Need = "resources"           // the capability
	NeedsAResource   Need = "a resource"          // at least one in the list
	NeedsSubscribe   Need = "resources.subscribe" // the capability
	NeedsCompletions Need = "completions"         // the capability
	NeedsLogging     Need = "logging"             // the capability
	NeedsSession     Need = "a session id"        // of legacy HTTP
)

// NeedsTool returns the need of a tool.
func NeedsTool(name string) Need { return Need("tool:" + name) }

// At reports whether the check applies to a face and a revision.
func (c *Check) At(face peer.Face, revision string) bool {
	return slices.Contains(c.Faces, face) && (len(c.Revisions) == 0 || slices.Contains(c.Revisions, revision))
}

// Area returns the first part of the id.
func (c *Check) Area() string { area, _, _ := strings.Cut(c.ID, "."); return area }

// From returns all revisions from one on, for Check.Revisions.
func From(first string) (out []string) {
	for _, r := range []string{peer.R2411, peer.R2503, peer.R2506, peer.R2511, peer.R2607} {
		if r >= first {
			out = append(out, r)
		}
	}
	return out
}

// Outcome is the outcome of a check.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"  // a MUST is violated
	Warned  Outcome = "warned"  // a SHOULD is violated
	Noted   Outcome = "noted"   // a MAY is not used, or there is a remark
	Skipped Outcome = "skipped" // the server does not meet the needs
	Broken  Outcome = "broken"  // the check could not be carried out
)

// Failure returns the outcome of a check that found a problem.
func (l Level) Failure() Outcome {
	switch l {
	case Must:
		return Failed
	case Should:
		return Warned
	}
	return Noted
}

// Finding is the outcome of one check at one face and revision.
type Finding struct {
	Check    *Check
	Face     peer.Face
	Revision string
	Behind   string // the kind of server behind an intermediary, or the scenario of a client; empty: a server alone
	Outcome  Outcome
	Problems []Problem
	Reason   string // why it was skipped, or is broken
	Evidence []Line // the last messages; none if it has passed
	TookMS   int64
}

// Key returns the name of the finding in lists of expected failures: check@face@revision.
func (f *Finding) Key() string {
	key := f.Check.ID + "@" + string(f.Face)
	if f.Revision != "" {
		key += "@" + f.Revision
	}
	return key
}

// Problem is one deviation from a requirement.
type Problem struct{ Expected, Got string }

// Line is one piece of evidence.
type Line struct {
	Out   bool   // sent by the tester
	Where string // the stream
	Text  string // cut to 4 KiB
	MS    int64  // since the trial began
}
