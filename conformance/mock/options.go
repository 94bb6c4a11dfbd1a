package mock

import (
	"slices"
	"time"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// Options configures a run.
type Options struct {
	Argv      []string // the client's command, with {url} or {command} in it, see Tests
	Server    []string // the command that starts Relay, without the address
	Faces     []peer.Face
	Revisions []string
	Scenarios []string             // names; empty: all
	Timeout   time.Duration        // for one run of the client; 0: 30 s
	Wanted    func(id string) bool // selects checks; nil: all
	// Shape returns the deviations of a client's message from its schema; answers is the method that it answers. If it is nil, client.shape
	// is not judged.
	Shape func(revision string, raw []byte, answers string) []suite.ShapeProblem
	// Progress is called after each scenario. It may be nil.
	Progress func(done, total int, scenario string, f []*suite.Finding)

	patience, slow, settle time.Duration // as in run; 0: the defaults
}

func wanted[T comparable](list []T, x T) bool { return len(list) == 0 || slices.Contains(list, x) }

func otherwise(d, usual time.Duration) time.Duration {
	if d <= 0 {
		return usual
	}
	return d
}

// Faces returns the faces at which clients are tested, in order.
func Faces() []peer.Face {
	return []peer.Face{peer.ModernHTTP, peer.LegacyHTTP, peer.SSE, peer.ModernStdio, peer.LegacyStdio}
}
