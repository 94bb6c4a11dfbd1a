package netpoll

// Peer is who learns that the other end of a Socket has gone. Its methods are called on the watcher's goroutine and must return
// quickly.
type Peer interface {
	// Left says that the other end has closed the connection, reset it, or closed its sending half.
	Left()
	// Waiting reports whether somebody wants to know. Where peers have to be looked at in turn, others are left out.
	Waiting() bool
}
