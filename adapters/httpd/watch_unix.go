//go:build unix && !linux

package httpd

import (
	"sync"
	"time"
)

// watchPeriod is how late a leave is noticed where there is no epoll.
const watchPeriod = 50 * time.Millisecond

// watcher looks at each armed connection in turn. Unlike epoll it is blinded by bytes in front of the end: a client
// that leaves with a request in the pipe is noticed only once that is read.
type watcher struct {
	stop, done chan struct{}

	mu    sync.Mutex
	conns map[*conn]struct{}
}

func newWatcher() (*watcher, error) {
	w := &watcher{stop: make(chan struct{}), done: make(chan struct{}), conns: map[*conn]struct{}{}}
	go w.run()
	return w, nil
}

func (w *watcher) run() {
	defer close(w.done)
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	var batch []*conn
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		w.mu.Lock()
		for c := range w.conns {
			batch = append(batch, c)
		}
		w.mu.Unlock()
		for i, c := range batch {
			c.watchMu.Lock()
			armed := c.leaver != nil
			c.watchMu.Unlock()
			if armed && newPeeker(c.raw).peek() == sockClosed {
				c.left()
			}
			batch[i] = nil
		}
		batch = batch[:0]
	}
}

func (w *watcher) add(c *conn) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[c] = struct{}{}
	return nil
}

func (w *watcher) remove(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}

func (w *watcher) close() {
	close(w.stop)
	<-w.done
}
