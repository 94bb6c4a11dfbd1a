package netpoll

import (
	"net"
	"sync"
	"syscall"
)

// Socket is the socket of an accepted connection. It can be watched for the end of its peer, and detached from the runtime while it
// is idle.
type Socket struct {
	Conn    net.Conn        // the runtime's connection; nil while detached
	raw     syscall.RawConn // of Conn; nil without a descriptor, and while detached
	watcher *Watcher        // nil: not watched
	slot    int32           // of the watcher
	gen     int32           // of the slot
	fd      int32           // the descriptor while detached
	mu      sync.Mutex      // guards fd, and that Conn and raw come and go with it
}

// Open makes s the socket of nc and has w report to peer. The error says that it is not watched; it can be used all the same.
func (s *Socket) Open(nc net.Conn, w *Watcher, peer Peer) error {
	s.Conn = nc
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil //nolint:nilerr // a connection without a descriptor, as one in memory
	}
	s.raw = raw
	if err := w.add(s, peer); err != nil {
		return err
	}
	s.watcher = w
	return nil
}

// Unwatch ends the watch. It is called once, before the socket is closed.
func (s *Socket) Unwatch() {
	if s.watcher != nil {
		s.watcher.remove(s)
	}
}

// WriteNow writes of p what the socket takes without waiting; nothing is no error. What is left needs Attach and a write to Conn.
func (s *Socket) WriteNow(p *Parts) error {
	if detached, err := s.writeDetached(p); detached || s.raw == nil {
		return err
	}
	return p.write(s.raw)
}
