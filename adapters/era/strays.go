package era

import (
	"sync/atomic"

	"dragoman/adapters/transport"
)

// strays counts the answers that matched no open request of their session.
type strays struct {
	late, foreign, unknown atomic.Uint64
	broadcasts             atomic.Bool
}

func (s *strays) of(kind transport.Stray) *atomic.Uint64 {
	switch kind {
	case transport.Late:
		return &s.late
	case transport.Foreign:
		return &s.foreign
	}
	return &s.unknown
}

// stray counts an answer that was dropped. One for another session shows that the server broadcasts: what it sends to one session may be
// meant for any. From then on one session is open at a time.
func (u *Upstream) stray(of transport.Stray) {
	u.strays.of(of).Add(1)
	if of != transport.Foreign || u.strays.broadcasts.Swap(true) {
		return
	}
	u.pool.MakeSingle()
	u.work.Note("warn", "the upstream sends the answers of one session to its other sessions too (it broadcasts): one session is open at a time from now on, calls of different "+
		"clients wait for each other (questions.lease_wait), and change notices are not delivered; better run the server's own command under Dragoman, "+
		"or set isolation = \"shared\" if the server may mix its clients", nil)
	u.work.Spawn(u.relays.Retire) // not in the goroutine of a link, which may be one of theirs
}

// Strays returns the number of answers of a kind that were dropped because they matched no open request of their session.
func (u *Upstream) Strays(of transport.Stray) uint64 { return u.strays.of(of).Load() }

// Broadcasts reports whether the server was seen to send the answers of one session to another.
func (u *Upstream) Broadcasts() bool { return u.strays.broadcasts.Load() }
