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
	mu      sync.Mutex      // guards fd, and the changes of Conn and raw with it
}

// Open makes s the socket of nc and has w report to peer. After an error s can be used, but is not watched.
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

// WriteNow writes as much of p as the socket takes without waiting; nothing is no error. The rest needs Attach and a write to Conn.
func (s *Socket) WriteNow(p *Parts) error {
	if detached, err := s.writeDetached(p); detached || s.raw == nil {
		return err
	}
	if err := s.raw.Control(p.now); err != nil {
		return err
	}
	return p.err
}

// State is the state of an idle socket.
type State uint8

// States of a socket.
const (
	Quiet    State = iota // open, nothing to read
	Readable              // there are bytes to read
	Closed                // closed or reset by the peer, or closed here
)

// Peer is notified when the other end of a Socket has gone. Its methods are called on the watcher's goroutine and must return
// quickly.
type Peer interface {
	// Left is called when the other end has closed the connection, reset it, or closed its sending half.
	Left()
	// Waiting reports whether Left would have an effect now. Without epoll the watcher looks at such peers only.
	Waiting() bool
}

// Parts are bytes to be written, in several pieces. Init must be called first.
type Parts struct {
	List [][]byte // not written yet
	Left int      // bytes of List
	err  error
	now  func(fd uintptr) // the method value try, made once, so that a write allocates nothing
}

// Init makes p ready for its first use.
func (p *Parts) Init() { p.now = p.try }

// Reset forgets the parts and keeps the memory of the list.
func (p *Parts) Reset() {
	clear(p.List[:cap(p.List)])
	p.List, p.Left, p.err = p.List[:0], 0, nil
}

// Skip drops the first n bytes.
func (p *Parts) Skip(n int) {
	p.Left -= n
	at := 0
	for at < len(p.List) && n >= len(p.List[at]) {
		n -= len(p.List[at])
		at++
	}
	p.List = p.List[:copy(p.List, p.List[at:])]
	if n > 0 {
		p.List[0] = p.List[0][n:]
	}
}

// First appends the first bytes to dst, at most limit of them.
func (p *Parts) First(dst net.Buffers, limit int) net.Buffers {
	for _, part := range p.List {
		if limit < len(part) {
			return append(dst, part[:limit])
		}
		dst = append(dst, part)
		if limit -= len(part); limit == 0 {
			break
		}
	}
	return dst
}

// try writes as much as the socket takes at once.
func (p *Parts) try(fd uintptr) {
	n, err := writeNow(int(fd), p.List)
	p.Skip(n)
	p.err = err
}

// Unread returns how many bytes written to the socket its peer has not acknowledged; seen is false where the system does not tell.
func (s *Socket) Unread() (n int, seen bool) {
	if s.raw == nil {
		return 0, false
	}
	err := s.raw.Control(func(fd uintptr) { n, seen = unread(int(fd)) })
	return n, seen && err == nil
}
