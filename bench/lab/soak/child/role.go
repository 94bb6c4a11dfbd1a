//go:build linux

// Package child is the MCP servers of the soak: one that behaves, and many that do not, each a role of the soak's own
// program. They trust their requests and know nothing of what is done to them.
package child

import (
	"fmt"
	"slices"
	"strings"
)

// Word as the first argument of the soak's program makes it a child; the second is the role.
const Word = "child"

// The variables that children are given, and hand on to what they start.
const (
	// RunVariable marks every process of a run, however far it has gone from the one that started it.
	RunVariable = "SOAK_RUN"
	// UntilVariable is the Unix time, in seconds, at which a child ends by itself: no soak leaves anything for ever.
	UntilVariable = "SOAK_UNTIL"
)

// Kind is how a child behaves.
type Kind string

// The kinds of children. All but Good break a rule.
const (
	Good       Kind = "good"
	CrashStart Kind = "crash-start" // exits at once
	CrashCall  Kind = "crash-call"  // exits in the middle of every call
	CrashLater Kind = "crash-later" // answers three calls and exits at the next
	Hang       Kind = "hang"        // answers everything but calls
	Mute       Kind = "mute"        // reads, and answers nothing
	Deaf       Kind = "deaf"        // does not end with its stdin
	Stubborn   Kind = "stubborn"    // nor at SIGTERM
	Fork       Kind = "fork"        // starts two processes that hold its pipes, one of which ignores SIGTERM
	Daemon     Kind = "daemon"      // starts a process that leaves group and session, is orphaned, and ignores SIGTERM
	Loner      Kind = "loner"       // runs its server in another session; it ignores the end of its stdin, and SIGTERM
	Flood      Kind = "flood"       // a thousand notifications in each call, and as many lines on stderr
	NeverRead  Kind = "never-read"  // stops reading at its first call
	Slow       Kind = "slow"        // needs more than a second before it reads
	Noise      Kind = "noise"       // writes banners, empty lines and garbage between its messages
	Loud       Kind = "loud"        // writes a megabyte to stderr, without a line's end
	Chatty     Kind = "chatty"      // notifies all the time, whether anybody calls or not
	hold       Kind = "hold"        // what Fork starts
	cling      Kind = "cling"       // the same, ignoring SIGTERM
	leave      Kind = "leave"       // what Daemon starts: starts away, and exits
	away       Kind = "away"        // the daemon
)

func kinds() []Kind {
	return []Kind{Good, CrashStart, CrashCall, CrashLater, Hang, Mute, Deaf, Stubborn, Fork, Daemon, Loner, Flood, NeverRead, Slow,
		Noise, Loud, Chatty, hold, cling, leave, away}
}

// Role is the era of a child and how it behaves.
type Role struct {
	Modern bool
	Kind   Kind
}

const (
	modernWord = "modern"
	legacyWord = "legacy"
)

// String is the role as Parse reads it: "legacy/crash-call".
func (r Role) String() string {
	if r.Modern {
		return modernWord + "/" + string(r.Kind)
	}
	return legacyWord + "/" + string(r.Kind)
}

// Parse reads a role; its error names the words that are known.
func Parse(word string) (Role, error) {
	era, kind, _ := strings.Cut(word, "/")
	r := Role{Modern: era == modernWord, Kind: Kind(kind)}
	if era != modernWord && era != legacyWord {
		return Role{}, fmt.Errorf("child: role %q: the era is %s or %s", word, legacyWord, modernWord)
	}
	if !slices.Contains(kinds(), r.Kind) {
		return Role{}, fmt.Errorf("child: role %q: the kind is one of %v", word, kinds())
	}
	return r, nil
}
