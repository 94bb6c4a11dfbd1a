//go:build unix

package netpoll

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// CanPeek says whether a Peeker sees anything on this system.
const CanPeek = true

// Peeker looks at a socket without consuming anything and without blocking. It is kept for many looks: the method value is made once,
// so that a look allocates nothing. It uses Control because Read would refuse after a read deadline has passed.
type Peeker struct {
	raw   syscall.RawConn
	look  func(fd uintptr)
	poll  [1]unix.PollFd
	state State
}

// NewPeeker makes a Peeker for a socket.
func NewPeeker(raw syscall.RawConn) *Peeker {
	p := &Peeker{raw: raw}
	p.look = p.peekFD
	return p
}

func (p *Peeker) peekFD(fd uintptr) {
	p.poll[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN} //nolint:gosec // descriptors are small
	if n, err := unix.Poll(p.poll[:], 0); n == 0 && err == nil {
		p.state = Quiet // as it nearly always is; the look below needs memory
		return
	}
	var b [1]byte
	for {
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN || err == unix.EWOULDBLOCK:
			p.state = Quiet
		case err != nil || n == 0:
			p.state = Closed
		default:
			p.state = Readable
		}
		return
	}
}

// Peek looks at the socket.
func (p *Peeker) Peek() State {
	p.state = Closed
	if err := p.raw.Control(p.look); err != nil {
		return Closed
	}
	return p.state
}

// maxPieces is how many pieces the system takes in one call.
const maxPieces = 1024

// writeNow writes what a socket takes without waiting; nothing is no error.
func writeNow(fd int, list [][]byte) (n int, err error) {
	for {
		if len(list) == 1 {
			n, err = unix.Write(fd, list[0])
		} else {
			n, err = unix.SendmsgBuffers(fd, list[:min(len(list), maxPieces)], nil, nil, 0)
		}
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, err
		}
	}
}

// MaxOpenFiles returns how many files this process may have open; 0 if that is not known.
func MaxOpenFiles() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), 1<<30)) //nolint:unconvert // signed on some systems
}
