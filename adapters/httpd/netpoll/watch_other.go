//go:build !unix

package netpoll

// Watcher sees nothing on systems without a peek: there the next write finds that a peer has gone.
type Watcher struct{}

// NewWatcher makes a Watcher.
func NewWatcher() (*Watcher, error) { return &Watcher{}, nil }

func (w *Watcher) add(*Socket, Peer) error { return nil }
func (w *Watcher) remove(*Socket)          {}

// Close does nothing.
func (w *Watcher) Close() {}
