package sessions

// Sharing says which clients of a server have a session, or a process, in common.
type Sharing uint8

// The ways to share a server. They concern legacy servers, whose sessions remember; of modern ones only those behind
// pipes, where a process can be asked for.
const (
	// BySession gives each legacy client a session of its own; modern clients of one identity share sessions, and lease
	// them for calls in which the server may ask. A modern server has one process for all: its revision is made for that.
	BySession Sharing = iota
	// ByPrincipal gives all clients of one principal one session.
	ByPrincipal
	// Pooled has a number of sessions, any of which takes any call.
	Pooled
	// Shared has one session for all.
	Shared
)

// Isolation is how the clients of a server are kept apart. The zero value is the strictest.
type Isolation struct {
	Sharing Sharing
	Size    int // of a pool
}

// Mixed reports whether legacy clients have sessions in common. They are upgraded, and downgraded again onto these: the modern era
// is made for sharing.
func (i Isolation) Mixed() bool { return i.Sharing != BySession }

// Anonymous reports whether clients of different principals have sessions in common.
func (i Isolation) Anonymous() bool { return i.Sharing == Pooled || i.Sharing == Shared }

// Asks reports whether a legacy server may ask anything: nothing in a session that several clients share says which of them the server
// means. Within one principal a lease does, if the server is told that it may ask.
func (i Isolation) Asks(declareAll bool) bool {
	return !i.Mixed() || i.Sharing == ByPrincipal && declareAll
}

// most is how many sessions one identity may have; 0: as many as it needs.
func (i Isolation) most() int {
	switch i.Sharing {
	case BySession:
		return 0
	case Pooled:
		return max(i.Size, 1)
	}
	return 1
}
