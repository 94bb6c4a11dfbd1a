package netpoll

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// QuickAck acknowledges what a TCP connection has received. It is kept for many times: the method value is made once, so that a call
// allocates nothing.
type QuickAck struct {
	raw syscall.RawConn
	set func(fd uintptr)
}

// NewQuickAck makes a QuickAck for a TCP connection.
func NewQuickAck(raw syscall.RawConn) *QuickAck {
	return &QuickAck{raw: raw, set: func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) // a refusal costs nothing but time
	}}
}

// Now has the system send an acknowledgement that it holds back, and hold none back for the moment. The system returns to its own
// ways soon, so that Now is called before each wait (tcp(7), TCP_QUICKACK).
func (q *QuickAck) Now() { _ = q.raw.Control(q.set) }
