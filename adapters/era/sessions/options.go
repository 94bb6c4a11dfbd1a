package sessions

import (
	"time"

	"dragoman/adapters/transport"
)

// Options say which clients share the sessions and processes of a server, and limit these.
type Options struct {
	Isolation  Isolation
	DeclareAll bool          // a legacy server is promised that it may ask anything
	Max        int           // pooled legacy sessions
	IdleTTL    time.Duration // a pooled session without calls for this long is closed; 0: never
	LeaseWait  time.Duration // how long a call waits for a session or a process that becomes free
	Processes  Processes     // ignored unless links are processes

	Stray  func(of transport.Stray) // called for each answer that matches no open request of its link; nil: none is
	Others func() int               // sessions with the server that are not in the pool, and end soon once there is one at a time; nil: 0
}

// Processes limit the processes of one server.
type Processes struct {
	Max          int           // in all; 0: no limit
	Spares       int           // prewarmed processes among these
	PerPrincipal int           // of one principal; 0: no separate limit
	IdleExit     time.Duration // a process without calls for this long is stopped; 0: IdleTTL for pooled ones, others stay
}

// idle returns how long a pooled session stays open without calls; 0: without limit.
func (o *Options) idle() time.Duration {
	if o.Processes.IdleExit > 0 {
		return o.Processes.IdleExit
	}
	return o.IdleTTL
}

// Sharing says which clients of a server share a session or process.
type Sharing uint8

// The ways to share a server. They apply to legacy servers, whose sessions have state, and to modern servers behind pipes.
const (
	// BySession gives each legacy client a session of its own; modern clients of one identity share sessions, and lease
	// them for calls in which the server may ask. A modern server has one process for all clients.
	BySession Sharing = iota
	// ByPrincipal gives all clients of one principal one session.
	ByPrincipal
	// Pooled has a number of sessions, each of which serves any call.
	Pooled
	// Shared has one session for all.
	Shared
)

// Isolation says how the clients of a server are separated. The zero value is the strictest.
type Isolation struct {
	Sharing Sharing
	Size    int // of a pool
}

// Mixed reports whether legacy clients share sessions. Their exchanges are upgraded and then downgraded onto these, since only modern
// requests carry what tells clients apart.
func (i Isolation) Mixed() bool { return i.Sharing != BySession }

// Anonymous reports whether clients of different principals share sessions.
func (i Isolation) Anonymous() bool { return i.Sharing == Pooled || i.Sharing == Shared }

// Asks reports whether a legacy server may ask: in a shared session nothing says which client a question is for. Within one principal
// a lease does, if declareAll promised the server that it may ask.
func (i Isolation) Asks(declareAll bool) bool {
	return !i.Mixed() || i.Sharing == ByPrincipal && declareAll
}

// most returns how many sessions one identity may have; 0: no limit.
func (i Isolation) most() int {
	switch i.Sharing {
	case BySession:
		return 0
	case Pooled:
		return max(i.Size, 1)
	}
	return 1
}
