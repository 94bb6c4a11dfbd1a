package httpd

import (
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// calm takes congestion control off a socket that is bound to the loopback, or is about to connect there, as those of a sidecar are:
// between two processes of one machine there is no line to be congested. Where the system's is BBR it would pace what is sent, with
// timers, and estimate a bandwidth from every acknowledgement. Reno does nothing of that while nothing is lost, is in every kernel, and
// may be chosen by anybody (net.ipv4.tcp_allowed_congestion_control). It has to be chosen before there is a connection: pacing that has
// begun stays. Those that a listener accepts have it from there. A system that refuses it loses nothing but time.
//
// It is what net.Dialer and net.ListenConfig call Control.
func calm(_, address string, raw syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().Unmap().IsLoopback() {
		return nil // a Unix socket's path, or another machine
	}
	return raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
	})
}
