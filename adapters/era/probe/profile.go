package probe

import (
	"time"

	"dragoman/proxy/wire"
)

// Profile records which eras, revisions and transports a probe has found a server to speak.
type Profile struct {
	Modern   bool
	Legacy   bool   // known to speak a legacy revision; a modern server is probed for that when the first legacy client connects
	Bare     bool   // the legacy side of a modern server has no sessions: legacy clients are served by the modern side
	SSE      bool   // the legacy side is HTTP+SSE of 2024-11-05
	Version  string // the newest revision it named, of the side that was found first
	Discover []byte // its DiscoverResult, if modern
	Init     []byte // its InitializeResult, if legacy
	At       time.Time
	Steps    []string // the steps of the probe and their outcomes, for people

	presumed bool     // that the server is legacy follows from its answer to a probe; no handshake has shown it yet
	checked  bool     // a modern server was asked for its legacy side
	guarded  bool     // a step was refused because of missing credentials: with others the profile may differ
	sum      [16]byte // of the credentials that the probe sent
}

// Eras returns the eras and transports of the profile in words, for logs.
func (v *Profile) Eras() string {
	switch {
	case v.Modern && v.Legacy:
		return "modern and legacy"
	case v.Modern:
		return "modern"
	case v.SSE:
		return "legacy (HTTP+SSE)"
	}
	return "legacy"
}

// Checked reports whether the profile covers both eras and rests on a handshake: a modern server is probed for its legacy side when the
// first legacy client connects, which in the case of a process completes the probe itself.
func (v *Profile) Checked() bool { return !v.presumed && (v.checked || !v.Modern) }

// Identity returns the server's serverInfo and capabilities as raw JSON; nil where absent.
func (v *Profile) Identity() (info, caps []byte) {
	if v.Discover != nil {
		d := v.Discover
		return wire.Path(d, wire.Whole(d), "_meta", wire.MetaPrefix+"serverInfo").Of(d), wire.Get(d, wire.Whole(d), "capabilities").Of(d)
	}
	i := v.Init
	if i == nil {
		return nil, nil
	}
	return wire.Get(i, wire.Whole(i), "serverInfo").Of(i), wire.Get(i, wire.Whole(i), "capabilities").Of(i)
}
