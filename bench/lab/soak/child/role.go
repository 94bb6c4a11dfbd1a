//go:build linux

// Package child has the MCP servers of the soak: one that behaves, and many that do not, each a role of the soak's own program. They trust
// their requests.
package child

import (
	"fmt"
	"slices"
	"strings"
)

// Word as the first argument makes the soak's program a child. The second argument is the role.
const Word = "child"

// The environment variables of children, which their descendants inherit.
const (
	// RunVariable marks every process of a run, even one that has left its group and session.
	RunVariable = "SOAK_RUN"
	// UntilVariable is the Unix time in seconds at which a child exits by itself, so that a soak leaves no process behind for ever.
	UntilVariable = "SOAK_UNTIL"
)

// Kind is how a child behaves.
type Kind string

// The kinds of children. All but Good break a rule.
const (
	Good         Kind = "good"
	CrashStart   Kind = "crash-start"   // exits at once
	CrashCall    Kind = "crash-call"    // exits in every call
	CrashLater   Kind = "crash-later"   // answers three calls and exits at the next
	Hang         Kind = "hang"          // answers everything but calls
	Mute         Kind = "mute"          // reads, and answers nothing
	IgnoreEOF    Kind = "ignore-eof"    // does not exit when its stdin is closed
	Stubborn     Kind = "stubborn"      // nor on SIGTERM
	Fork         Kind = "fork"          // starts two processes that hold its pipes, one of which ignores SIGTERM
	Daemon       Kind = "daemon"        // starts a process that leaves group and session, is orphaned, and ignores SIGTERM
	OtherSession Kind = "other-session" // runs its server, a stubborn one, in another session
	Flood        Kind = "flood"         // a thousand notifications in each call, and as many lines on stderr
	NeverRead    Kind = "never-read"    // stops reading at its first call
	Slow         Kind = "slow"          // waits more than a second before it reads
	Noise        Kind = "noise"         // writes banners, empty lines and garbage between its messages
	Loud         Kind = "loud"          // writes a megabyte to stderr without a line end
	Chatty       Kind = "chatty"        // sends notifications all the time
	hold         Kind = "hold"          // started by Fork
	holdStubborn Kind = "hold-stubborn" // started by Fork, ignores SIGTERM
	leave        Kind = "leave"         // started by Daemon; starts away and exits
	away         Kind = "away"          // the daemon
)

func kinds() []Kind {
	return []Kind{Good, CrashStart, CrashCall, CrashLater, Hang, Mute, IgnoreEOF, Stubborn, Fork, Daemon, OtherSession, Flood, NeverRead, Slow,
		Noise, Loud, Chatty, hold, holdStubborn, leave, away}
}

// Role is the era and the behaviour of a child.
type Role struct {
	Modern bool
	Kind   Kind
}

const (
	modernWord = "modern"
	legacyWord = "legacy"
)

// String is the role in the form of Parse: "legacy/crash-call".
func (r Role) String() string {
	if r.Modern {
		return modernWord + "/" + string(r.Kind)
	}
	return legacyWord + "/" + string(r.Kind)
}

// Parse parses a role. Its error lists the known words.
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
