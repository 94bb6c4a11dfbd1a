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
	Faces     []peer.Face // where it is tried
	Revisions []string    // in which it stands; nil: in all that its faces speak
	Page      string      // of the specification and its section, such as "basic/transports/streamable-http §Session Management"
	Statement string      // what is required, in our words
	Why       string      // what happens to whom otherwise
	Fix       string      // what to do in a server that fails
	Needs     []Need      // without which it cannot be tried
	Run       func(t *Trial)
}

// Need is something that a server must offer for a check to run.
type Need string

// What may be needed. Others are capabilities by their path, tools of the everything-fixture, as "tool:NAME", prompts and resources, as
// "prompt:NAME" and "resource:URI", and extensions, as "extension:NAME".
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

// NeedsTool is the need of a tool by name.
func NeedsTool(name string) Need { return Need("tool:" + name) }

// At reports whether the check applies to a face and a revision.
func (c *Check) At(face peer.Face, revision string) bool {
	return slices.Contains(c.Faces, face) && (len(c.Revisions) == 0 || slices.Contains(c.Revisions, revision))
}

// Area is the first part of the id.
func (c *Check) Area() string { area, _, _ := strings.Cut(c.ID, "."); return area }

// From are the revisions of a face from one on; what a check's Revisions are made of.
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
	Failed  Outcome = "failed"  // a MUST is not kept
	Warned  Outcome = "warned"  // a SHOULD is not kept
	Noted   Outcome = "noted"   // a MAY is not used, or something is worth knowing
	Skipped Outcome = "skipped" // the server does not offer what is needed
	Broken  Outcome = "broken"  // the check could not be carried out
)

// Failure is the outcome of a check that is not kept.
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
	Behind   string // of an intermediary the kind of server behind it, of a client the scenario; empty: a server alone
	Outcome  Outcome
	Problems []Problem
	Reason   string // why it was skipped, or is broken
	Evidence []Line // what went over the wire, the last lines; none for what has passed
	TookMS   int64
}

// Key names a finding in lists of what is expected: check@face@revision.
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
	Out   bool   // the tester has said it
	Where string // over which stream
	Text  string // cut to 4 KiB
	MS    int64  // since the trial began
}
