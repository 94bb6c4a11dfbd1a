package mock

import (
	"slices"
	"time"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// Options are those of a run.
type Options struct {
	Argv      []string // the client's command; {url} and {command} in it are the mock's, see Plays
	Server    []string // the words that start Relay; the address is put behind them
	Faces     []peer.Face
	Revisions []string
	Scenarios []string             // names; empty: all
	Timeout   time.Duration        // for one run of the client; 0: 30 s
	Wanted    func(id string) bool // of the checks; nil: all
	// Shape returns what is wrong with a message of the client; answers is the method that it answers. If nil, client.shape is not judged.
	Shape func(revision string, raw []byte, answers string) []suite.ShapeProblem
	// Progress is called after each scenario; nil: nobody looks.
	Progress func(done, total int, scenario string, f []*suite.Finding)

	patience, slow, settle time.Duration // as in run; 0: the usual
}

func wanted[T comparable](list []T, x T) bool { return len(list) == 0 || slices.Contains(list, x) }

func otherwise(d, usual time.Duration) time.Duration {
	if d <= 0 {
		return usual
	}
	return d
}

// Faces are those at which clients are met, in order.
func Faces() []peer.Face {
	return []peer.Face{peer.ModernHTTP, peer.LegacyHTTP, peer.SSE, peer.ModernStdio, peer.LegacyStdio}
}
