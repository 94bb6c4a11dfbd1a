//go:build unix

package httpd

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// sockState is what a look at an idle socket shows.
type sockState uint8

const (
	sockQuiet  sockState = iota // open, nothing to read
	sockBytes                   // there are bytes to read
	sockClosed                  // the peer has closed or reset it, or we have
)

// looks says that a peeker can.
const looks = true

// peeker looks at a socket without consuming anything and without blocking. It is kept for many looks: the method value is made once, so that a look allocates nothing. Control is
// used rather than Read, which would refuse after a read deadline has passed.
type peeker struct {
	raw   syscall.RawConn
	look  func(fd uintptr)
	poll  [1]unix.PollFd
	state sockState
}

func newPeeker(raw syscall.RawConn) *peeker {
	p := &peeker{raw: raw}
	p.look = p.peekFD
	return p
}

func (p *peeker) peekFD(fd uintptr) {
	p.poll[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN} //nolint:gosec // descriptors are small
	if n, err := unix.Poll(p.poll[:], 0); n == 0 && err == nil {
		p.state = sockQuiet // as it nearly always is; the look below needs memory
		return
	}
	var b [1]byte
	for {
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN || err == unix.EWOULDBLOCK:
			p.state = sockQuiet
		case err != nil || n == 0:
			p.state = sockClosed
		default:
			p.state = sockBytes
		}
		return
	}
}

func (p *peeker) peek() sockState {
	p.state = sockClosed
	if err := p.raw.Control(p.look); err != nil {
		return sockClosed
	}
	return p.state
}

// most is how many pieces the system takes in one call.
const most = 1024

// writeList writes what a socket takes at once, without waiting: nothing is no error.
func writeList(fd int, list [][]byte) (n int, err error) {
	for {
		if len(list) == 1 {
			n, err = unix.Write(fd, list[0])
		} else {
			n, err = unix.SendmsgBuffers(fd, list[:min(len(list), most)], nil, nil, 0)
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

// descriptors is how many files this process may have open; 0 if that is not known.
func descriptors() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), 1<<30)) //nolint:unconvert,gosec // signed on some systems
}
