//go:build unix

package socket

import (
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// ends are the two ways of a connection, so that an idle one holds no buffer and a small message is written at once.
func ends(conn net.Conn) (io.Reader, io.Writer) {
	if has, ok := conn.(syscall.Conn); ok {
		if raw, err := has.SyscallConn(); err == nil {
			in, out := &socketIn{Conn: conn, raw: raw}, &socketOut{Conn: conn, raw: raw}
			in.try, out.try = in.step, out.step // once: a method value is allocated
			return in, out
		}
	}
	return conn, conn
}

// socketIn is what comes from the peer. One goroutine at a time reads.
type socketIn struct {
	net.Conn
	raw  syscall.RawConn
	try  func(fd uintptr) bool
	lend func() []byte
	back func()
	n    int
	err  error
}

// ReadPark implements parkReader: while nothing is there the goroutine waits in the poller without a buffer.
func (s *socketIn) ReadPark(lend func() []byte, back func()) (int, error) {
	s.lend, s.back = lend, back
	err := s.raw.Read(s.try)
	s.lend, s.back = nil, nil
	switch {
	case err != nil:
		return 0, net.ErrClosed
	case s.err == nil && s.n == 0:
		return 0, io.EOF
	}
	return s.n, s.err
}

// step tries to read; false asks the poller to wait.
func (s *socketIn) step(fd uintptr) bool {
	p := s.lend()
	for s.n, s.err = unix.Read(int(fd), p); s.err == unix.EINTR; {
		s.n, s.err = unix.Read(int(fd), p)
	}
	if s.err != nil {
		s.n = 0
	}
	if s.err == unix.EAGAIN {
		s.back()
		return false
	}
	return true
}

// socketOut is what goes to the peer: a directWriter. Only one goroutine writes at a time, which the Writer sees to.
type socketOut struct {
	net.Conn
	raw syscall.RawConn
	try func(fd uintptr) bool
	p   []byte
	n   int
	err error
}

// TryWrite writes what there is room for.
func (s *socketOut) TryWrite(p []byte) (int, error) {
	s.p = p
	err := s.raw.Write(s.try)
	s.p = nil
	if err != nil {
		return 0, net.ErrClosed
	}
	return s.n, s.err
}

// step writes once and never asks to wait.
func (s *socketOut) step(fd uintptr) bool {
	for s.n, s.err = unix.Write(int(fd), s.p); s.err == unix.EINTR; {
		s.n, s.err = unix.Write(int(fd), s.p)
	}
	if s.err != nil {
		s.n = 0
	}
	if s.err == unix.EAGAIN {
		s.err = nil
	}
	return true
}
