//go:build unix

package socket

import (
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"dragoman/adapters/stdio/pipe"
)

// ends returns a reader and a writer for a connection. An idle one holds no buffer, and a small message is written at
// once.
func ends(conn net.Conn) (io.Reader, io.Writer) {
	if has, ok := conn.(syscall.Conn); ok {
		if raw, err := has.SyscallConn(); err == nil {
			in, out := &socketIn{Conn: conn, raw: raw}, &socketOut{Conn: conn, raw: raw}
			in.try, out.try = in.step, out.step // made once: each method value is an allocation
			return in, out
		}
	}
	return conn, conn
}

// socketIn is the reading side. It is for one goroutine at a time.
type socketIn struct {
	net.Conn
	raw  syscall.RawConn
	try  func(fd uintptr) bool
	lend func() []byte
	back func()
	n    int
	err  error
}

// ReadPark implements parkReader. While there is no data, the goroutine waits in the poller without a buffer.
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

// step tries to read once; false makes the poller wait.
func (s *socketIn) step(fd uintptr) bool {
	if s.n, s.err = pipe.ReadOnce(int(fd), s.lend()); s.err == unix.EAGAIN {
		s.back()
		return false
	}
	return true
}

// socketOut is the writing side, a directWriter. The Writer ensures that one goroutine writes at a time.
type socketOut struct {
	net.Conn
	raw syscall.RawConn
	try func(fd uintptr) bool
	p   []byte
	n   int
	err error
}

// TryWrite writes as much of p as the socket takes at once.
func (s *socketOut) TryWrite(p []byte) (int, error) {
	s.p = p
	err := s.raw.Write(s.try)
	s.p = nil
	if err != nil {
		return 0, net.ErrClosed
	}
	return s.n, s.err
}

// step writes once and never makes the poller wait.
func (s *socketOut) step(fd uintptr) bool {
	s.n, s.err = pipe.WriteOnce(int(fd), s.p)
	return true
}
