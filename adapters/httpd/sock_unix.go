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

// writeNow writes what the socket takes at once, without waiting. wait says that the rest has to wait for the peer.
func writeNow(raw syscall.RawConn, p []byte) (n int, wait bool, err error) {
	ctl := raw.Control(func(fd uintptr) { n, wait, err = writeTo(int(fd), p) })
	if err == nil {
		err = ctl
	}
	return n, wait, err
}

// writeTo is writeNow for a descriptor.
func writeTo(fd int, p []byte) (n int, wait bool, err error) {
	for len(p) > n {
		m, err := unix.Write(fd, p[n:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN || err == unix.EWOULDBLOCK:
			return n, true, nil
		case err != nil:
			return n, false, err
		}
		n += m
	}
	return n, false, nil
}

// descriptors is how many files this process may have open; 0 if that is not known.
func descriptors() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), 1<<30)) //nolint:unconvert,gosec // signed on some systems
}
