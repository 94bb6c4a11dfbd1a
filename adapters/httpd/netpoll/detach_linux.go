package netpoll

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// An idle stream needs its descriptor only. Go's part of a connection (addresses, poller, two timers) takes 880 of the 4,600 bytes of a
// session. Detach gives it up; Attach makes it anew for a peer that does not take at once what is written. TLS needs its connection all
// the time.

// closedFD is the descriptor of a detached socket that was closed.
const closedFD = -1

// Detach takes the descriptor from the runtime's connection and closes that. It does nothing where it cannot, nor once closed is set.
// Conn must not be used meanwhile.
func (s *Socket) Detach(closed *atomic.Bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd != 0 || s.raw == nil || s.watcher == nil || closed.Load() {
		return
	}
	fd, err := 0, error(nil)
	if ctl := s.raw.Control(func(was uintptr) {
		if fd, err = unix.FcntlInt(was, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			if err = s.watcher.move(s, int(was), fd); err != nil {
				_ = unix.Close(fd)
			}
		}
	}); ctl != nil || err != nil {
		return
	}
	old := s.Conn
	s.fd = int32(fd)
	s.Conn, s.raw = nil, nil
	_ = old.Close() // the other descriptor keeps the connection
}

// Attach makes a connection of a detached socket. It reports whether the connection is a new one.
func (s *Socket) Attach() (made bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fd, err := s.detachedFD()
	if fd == 0 {
		return false, err
	}
	f := os.NewFile(uintptr(fd), "stream")
	nc, err := net.FileConn(f) // with a descriptor of its own
	if err == nil {
		s.Conn = nc
		s.raw, err = nc.(syscall.Conn).SyscallConn()
	}
	if err == nil {
		ctl := s.raw.Control(func(now uintptr) { err = s.watcher.move(s, fd, int(now)) })
		if err == nil {
			err = ctl
		}
	}
	if err != nil {
		s.Conn, s.raw = nil, nil
		if nc != nil {
			_ = nc.Close()
		}
		s.fd = closedFD
		_ = f.Close()
		return false, fmt.Errorf("httpd: %w", err)
	}
	s.fd = 0
	return true, f.Close()
}

// Detached reports whether the socket is detached.
func (s *Socket) Detached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fd > 0
}

// CloseDetached closes a detached socket, which is not used again, and reports whether s was one.
func (s *Socket) CloseDetached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd > 0 {
		_ = unix.Close(int(s.fd))
		s.fd = closedFD
	}
	return s.fd == closedFD
}

// writeDetached is WriteNow for a detached socket; detached is false for another one.
func (s *Socket) writeDetached(p *Parts) (detached bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fd, err := s.detachedFD()
	if fd == 0 {
		return err != nil, err
	}
	p.try(uintptr(fd))
	return true, p.err
}

// detachedFD returns the descriptor of a detached socket; 0 if s is not detached, or closed, which is an error. The caller
// holds s.mu.
func (s *Socket) detachedFD() (int, error) {
	if s.fd == closedFD {
		return 0, net.ErrClosed
	}
	return int(s.fd), nil
}
