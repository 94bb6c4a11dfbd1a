package netpoll

import (
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Watcher is one epoll set for all accepted connections. It asks for EPOLLRDHUP alone, edge-triggered: bytes that arrive neither wake it
// nor hide the end behind them, and nothing is consumed. The set's own descriptor is non-blocking, so that the runtime's poller waits
// for it and no thread is blocked.
type Watcher struct {
	set  *os.File
	raw  syscall.RawConn
	done chan struct{}

	looking sync.Mutex // held from the events of the kernel to the end of the calls of Left
	events  []unix.EpollEvent

	mu    sync.Mutex
	slots []watchSlot
	free  []int32
}

// watchSlot is the place of one socket. gen grows with each use, so that an event that was under way when its socket was closed is
// dropped, even if the kernel has reused the number of the descriptor.
type watchSlot struct {
	peer Peer
	gen  int32
}

// NewWatcher starts a Watcher; Close ends it. The error is the system's refusal of another descriptor.
func NewWatcher() (*Watcher, error) {
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
	w := &Watcher{set: set, raw: raw, done: make(chan struct{}), events: make([]unix.EpollEvent, 128)}
	go w.run()
	return w, nil
}

// run ends when the set is closed.
func (w *Watcher) run() {
	defer close(w.done)
	for broken := false; !broken; {
		err := w.raw.Read(func(fd uintptr) bool {
			n, err := w.look(int(fd))
			broken = err != nil && err != unix.EINTR && err != unix.EAGAIN
			return n > 0 || broken
		})
		if err != nil {
			return
		}
	}
}

// Look calls Left for the peers that have left before the call, and returns when all these calls have ended. Left must not call it.
func (w *Watcher) Look() {
	_ = w.raw.Control(func(fd uintptr) {
		for n := len(w.events); n == len(w.events); {
			n, _ = w.look(int(fd))
		}
	})
}

// look takes events of the set, and returns their number.
func (w *Watcher) look(set int) (int, error) {
	w.looking.Lock()
	defer w.looking.Unlock()
	n, err := unix.EpollWait(set, w.events, 0)
	for i := range n {
		if p := w.at(w.events[i].Fd, w.events[i].Pad); p != nil {
			p.Left()
		}
	}
	return n, err
}

func (w *Watcher) at(slot, gen int32) Peer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slot < 0 || int(slot) >= len(w.slots) || w.slots[slot].gen != gen {
		return nil
	}
	return w.slots[slot].peer
}

// add registers s until remove.
func (w *Watcher) add(s *Socket, peer Peer) error {
	w.mu.Lock()
	if n := len(w.free); n > 0 {
		s.slot, w.free = w.free[n-1], w.free[:n-1]
	} else {
		s.slot = int32(len(w.slots)) //nolint:gosec // G115: one for each connection
		w.slots = append(w.slots, watchSlot{})
	}
	at := &w.slots[s.slot]
	at.gen++
	at.peer, s.gen = peer, at.gen
	w.mu.Unlock()

	var err error
	if closed := s.raw.Control(func(fd uintptr) { err = w.control(unix.EPOLL_CTL_ADD, int(fd), s) }); closed != nil {
		err = fmt.Errorf("httpd: watch connection: %w", closed)
	}
	if err != nil {
		w.remove(s)
	}
	return err
}

// control adds a descriptor of s to the set, or deletes it.
func (w *Watcher) control(op, fd int, s *Socket) error {
	event := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLET, Fd: s.slot, Pad: s.gen}
	var err error
	if closed := w.raw.Control(func(set uintptr) { err = unix.EpollCtl(int(set), op, fd, &event) }); closed != nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("httpd: watch connection: %w", err)
	}
	return nil
}

// remove forgets s before its descriptor is closed. Closing takes the descriptor out of the set.
func (w *Watcher) remove(s *Socket) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots[s.slot].peer = nil
	w.slots[s.slot].gen++
	w.free = append(w.free, s.slot)
}

// move watches another descriptor of s.
func (w *Watcher) move(s *Socket, from, to int) error {
	w.mu.Lock()
	current := w.slots[s.slot].gen == s.gen
	w.mu.Unlock()
	if !current { // it is being closed
		return net.ErrClosed
	}
	err := w.control(unix.EPOLL_CTL_ADD, to, s)
	if err == nil {
		_ = w.control(unix.EPOLL_CTL_DEL, from, s) // closing it would not do: the other one keeps it open
	}
	return err
}

// Close ends the watcher. Its sockets are not touched.
func (w *Watcher) Close() {
	_ = w.set.Close()
	<-w.done
}
