//go:build linux

package httpd

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// watcher is one epoll set for all accepted connections. It asks for EPOLLRDHUP alone, edge-triggered: bytes that arrive
// neither wake it nor hide the end behind them, and nothing is consumed. The set's own descriptor is non-blocking, so
// the runtime's poller waits for it and no thread is blocked.
type watcher struct {
	set  *os.File
	raw  syscall.RawConn
	done chan struct{}

	mu    sync.Mutex
	slots []watchSlot
	free  []int32
}

// watchSlot is the place of one connection. gen grows with each use, so that an event that was already under way when
// its connection closed finds nobody, although the kernel may have given the descriptor's number away again.
type watchSlot struct {
	c   *conn
	gen int32
}

func newWatcher() (*watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("httpd: epoll: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("httpd: epoll: %w", err)
	}
	set := os.NewFile(uintptr(fd), "epoll")
	raw, err := set.SyscallConn()
	if err != nil {
		_ = set.Close()
		return nil, fmt.Errorf("httpd: epoll: %w", err)
	}
	w := &watcher{set: set, raw: raw, done: make(chan struct{})}
	go w.run()
	return w, nil
}

// run ends when the set is closed.
func (w *watcher) run() {
	defer close(w.done)
	events := make([]unix.EpollEvent, 128)
	var n int
	poll := func(fd uintptr) bool {
		var err error
		n, err = unix.EpollWait(int(fd), events, 0)
		return n > 0 || err != nil && err != unix.EINTR && err != unix.EAGAIN
	}
	for {
		n = 0
		if err := w.raw.Read(poll); err != nil || n < 0 {
			return
		}
		for i := range n {
			if c := w.at(events[i].Fd, events[i].Pad); c != nil {
				c.left()
			}
		}
	}
}

func (w *watcher) at(slot, gen int32) *conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slot < 0 || int(slot) >= len(w.slots) || w.slots[slot].gen != gen {
		return nil
	}
	return w.slots[slot].c
}

// add registers c for its whole life.
func (w *watcher) add(c *conn) error {
	w.mu.Lock()
	var slot int32
	if n := len(w.free); n > 0 {
		slot, w.free = w.free[n-1], w.free[:n-1]
	} else {
		slot = int32(len(w.slots))
		w.slots = append(w.slots, watchSlot{})
	}
	s := &w.slots[slot]
	s.gen++
	s.c = c
	event := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLET, Fd: slot, Pad: s.gen}
	w.mu.Unlock()
	c.slot = slot

	var err error
	ctl := w.raw.Control(func(set uintptr) {
		err = c.raw.Control(func(fd uintptr) {
			if e := unix.EpollCtl(int(set), unix.EPOLL_CTL_ADD, int(fd), &event); e != nil {
				err = e
			}
		})
	})
	if err == nil {
		err = ctl
	}
	if err != nil {
		w.remove(c)
		return fmt.Errorf("httpd: watch connection: %w", err)
	}
	return nil
}

// remove forgets c, before its descriptor is closed. Closing takes the descriptor out of the set.
func (w *watcher) remove(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots[c.slot].c = nil
	w.slots[c.slot].gen++
	w.free = append(w.free, c.slot)
}

func (w *watcher) close() {
	_ = w.set.Close()
	<-w.done
}
