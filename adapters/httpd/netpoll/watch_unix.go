//go:build unix && !linux

package netpoll

import (
	"maps"
	"sync"
	"time"
)

// watchPeriod is the delay with which an end is noticed without epoll.
const watchPeriod = 50 * time.Millisecond

// Watcher looks at each socket in turn. Unlike epoll it does not see the end behind unread bytes: a peer that leaves with a request in
// the pipe is noticed only once that is read.
type Watcher struct {
	stop, done chan struct{}

	mu      sync.Mutex
	sockets map[*Socket]Peer
}

// NewWatcher starts a Watcher; Close ends it.
func NewWatcher() (*Watcher, error) {
	w := &Watcher{stop: make(chan struct{}), done: make(chan struct{}), sockets: map[*Socket]Peer{}}
	go w.run()
	return w, nil
}

func (w *Watcher) run() {
	defer close(w.done)
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	batch := map[*Socket]Peer{}
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		w.mu.Lock()
		maps.Copy(batch, w.sockets)
		w.mu.Unlock()
		for s, peer := range batch {
			if peer.Waiting() && NewPeeker(s.raw).Peek() == Closed {
				peer.Left()
			}
		}
		clear(batch)
	}
}

func (w *Watcher) add(s *Socket, peer Peer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sockets[s] = peer
	return nil
}

func (w *Watcher) remove(s *Socket) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sockets, s)
}

// Look does nothing: the next turn of the watcher finds who has left.
func (w *Watcher) Look() {}

// Close ends the watcher. Its sockets are not touched.
func (w *Watcher) Close() {
	close(w.stop)
	<-w.done
}
