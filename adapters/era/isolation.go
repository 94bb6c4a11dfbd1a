package era

import (
	"time"

	"dragoman/proxy"
)

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

// mixed tells whether legacy clients have sessions in common. They are upgraded, and downgraded again onto these: sharing is
// what the modern era is made for.
func (i Isolation) mixed() bool { return i.Sharing != BySession }

// anonymous tells whether clients of different principals have sessions in common.
func (i Isolation) anonymous() bool { return i.Sharing == Pooled || i.Sharing == Shared }

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

// asks tells whether a legacy server may ask anything: nothing in a session that several clients share tells whom it means.
// Within one principal, a lease does, if the server is told that it may ask.
func (o *Options) asks() bool {
	return !o.Isolation.mixed() || o.Isolation.Sharing == ByPrincipal && o.DeclareAll
}

// pooledIdle is how long a pooled session lives without calls; 0: for ever.
func (o *Options) pooledIdle() time.Duration {
	if o.IdleExit > 0 {
		return o.IdleExit
	}
	return o.IdleTTL
}

// choose answers one of the sessions of an identity, nil if another should be opened. In a pool that is one without calls,
// the last used of these, so that what is not needed stays idle and ends; else the one with the fewest.
func (p *pool) choose(all []*pooled, lease bool) *pooled {
	if p.u.opt.Isolation.Sharing != Pooled {
		return best(all, lease)
	}
	var free, least *pooled
	var last time.Time
	fewest := 0
	for _, s := range all {
		s.mu.Lock()
		dead, uses, used := s.dead, s.uses, s.last
		s.mu.Unlock()
		switch {
		case dead:
		case uses == 0 && (free == nil || used.After(last)):
			free, last = s, used
		case least == nil || uses < fewest:
			least, fewest = s, uses
		}
	}
	if free != nil || len(all) < p.u.opt.Isolation.most() && opening(all) < maxOpening {
		return free
	}
	return least
}

// taken says that all sessions that the isolation permits are leased.
func taken() *proxy.Error {
	e := proxy.Errf(proxy.TooManySessions, "another call, in which the server may ask, has the session that this caller's clients share; it goes on longer than questions.lease_wait")
	e.RetryAfter = 5
	return e
}

// patience is how long a server may take to shake hands: a process has to be started first, perhaps by a package runner
// that downloads it.
func (o *Options) patience() time.Duration {
	if o.Wires.Stdio {
		return max(o.StartTimeout+time.Second, o.ProbeTimeout) // the link gives up first, and knows what the process said
	}
	return o.ProbeTimeout
}
