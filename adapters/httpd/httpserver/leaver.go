package httpserver

import "sync"

// Leaver learns that a client has left. Leave is called at most once for each Watch, on the watcher's goroutine or inside WatchClient.
// It must return quickly, must not call WatchClient or Stop, and must not wait for a lock that is held around such a call.
type Leaver interface{ Leave() }

// Watch is a Leaver that waits. The zero Watch is none.
type Watch struct {
	d   *departure
	gen uint64
}

// Stop ends the Watch. When it returns, Leave is not running and never will be, so the Leaver may be reused. Only the first call
// counts; it may be made from any goroutine.
func (w Watch) Stop() {
	if w.d == nil {
		return
	}
	w.d.mu.Lock()
	if w.d.gen == w.gen {
		w.d.leaver = nil
	}
	w.d.mu.Unlock()
}

// departure records that a client has left, and holds the Leaver that is called then. It implements netpoll.Peer.
type departure struct {
	mu     sync.Mutex
	leaver Leaver
	gen    uint64
	gone   bool
}

func (d *departure) watch(l Leaver) Watch {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gen++
	if d.gone {
		d.leaver = nil
		l.Leave()
	} else {
		d.leaver = l
	}
	return Watch{d: d, gen: d.gen}
}

// unwatch ends the Watch of a handler that could not do so.
func (d *departure) unwatch() {
	d.mu.Lock()
	d.leaver = nil
	d.gen++
	d.mu.Unlock()
}

// Left implements netpoll.Peer. The lock is held during Leave: Stop waits for it.
func (d *departure) Left() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = true
	if l := d.leaver; l != nil {
		d.leaver = nil
		l.Leave()
	}
}

// Waiting implements netpoll.Peer.
func (d *departure) Waiting() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leaver != nil
}
