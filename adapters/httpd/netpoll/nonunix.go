//go:build !unix

package netpoll

import "syscall"

// CanPeek says whether a Peeker sees anything on this system.
const CanPeek = false

// Peeker cannot look here: an idle connection is taken to be alive, and its idle limit alone keeps dead ones away.
type Peeker struct{}

// NewPeeker makes a Peeker.
func NewPeeker(syscall.RawConn) *Peeker { return &Peeker{} }

// Peek returns Quiet.
func (p *Peeker) Peek() State { return Quiet }

// writeNow leaves everything to the waiting writer here.
func writeNow(int, [][]byte) (n int, err error) { return 0, nil }

// MaxOpenFiles returns 0: the limit is not known.
func MaxOpenFiles() int { return 0 }

// Watcher sees nothing on systems without a peek: there the next write finds that a peer has gone.
type Watcher struct{}

// NewWatcher makes a Watcher.
func NewWatcher() (*Watcher, error) { return &Watcher{}, nil }

func (w *Watcher) add(*Socket, Peer) error { return nil }
func (w *Watcher) remove(*Socket)          {}

// Look does nothing.
func (w *Watcher) Look() {}

// Close does nothing.
func (w *Watcher) Close() {}
