package netpoll

// Peer is notified when the other end of a Socket has gone. Its methods are called on the watcher's goroutine and must return
// quickly.
type Peer interface {
	// Left says that the other end has closed the connection, reset it, or closed its sending half.
	Left()
	// Waiting reports whether Left has an effect now. Without epoll the watcher looks at such peers only.
	Waiting() bool
}
